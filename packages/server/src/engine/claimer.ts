/**
 * When a worker asks for runs. While there are some it asks again at once; then after 5 ms, doubling to a
 * second; hints, freed slots and a new session end the wait. With no slot free it does not ask at all.
 *
 * A worker for every queue claims from those that it knows of, and looks once a second for who else has
 * something ready: so an idle one, too, sends one query a poll. A look that is costly (dead rows to step
 * over) comes more seldom, one that did not see all comes sooner; at most a twentieth of the time goes into
 * looking. Neither a look nor a claim that finds nothing writes anything.
 */
import type { EventSink } from '../ports/event-sink.ts'
import type { Hints } from '../ports/hints.ts'
import type { Random } from '../ports/random.ts'
import type { ReadyCursor, RunQueue } from '../ports/run-queue.ts'
import type { HeldRun, RunStore } from '../ports/run-store.ts'
import type { Service } from '../ports/service.ts'
import { createClaimPositions } from './claim-positions.ts'
import { createDefinitionCache } from './definition-cache.ts'
import { createIdentities } from './identities.ts'
import { createIntake, type IntakeOptions } from './intake.ts'
import { createLoop } from './loop.ts'
import { createLowWaterMarks, type LowWaterMarks } from './low-water-marks.ts'
import { ranOutOfTime } from './out-of-time.ts'
import { createQueueShares, type QueueShares } from './queue-shares.ts'
import type { WorkerSession } from './session.ts'
import type { Slots } from './slots.ts'
import { createStrays, type Strays } from './strays.ts'

/** So many times as long as a look takes, none follows; but no longer than this. */
const restShare = 20
const longestRestMs = 60_000

/** For a queue that knows by itself where to look. */
const noMarks: LowWaterMarks = {
  range: () => ({ minTag: -Infinity, maxTag: Infinity }),
  report: () => {},
  failed: () => {},
}

export interface ClaimerOptions extends IntakeOptions {
  readonly queue: RunQueue
  readonly store: Pick<RunStore, 'definitions' | 'identities' | 'handBack' | 'heldRuns'>
  readonly hints: Hints
  readonly random: Random
  readonly queues: readonly string[] | '*'
  readonly session: Pick<WorkerSession, 'current' | 'lapsed' | 'renewSoon'>
  readonly slots: Pick<Slots, 'free' | 'held' | 'dropped'>
  readonly minPollMs: number
  readonly maxPollMs: number
}

/** After `stop` nothing more is claimed or started. */
export interface Claimer extends Service {
  readonly wake: () => void
  readonly slotFreed: () => void
  /**
   * Gives back what was never started, and answers whether it did. What cannot be given back now is found
   * as a stray.
   */
  readonly giveBack: (sessionId: string, runs: readonly HeldRun[]) => Promise<boolean>
  /** Gives back what the session holds but nobody here knows of. */
  readonly giveBackStrays: () => Promise<void>
}

export function createClaimer(options: ClaimerOptions): Claimer {
  const { clock, random, events, hints, queues, session, slots, store, maxPollMs, minPollMs } = options
  const shares = createQueueShares(queues)
  const strays = createStrays({ store, hints, clock, slots })
  const marks = options.queue.keepsMarks ? noMarks : createClaimPositions(createLowWaterMarks())
  const definitions = createDefinitionCache(store)
  const identities = createIdentities(store, clock)
  const claimAll = createIntake(
    { ...options, overlaps: true },
    { shares, strays, marks, definitions, identities },
  )
  let pollMs = minPollMs
  /** The last round left runs behind for want of slots. */
  let hungry = false
  let unsubscribe = (): void => {}

  const looker = createLooker(options, shares)

  async function round(signal: AbortSignal): Promise<number> {
    const sessionId = session.current()
    if (sessionId === undefined) return maxPollMs
    await strays.lookIfDue(sessionId)
    // what is known or hinted comes before the search for more; where nothing is known this asks nothing
    let found = await claimAll(sessionId, signal)
    if (looker.isDue() && (await looker.look()) && found.runs === 0) found = await claimAll(sessionId, signal)
    hungry = slots.free() <= 0
    if (found.runs > 0) pollMs = minPollMs
    if (hungry) return maxPollMs
    if (found.cut) return 0
    if (found.runs === 0) pollMs = Math.min(maxPollMs, pollMs * 2)
    // jitter only upwards: an idle worker asks no more than once in maxPollMs
    return pollMs * (1 + random.next() / 5)
  }

  const loop = createLoop({ name: 'worker', clock, random, events, round })

  function heard(queue: string): void {
    if (queues !== '*' && !queues.includes(queue)) return
    shares.heard(queue, clock.monotonicMs())
    pollMs = minPollMs
    if (!hungry) loop.wake()
  }

  return {
    ...loop,
    async start() {
      unsubscribe = hints.subscribe((hint) => {
        if (hint.topic === 'ready') heard(hint.key)
        if (hint.topic === 'cancel' && hint.key === session.current()) session.renewSoon()
      })
      await loop.start()
    },
    async stop() {
      unsubscribe()
      await loop.stop()
    },
    slotFreed() {
      if (hungry) loop.wake()
    },
    giveBack: (sessionId, runs) => giveBackOrSuspect(strays, events, sessionId, runs),
    async giveBackStrays() {
      const sessionId = session.current()
      if (sessionId !== undefined) await strays.giveBackUnknown(sessionId)
    },
  }
}

/** For a worker of every queue. */
function createLooker({ clock, queue, maxPollMs }: ClaimerOptions, shares: QueueShares) {
  let cursor: ReadyCursor | null = null
  let nextMs = -Infinity
  let lastMs = 0

  /** Rests by what two in a row say: one alone may have waited for a connection. */
  function rest(tookMs: number): void {
    const costMs = Math.min(tookMs, lastMs)
    lastMs = tookMs
    nextMs = clock.monotonicMs() + Math.min(longestRestMs, costMs * restShare)
  }

  return {
    isDue: (): boolean => !shares.fixed && clock.monotonicMs() >= nextMs,
    /** Hears of those queues that have something ready; answers whether there is one. */
    async look(): Promise<boolean> {
      const sentMs = clock.monotonicMs()
      const seen = await queue.readyQueues(cursor).catch((error: unknown) => {
        // one that fails for taking too long is not sent again at once
        if (ranOutOfTime(error)) rest(clock.monotonicMs() - sentMs)
        throw error
      })
      rest(clock.monotonicMs() - sentMs)
      const nowMs = clock.monotonicMs()
      if (seen.next === null) nextMs = Math.max(nextMs, nowMs + maxPollMs)
      cursor = seen.next
      shares.found(seen.found, nowMs)
      return seen.found.length > 0
    },
  }
}

async function giveBackOrSuspect(
  strays: Strays,
  events: EventSink,
  sessionId: string,
  runs: readonly HeldRun[],
): Promise<boolean> {
  try {
    await strays.giveBack(sessionId, runs)
    return true
  } catch (error) {
    strays.suspect()
    events.emit('role_failed', { role: 'worker', error, retryInMs: 0 })
    return false
  }
}
