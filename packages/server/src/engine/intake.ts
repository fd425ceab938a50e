/**
 * Claims until the slots are full or no queue has more, and starts what it gets.
 *
 * 1. One pass: every queue gets its share of the free slots (queue-shares.ts); those that used theirs up get
 *    what is left, until all gave less than was asked or no slot is free.
 * 2. Definitions are loaded before anything is started; what may not be started any more is given back.
 */
import type { JobDefinition } from '@belfry/contract'
import type { TagClock } from '../domain/fair-queue.ts'
import type { Clock } from '../ports/clock.ts'
import type { EventSink } from '../ports/event-sink.ts'
import type { ClaimedRun, QueueShare, RunQueue } from '../ports/run-queue.ts'
import type { DatabaseClock } from './database-clock.ts'
import type { DefinitionCache } from './definition-cache.ts'
import type { LowWaterMarks } from './low-water-marks.ts'
import type { QueueLimit, QueueShares } from './queue-shares.ts'
import type { WorkerSession } from './session.ts'
import type { Slots } from './slots.ts'
import type { Strays } from './strays.ts'

/**
 * Runs in one claim. Their inputs come with them, of 256 KiB at most; a worker must have room for those of
 * all its slots anyway. Measured: 500 of 250 KB come in 0.8 s and keep the event loop for 20 ms at a time, so
 * there is no second limit, by bytes; claims of 100 would cost a third of the rate of small ones.
 */
const maxClaim = 500

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
  readonly start: (sessionId: string, run: ClaimedRun, definition: JobDefinition | undefined) => void
  readonly deadlineMarginMs: number
}

export interface IntakeParts {
  readonly shares: QueueShares
  readonly marks: LowWaterMarks
  readonly definitions: DefinitionCache
  readonly strays: Pick<Strays, 'giveBack' | 'suspect'>
}

/** Answers a function that claims and starts; it answers how many runs it claimed. */
export function createIntake(
  options: IntakeOptions,
  parts: IntakeParts,
): (sessionId: string, signal: AbortSignal) => Promise<number> {
  const { clock, databaseClock, session, slots } = options
  const free = (): number => Math.min(slots.free(), maxClaim)

  async function claimOnce(sessionId: string, wanted: readonly QueueLimit[]): Promise<readonly ClaimedRun[]> {
    const sentMs = clock.monotonicMs()
    const shares = wanted.map((each) => ({ ...each, minTag: parts.marks.minTag(each.queue, sentMs) }))
    const { routes, deadlineMarginMs } = options
    const claim = await options.queue.claim({ sessionId, shares, routes, deadlineMarginMs })
    databaseClock.observe(claim.nowMs, sentMs)
    if (!claim.alive) session.lapsed(sessionId)
    takeIn(options, parts, shares, claim.runs, clock.monotonicMs() - sentMs, claim.nowMs)
    return claim.runs
  }

  async function startAll(
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
    const definitionOf = await parts.definitions.load(versions).catch(async (error: unknown) => {
      // if that fails too, they are found as strays
      await parts.strays.giveBack(sessionId, runs).catch(() => undefined)
      throw error
    })
    if (signal.aborted || session.current() !== sessionId) await parts.strays.giveBack(sessionId, runs)
    else
      runs.forEach((run, index) =>
        options.start(sessionId, run, definitionOf(versions[index] ?? versionOf(run))),
      )
  }

  return async (sessionId, signal) => {
    let total = 0
    parts.shares.beginPass()
    try {
      while (!signal.aborted && session.current() === sessionId) {
        const wanted = parts.shares.spread(free(), clock.monotonicMs())
        if (wanted.length === 0) break
        const runs = await claimOnce(sessionId, wanted)
        if (runs.length > 0) await startAll(sessionId, runs, signal)
        total += runs.length
      }
    } catch (error) {
      parts.strays.suspect()
      throw error
    }
    return total
  }
}

/** Notes what a claim found in each queue. */
function takeIn(
  options: IntakeOptions,
  { marks, shares }: IntakeParts,
  asked: readonly QueueShare[],
  runs: readonly ClaimedRun[],
  durationMs: number,
  databaseNowMs: number,
): void {
  const nowMs = options.clock.monotonicMs()
  const byQueue = Map.groupBy(runs, (run) => run.queue)
  for (const share of asked) {
    const { queue, minTag, limit } = share
    const taken = byQueue.get(queue) ?? []
    const highestTag = taken.at(-1)?.tag ?? null
    marks.report({ queue, minTag, highestTag, filled: taken.length >= limit, durationMs }, nowMs)
    const tenantIds = taken.map((run) => run.tenantId)
    shares.gave(share, tenantIds, nowMs)
    if (highestTag === null) continue
    options.tags.observeClaimed(options.laneOf?.(queue) ?? queue, highestTag)
    const waitsMs = taken.map((run) => Math.max(0, databaseNowMs - run.availableAtMs))
    options.events.emit('runs_claimed', { queue, count: taken.length, durationMs, waitsMs })
  }
}
