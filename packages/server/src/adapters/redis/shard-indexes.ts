/**
 * The indexes of single shards in Redis (timer-scripts.ts), and what this process knows of them. Throws
 * `RedisAway` where Redis does not answer, or the index is not the one that this process knows: then it is
 * opened again by the next call.
 */
import { randomUUID } from 'node:crypto'
import type { TimerKey } from '../../domain/timer-page.ts'
import type { DueTimer } from '../../ports/timer-index.ts'
import { RedisAway, type RedisLink } from './redis-link.ts'
import { createScript } from './script.ts'
import { addTimers, mendTimers, openIndex, readTimers, settleTimers, takeTimers } from './timer-scripts.ts'
import { parseTimer, timerText } from './timer-text.ts'

/** Longer than a fire may take. */
const inflightMs = 30_000
const noGeneration = -1
/** More than is ever read ahead: an index that says to reach further is not believed. */
const furthestMs = 600_000

export interface ShardIndex {
  readonly mark: string
  /** Connection in which it was opened; of another one it is built anew. */
  generation: number
  /** It is complete up to this due instant, epoch ms. */
  untilMs: number
  /** From which due instant on Postgres may have changed since it was read; null: nothing is known of it. */
  changedFromMs: number | null
}

export interface ShardIndexes {
  /** What is known of it; undefined where it has to be opened. */
  known(shard: number): ShardIndex | undefined
  /** To be opened again by who needs it, which brings back all that was being fired. */
  forget(shard: number): void
  /** The one that is there, or a new and empty one. */
  open(shard: number): Promise<ShardIndex>
  /** Puts timers in; `untilMs`: now it is complete up to there. */
  add(shard: number, timers: readonly DueTimer[], untilMs: number): Promise<void>
  /** At most `limit` after a key, due before an instant. What is no timer makes the index worth nothing. */
  read(shard: number, after: TimerKey, beforeMs: number, limit: number): Promise<readonly DueTimer[]>
  /** These tell what happened, and never throw: an index that does not hear of it is behind, no more. */
  take(timers: readonly DueTimer[]): Promise<void>
  settle(gone: readonly DueTimer[], moved: readonly DueTimer[]): Promise<void>
  /** Those that were missing. */
  mend(timers: readonly DueTimer[]): Promise<readonly DueTimer[]>
}

export interface ShardIndexOptions {
  readonly redis: RedisLink
  /** Database time, estimated. */
  readonly databaseClock: { nowMs(): number }
  readonly prefix: string
}

interface Context extends ShardIndexOptions {
  readonly shards: Map<number, ShardIndex>
  readonly keysOf: (shard: number) => string[]
}

export function createShardIndexes(options: ShardIndexOptions): ShardIndexes {
  const { redis, databaseClock, prefix } = options
  const shards = new Map<number, ShardIndex>()
  const spaceOf = (shard: number): string => `${prefix}:{${shard}}`
  const keysOf = (shard: number): string[] =>
    ['timers', 'inflight', 'index'].map((part) => `${spaceOf(shard)}:${part}`)
  const context = { ...options, shards, keysOf }
  const opening = createScript(redis, openIndex)
  const adding = createScript(redis, addTimers)
  const reading = createScript(redis, readTimers)

  function lost(shard: number): never {
    shards.delete(shard)
    throw new RedisAway(`the index of shard ${shard} was lost`)
  }

  async function open(shard: number): Promise<ShardIndex> {
    const before = shards.get(shard)
    const { generation } = redis
    if (before?.generation === generation) return before
    const values = [randomUUID(), before === undefined ? '' : 'anew', databaseClock.nowMs() + furthestMs]
    const answer = await opening(keysOf(shard), values)
    const [mark, reach, mended] = Array.isArray(answer) ? answer.map(String) : []
    if (mark === undefined) return lost(shard)
    if (mended !== undefined) redis.mended(spaceOf(shard), 1)
    const untilMs = reach === undefined || reach === '-inf' ? -Infinity : Number(reach)
    const opened: ShardIndex = { mark, generation, untilMs, changedFromMs: -Infinity }
    shards.set(shard, opened)
    return opened
  }

  return {
    known: (shard) => shards.get(shard),
    forget: (shard) => void shards.delete(shard),
    open,
    async add(shard, timers, untilMs) {
      const index = await open(shard)
      const flat = timers.flatMap((timer) => [timer.dueAtMs, timerText(timer)])
      const answer = await asked(context, shard, adding(keysOf(shard), [index.mark, untilMs, ...flat]))
      if (answer === 'lost') lost(shard)
      index.untilMs = Math.max(index.untilMs, untilMs)
    },
    async read(shard, after, beforeMs, limit) {
      const index = await open(shard)
      const dueMs = Number.isFinite(after.dueAtMs) ? after.dueAtMs : '-inf'
      const values = [index.mark, databaseClock.nowMs(), dueMs, after.id, beforeMs, limit]
      const answer = await asked(context, shard, reading(keysOf(shard), values))
      if (!Array.isArray(answer)) return lost(shard)
      const timers = answer.flatMap((text) => parseTimer(String(text), shard) ?? [])
      if (timers.length === answer.length) return timers
      index.generation = noGeneration
      redis.mended(spaceOf(shard), answer.length - timers.length)
      throw new RedisAway(`the index of shard ${shard} holds what is no timer`)
    },
    ...createTellers(context),
  }
}

