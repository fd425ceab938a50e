/**
 * Backfills, as the API makes, reads and changes them for one tenant. What its last step had counted is kept
 * in the row; the runs whose ends no step has seen yet (at most `concurrency`) are looked up where they
 * stand, so that an answer is right at any moment.
 */
import { byIndex, statement } from '../statement.ts'

/** A backfill that is made. */
export const insertBackfill = statement<
  unknown,
  [
    id: string,
    scheduleId: string,
    from: string,
    to: string,
    order: string,
    concurrency: number,
    reprocess: string,
    input: string | null,
    timing: string,
    total: number,
    nextAt: string | null,
  ]
>(
  'backfill_insert',
  `
INSERT INTO belfry.backfill
  (id, tenant_id, schedule_id, shard, from_at, to_at, time_order, concurrency, reprocess, input, timing,
   total, next_at)
VALUES ($1, belfry.tenant_id(), $2, belfry.shard_of($2), $3, $4, $5, $6, $7, $8, $9, $10, $11)`,
)

export type BackfillRow = {
  id: string
  schedule_id: string
  schedule_name: string
  from_at: Date
  to_at: Date
  time_order: string
  concurrency: number
  reprocess: string
  has_input: boolean
  input: unknown
  state: string
  reason: string | null
  total: number
  started: number
  skipped: number
  alive: number
  succeeded: number
  failed: number
  canceled: number
  next_at: Date | null
  created_at: Date
  started_at: Date | null
  ended_at: Date | null
  version: number
}

/**
 * How a run, or workflow run, ended whose `extra_run` is `e`: null while it waits or runs. OFFSET 0 keeps
 * each look-up a look-up by key, whatever the statistics say.
 */
export const itsEnd = `
CROSS JOIN LATERAL (
  SELECT CASE
    WHEN (SELECT tenant_id FROM belfry.ready WHERE run_id = e.run_id) = e.tenant_id THEN NULL
    WHEN (SELECT tenant_id FROM belfry.delayed WHERE run_id = e.run_id) = e.tenant_id THEN NULL
    WHEN (SELECT tenant_id FROM belfry.workflow_progress WHERE workflow_run_id = e.run_id) = e.tenant_id
      THEN NULL
    ELSE coalesce((SELECT past.run_state FROM belfry.attempt AS past
                   WHERE past.run_id = e.run_id AND past.tenant_id = e.tenant_id
                     AND past.run_state IS NOT NULL LIMIT 1),
                  (SELECT run.state FROM belfry.workflow_run AS run
                   WHERE run.id = e.run_id AND run.tenant_id = e.tenant_id), 'unknown')
    END AS ended_as
  OFFSET 0
) AS its`

const columns = `
  b.id, b.schedule_id, s.name AS schedule_name, b.from_at, b.to_at, b.time_order, b.concurrency, b.reprocess,
  b.state, b.reason, b.total::float8 AS total, b.started::float8 AS started, b.skipped::float8 AS skipped,
  runs.alive, (b.succeeded + runs.succeeded)::float8 AS succeeded, (b.failed + runs.failed)::float8 AS failed,
  (b.canceled + runs.canceled)::float8 AS canceled, b.next_at, b.created_at, b.started_at, b.ended_at,
  b.version`

/** What stands beside `b`. Ends are counted as domain/backfill.ts does (`countedAs`). */
const beside = `
CROSS JOIN LATERAL (SELECT name FROM belfry.schedule WHERE id = b.schedule_id OFFSET 0) AS s
CROSS JOIN LATERAL (
  SELECT count(*) FILTER (WHERE its.ended_as IS NULL)::int AS alive,
         count(*) FILTER (WHERE its.ended_as = 'succeeded') AS succeeded,
         count(*) FILTER (WHERE its.ended_as IN ('failed', 'upstream_failed', 'unknown')) AS failed,
         count(*) FILTER (WHERE its.ended_as IN ('canceled', 'skipped')) AS canceled
  FROM belfry.extra_run AS e ${itsEnd}
  WHERE e.backfill_id = b.id AND e.ended_as IS NULL AND b.alive > 0
) AS runs`

