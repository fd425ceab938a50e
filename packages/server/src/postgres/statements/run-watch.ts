/**
 * What is new of runs that are followed: chunks of their logs behind a place, and their end. One statement
 * for all that is followed by a process.
 */
import { byIndex, statement } from '../statement.ts'
import { heldRuns, unheld } from './held.ts'

export type WatchedRow = {
  readonly place: number
  readonly run_state: string | null
  readonly reason: string | null
  /** Null: no chunk behind the place. */
  readonly number: number | null
  readonly first_line: number | null
  readonly last_line: number | null
  readonly lines: unknown
  readonly full_after: boolean | null
}

/**
 * A chunk has at most $5 lines, so one that holds a line behind the place begins less than that before it:
 * the walk along the key begins there, however long the log is. End and chunks are of one snapshot, and lines
 * are written before the end: who sees the end sees all of them.
 */
export const lookAtRuns = statement<
  WatchedRow,
  [
    runIds: readonly string[],
    attempts: readonly number[],
    lines: readonly number[],
    limit: number,
    mostLines: number,
  ]
>(
  'belfry_look_at_runs',
  `
SELECT (asked.place - 1)::int AS place, past.run_state, past.reason,
       chunk.number, chunk.first_line, chunk.last_line, chunk.lines, chunk.full_after
FROM unnest($1::uuid[], $2::int[], $3::int[]) WITH ORDINALITY AS asked (run_id, number, line, place)
LEFT JOIN LATERAL (
  SELECT attempt.run_state, attempt.reason FROM belfry.attempt
  WHERE attempt.run_id = asked.run_id AND attempt.run_state IS NOT NULL
    AND NOT EXISTS (SELECT FROM belfry.ready WHERE ready.run_id = asked.run_id)
    AND NOT EXISTS (SELECT FROM belfry.delayed WHERE delayed.run_id = asked.run_id)
  LIMIT 1
) AS past ON true
LEFT JOIN LATERAL (
  SELECT log.number, log.first_line, log.last_line, log.lines, log.full_after
  FROM belfry.run_log AS log
  WHERE log.run_id = asked.run_id
    AND ROW (log.number, log.first_line) > ROW (asked.number, asked.line - $5::int)
    AND (log.number > asked.number OR log.last_line > asked.line)
  ORDER BY log.number, log.first_line LIMIT $4::int
) AS chunk ON true
WHERE past.run_state IS NOT NULL OR chunk.number IS NOT NULL
ORDER BY asked.place, chunk.number, chunk.first_line`,
  byIndex,
)

export type StandingRow = {
  readonly handler: string
  readonly ahead: number
  readonly session_id: string | null
  readonly claimed_at_ms: number | null
  readonly deadline_ms: number | null
  readonly session_host: string | null
  readonly heartbeat_at_ms: number | null
  readonly expires_at_ms: number | null
  readonly workers: number
  readonly slots: number
  readonly held: number
  readonly elsewhere: number
}

/**
 * Where one run stands in its queue: who holds it, how many that may start are before it (at most $2 are
 * counted), and which live workers could run it (at most $3 are looked at). Of other tenants it tells numbers
 * alone.
 */
export const standingOfRun = statement<StandingRow, [runId: string, mostAhead: number, mostWorkers: number]>(
  'belfry_standing_of_run',
  `
WITH mine AS MATERIALIZED (
  SELECT run_id, tenant_id, queue, handler, tag, session_id, claimed_at, deadline,
         split_part(handler, ':', 3) AS function_name
  FROM belfry.ready WHERE run_id = $1
), able AS MATERIALIZED (
  SELECT s.id, s.slots, s.queues && ARRAY[mine.queue, '*'] AS serves
  FROM mine CROSS JOIN belfry.session s
  WHERE s.expires_at > belfry.now()
    AND CASE WHEN mine.function_name = '' THEN s.tenant_id IS NULL
             ELSE s.tenant_id = mine.tenant_id AND s.functions @> ARRAY[mine.function_name] END
  ORDER BY s.id LIMIT $3::int
)
SELECT mine.handler, mine.session_id,
       (extract(epoch FROM mine.claimed_at) * 1000)::float8 AS claimed_at_ms,
       (extract(epoch FROM mine.deadline) * 1000)::float8 AS deadline_ms,
       holder.host AS session_host,
       (extract(epoch FROM holder.heartbeat_at) * 1000)::float8 AS heartbeat_at_ms,
       (extract(epoch FROM holder.expires_at) * 1000)::float8 AS expires_at_ms,
       (SELECT count(*)::int FROM (
          SELECT FROM belfry.ready AS before
          WHERE mine.session_id IS NULL AND before.queue = mine.queue AND before.handler = mine.handler
            AND ${unheld('before')} AND before.gate IS NULL
            AND ROW (before.tag, before.run_id) < ROW (mine.tag, mine.run_id)
          ORDER BY before.tag, before.run_id LIMIT $2::int
        ) AS those) AS ahead,
       (SELECT count(*)::int FROM able WHERE serves) AS workers,
       (SELECT coalesce(sum(slots), 0)::int FROM able WHERE serves) AS slots,
       (SELECT count(*)::int FROM able CROSS JOIN LATERAL (
          SELECT FROM ${heldRuns('run_id', 'able.id')} AS its OFFSET 0
        ) AS theirs WHERE able.serves) AS held,
       (SELECT count(*)::int FROM able WHERE NOT serves) AS elsewhere
FROM mine
LEFT JOIN LATERAL (
  SELECT host, heartbeat_at, expires_at FROM belfry.session WHERE id = mine.session_id OFFSET 0
) AS holder ON true`,
  byIndex,
)
