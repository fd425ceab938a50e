/**
 * A step of a backfill (ports/backfilling.ts), and what the pruner deletes. What is read after the locks is
 * read by a later statement, so by a later snapshot: what another step wrote, which was waited for, is seen.
 */
import { byIndex, statement } from '../statement.ts'
import { itsEnd } from './backfills.ts'
import { beginWorkflowRuns, takenFromWorkflow } from './workflow-begin.ts'

/**
 * Backfills in these shards that a step can do something for; `open` in each row counts those that are not
 * over or have runs whose end was not taken in. A page without one is a row without an id. (A scalar
 * subquery, not EXISTS: that one may be planned as a hash of the whole table.)
 */
export const listDueBackfills = statement<
  { open: number; id: string | null; schedule_id: string },
  [shards: readonly number[], exceptIds: readonly string[], limit: number]
>(
  'backfill_list_due',
  `
WITH open AS MATERIALIZED (
  SELECT id, schedule_id, state IN ('pending', 'running') AS goes_on, alive, concurrency, next_at
  FROM belfry.backfill
  WHERE shard = ANY($1::smallint[]) AND (state IN ('pending', 'running') OR alive > 0)
), due AS (
  SELECT b.id, b.schedule_id FROM open AS b
  WHERE b.id <> ALL($2::uuid[]) AND (
    (b.goes_on AND (b.alive = 0 OR (b.next_at IS NOT NULL AND b.alive < b.concurrency)))
    OR coalesce((
      SELECT true FROM belfry.extra_run AS e ${itsEnd}
      WHERE e.backfill_id = b.id AND e.ended_as IS NULL AND its.ended_as IS NOT NULL
      LIMIT 1), false))
  ORDER BY b.id LIMIT $3
)
SELECT (SELECT count(*)::int FROM open) AS open, due.id, due.schedule_id
FROM (VALUES (1)) AS one LEFT JOIN due ON true`,
  byIndex,
)

/**
 * Holds all backfills of the schedule against each other until the end of the transaction: of two that want a
 * run for the same time at once, the second sees that of the first.
 */
export const lockBackfillsOfSchedule = statement<unknown, [scheduleId: string]>(
  'backfill_lock_schedule',
  `SELECT pg_advisory_xact_lock(hashtextextended('belfry.backfill:' || $1::text, 0))`,
)

/** Holds the backfill against people and other steps of it. */
export const lockBackfillForStep = statement<unknown, [id: string]>(
  'backfill_lock_step',
  'SELECT 1 FROM belfry.backfill WHERE id = $1 FOR UPDATE',
)

export type LockedBackfillRow = {
  now_ms: number
  tenant_id: string
  schedule_id: string
  state: 'pending' | 'running' | 'paused' | 'completed' | 'canceled'
  time_order: 'oldest_first' | 'newest_first'
  concurrency: number
  reprocess: 'none' | 'failed' | 'all'
  from_ms: number
  to_ms: number
  next_ms: number | null
  timing: { spec: unknown; zone: string; startAtMs: number | null; endAtMs: number | null }
  /** [runId, endedAs] */
  runs: readonly (readonly [string, string | null])[]
  /** Null where the schedule was deleted. */
  version: number | null
  of_workflow: boolean
  queue: string | null
  handler: string | null
  timer_ms: number | null
}

/** All that a step has to know beside the planned times. */
export const readLockedBackfill = statement<LockedBackfillRow, [id: string]>(
  'backfill_read_locked',
  `
SELECT (extract(epoch FROM belfry.now()) * 1000)::float8 AS now_ms,
       b.tenant_id, b.schedule_id, b.state, b.time_order, b.concurrency, b.reprocess, b.timing,
       (extract(epoch FROM b.from_at) * 1000)::float8 AS from_ms,
       (extract(epoch FROM b.to_at) * 1000)::float8 AS to_ms,
       (extract(epoch FROM b.next_at) * 1000)::float8 AS next_ms,
       (SELECT coalesce(json_agg(json_build_array(e.run_id, its.ended_as) ORDER BY e.run_id), '[]')
        FROM belfry.extra_run AS e ${itsEnd}
        WHERE e.backfill_id = b.id AND e.ended_as IS NULL) AS runs,
       s.version, s.workflow_id IS NOT NULL AS of_workflow, j.queue, j.handler,
       (extract(epoch FROM timer.scheduled_for) * 1000)::float8 AS timer_ms
FROM belfry.backfill AS b
LEFT JOIN belfry.schedule AS s
  ON s.id = b.schedule_id AND s.tenant_id = b.tenant_id AND s.deleted_at IS NULL
LEFT JOIN belfry.job AS j ON j.id = s.job_id AND j.tenant_id = s.tenant_id
LEFT JOIN belfry.timer ON timer.schedule_id = s.id AND timer.tenant_id = s.tenant_id
WHERE b.id = $1`,
  byIndex,
)

