/**
 * Cancels of runs, one or many. Which runs a filter means is read from what is alive (`ready`, `delayed`) by
 * the tenant's own indexes, newest first, and no more than `look` of each: however much waits, a step is
 * bounded. Then those that wait are ended and those that run are marked, by their ids.
 *
 * Rows are locked in the order of their ids, those of `ready` before those of `delayed` (see fire.ts), and
 * the timers of schedules before both.
 */
import { byIndex, statement } from '../statement.ts'
import { askedToCancel, endedWaiting } from './ended-waiting.ts'
import { freeSlots } from './free-slots.ts'
import { heldRuns, unheld } from './held.ts'

/** What is canceled: nothing of it is given where it is null. */
export type CancelFilterColumns = [
  states: readonly string[],
  jobId: string | null,
  queue: string | null,
  scheduleId: string | null,
  backfillId: string | null,
  createdAfter: string | null,
  createdBefore: string | null,
  lowId: string,
  belowId: string,
  look: number,
]

/** Fenced off, so that it is read by the index of what is held: few rows, whatever waits. */
const held = `(
      SELECT * FROM ${heldRuns('run_id, tenant_id, job_id, queue, cancel_requested_at')} AS its
      WHERE cancel_requested_at IS NULL OFFSET 0
    )`

const place = (state: string, from: string, where: string) => `
  (SELECT '${state}' AS state, c.run_id, c.job_id, c.queue FROM ${from} c
   WHERE c.tenant_id = belfry.tenant_id() AND c.run_id >= $8 AND c.run_id < $9 AND ${where}
     AND '${state}' = ANY($1::text[])
   ORDER BY c.run_id DESC LIMIT $10)`

const looked = `
WITH looked AS MATERIALIZED (
  SELECT * FROM (
    ${place('pending', 'belfry.ready', unheld('c'))}
    UNION ALL ${place('running', held, 'true')}
    UNION ALL ${place('pending', 'belfry.delayed', 'c.depends_rule IS NULL')}
    UNION ALL ${place('waiting_for_dependencies', 'belfry.delayed', 'c.depends_rule IS NOT NULL')}
  ) AS alive ORDER BY run_id DESC LIMIT $10
), wanted AS MATERIALIZED (
  SELECT looked.* FROM looked
  WHERE ($2::uuid IS NULL OR job_id = $2) AND ($3::text IS NULL OR queue = $3)
    AND ($5::uuid IS NULL OR EXISTS (
      SELECT FROM belfry.extra_run e WHERE e.run_id = looked.run_id AND e.backfill_id = $5))
    AND (($4::uuid IS NULL AND $6::timestamptz IS NULL AND $7::timestamptz IS NULL) OR EXISTS (
      SELECT FROM belfry.run r WHERE r.tenant_id = belfry.tenant_id() AND r.id = looked.run_id
        AND ($4::uuid IS NULL OR r.schedule_id = $4)
        AND ($6::timestamptz IS NULL OR r.created_at >= $6)
        AND ($7::timestamptz IS NULL OR r.created_at < $7)))
)`

/** `looked_to` is the same in every row; a step without a run is one row without an id. */
export type CancelableRow = { looked_to: string | null; run_id: string | null }

/** The next runs to cancel, newest first. */
export const listCancelable = statement<CancelableRow, [...CancelFilterColumns, limit: number]>(
  'run_list_cancelable',
  `${looked}
SELECT (SELECT (array_agg(run_id ORDER BY run_id))[1] FROM looked HAVING count(*) >= $10) AS looked_to,
       step.run_id
FROM (VALUES (1)) AS one
LEFT JOIN (SELECT run_id FROM wanted ORDER BY run_id DESC LIMIT $11) AS step ON true
ORDER BY step.run_id DESC`,
  byIndex,
)

export type CancelTallyRow = {
  state: string | null
  job_id: string | null
  job_name: string | null
  count: number
  is_whole: boolean
}

/** How many they are, by state and job; one row without a job where there is none. */
export const tallyCancelable = statement<CancelTallyRow, CancelFilterColumns>(
  'run_tally_cancelable',
  `${looked}, tally AS (
  SELECT state, job_id, count(*)::int AS count FROM wanted GROUP BY state, job_id
)
SELECT tally.state, tally.job_id, (SELECT name FROM belfry.job WHERE id = tally.job_id) AS job_name,
       coalesce(tally.count, 0) AS count, (SELECT count(*) < $10 FROM looked) AS is_whole
FROM (VALUES (1)) AS one LEFT JOIN tally ON true
ORDER BY tally.count DESC, tally.job_id`,
  byIndex,
)

/** Holds the timers of the schedules in whose chains these runs wait: one may name such a run as the last. */
export const lockTimersOfChains = statement<unknown, [runIds: readonly string[]]>(
  'run_lock_timers_of_chains',
  `
SELECT 1 FROM (
  SELECT DISTINCT gone.schedule_id
  FROM unnest($1::uuid[]) AS wanted (run_id)
  CROSS JOIN LATERAL (
    SELECT schedule_id FROM belfry.delayed
    WHERE tenant_id = belfry.tenant_id() AND delayed.run_id = wanted.run_id AND after_run_id IS NOT NULL
    OFFSET 0
  ) AS gone
  ORDER BY gone.schedule_id
) AS chain
CROSS JOIN LATERAL (
  SELECT 1 FROM belfry.timer
  WHERE tenant_id = belfry.tenant_id() AND timer.schedule_id = chain.schedule_id FOR UPDATE
) AS held`,
  byIndex,
)

export type CanceledRow = {
  run_id: string
  after_run_id: string | null
  schedule_id: string | null
  /** A run of a task: the resolver has something to do. */
  of_task: boolean
  /** Of any of them; the same in every row: runs depend on them. */
  told_dependents: boolean | null
}

