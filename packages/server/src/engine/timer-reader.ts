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

type Sweep = Reading & { readonly startedMs: number }

export function createTimerReader<Entry extends TimerEntry>(options: TimerReaderOptions<Entry>): TimerReader {
  const { clock, databaseClock, lanes, horizonMs } = options
  const requests = createReadRequests(clock, horizonMs)
  const backlog = createBacklog()
  let sweep: Sweep | undefined
  let ceilingMs = Number.POSITIVE_INFINITY

  const roomAgain = (): boolean => ceilingMs !== Number.POSITIVE_INFINITY && lanes.hasRoom
  const sweepWaitMs = (): number => (sweep !== undefined || roomAgain() ? 0 : requests.waitMs())
  const wantsBacklog = (): boolean => backlog.reading !== undefined && lanes.hasRoomForLate

  function begin(): Sweep | undefined {
    if (roomAgain()) {
      ceilingMs = Number.POSITIVE_INFINITY
      requests.requestAll()
    }
    const shards = requests.take()
    return shards.length === 0
      ? undefined
      : { shards, cursor: null, fromMs: null, startedMs: clock.monotonicMs() }
  }

  async function scan(reading: Reading, aheadMs: number): Promise<TimerPage> {
    const sentMs = clock.monotonicMs()
    const page = await options.index.scan({ ...reading, horizonMs: aheadMs, limit: pageSize })
    if (page.nowMs !== null) databaseClock.observe(page.nowMs, sentMs)
    takeIn(options, page, (timer) => timer.dueAtMs < ceilingMs && requests.held.has(timer.shard))
    const trimmed = lanes.trim(databaseClock.nowMs())
    ceilingMs = Math.min(ceilingMs, trimmed.ceilingMs)
    if (trimmed.droppedLate) backlog.startOver([...requests.held])
    return page
  }

  async function readSweep(): Promise<void> {
    sweep ??= begin()
    const current = sweep
    if (current === undefined) return
    const page = await scan(current, horizonMs)
    sweep = restOf(current, page, databaseClock.nowMs() - lateAfterMs, ceilingMs)
    if (sweep === undefined) requests.served(clock.monotonicMs() - current.startedMs)
    else if (sweep.cursor === null) backlog.leave(current.shards, page.cursor)
  }

  async function readBacklog(): Promise<void> {
    const { reading } = backlog
    if (reading === undefined) return
    const { cursor } = await scan(reading, -lateAfterMs)
    backlog.goOn(reading, cursor)
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
      backlog.restrict(held)
      if (held.size === 0) ceilingMs = Number.POSITIVE_INFINITY
    },
    waitMs: () => (wantsBacklog() ? 0 : sweepWaitMs()),
    async readPage() {
      if (sweepWaitMs() === 0) await readSweep()
      else if (wantsBacklog()) await readBacklog()
    },
  }
}

function takeIn<Entry extends TimerEntry>(
  { admit, added, lanes }: TimerReaderOptions<Entry>,
  page: TimerPage,
  isWanted: (timer: DueTimer) => boolean,
): void {
  for (const timer of page.timers) {
    const entry = isWanted(timer) ? admit(timer) : undefined
    if (entry !== undefined && lanes.push(entry)) added(entry)
  }
}

/**
 * What is left of a sweep after a page: what comes after it; where all of it was late only what is on time,
 * from its start; nothing at the end or where memory is full anyway.
 */
function restOf(sweep: Sweep, page: TimerPage, onTimeMs: number, ceilingMs: number): Sweep | undefined {
  const lastDueMs = page.timers.at(-1)?.dueAtMs ?? Number.NEGATIVE_INFINITY
  if (page.cursor === null) return undefined
  if (lastDueMs < onTimeMs) return { ...sweep, cursor: null, fromMs: onTimeMs }
  return lastDueMs < ceilingMs ? { ...sweep, cursor: page.cursor } : undefined
}

/** Late timers that no sweep waited for: which shards still have some, and from where on. */
function createBacklog() {
  let reading: Reading | undefined
  return {
    get reading() {
      return reading
    },
    /** A reading that is under way and covers these shards goes on; else it begins at the cursor, or anew. */
    leave(shards: readonly number[], cursor: string | null): void {
      const before = reading?.shards ?? []
      if (reading === undefined) reading = { shards, cursor, fromMs: null }
      else if (shards.some((shard) => !before.includes(shard)))
        this.startOver([...new Set([...before, ...shards])])
    },
    startOver(shards: readonly number[]): void {
      reading = { shards, cursor: null, fromMs: null }
    },
    /** After a page of `page`, unless reading started over meanwhile. */
    goOn(page: Reading, cursor: string | null): void {
      if (reading === page) reading = cursor === null ? undefined : { ...page, cursor }
    },
    restrict(held: ReadonlySet<number>): void {
      reading = restricted(reading, held)
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