type Advance = [
  id: string,
  expectedNextMs: number | null,
  nextMs: number | null,
  state: string,
  reason: string | null,
  skipped: number,
  alive: number,
  succeeded: number,
  failed: number,
  canceled: number,
  endedRunIds: readonly string[],
  endedAs: readonly string[],
  scheduledMs: readonly number[],
  runIds: readonly string[],
  tags: readonly number[],
  occurrences: readonly string[],
]

interface Made {
  /** What its runs are made of. */
  readonly own: string
  /** The runs themselves, as further parts of the statement, of `started`. */
  readonly runs: string
  /** Further columns of what is to start, and their names. */
  readonly more?: readonly [arrays: string, names: string]
}

const advance = ({ own, runs, more: [arrays, names] = ['', ''] }: Made): string => `
WITH held AS MATERIALIZED (
  SELECT id, tenant_id, schedule_id, input FROM belfry.backfill
  WHERE id = $1 AND next_at IS NOT DISTINCT FROM to_timestamp($2::float8 / 1000)
),
own AS MATERIALIZED (
${own}),
settled AS (
  UPDATE belfry.extra_run AS e SET ended_as = ending.ended_as
  FROM held, unnest($11::uuid[], $12::text[]) AS ending (run_id, ended_as)
  WHERE e.run_id = ending.run_id AND e.backfill_id = held.id AND e.ended_as IS NULL
),
wanted AS MATERIALIZED (
  SELECT own.*, to_timestamp(start.ms / 1000) AS scheduled_for, start.*
  FROM own
  CROSS JOIN unnest($13::float8[], $14::uuid[], $15::float8[], $16::text[]${arrays})
    AS start (ms, run_id, tag, occurrence${names})
),
recorded AS (
  INSERT INTO belfry.occurrence (schedule_id, scheduled_for, tenant_id, outcome, run_id, due_at)
  SELECT schedule_id, scheduled_for, tenant_id, 'ran', run_id, scheduled_for
  FROM wanted WHERE occurrence = 'insert'
  ORDER BY scheduled_for
  ON CONFLICT (schedule_id, scheduled_for) DO NOTHING
  RETURNING run_id
),
started AS MATERIALIZED (
  SELECT * FROM wanted WHERE occurrence <> 'insert' OR run_id IN (SELECT run_id FROM recorded)
),
${runs}
new_extra AS (
  INSERT INTO belfry.extra_run (tenant_id, schedule_id, scheduled_for, run_id, backfill_id)
  SELECT tenant_id, schedule_id, scheduled_for, run_id, id FROM started
),
moved AS (
  UPDATE belfry.backfill AS b
  SET next_at = to_timestamp($3::float8 / 1000), state = $4::text, reason = coalesce($5, b.reason),
      started = b.started + (SELECT count(*) FROM started),
      skipped = b.skipped + $6 + cardinality($14::uuid[]) - (SELECT count(*) FROM started),
      alive = $7 + (SELECT count(*) FROM started),
      succeeded = b.succeeded + $8, failed = b.failed + $9, canceled = b.canceled + $10,
      started_at = CASE WHEN $4::text IN ('running', 'completed') THEN coalesce(b.started_at, belfry.now())
                        ELSE b.started_at END,
      ended_at = CASE WHEN $4::text IN ('completed', 'canceled') THEN coalesce(b.ended_at, belfry.now()) END
  FROM held WHERE b.id = held.id
  RETURNING 1
)
SELECT (SELECT coalesce(json_agg(run_id), '[]') FROM started) AS started FROM moved`

/**
 * The end of a step. The backfill is held by this transaction; the answer is empty where the cursor is not as
 * it was read, and then nothing was written.
 *
 *   own       what its runs are made of: job and input as they are now
 *   recorded  occurrences where there are none; one that came from elsewhere since keeps its run, and no
 *             other is made. In the order of their times, as whoever writes several of a schedule does
 *   started   what is left of the wanted runs
 *   moved     the cursor, and what was counted; what was not started after all counts as skipped
 */
