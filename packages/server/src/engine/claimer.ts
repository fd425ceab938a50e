/**
 * The claiming half of a worker: when to ask for runs, from which queues, and what to do when an answer is lost.
 *
 * 1. Asks for as many runs as slots are free. While there are some it asks again at once; then after 5 ms, doubling to a
 *    second; hints, freed slots and a new session end the wait. A worker for every queue that has been idle for so long
 *    asks for the active queues instead of claiming, so it too sends one query a poll.
 * 2. A claim whose answer was lost may have been committed: then the database says that this session holds runs of which
 *    nobody here knows. After any failed claim these are looked for, for a minute, and given back.
 * 3. Definitions are loaded before anything is started; what may not be started any more is given back.
 */
import type { HandlerKind, JobDefinition } from '@belfry/contract'
import type { TagClock } from '../domain/fair-queue.ts'
import type { Clock } from '../ports/clock.ts'
import type { EventSink } from '../ports/event-sink.ts'
import type { Hints } from '../ports/hints.ts'
import type { Random } from '../ports/random.ts'
import type { ClaimedRun, QueueShare, RunQueue } from '../ports/run-queue.ts'
import type { HeldRun, RunStore } from '../ports/run-store.ts'
import type { DatabaseClock } from './database-clock.ts'
import { createDefinitionCache } from './definition-cache.ts'
import { createLoop } from './loop.ts'
import { createLowWaterMarks } from './low-water-marks.ts'
import { createQueueShares } from './queue-shares.ts'
import type { WorkerSession } from './session.ts'
import type { Slots } from './slots.ts'

/** Runs in one claim. */
const maxClaim = 500
/** How long after a failed claim a zombie of it might still commit, and how often to look. */
const strayWatchMs = 60_000
const strayCheckMs = 5_000

export interface ClaimerOptions {
  readonly queue: RunQueue
  readonly store: Pick<RunStore, 'definitions' | 'handBack' | 'heldRuns'>
  readonly hints: Hints
  readonly clock: Clock
  readonly databaseClock: DatabaseClock
  readonly random: Random
  readonly events: EventSink
  readonly tags: Pick<TagClock, 'observeClaimed'>
  readonly queues: readonly string[] | '*'
  readonly handlers: readonly HandlerKind[]
  readonly session: Pick<WorkerSession, 'current' | 'lapsed'>
  readonly slots: Pick<Slots, 'free' | 'held'>
  readonly start: (sessionId: string, run: ClaimedRun, definition: JobDefinition | undefined) => void
  readonly deadlineMarginMs: number
  readonly minPollMs: number
  readonly maxPollMs: number
}

export interface Claimer {
  /** `onCancelHint` is called when a cancel waits for the present session. */
  start(onCancelHint: () => void): Promise<void>
  /** After this nothing more is claimed or started. */
  stop(): Promise<void>
  wake(): void
  slotFreed(): void
  /** Gives back what the session holds but nobody here knows of. */
  giveBackStrays(): Promise<void>
}

