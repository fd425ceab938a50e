/**
 * Claims until the slots are full or no queue has more, and starts what it gets.
 *
 * 1. One pass: every queue gets its share of the free slots (queue-shares.ts); those that used theirs up get
 *    what is left, until all gave less than was asked or no slot is free.
 * 2. Definitions are loaded before anything is started; what may not be started any more is given back.
 * 3. With `overlaps` two claims are under way as soon as one was filled, and leave before the runs of the one
 *    before are started: so neither the database nor this process waits for the other.
 */
import type { JobDefinition, RunError } from '@belfry/contract'
import type { TagClock } from '../domain/fair-queue.ts'
import type { Clock } from '../ports/clock.ts'
import type { EventSink } from '../ports/event-sink.ts'
import type { ClaimedRun, QueueShare, RunQueue } from '../ports/run-queue.ts'
import type { JobVersion } from '../ports/run-store.ts'
import type { ClaimBook } from './claim-book.ts'
import type { DatabaseClock } from './database-clock.ts'
import type { DefinitionCache } from './definition-cache.ts'
import type { Identities } from './identities.ts'
import type { LowWaterMarks } from './low-water-marks.ts'
import { ranOutOfTime } from './out-of-time.ts'
import type { QueueLimit, QueueShares } from './queue-shares.ts'
import type { WorkerSession } from './session.ts'
import type { Slots } from './slots.ts'
import type { Strays } from './strays.ts'
import type { TagRange } from './tag-slices.ts'

/**
 * Runs in one claim. Their inputs come with them, of 256 KiB at most; a worker must have room for those of
 * all its slots anyway. Measured: 500 of 250 KB come in 0.8 s and keep the event loop for 20 ms at a time, so
 * there is no second limit, by bytes; claims of 100 would cost a third of the rate of small ones.
 */
const maxClaim = 500

/** With free slots all the time a pass would have no end; what else there is to do comes in between. */
const claimsOfPass = 64
const claimsAtOnce = 2

export interface IntakeOptions {
  readonly queue: Pick<RunQueue, 'claim'>
  readonly clock: Clock
  readonly databaseClock: DatabaseClock
  readonly events: EventSink
  readonly tags: Pick<TagClock, 'observeClaimed'>
  /** The lane of what is claimed from a queue; unset: that of the queue (domain/route.ts). */
  readonly laneOf?: ((queue: string) => string) | undefined
  readonly routes: readonly string[]
  readonly session: Pick<WorkerSession, 'current' | 'lapsed'>
  readonly slots: Pick<Slots, 'free'>
  /** With a fault the run is not to be executed: it ends with that. */
  readonly start: (
    sessionId: string,
    run: ClaimedRun,
    definition: JobDefinition | undefined,
    fault?: RunError,
  ) => void
  readonly deadlineMarginMs: number
  /** Unset: `slots` knows how many are free only when all that was claimed is started. */
  readonly overlaps?: boolean | undefined
  /** Unset: nobody keeps count of what is held. */
  readonly book?: Pick<ClaimBook, 'open' | 'started' | 'forget'> | undefined
}

export interface IntakeParts {
  readonly shares: QueueShares
  readonly marks: LowWaterMarks
  readonly definitions: DefinitionCache
  readonly identities: Identities
  readonly strays: Pick<Strays, 'giveBack' | 'suspect'>
}

export interface Intake {
  /** How many runs were claimed. */
  readonly runs: number
  /** Whether there may be more, and slots for them. */
  readonly cut: boolean
}

/** Answers a function that claims and starts. */
export function createIntake(
  options: IntakeOptions,
  parts: IntakeParts,
): (sessionId: string, signal: AbortSignal) => Promise<Intake> {
  const { clock, databaseClock, session, slots } = options
  const free = (unstarted: number): number => Math.min(slots.free() - unstarted, maxClaim)

  async function claimOnce(sessionId: string, wanted: readonly QueueLimit[]): Promise<readonly ClaimedRun[]> {
    const sentMs = clock.monotonicMs()
    const shares = wanted.map((each) => ({ ...each, ...parts.marks.range(each.queue, sentMs) }))
    const { routes, deadlineMarginMs } = options
    const numbers = options.book?.open(sessionId)
    function forget(): void {
      if (numbers !== undefined) options.book?.forget(numbers.number)
    }
    const asked = { sessionId, shares, routes, deadlineMarginMs, ...numbers }
    const claim = await options.queue.claim(asked).catch((error: unknown) => {
      forget()
      const nowMs = clock.monotonicMs()
      const afterMs = ranOutOfTime(error) ? nowMs - sentMs : undefined
      for (const share of shares) parts.marks.failed(share, afterMs, nowMs)
      throw error
    })
    if (claim.runs.length === 0) forget()
    databaseClock.observe(claim.nowMs, sentMs)
    if (!claim.alive) session.lapsed(sessionId)
    takeIn(options, parts, shares, claim.runs, clock.monotonicMs() - sentMs, claim.nowMs)
    return claim.runs
  }

  /** The next claim; undefined where nothing is left to ask, or no slot is free beside `unstarted` runs. */
  function ask(sessionId: string, signal: AbortSignal, unstarted: number) {
    if (signal.aborted || session.current() !== sessionId) return undefined
    const wanted = parts.shares.spread(free(unstarted), clock.monotonicMs())
    return wanted.length === 0 ? undefined : claimOnce(sessionId, wanted)
  }

  return async (sessionId, signal) => {
    parts.shares.beginPass()
    try {
      return await pass(options, {
        ask: (unstarted) => ask(sessionId, signal, unstarted),
        startAll: (runs) => startAll(options, parts, sessionId, runs, signal),
      })
    } catch (error) {
      parts.strays.suspect()
      throw error
    }
  }
}