export const advanceBackfill = statement<{ started: readonly string[] }, Advance>(
  'backfill_advance',
  advance({
    own: `
  SELECT held.id, held.tenant_id, held.schedule_id, coalesce(held.input, s.input) AS input,
         s.job_id, j.version AS job_version, j.queue, j.handler, j.attempt_timeout_ms,
         j.start_within_ms, j.run_deadline_ms, j.limited
  FROM held
  JOIN belfry.schedule AS s ON s.id = held.schedule_id AND s.tenant_id = held.tenant_id
  JOIN belfry.job AS j ON j.id = s.job_id AND j.tenant_id = s.tenant_id`,
    runs: `
new_run AS (
  INSERT INTO belfry.run
    (id, tenant_id, job_id, job_version, schedule_id, scheduled_for, source, queue, priority, input, due_at)
  SELECT run_id, tenant_id, job_id, job_version, schedule_id, scheduled_for, 'backfill', queue, -100, input,
         belfry.now()
  FROM started
),
new_ready AS (
  INSERT INTO belfry.ready
    (run_id, tenant_id, job_id, job_version, queue, handler, tag, priority, available_at, timeout_ms,
     start_by, run_deadline, gate)
  SELECT run_id, tenant_id, job_id, job_version, queue, handler, tag, -100, belfry.now(), attempt_timeout_ms,
         belfry.now() + start_within_ms * interval '1 millisecond',
         belfry.now() + run_deadline_ms * interval '1 millisecond',
         CASE WHEN limited THEN belfry.gate_of(job_id, queue, input) END
  FROM started
),`,
  }),
  byIndex,
)

/** The same of a schedule that runs a workflow; with where the data interval of each run begins. */
export const advanceWorkflowBackfill = statement<
  { started: readonly string[] },
  [...Advance, intervalStartMs: readonly (number | null)[]]
>(
  'backfill_advance_workflow',
  advance({
    more: [', $17::float8[]', ', interval_ms'],
    own: `
  SELECT held.id, held.tenant_id, held.schedule_id, coalesce(held.input, s.input) AS input,
         ${takenFromWorkflow}, 'backfill' AS source, NULL::uuid AS cause_id, 0::smallint AS chain,
         '-100'::smallint AS run_priority, false AS follows_schedule, false AS waits
  FROM held
  JOIN belfry.schedule AS s ON s.id = held.schedule_id AND s.tenant_id = held.tenant_id
  JOIN belfry.workflow AS w ON w.id = s.workflow_id AND w.tenant_id = s.tenant_id`,
    runs: `
begun AS MATERIALIZED (
  SELECT *, to_timestamp(interval_ms / 1000) AS interval_start, scheduled_for AS interval_end FROM started
),${beginWorkflowRuns('begun')},
`,
  }),
  byIndex,
)

/** Rows of days whose runs were dropped, except those of runs that are still alive; oldest first. */
export const deleteOldExtraRuns = statement<
  { readonly count: number },
  [retentionDays: number, limit: number]
>(
  'belfry_delete_old_extra_runs',
  `
WITH deleted AS (
  DELETE FROM belfry.extra_run WHERE ctid = ANY (ARRAY(
    SELECT past.ctid FROM belfry.extra_run AS past
    WHERE past.run_id < belfry.uuid_floor(
        (((belfry.now() AT TIME ZONE 'UTC')::date - $1::int)::timestamp) AT TIME ZONE 'UTC')
      AND NOT EXISTS (SELECT FROM belfry.ready WHERE ready.run_id = past.run_id)
      AND NOT EXISTS (SELECT FROM belfry.delayed WHERE delayed.run_id = past.run_id)
      AND NOT EXISTS (SELECT FROM belfry.workflow_progress AS p WHERE p.workflow_run_id = past.run_id)
    ORDER BY past.run_id LIMIT $2)) RETURNING 1
)
SELECT count(*)::int AS count FROM deleted`,
  byIndex,
)

/** Those that were over before the retention; oldest first. */
export const deleteOldBackfills = statement<
  { readonly count: number },
  [retentionDays: number, limit: number]
>(
  'belfry_delete_old_backfills',
  `
WITH deleted AS (
  DELETE FROM belfry.backfill WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM belfry.backfill
    WHERE ended_at < (((belfry.now() AT TIME ZONE 'UTC')::date - $1::int)::timestamp) AT TIME ZONE 'UTC'
      AND alive = 0
    ORDER BY ended_at LIMIT $2)) RETURNING 1
)
SELECT count(*)::int AS count FROM deleted`,
)
