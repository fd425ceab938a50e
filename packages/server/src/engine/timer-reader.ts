/**
 * Reads ahead from the timer index into the heap, page by page, so that what is due can be fired in between.
 * Which shards, and when: read-requests.ts.
 *
 * Memory is bounded: when more timers lie within the horizon than the heap may hold, the latest are dropped
 * and the `ceiling` says from which due instant on the heap is incomplete. Below half full, everything is
 * read again.
 */
import type { Clock } from '../ports/clock.ts'
import type { DueTimer, TimerIndex } from '../ports/timer-index.ts'
import type { DatabaseClock } from './database-clock.ts'
import { createReadRequests } from './read-requests.ts'
import type { TimerEntry, TimerHeap } from './timer-heap.ts'

const pageSize = 5_000

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
  const requests = createReadRequests(clock, horizonMs)
  let sweep: Sweep | undefined
  let ceilingMs = Number.POSITIVE_INFINITY

  const roomAgain = (): boolean => ceilingMs !== Number.POSITIVE_INFINITY && heap.size < maxTimers / 2

  function begin(): Sweep | undefined {
    if (roomAgain()) {
      ceilingMs = Number.POSITIVE_INFINITY
      requests.requestAll()
    }
    const shards = requests.take()
    return shards.length === 0 ? undefined : { shards, cursor: null, startedMs: clock.monotonicMs() }
  }

  function take(timers: readonly DueTimer[]): void {
    for (const timer of timers) {
      if (timer.dueAtMs >= ceilingMs || !requests.held.has(timer.shard)) continue
      const entry = options.admit(timer)
      if (entry !== undefined && heap.push(entry)) options.added(entry)
    }
    if (heap.size >= maxTimers) ceilingMs = Math.min(ceilingMs, heap.trim(Math.floor(maxTimers * 0.75)))
  }

  return {
    get ceilingMs() {
      return ceilingMs
    },
    request: (shards) => requests.request(shards),
    hint: (shard) => requests.hint(shard),
    restrict(held) {
      requests.restrict(held)
      if (sweep !== undefined) sweep.shards = sweep.shards.filter((shard) => held.has(shard))
      if (sweep?.shards.length === 0) sweep = undefined
      if (held.size === 0) ceilingMs = Number.POSITIVE_INFINITY
    },
    waitMs: () => (sweep !== undefined || roomAgain() ? 0 : requests.waitMs()),
    async readPage() {
      sweep ??= begin()
      const current = sweep
      if (current === undefined) return
      const sentMs = clock.monotonicMs()
      const { shards, cursor } = current
      const page = await options.index.scan({ shards, horizonMs, limit: pageSize, cursor })
      options.databaseClock.observe(page.nowMs, sentMs)
      take(page.timers)
      current.cursor = page.cursor
      const lastDueMs = page.timers.at(-1)?.dueAtMs ?? Number.NEGATIVE_INFINITY
      if (page.cursor !== null && lastDueMs < ceilingMs) return
      sweep = undefined
      requests.served(clock.monotonicMs() - current.startedMs)
    },
  }
}