/** One backfill, with how far it has come by now. */
export const findBackfill = statement<BackfillRow, [id: string]>(
  'backfill_find',
  `
SELECT ${columns}, b.input IS NOT NULL AS has_input, b.input
FROM belfry.backfill AS b ${beside}
WHERE b.tenant_id = belfry.tenant_id() AND b.id = $1`,
  byIndex,
)

/** Holds the backfill against its steps until the end of the transaction. */
export const lockBackfill = statement<unknown, [id: string]>(
  'backfill_lock',
  'SELECT 1 FROM belfry.backfill WHERE tenant_id = belfry.tenant_id() AND id = $1 FOR UPDATE',
)

/** `looked_to` is the same in every row; a page without a backfill is one row without an id. */
export type ListedBackfillRow = { looked_to: string | null } & (
  | Omit<BackfillRow, 'has_input' | 'input'>
  | { id: null }
)

/** A page of them, among the next `look`. */
const listed = (of: string) => `
WITH looked AS MATERIALIZED (
  SELECT b.id, b.state FROM belfry.backfill AS b
  WHERE b.tenant_id = belfry.tenant_id() AND b.id < $1 ${of}
  ORDER BY b.id DESC LIMIT $4
), page AS MATERIALIZED (
  SELECT id FROM looked WHERE $3::text IS NULL OR state = $3 ORDER BY id DESC LIMIT $2
)
SELECT (SELECT (array_agg(id ORDER BY id))[1] FROM looked HAVING count(*) >= $4::integer) AS looked_to, item.*
FROM (VALUES (1)) AS one LEFT JOIN (
  SELECT ${columns}
  FROM page
  CROSS JOIN LATERAL (SELECT * FROM belfry.backfill WHERE id = page.id OFFSET 0) AS b ${beside}
) AS item ON true
ORDER BY item.id DESC`

type BackfillPage = readonly [beforeId: string, limit: number, state: string | null, look: number]

/** Newest first; all, or those of a state. */
export const listBackfills = statement<ListedBackfillRow, BackfillPage>('backfill_list', listed(''), byIndex)

/** The same of one schedule. */
export const listBackfillsOfSchedule = statement<
  ListedBackfillRow,
  readonly [...BackfillPage, scheduleId: string]
>('backfill_list_schedule', listed('AND b.schedule_id = $5'), byIndex)

/** How many are not over, up to `limit`. */
export const countOpenBackfills = statement<{ count: number }, [limit: number]>(
  'backfill_count_open',
  `
SELECT count(*)::int AS count FROM (
  SELECT 1 FROM belfry.backfill
  WHERE tenant_id = belfry.tenant_id() AND ended_at IS NULL LIMIT $1
) AS open`,
)

/** Of one that is locked and in a state in which this is possible. */
export const changeBackfill = statement<unknown, [id: string, state: string, reason: string | null]>(
  'backfill_change',
  `
UPDATE belfry.backfill
SET state = $2::text, reason = $3, version = version + 1,
    ended_at = CASE WHEN $2::text IN ('completed', 'canceled') THEN belfry.now() END
WHERE tenant_id = belfry.tenant_id() AND id = $1`,
)

/** Holds all of a schedule that are not over: their steps wait. The schedule is locked before. */
export const holdBackfillsOfSchedule = statement<unknown, [scheduleId: string]>(
  'backfill_hold_of_schedule',
  `
SELECT 1 FROM belfry.backfill
WHERE tenant_id = belfry.tenant_id() AND schedule_id = $1 AND ended_at IS NULL
ORDER BY id FOR UPDATE`,
)

/** Ends all of a schedule that are not over. */
export const cancelBackfillsOfSchedule = statement<unknown, [scheduleId: string, reason: string]>(
  'backfill_cancel_of_schedule',
  `
UPDATE belfry.backfill
SET state = 'canceled', reason = $2, version = version + 1, ended_at = belfry.now()
WHERE tenant_id = belfry.tenant_id() AND schedule_id = $1 AND ended_at IS NULL`,
)