const wanted = `
    SELECT belfry.tenant_id() AS tenant_id, run_id FROM (
      SELECT DISTINCT run_id FROM unnest($1::uuid[]) AS asked (run_id)
    ) AS asked ORDER BY run_id`

/**
 * Ends runs that wait. Each leaves `ready` or `delayed` together with the attempt row number 0 that says why;
 * one that a worker claims at this moment is not touched. Ends of runs of tasks go on record for the
 * resolver, and those who depend on one are told. Answers where each stood in a chain of runs that wait for
 * each other, for `closeChains`.
 */
export const cancelWaitingRuns = statement<CanceledRow, [runIds: readonly string[]]>(
  'run_cancel_waiting',
  `
WITH ${endedWaiting(wanted, 'Canceled by request while it waited.')}, told AS (
  INSERT INTO belfry.workflow_event (workflow_run_id, tenant_id, kind, run_id)
  SELECT task.workflow_run_id, task.tenant_id, 'end', task.run_id
  FROM gone CROSS JOIN LATERAL (
    SELECT * FROM belfry.task_run WHERE task_run.run_id = gone.run_id OFFSET 0
  ) AS task
  WHERE gone.followed
  RETURNING run_id
)
SELECT run_id, after_run_id, schedule_id, run_id IN (SELECT run_id FROM told) AS of_task,
       (SELECT belfry.tell_dependents(array_agg(run_id)) FROM gone WHERE followed) AS told_dependents,
       ${freeSlots('gone')}
FROM gone`,
  byIndex,
)

/**
 * Closes chains over runs that were taken out of them while they waited: who waited for one now waits for the
 * one before it that is still there, or is let go where there is none; and where it was the last of its
 * schedule, that one is it again.
 */
export const closeChains = statement<
  { readonly shard: number },
  [
    runIds: readonly string[],
    beforeRunIds: readonly (string | null)[],
    scheduleIds: readonly (string | null)[],
  ]
>(
  'followers_close_chains',
  `
WITH link AS MATERIALIZED (
  SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::uuid[]) AS link (run_id, before_run_id, schedule_id)
), last AS (
  UPDATE belfry.timer SET last_run_id = link.before_run_id
  FROM link
  WHERE timer.tenant_id = belfry.tenant_id() AND timer.schedule_id = link.schedule_id
    AND timer.last_run_id = link.run_id AND link.before_run_id IS NOT NULL
), mine AS MATERIALIZED (
  SELECT held.run_id, follower.before_run_id
  FROM (
    SELECT waiting.run_id, link.before_run_id
    FROM link CROSS JOIN LATERAL (
      SELECT run_id FROM belfry.delayed
      WHERE tenant_id = belfry.tenant_id() AND after_run_id = link.run_id OFFSET 0
    ) AS waiting
    ORDER BY waiting.run_id
  ) AS follower
  CROSS JOIN LATERAL (
    SELECT run_id FROM belfry.delayed WHERE delayed.run_id = follower.run_id FOR UPDATE
  ) AS held
)
UPDATE belfry.delayed
SET after_run_id = mine.before_run_id,
    due_at = CASE WHEN mine.before_run_id IS NULL THEN belfry.now() ELSE due_at END
FROM mine
WHERE delayed.tenant_id = belfry.tenant_id() AND delayed.run_id = mine.run_id
RETURNING delayed.shard`,
  byIndex,
)

/** Asks the sessions that run them to cancel; the first request keeps its time. */
export const requestRunCancels = statement<
  { run_id: string; session_id: string },
  [runIds: readonly string[]]
>('run_request_cancels', askedToCancel(wanted), byIndex)

/** Keeps why, in the words of who canceled them; the first reason stays. */
export const noteCancels = statement<unknown, [runIds: readonly string[], reason: string]>(
  'run_note_cancels',
  `
INSERT INTO belfry.cancel_note (run_id, tenant_id, reason)
SELECT run_id, belfry.tenant_id(), $2 FROM unnest($1::uuid[]) AS canceled (run_id)
ORDER BY run_id
ON CONFLICT (run_id) DO NOTHING`,
)

/** Schedules of whose backfills these runs are. */
export const listBackfilledSchedules = statement<{ schedule_id: string }, [runIds: readonly string[]]>(
  'run_list_backfilled_schedules',
  `
SELECT DISTINCT made.schedule_id
FROM unnest($1::uuid[]) AS canceled (run_id)
CROSS JOIN LATERAL (
  SELECT schedule_id FROM belfry.extra_run
  WHERE tenant_id = belfry.tenant_id() AND extra_run.run_id = canceled.run_id AND backfill_id IS NOT NULL
  OFFSET 0
) AS made`,
  byIndex,
)

/** Deletes the reasons of cancels of runs that are older than the retention, at most `limit` at once. */
export const deleteOldCancelNotes = statement<
  { readonly count: number },
  [retentionDays: number, limit: number]
>(
  'belfry_delete_old_cancel_notes',
  `
WITH deleted AS (
  DELETE FROM belfry.cancel_note WHERE ctid = ANY (ARRAY(
    SELECT past.ctid FROM belfry.cancel_note AS past
    WHERE past.run_id < belfry.uuid_floor(
        (((belfry.now() AT TIME ZONE 'UTC')::date - $1::int)::timestamp) AT TIME ZONE 'UTC')
      AND NOT EXISTS (SELECT FROM belfry.ready WHERE ready.run_id = past.run_id)
    ORDER BY past.run_id LIMIT $2)) RETURNING 1
)
SELECT count(*)::int AS count FROM deleted`,
  byIndex,
)
