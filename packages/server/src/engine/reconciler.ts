/**
 * Finds what a timer index beside Postgres has missed: a hint that was lost, a Redis that came back from an
 * old copy.
 *
 * 1. Every 15 s, read in Postgres what is overdue in the shards that are held here.
 * 2. The index takes in what it does not know, and says what that was; those are its misses, and are counted.
 * 3. The scheduler is told to read these shards again, and fires.
 *
 * So a timer that the index lost is late by the interval and two seconds at most. A backlog that the index
 * knows is no miss.
 */
import type { Clock } from '../ports/clock.ts'
import type { EventSink } from '../ports/event-sink.ts'
import type { Hints } from '../ports/hints.ts'
import type { Random } from '../ports/random.ts'
import type { Service } from '../ports/service.ts'
import type { MendableIndex, TimerIndex, TimerPage } from '../ports/timer-index.ts'
import type { Elector } from './elector.ts'
import { createLoop } from './loop.ts'

const defaultIntervalMs = 15_000
/** What is late by less may be on its way. */
const overdueMs = 2_000
const pageSize = 5_000
/** Of a round; the next one goes on. */
const mostPages = 20

export interface ReconcilerOptions {
  readonly clock: Clock
  readonly random: Random
  readonly events: EventSink
  readonly hints: Pick<Hints, 'publish'>
  readonly elector: Pick<Elector, 'heldShards'>
  /** Postgres. */
  readonly truth: Pick<TimerIndex, 'scan'>
  readonly index: Pick<MendableIndex, 'mend'>
  /** Default 15,000. */
  readonly intervalMs?: number
}

export interface Reconciler extends Service {
  /** One round; answers how many timers the index had missed. */
  readonly runOnce: () => Promise<number>
}

export function createReconciler(options: ReconcilerOptions): Reconciler {
  const { events, hints, elector, truth, index, intervalMs = defaultIntervalMs } = options

  /** Where a round left off for want of pages. */
  let cursor: string | null = null

  async function runOnce(signal?: AbortSignal): Promise<number> {
    const shards = elector.heldShards().map(({ shard }) => shard)
    if (shards.length === 0) return 0
    const misses = new Set<string>()
    let pages = 0
    do {
      const page: TimerPage = await truth.scan({
        shards,
        horizonMs: -overdueMs,
        limit: pageSize,
        cursor,
        fromMs: null,
      })
      const missing = await index.mend(page.timers)
      for (const { id } of missing) misses.add(id)
      for (const shard of new Set(missing.map((timer) => timer.shard)))
        hints.publish({ topic: 'timers', key: String(shard) })
      cursor = page.cursor
      pages++
    } while (cursor !== null && pages < mostPages && signal?.aborted !== true)
    if (misses.size > 0) events.emit('timers_missed', { count: misses.size })
    return misses.size
  }

  const loop = createLoop({
    ...options,
    name: 'reconciler',
    async round(signal) {
      await runOnce(signal)
      return intervalMs * (0.8 + options.random.next() * 0.4)
    },
  })
  return { ...loop, runOnce: () => runOnce() }
}
