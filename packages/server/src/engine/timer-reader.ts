/**
 * Reads ahead from the timer index into memory, page by page, so that what is due can be fired in between.
 * Which shards, and when: read-requests.ts.
 *
 * A sweep reads its shards in due order. Where it meets more late timers than fit a page, it leaves the rest
 * for later and goes on with what is due now; the rest is read when few late ones are left in memory.
 *
 * Memory is bounded: when more timers lie within the horizon than may be held, the latest are dropped and the
 * `ceiling` says from which due instant on the memory is incomplete. Below half full, everything is read
 * again.
 */
import type { Clock } from '../ports/clock.ts'
import type { DueTimer, TimerIndex, TimerPage } from '../ports/timer-index.ts'
import type { DatabaseClock } from './database-clock.ts'
import { createReadRequests } from './read-requests.ts'
import type { TimerEntry } from './timer-heap.ts'
import { lateAfterMs, type TimerLanes } from './timer-lanes.ts'

const pageSize = 5_000

export interface TimerReader {
  /** From this due instant on the memory is incomplete; Infinity when it holds all up to the horizon. */
  readonly ceilingMs: number
  /** Wants these shards read again, soon. */
  request(shards: Iterable<number>): void
  /** As `request`, but spread out when hints come in masses. */
  hint(shard: number): void
  /** Tells which shards are held; the others are no longer read. */
  restrict(held: ReadonlySet<number>): void
  /** In how many ms there is something to read; 0 now. */
  waitMs(): number
  /** Reads one page, if there is something to read. */
  readPage(): Promise<void>
}

export interface TimerReaderOptions<Entry extends TimerEntry> {
  readonly clock: Clock
  readonly databaseClock: DatabaseClock
  readonly index: TimerIndex
  readonly lanes: TimerLanes<Entry>
  readonly horizonMs: number
  /** Makes the entry of a timer that was read; undefined to leave it out. */
  readonly admit: (timer: DueTimer) => Entry | undefined
  /** Called for each entry that is new in memory, or changed. */
  readonly added: (entry: Entry) => void
}

/** What is still to be read of some shards: from the cursor on, or from a due instant where it is null. */
interface Reading {
  readonly shards: readonly number[]
  readonly cursor: string | null
  readonly fromMs: number | null
}

export function createTimerReader<Entry extends TimerEntry>(options: TimerReaderOptions<Entry>): TimerReader {
  const { clock, databaseClock, lanes, horizonMs } = options
  const requests = createReadRequests(clock, horizonMs)
  let sweep: (Reading & { readonly startedMs: number }) | undefined
  /** Late timers that no sweep waited for. */
  let backlog: Reading | undefined
  let ceilingMs = Number.POSITIVE_INFINITY

  const roomAgain = (): boolean => ceilingMs !== Number.POSITIVE_INFINITY && lanes.hasRoom
  const sweepWaitMs = (): number => (sweep !== undefined || roomAgain() ? 0 : requests.waitMs())
  const wantsBacklog = (): boolean => backlog !== undefined && lanes.hasRoomForLate

  function begin(): typeof sweep {
    if (roomAgain()) {
      ceilingMs = Number.POSITIVE_INFINITY
      requests.requestAll()
    }
    const shards = requests.take()
    return shards.length === 0
      ? undefined
      : { shards, cursor: null, fromMs: null, startedMs: clock.monotonicMs() }
  }

  async function scan(reading: Reading, aheadMs: number): Promise<TimerPage & { droppedLate: boolean }> {
    const sentMs = clock.monotonicMs()
    const page = await options.index.scan({ ...reading, horizonMs: aheadMs, limit: pageSize })
    databaseClock.observe(page.nowMs, sentMs)
    for (const timer of page.timers) {
      if (timer.dueAtMs >= ceilingMs || !requests.held.has(timer.shard)) continue
      const entry = options.admit(timer)
      if (entry !== undefined && lanes.push(entry)) options.added(entry)
    }
    const trimmed = lanes.trim(databaseClock.nowMs())
    ceilingMs = Math.min(ceilingMs, trimmed.ceilingMs)
    return { ...page, droppedLate: trimmed.droppedLate }
  }

  const allLate = (): Reading => ({ shards: [...requests.held], cursor: null, fromMs: null })

  /** Leaves late timers for later; a reading of them that is under way and covers these shards goes on. */
  function leave(shards: readonly number[], cursor: string | null): void {
    const before = backlog?.shards ?? []
    if (backlog === undefined) backlog = { shards, cursor, fromMs: null }
    else if (shards.some((shard) => !before.includes(shard))) {
      backlog = { shards: [...new Set([...before, ...shards])], cursor: null, fromMs: null }
    }
  }

  async function readSweep(): Promise<void> {
    sweep ??= begin()
    const current = sweep
    if (current === undefined) return
    const page = await scan(current, horizonMs)
    if (page.droppedLate) backlog = allLate()
    const lastDueMs = page.timers.at(-1)?.dueAtMs ?? Number.NEGATIVE_INFINITY
    const onTimeMs = databaseClock.nowMs() - lateAfterMs
    if (page.cursor !== null && lastDueMs < onTimeMs) {
      leave(current.shards, page.cursor)
      sweep = { ...current, cursor: null, fromMs: onTimeMs }
    } else if (page.cursor !== null && lastDueMs < ceilingMs) {
      sweep = { ...current, cursor: page.cursor }
    } else {
      sweep = undefined
      requests.served(clock.monotonicMs() - current.startedMs)
    }
  }

  async function readBacklog(reading: Reading): Promise<void> {
    const { cursor, droppedLate } = await scan(reading, -lateAfterMs)
    if (droppedLate) backlog = allLate()
    else backlog = cursor === null ? undefined : { ...reading, cursor }
  }

  return {
    get ceilingMs() {
      return ceilingMs
    },
    request: (shards) => requests.request(shards),
    hint: (shard) => requests.hint(shard),
    restrict(held) {
      requests.restrict(held)
      sweep = restricted(sweep, held)
      backlog = restricted(backlog, held)
      if (held.size === 0) ceilingMs = Number.POSITIVE_INFINITY
    },
    waitMs: () => (wantsBacklog() ? 0 : sweepWaitMs()),
    async readPage() {
      if (sweepWaitMs() === 0) await readSweep()
      else if (backlog !== undefined && wantsBacklog()) await readBacklog(backlog)
    },
  }
}

function restricted<Some extends Reading>(
  reading: Some | undefined,
  held: ReadonlySet<number>,
): Some | undefined {
  const shards = reading?.shards.filter((shard) => held.has(shard)) ?? []
  return reading === undefined || shards.length === 0 ? undefined : { ...reading, shards }
}