/** Runs of it that wait or run, or workflow runs. */
export const listAliveOfBackfill = statement<{ run_id: string; of_workflow: boolean }, [id: string]>(
  'backfill_list_alive',
  `
SELECT e.run_id, (SELECT workflow_id IS NOT NULL FROM belfry.schedule WHERE id = e.schedule_id) AS of_workflow
FROM belfry.extra_run AS e ${itsEnd}
WHERE e.tenant_id = belfry.tenant_id() AND e.backfill_id = $1 AND e.ended_as IS NULL AND its.ended_as IS NULL
ORDER BY e.run_id`,
  byIndex,
)

export type TimeRecordRow = {
  scheduled_ms: number
  recorded: boolean
  run_id: string | null
  alive: boolean
  ended_as: string | null
}

/**
 * What is on record of planned times of a schedule: the run of the occurrence and the extra ones. Of a time
 * with a thousand runs the newest are looked at, and it counts as alive: nobody can tell in bounded work.
 */
export const readTimeRecords = statement<
  TimeRecordRow,
  [tenantId: string, scheduleId: string, scheduledMs: readonly number[]]
>(
  'backfill_time_records',
  `
SELECT wanted.ms AS scheduled_ms, o.recorded IS NOT NULL AS recorded, runs.newest AS run_id,
       coalesce(runs.alive OR runs.number >= 1000, false) AS alive,
       CASE WHEN NOT runs.alive THEN coalesce(
         (SELECT past.run_state FROM belfry.attempt AS past
          WHERE past.run_id = runs.newest AND past.tenant_id = $1 AND past.run_state IS NOT NULL LIMIT 1),
         (SELECT run.state FROM belfry.workflow_run AS run WHERE run.id = runs.newest AND run.tenant_id = $1),
         (SELECT nullif(e.ended_as, 'unknown') FROM belfry.extra_run AS e
          WHERE e.schedule_id = $2 AND e.scheduled_for = wanted.at AND e.run_id = runs.newest))
       END AS ended_as
FROM (SELECT ms, to_timestamp(ms / 1000) AS at FROM unnest($3::float8[]) AS given (ms)) AS wanted
LEFT JOIN LATERAL (
  SELECT true AS recorded, occurrence.run_id FROM belfry.occurrence
  WHERE occurrence.tenant_id = $1 AND occurrence.schedule_id = $2 AND occurrence.scheduled_for = wanted.at
  OFFSET 0
) AS o ON true
CROSS JOIN LATERAL (
  SELECT (array_agg(r.run_id ORDER BY r.run_id DESC))[1] AS newest, count(*) AS number,
         bool_or(coalesce(
           (SELECT tenant_id = $1 FROM belfry.ready WHERE run_id = r.run_id),
           (SELECT tenant_id = $1 FROM belfry.delayed WHERE run_id = r.run_id),
           (SELECT tenant_id = $1 FROM belfry.workflow_progress WHERE workflow_run_id = r.run_id),
           false)) AS alive
  FROM (
    SELECT o.run_id WHERE o.run_id IS NOT NULL
    UNION
    (SELECT e.run_id FROM belfry.extra_run AS e
     WHERE e.tenant_id = $1 AND e.schedule_id = $2 AND e.scheduled_for = wanted.at
     ORDER BY e.run_id DESC LIMIT 1000)
  ) AS r
) AS runs`,
  byIndex,
)

/** Notes a run for a nominal time that no fire made. */
export const insertExtraRun = statement<unknown, [scheduleId: string, scheduledFor: string, runId: string]>(
  'extra_run_insert',
  `
INSERT INTO belfry.extra_run (tenant_id, schedule_id, scheduled_for, run_id)
VALUES (belfry.tenant_id(), $1, $2, $3)`,
)
