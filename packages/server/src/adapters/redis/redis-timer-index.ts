/**
 * The timer index in Redis: what falls due in the next minutes, kept there by whoever holds the shard.
 *
 *   Postgres ──read ahead, once──► timers ──take──► inflight ──settle, after the commit──► gone, or its
 *   next time
 *                                    ▲                 │
 *                                    └──── not settled in time: the node died ────
 *
 * 1. Whoever holds a shard goes on with the index that is there, or builds one: it reads Postgres up to
 *    what it is asked for, and a page more each time, up to five minutes ahead.
 * 2. A hint that a shard changed makes it read the shard again, as far as it has been read.
 * 3. Before a fire the timers move to `inflight`; they leave it after the commit, or come back.
 * 4. An index whose mark is another, or a new connection (Redis may have been started from an old copy): it
 *    is built anew.
 *
 * Postgres alone says what is due: a wrong timer is refused by the fire, and one that is missing is found
 * there by the reconciler (engine/reconciler.ts). While Redis is away, or full, Postgres is read instead.
 */
import { byTimerKey, keyAfter, readPerShard, timerPage } from '../../domain/timer-page.ts'
import type { DueTimer, MendableIndex, TimerIndex, TimerPage } from '../../ports/timer-index.ts'
import { RedisAway } from './redis-link.ts'
import {
  createShardIndexes,
  type ShardIndex,
  type ShardIndexes,
  type ShardIndexOptions,
} from './shard-indexes.ts'

const aheadMs = 300_000
const pageSize = 5_000
/** How far in the past something that changed may be due. */
const changedAgoMs = 5_000
/** The database's clock is known only about. */
const clockMarginMs = 1_000
/** Pages read at one go where the index is behind; the rest is answered from Postgres meanwhile. */
const mostPages = 20

type Scan = Parameters<TimerIndex['scan']>[0]
type Opened = readonly [shard: number, index: ShardIndex]

interface Parts extends ShardIndexOptions {
  /** Postgres. */
  readonly truth: TimerIndex
}

export function createRedisTimerIndex(parts: Parts): MendableIndex {
  const { redis, truth, databaseClock } = parts
  const indexes = createShardIndexes(parts)
  const prepare = createFiller(parts, indexes)

  async function scan(asked: Scan): Promise<TimerPage> {
    const { shards, limit, cursor, fromMs } = asked
    const toMs = databaseClock.nowMs() + asked.horizonMs
    await prepare(shards, toMs)
    // more falls due than could be read so far
    if (shards.some((shard) => (indexes.known(shard)?.untilMs ?? -Infinity) < toMs)) return truth.scan(asked)
    const perWalk = readPerShard(limit, shards.length)
    const after = keyAfter(cursor, fromMs)
    const read = await Promise.all(shards.map((shard) => indexes.read(shard, after, toMs, perWalk)))
    const walkOf = ({ shard }: DueTimer): string => String(shard)
    const page = timerPage(read.flat(), { limit, perWalk, walkOf })
    return { timers: newestOnly(page.timers), cursor: page.cursor, nowMs: null }
  }

  return {
    async scan(asked) {
      if (!redis.up) return truth.scan(asked)
      try {
        return await scan(asked)
      } catch (error) {
        if (error instanceof RedisAway) return truth.scan(asked)
        throw error
      }
    },
    changed(shard, fromMs = databaseClock.nowMs() - changedAgoMs) {
      const index = indexes.known(shard)
      if (index !== undefined) index.changedFromMs = Math.min(index.changedFromMs ?? Infinity, fromMs)
    },
    gained(shards) {
      for (const shard of shards) indexes.forget(shard)
    },
    take: (timers) => indexes.take(timers),
    settle: (gone, moved) => indexes.settle(gone, moved),
    mend: (overdue) => indexes.mend(overdue),
  }
}

