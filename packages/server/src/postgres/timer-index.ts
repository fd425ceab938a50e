/**
 * The timer index on Postgres: timers of schedules and delayed runs, merged over shards in due order. It
 * reads what the firing transaction writes, so nothing has to be told to it.
 */
import { laneOf } from '../domain/route.ts'
import { keyAfter, readPerShard, timerPage } from '../domain/timer-page.ts'
import type { DueTimer, TimerIndex } from '../ports/timer-index.ts'
import type { Database } from './database.ts'
import { scanTimers, type TimerRow } from './statements/timers.ts'

export function createPostgresTimerIndex(db: Database): TimerIndex {
  return {
    async scan({ shards, horizonMs, limit, cursor, fromMs }) {
      const perWalk = readPerShard(limit, shards.length)
      const after = keyAfter(cursor, fromMs)
      const scope = { role: 'belfry_engine', readOnly: true } as const
      const rows = await db.run(scope, scanTimers, [shards, horizonMs, after.dueAtMs, after.id, perWalk])
      const read = rows.flatMap((row) => toTimer(row))
      const walkOf = ({ kind, shard }: DueTimer): string => `${kind}${shard}`
      return { ...timerPage(read, { limit, perWalk, walkOf }), nowMs: rows[0]?.now_ms ?? Number.NaN }
    },
    changed: () => undefined,
    gained: () => undefined,
    take: () => done,
    settle: () => done,
  }
}

const done = Promise.resolve()

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
