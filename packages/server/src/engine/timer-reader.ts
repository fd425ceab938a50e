/**
 * Reads ahead: which shards must be read from the timer index, when, and how far.
 *
 * - A shard is read in full (up to the horizon) when it was gained, when a fire found one of its timers changed, when a
 *   hint says that a near timer changed, and in any case twice a horizon, for hints that were lost.
 * - Shards wanted at the same time are read together, page by page, so that what is due can be fired between pages.
 * - Hints are answered at once while they are few. While they come in masses, reading again takes up at most a sixth of
 *   the time.
 * - Memory is bounded: when more timers lie within the horizon than the heap may hold, the latest are dropped and the
 *   `ceiling` says from which due instant on the heap is incomplete. Below half full, everything is read again.
 */
import type { Clock } from '../ports/clock.ts'
import type { DueTimer, TimerIndex } from '../ports/timer-index.ts'
import type { DatabaseClock } from './database-clock.ts'
import type { TimerEntry, TimerHeap } from './timer-heap.ts'

const pageSize = 5_000
const hintPauseMs = 50

export interface TimerReader {
  /** From this due instant on the heap is incomplete; Infinity when it holds all up to the horizon. */
  readonly ceilingMs: number
  /** Wants these shards read again, soon. */
  request(shards: Iterable<number>): void
  /** As `request`, but spread out when hints come in masses. */
  hint(shard: number): void
  /** Tells which shards are held; the others are no longer read. */
  restrict(held: ReadonlySet<number>): void
  /** In how many ms there is something to read; 0 now. */
  waitMs(): number
  /** Reads one page into the heap, if there is something to read. */
  readPage(): Promise<void>
}

export interface TimerReaderOptions<Entry extends TimerEntry> {
  readonly clock: Clock
  readonly databaseClock: DatabaseClock
  readonly index: TimerIndex
  readonly heap: TimerHeap<Entry>
  readonly horizonMs: number
  readonly maxTimers: number
  /** Makes the entry of a timer that was read; undefined to leave it out. */
  readonly admit: (timer: DueTimer) => Entry | undefined
  /** Called for each entry that is new in the heap, or changed. */
  readonly added: (entry: Entry) => void
}

interface Sweep {
  shards: readonly number[]
  cursor: string | null
  readonly startedMs: number
}

export function createTimerReader<Entry extends TimerEntry>(options: TimerReaderOptions<Entry>): TimerReader {
  const { clock, heap, horizonMs, maxTimers } = options
  const wanted = new Set<number>()
  const hinted = new Set<number>()
  let held: ReadonlySet<number> = new Set()
  let sweep: Sweep | undefined
  let ceilingMs = Number.POSITIVE_INFINITY
  let nextFullMs = Number.POSITIVE_INFINITY
  let hintsFromMs = Number.NEGATIVE_INFINITY

  function collect(): void {
    const nowMs = clock.monotonicMs()
    const roomAgain = ceilingMs !== Number.POSITIVE_INFINITY && heap.size < maxTimers / 2
    if (roomAgain) ceilingMs = Number.POSITIVE_INFINITY
    if (roomAgain || nowMs >= nextFullMs) {
      for (const shard of held) wanted.add(shard)
      nextFullMs = nowMs + horizonMs / 2
    }
    if (hinted.size > 0 && nowMs >= hintsFromMs) {
      for (const shard of hinted) wanted.add(shard)
      hinted.clear()
      hintsFromMs = nowMs + hintPauseMs
    }
  }

  function begin(): Sweep | undefined {
    if (wanted.size === 0) return undefined
    const begun = { shards: [...wanted], cursor: null, startedMs: clock.monotonicMs() }
    wanted.clear()
    return begun
  }

  function take(timers: readonly DueTimer[]): void {
    for (const timer of timers) {
      if (timer.dueAtMs >= ceilingMs || !held.has(timer.shard)) continue
      const entry = options.admit(timer)
      if (entry !== undefined && heap.push(entry)) options.added(entry)
    }
    if (heap.size >= maxTimers) ceilingMs = Math.min(ceilingMs, heap.trim(Math.floor(maxTimers * 0.75)))
  }

  function advance(current: Sweep, cursor: string | null, lastDueMs: number): void {
    current.cursor = cursor
    if (cursor !== null && lastDueMs < ceilingMs) return
    sweep = undefined
    const nowMs = clock.monotonicMs()
    hintsFromMs = Math.max(hintsFromMs, nowMs + 5 * (nowMs - current.startedMs))
  }

  return {
    get ceilingMs() {
      return ceilingMs
    },
    request(shards) {
      for (const shard of shards) if (held.has(shard)) wanted.add(shard)
    },
    hint(shard) {
      if (held.has(shard)) hinted.add(shard)
    },
    restrict(next) {
      held = next
      for (const set of [wanted, hinted]) {
        for (const shard of set) if (!held.has(shard)) set.delete(shard)
      }
      if (sweep !== undefined) sweep.shards = sweep.shards.filter((shard) => held.has(shard))
      if (sweep?.shards.length === 0) sweep = undefined
      if (held.size === 0) ceilingMs = Number.POSITIVE_INFINITY
      nextFullMs = held.size === 0 ? Number.POSITIVE_INFINITY : Math.min(nextFullMs, clock.monotonicMs() + horizonMs / 2)
    },
    waitMs() {
      if (sweep !== undefined || wanted.size > 0) return 0
      if (ceilingMs !== Number.POSITIVE_INFINITY && heap.size < maxTimers / 2) return 0
      const hintMs = hinted.size > 0 ? hintsFromMs : Number.POSITIVE_INFINITY
      return Math.max(0, Math.min(nextFullMs, hintMs) - clock.monotonicMs())
    },
    async readPage() {
      collect()
      sweep ??= begin()
      const current = sweep
      if (current === undefined) return
      const sentMs = clock.monotonicMs()
      const { shards, cursor } = current
      const page = await options.index.scan({ shards, horizonMs, limit: pageSize, cursor })
      options.databaseClock.observe(page.nowMs, sentMs)
      take(page.timers)
      advance(current, page.cursor, page.timers.at(-1)?.dueAtMs ?? Number.NEGATIVE_INFINITY)
    },
  }
}
