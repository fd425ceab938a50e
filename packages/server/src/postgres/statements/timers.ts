/**
 * What falls due next (postgres/timer-index.ts): timers of schedules and delayed runs, shard by shard, by
 * keys (due instant, id).
 */
import { statement } from '../statement.ts'

/**
 * One row a timer; a single row of nulls where there is none, so that the time of the read is always
 * answered.
 */
export interface TimerRow {
  readonly now_ms: number
  readonly kind: 'schedule' | 'run' | null
  readonly id: string
  readonly tenant_id: string
  readonly shard: number
  readonly due_ms: number
  readonly scheduled_ms: number
  readonly gen: number
  readonly queue: string
  readonly handler: string
  readonly priority: number
  readonly weight: number
}

/**
 * For each shard, the next timers and delayed runs after a key (due instant, id), at most so many of each
 * kind. Each inner query is one short walk along the index (shard, due_at, id), whatever the size of the
 * table.
 */
export const scanTimers = statement<
  TimerRow,
  [shards: readonly number[], horizonMs: number, afterDueMs: number, afterId: string, perShard: number]
>(
  'timers_scan',
  `
  SELECT (extract(epoch FROM clock.now) * 1000)::float8 AS now_ms,
         found.kind, found.id, found.tenant_id, found.shard,
         (extract(epoch FROM found.due_at) * 1000)::float8 AS due_ms,
         (extract(epoch FROM found.scheduled_for) * 1000)::float8 AS scheduled_ms,
         found.gen::float8 AS gen, found.queue, found.handler, found.priority,
         (SELECT tenant.weight FROM belfry.tenant WHERE tenant.id = found.tenant_id AND found.kind = 'run')
           AS weight
  FROM (SELECT belfry.now() AS now) AS clock
  LEFT JOIN LATERAL (
    SELECT due.*
    FROM unnest($1::smallint[]) AS wanted (shard)
    CROSS JOIN LATERAL (
      (SELECT 'schedule' AS kind, schedule_id AS id, tenant_id, shard, due_at, scheduled_for, gen,
              NULL::text AS queue, NULL::text AS handler, NULL::smallint AS priority
       FROM belfry.timer
       WHERE timer.shard = wanted.shard
         AND due_at < belfry.now() + $2::float8 * interval '1 millisecond'
         AND (due_at, schedule_id) > (to_timestamp($3::float8 / 1000), $4::uuid)
       ORDER BY due_at, schedule_id
       LIMIT $5::int)
      UNION ALL
      (SELECT 'run', run_id, tenant_id, shard, due_at, NULL, NULL, queue, handler, priority
       FROM belfry.delayed
       WHERE delayed.shard = wanted.shard
         AND due_at < belfry.now() + $2::float8 * interval '1 millisecond'
         AND (due_at, run_id) > (to_timestamp($3::float8 / 1000), $4::uuid)
       ORDER BY due_at, run_id
       LIMIT $5::int)
    ) AS due
  ) AS found ON true
  `,
)