export function createClaimer(options: ClaimerOptions): Claimer {
  const { clock, databaseClock, random, events, hints, slots, session, store, maxPollMs, minPollMs } = options
  const shares = createQueueShares(options.queues)
  const marks = createLowWaterMarks()
  const definitions = createDefinitionCache(store)
  let pollMs = minPollMs
  let lastDiscoveryMs = -Infinity
  /** The last claim left runs behind for want of slots. */
  let hungry = false
  let strays: { readonly untilMs: number; nextMs: number } | undefined
  let unsubscribe = (): void => {}

  async function round(signal: AbortSignal): Promise<number> {
    const sessionId = session.current()
    if (sessionId === undefined) return maxPollMs
    if (strays !== undefined && clock.monotonicMs() >= strays.nextMs) await lookForStrays(sessionId, strays)
    // an idle worker of every queue first asks whether there is any; a hinted or busy one claims first
    const worthwhile = shares.fixed || pollMs < maxPollMs || (await discover())
    const found = worthwhile ? await claimAll(sessionId, signal) : 0
    if (!shares.fixed && clock.monotonicMs() - lastDiscoveryMs >= maxPollMs) await discover()
    hungry = slots.free() <= 0
    if (hungry) return maxPollMs
    pollMs = found > 0 ? minPollMs : Math.min(maxPollMs, pollMs * 2)
    // jitter only upwards: an idle worker asks no more than once in maxPollMs
    return pollMs * (1 + random.next() / 5)
  }

  /** For a worker of every queue: hears of those that have something ready; answers whether there is one. */
  async function discover(): Promise<boolean> {
    lastDiscoveryMs = clock.monotonicMs()
    const active = await options.queue.activeQueues()
    for (const queue of active) shares.heard(queue, clock.monotonicMs())
    return active.length > 0
  }

  /** Claims until the slots are full or no queue has more; answers how many runs. */
  async function claimAll(sessionId: string, signal: AbortSignal): Promise<number> {
    let total = 0
    let wanted = shares.spread(Math.min(slots.free(), maxClaim), clock.monotonicMs())
    while (wanted.length > 0 && !signal.aborted && session.current() === sessionId) {
      const found = await claimOnce(sessionId, wanted, signal)
      total += found.total
      const free = Math.min(slots.free(), maxClaim)
      const more = found.filled
      wanted = more
        .slice(0, free)
        .map((queue) => ({ queue, limit: Math.max(1, Math.floor(free / more.length)) }))
    }
    return total
  }

  async function claimOnce(
    sessionId: string,
    wanted: readonly { queue: string; limit: number }[],
    signal: AbortSignal,
  ): Promise<{ total: number; filled: readonly string[] }> {
    const sentMs = clock.monotonicMs()
    const asked = wanted.map((share) => ({ ...share, minTag: marks.minTag(share.queue, sentMs) }))
    const { handlers, deadlineMarginMs } = options
    const claim = await options.queue
      .claim({ sessionId, shares: asked, handlers, deadlineMarginMs })
      .catch(watchForStrays)
    databaseClock.observe(claim.nowMs, sentMs)
    if (!claim.alive) session.lapsed(sessionId)
    const filled = takeIn(asked, claim.runs, claim.nowMs, clock.monotonicMs() - sentMs)
    if (claim.runs.length > 0) await startAll(sessionId, claim.runs, signal)
    return { total: claim.runs.length, filled }
  }

  /** Notes what a claim found in each queue; answers those whose share was used up. */
  function takeIn(
    asked: readonly QueueShare[],
    runs: readonly ClaimedRun[],
    databaseNowMs: number,
    durationMs: number,
  ): readonly string[] {
    const nowMs = clock.monotonicMs()
    const byQueue = Map.groupBy(runs, (run) => run.queue)
    return asked.flatMap(({ queue, minTag, limit }) => {
      const taken = byQueue.get(queue) ?? []
      const filled = taken.length >= limit
      const highestTag = taken.at(-1)?.tag ?? null
      marks.report({ queue, minTag, highestTag, filled, durationMs }, nowMs)
      if (highestTag === null) return []
      shares.heard(queue, nowMs)
      options.tags.observeClaimed(queue, highestTag)
      const waitsMs = taken.map((run) => Math.max(0, databaseNowMs - run.availableAtMs))
      events.emit('runs_claimed', { queue, count: taken.length, durationMs, waitsMs })
      return filled ? [queue] : []
    })
  }

  function watchForStrays(error: unknown): never {
    const nowMs = clock.monotonicMs()
    strays = { untilMs: nowMs + strayWatchMs, nextMs: nowMs }
    throw error
  }

  async function lookForStrays(sessionId: string, watch: { untilMs: number; nextMs: number }): Promise<void> {
    await giveBackUnknown(sessionId)
    const nowMs = clock.monotonicMs()
    watch.nextMs = nowMs + strayCheckMs
    if (nowMs >= watch.untilMs && strays === watch) strays = undefined
  }

  async function giveBackUnknown(sessionId: string): Promise<void> {
    const known = new Set(slots.held().map(({ run }) => `${run.runId} ${run.leaseEpoch}`))
    const held = await store.heldRuns(sessionId)
    await giveBack(
      sessionId,
      held.filter((run) => !known.has(`${run.runId} ${run.leaseEpoch}`)),
    )
  }

  async function giveBack(sessionId: string, runs: readonly HeldRun[]): Promise<void> {
    if (runs.length === 0) return
    await store.handBack(sessionId, runs)
    for (const queue of new Set(runs.map((run) => run.queue))) hints.publish({ topic: 'ready', key: queue })
  }

  async function startAll(
    sessionId: string,
    runs: readonly ClaimedRun[],
    signal: AbortSignal,
  ): Promise<void> {
    const versions = runs.map((run) => ({ jobId: run.jobId, version: run.jobVersion }))
    let definitionOf: Awaited<ReturnType<typeof definitions.load>>
    try {
      definitionOf = await definitions.load(versions)
    } catch (error) {
      await giveBack(sessionId, runs).catch(() => undefined)
      // if that failed too, they are found as strays
      return watchForStrays(error)
    }
    // What was claimed is not started any more when the worker stops or the lease is gone.
    if (signal.aborted || session.current() !== sessionId) {
      await giveBack(sessionId, runs).catch(watchForStrays)
      return
    }
    for (const run of runs) {
      options.start(sessionId, run, definitionOf({ jobId: run.jobId, version: run.jobVersion }))
    }
  }

  const loop = createLoop({ name: 'worker', clock, random, events, round })

  function heard(queue: string): void {
    if (options.queues !== '*' && !options.queues.includes(queue)) return
    shares.heard(queue, clock.monotonicMs())
    pollMs = minPollMs
    if (!hungry) loop.wake()
  }

  return {
    async start(onCancelHint) {
      unsubscribe = hints.subscribe((hint) => {
        if (hint.topic === 'ready') heard(hint.key)
        if (hint.topic === 'cancel' && hint.key === session.current()) onCancelHint()
      })
      await loop.start()
    },
    async stop() {
      unsubscribe()
      await loop.stop()
    },
    wake: loop.wake,
    slotFreed() {
      if (hungry) loop.wake()
    },
    async giveBackStrays() {
      const sessionId = session.current()
      if (sessionId === undefined) return
      await giveBackUnknown(sessionId).catch((error: unknown) => {
        events.emit('role_failed', { role: 'worker', error, retryInMs: 0 })
      })
    },
  }
}