/** Keys of another type than ours make the index be opened again, which heals it. */
async function asked(
  { shards }: Pick<Context, 'shards'>,
  shard: number,
  answer: Promise<unknown>,
): Promise<unknown> {
  try {
    return await answer
  } catch (error) {
    if (error instanceof RedisAway && error.message.includes('WRONGTYPE')) shards.delete(shard)
    throw error
  }
}

/** Tells the index of each shard what became of its timers. */
function createTellers({
  redis,
  databaseClock,
  shards,
  keysOf,
}: Context): Pick<ShardIndexes, 'take' | 'settle' | 'mend'> {
  const taking = createScript(redis, takeTimers)
  const settling = createScript(redis, settleTimers)
  const mending = createScript(redis, mendTimers)

  async function tell(
    timers: readonly DueTimer[],
    send: (shard: number, index: ShardIndex, some: readonly DueTimer[]) => Promise<unknown>,
  ): Promise<void> {
    if (!redis.up) return
    const groups = [...Map.groupBy(timers, ({ shard }) => shard)]
    await Promise.all(
      groups.map(async ([shard, some]) => {
        const index = shards.get(shard)
        if (index?.generation !== redis.generation) return
        const answer = await asked({ shards }, shard, send(shard, index, some)).catch(() => undefined)
        if (answer === 'lost') shards.delete(shard)
      }),
    )
  }

  return {
    take: (timers) =>
      tell(timers, (shard, { mark }, some) => {
        const backMs = databaseClock.nowMs() + inflightMs
        return taking(keysOf(shard), [mark, backMs, ...some.map((timer) => timerText(timer))])
      }),
    settle(gone, moved) {
      const left = new Set(gone)
      return tell([...gone, ...moved], (shard, { mark, untilMs }, some) => {
        const texts = some.flatMap((timer) => (left.has(timer) ? [timerText(timer)] : []))
        const stand = some.filter((timer) => !left.has(timer) && timer.dueAtMs < untilMs)
        const flat = stand.flatMap((timer) => [timer.dueAtMs, timerText(timer)])
        return settling(keysOf(shard), [mark, texts.length, ...texts, ...flat])
      })
    },
    async mend(timers) {
      const missing: DueTimer[] = []
      await tell(timers, async (shard, { mark }, some) => {
        const byText = new Map(some.map((timer) => [timerText(timer), timer]))
        const flat = [...byText].flatMap(([text, timer]) => [timer.dueAtMs, text])
        const answer = await mending(keysOf(shard), [mark, ...flat])
        if (Array.isArray(answer)) missing.push(...answer.flatMap((text) => byText.get(String(text)) ?? []))
        return answer
      })
      return missing
    },
  }
}