/** Claims and starts until there is nothing more to ask. */
async function pass(
  { clock, overlaps = false }: IntakeOptions,
  steps: {
    readonly ask: (unstarted: number) => Promise<readonly ClaimedRun[]> | undefined
    readonly startAll: (runs: readonly ClaimedRun[]) => Promise<void>
  },
): Promise<Intake> {
  const pending: Promise<readonly ClaimedRun[]>[] = []
  let claims = 0
  let total = 0
  /** Sends claims until `most` are under way; `unstarted` runs have yet to take their slots. */
  function send(most: number, unstarted: number): void {
    while (pending.length < most && claims < (overlaps ? claimsOfPass : Infinity)) {
      const next = steps.ask(unstarted + pending.length * maxClaim)
      if (next === undefined) return
      claims++
      // it is awaited later, when it may have failed already
      next.catch(() => undefined)
      pending.push(next)
    }
  }

  send(1, 0)
  for (let next = pending.shift(); next !== undefined; next = pending.shift()) {
    const runs = await next
    total += runs.length
    if (overlaps) {
      send(claimsAtOnce, runs.length)
      // before these runs keep the process busy, the claims have to leave it
      if (pending.length > 0) await clock.sleep(0)
    }
    if (runs.length > 0) await steps.startAll(runs)
    send(1, 0)
  }
  return { runs: total, cut: overlaps && claims >= claimsOfPass }
}

async function startAll(
  options: IntakeOptions,
  parts: IntakeParts,
  sessionId: string,
  runs: readonly ClaimedRun[],
  signal: AbortSignal,
): Promise<void> {
  const versionOf = ({ tenantId, jobId, jobVersion }: ClaimedRun) => ({
    tenantId,
    jobId,
    version: jobVersion,
  })
  const versions = runs.map(versionOf)
  const number = runs[0]?.claim ?? 0
  async function giveBack(): Promise<void> {
    await parts.strays.giveBack(sessionId, runs).catch((error: unknown) => {
      options.book?.forget(number)
      throw error
    })
  }
  const started = await startsOf(parts, runs, versions).catch(async (error: unknown) => {
    // if that fails too, they are found as strays
    await giveBack().catch(() => undefined)
    options.book?.started(number)
    throw error
  })
  if (signal.aborted || options.session.current() !== sessionId) await giveBack()
  else for (const { run, definition, fault } of started) options.start(sessionId, run, definition, fault)
  options.book?.started(number)
}

/** Runs with their definitions, and with what keeps them from being executed. */
async function startsOf(
  { definitions, identities }: Pick<IntakeParts, 'definitions' | 'identities'>,
  runs: readonly ClaimedRun[],
  versions: readonly JobVersion[],
) {
  const definitionOf = await definitions.load(versions)
  const found = runs.map((run, index) => {
    const version = versions[index]
    const definition = version && definitionOf(version)
    const { tenantId, queue } = run
    return { run, definition, acting: { tenantId, queue, runAs: definition?.runAs ?? null } }
  })
  const faultOf = await identities.load(found.map(({ acting }) => acting))
  return found.map(({ run, definition, acting }) => ({ run, definition, fault: faultOf(acting) }))
}

/** Notes what a claim found in each queue. */
function takeIn(
  options: IntakeOptions,
  { marks, shares }: IntakeParts,
  asked: readonly (QueueShare & TagRange)[],
  runs: readonly ClaimedRun[],
  durationMs: number,
  databaseNowMs: number,
): void {
  const nowMs = options.clock.monotonicMs()
  const byQueue = Map.groupBy(runs, (run) => run.queue)
  for (const share of asked) {
    const { queue, minTag, maxTag, limit } = share
    const taken = byQueue.get(queue) ?? []
    const highestTag = taken.at(-1)?.tag ?? null
    marks.report({ queue, minTag, maxTag, highestTag, filled: taken.length >= limit, durationMs }, nowMs)
    const tenantIds = taken.map((run) => run.tenantId)
    // what a part of the queue gave does not say that the rest has no more
    const gave = maxTag < Infinity ? { queue, limit: taken.length } : share
    if (gave.limit > 0) shares.gave(gave, tenantIds, nowMs)
    if (highestTag === null) continue
    options.tags.observeClaimed(options.laneOf?.(queue) ?? queue, highestTag)
    const waitsMs = taken.map((run) => Math.max(0, databaseNowMs - run.availableAtMs))
    options.events.emit('runs_claimed', { queue, count: taken.length, durationMs, waitsMs })
  }
}
