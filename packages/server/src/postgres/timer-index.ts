/**
 * The timer index on Postgres: timers of schedules and delayed runs, merged over shards in due order.
 *
 * Each shard is walked on its own for about twice its part of the page, so that a page costs about as many
 * rows as it answers. Where a shard had more, nothing after its last key may be answered yet: the page ends
 * at the smallest such key, which is the cursor of the next.
 */
import { laneOf } from '../domain/route.ts'
import type { DueTimer, TimerIndex } from '../ports/timer-index.ts'
import type { Database } from './database.ts'
import { scanTimers, type TimerRow } from './statements/timers.ts'

/** A shard is never walked for fewer rows than this; a walk costs more than so many rows. */
const leastPerShard = 50

interface Key {
  readonly dueAtMs: number
  readonly id: string
}

/** Before every key of a due instant. */
const noId = '00000000-0000-0000-0000-000000000000'

export function createPostgresTimerIndex(db: Database): TimerIndex {
  return {
    async scan({ shards, horizonMs, limit, cursor, fromMs }) {
      const perShard = Math.max(leastPerShard, Math.ceil((2 * limit) / Math.max(1, shards.length)))
      const first = { dueAtMs: fromMs ?? Number.NEGATIVE_INFINITY, id: noId }
      const after = cursor === null ? first : parseCursor(cursor)
      const scope = { role: 'belfry_engine', readOnly: true } as const
      const rows = await db.run(scope, scanTimers, [shards, horizonMs, after.dueAtMs, after.id, perShard])
      const timers = rows.flatMap((row) => toTimer(row)).sort(byKey)
      const end = endOfPage(timers, perShard, limit)
      const page = end === null ? timers : timers.filter((timer) => byKey(timer, end) <= 0)
      return {
        timers: page,
        cursor: end === null ? null : `${end.dueAtMs}/${end.id}`,
        nowMs: rows[0]?.now_ms ?? Number.NaN,
      }
    },
  }
}

/**
 * The last key up to which all shards are known in full, and at most `limit` timers stand; null when all were
 * read.
 */
function endOfPage(sorted: readonly DueTimer[], perShard: number, limit: number): Key | null {
  const counts = new Map<string, number>()
  for (const [index, timer] of sorted.entries()) {
    const walk = `${timer.kind}${timer.shard}`
    const count = (counts.get(walk) ?? 0) + 1
    counts.set(walk, count)
    if (count === perShard || (index + 1 === limit && sorted.length > limit)) return timer
  }
  return null
}

function byKey(a: Key, b: Key): number {
  if (a.dueAtMs !== b.dueAtMs) return a.dueAtMs - b.dueAtMs
  return a.id === b.id ? 0 : a.id < b.id ? -1 : 1
}

function parseCursor(cursor: string): Key {
  const [dueAtMs = '', id = ''] = cursor.split('/')
  return { dueAtMs: Number(dueAtMs), id }
}

function toTimer(row: TimerRow): DueTimer[] {
  const { id, tenant_id: tenantId, shard, due_ms: dueAtMs } = row
  if (row.kind === null) return []
  if (row.kind === 'run') {
    const { priority, weight: tenantWeight } = row
    const queue = laneOf(row.queue, row.handler)
    return [{ kind: 'run', id, tenantId, shard, dueAtMs, queue, priority, tenantWeight }]
  }
  return [{ kind: 'schedule', id, tenantId, shard, dueAtMs, scheduledForMs: row.scheduled_ms, gen: row.gen }]
}