/** Brings the indexes of shards up to what is asked for, and then a page further. */
function createFiller({ truth, databaseClock }: Parts, indexes: ShardIndexes) {
  /**
   * Reads these shards in Postgres from one due instant to another, page by page, into the index; answers
   * from where on something is left to read, null where nothing is.
   */
  async function fill(
    shards: readonly number[],
    fromMs: number,
    toMs: number,
    pages: number,
  ): Promise<number | null> {
    let cursor: string | null = null
    let reachedMs = fromMs
    for (let page = 0; page < pages; page++) {
      const nowMs = databaseClock.nowMs()
      const found: TimerPage = await truth.scan({
        shards,
        horizonMs: toMs - nowMs,
        limit: pageSize,
        cursor,
        fromMs: Number.isFinite(fromMs) ? fromMs : null,
      })
      // the horizon was counted from the database's time, which may be a little less than was thought
      const atEndMs = toMs - Math.max(0, nowMs - (found.nowMs ?? nowMs))
      reachedMs = found.cursor === null ? atEndMs : keyAfter(found.cursor, null).dueAtMs
      const groups = Map.groupBy(found.timers, ({ shard }) => shard)
      await Promise.all(shards.map((shard) => indexes.add(shard, groups.get(shard) ?? [], reachedMs)))
      cursor = found.cursor
      if (cursor === null) return null
    }
    return reachedMs
  }

  /** What has changed is read again, as far as the index reaches. */
  async function readAgain(opened: readonly Opened[]): Promise<void> {
    const changed = opened.filter(
      ([, { untilMs, changedFromMs }]) => changedFromMs !== null && untilMs > -Infinity,
    )
    if (changed.length === 0) return
    const fromMs = Math.min(...changed.map(([, { changedFromMs }]) => changedFromMs ?? Infinity))
    const reachMs = Math.max(...changed.map(([, { untilMs }]) => untilMs))
    // what changes meanwhile says so anew; what is not read now, because Postgres fails, has to be read again
    for (const [, index] of changed) index.changedFromMs = null
    let leftMs: number | null = fromMs
    try {
      leftMs = await fill(shardsOf(changed), fromMs, reachMs, mostPages)
    } finally {
      for (const [, index] of leftMs === null ? [] : changed)
        index.changedFromMs = Math.min(index.changedFromMs ?? Infinity, leftMs ?? Infinity)
    }
  }

  return async function prepare(shards: readonly number[], toMs: number): Promise<void> {
    const opened = await Promise.all(shards.map(async (shard) => [shard, await indexes.open(shard)] as const))
    await readAgain(opened)
    const behind = opened.filter(([, { untilMs }]) => untilMs < toMs)
    if (behind.length > 0) {
      for (const [, index] of behind) if (index.untilMs === -Infinity) index.changedFromMs = null
      await fill(shardsOf(behind), reachOf(behind), toMs + clockMarginMs, mostPages)
      return
    }
    const farMs = databaseClock.nowMs() + aheadMs
    const near = opened.filter(([, { untilMs }]) => untilMs < farMs)
    if (near.length > 0) await fill(shardsOf(near), reachOf(near), farMs, 1)
  }
}

const shardsOf = (opened: readonly Opened[]): number[] => opened.map(([shard]) => shard)
const reachOf = (opened: readonly Opened[]): number => Math.min(...opened.map(([, { untilMs }]) => untilMs))

/** Of timers of one schedule the one of the latest generation: an edit leaves the older one behind. */
function newestOnly(timers: readonly DueTimer[]): readonly DueTimer[] {
  const newest = new Map<string, DueTimer>()
  for (const timer of timers) {
    const other = newest.get(timer.id)
    if (other === undefined || genOf(timer) >= genOf(other)) newest.set(timer.id, timer)
  }
  return newest.size === timers.length ? timers : [...newest.values()].sort(byTimerKey)
}

const genOf = (timer: DueTimer): number => (timer.kind === 'schedule' ? timer.gen : 0)
