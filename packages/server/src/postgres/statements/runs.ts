/**
 * Runs, as the API makes, reads and cancels them for one tenant. A run has no state column: its state follows
 * from where it stands (migrations/0005_running.sql), and is derived here in one snapshot, so that no reader
 * sees it in between.
 */
import { statement } from '../statement.ts'

type NewRun = readonly [
  id: string,
  jobId: string,
  jobVersion: number,
  scheduleId: string | null,
  source: string,
  queue: string,
  priority: number,
  input: string | null,
  dueAt: string,
  handler: string,
  timeoutMs: number,
]

const insertRun = `
WITH made AS (
  INSERT INTO belfry.run
    (id, tenant_id, job_id, job_version, schedule_id, source, queue, priority, input, due_at)
  VALUES ($1, belfry.tenant_id(), $2, $3, $4, $5, $6, $7, $8, $9)
  RETURNING id, tenant_id, job_id, job_version, queue, priority, due_at
)`

/** A run that may start at once. */
export const insertReadyRun = statement<{ shard: number }, readonly [...NewRun, tag: number]>(
  'run_insert_ready',
  `${insertRun}
INSERT INTO belfry.ready
  (run_id, tenant_id, job_id, job_version, queue, priority, available_at, handler, timeout_ms, tag)
SELECT id, tenant_id, job_id, job_version, queue, priority, due_at, $10, $11, $12 FROM made
RETURNING belfry.shard_of(run_id) AS shard`,
)

/** A run that waits for its time. */
export const insertDelayedRun = statement<{ shard: number }, NewRun>(
  'run_insert_delayed',
  `${insertRun}
INSERT INTO belfry.delayed
  (run_id, tenant_id, job_id, job_version, queue, priority, due_at, shard, handler, timeout_ms,
   lease_epoch, attempt, crash_count, failure_count)
SELECT id, tenant_id, job_id, job_version, queue, priority, due_at, belfry.shard_of(id), $10, $11, 0, 0, 0, 0
FROM made
RETURNING shard`,
)

export type RunSummaryRow = {
  id: string
  job_id: string
  job_name: string
  job_version: number
  schedule_id: string | null
  scheduled_for: Date | null
  source: string
  state: string
  reason: string | null
  queue: string
  priority: number
  delivery: string
  attempts: number
  max_attempts: number
  created_at: Date
  due_at: Date
  next_attempt_at: Date | null
  started_at: Date | null
  finished_at: Date | null
  cancel_requested: boolean
}

const columns = `
  r.id, r.job_id, j.name AS job_name, r.job_version, r.schedule_id, r.scheduled_for, r.source, derived.state,
  past.reason, r.queue, r.priority, v.definition ->> 'delivery' AS delivery,
  coalesce(q.attempt, d.attempt, past.last_number, 0) AS attempts,
  (v.definition #>> '{retry,maxAttempts}')::integer AS max_attempts,
  r.created_at, r.due_at,
  coalesce(d.due_at, CASE WHEN q.session_id IS NULL THEN q.available_at END) AS next_attempt_at,
  coalesce(past.first_started_at, q.claimed_at) AS started_at, past.finished_at,
  q.cancel_requested_at IS NOT NULL AS cancel_requested`

/**
 * Where `r`, a row of run, stands. OFFSET 0 keeps each look-up a look-up by key, whatever the statistics say.
 */
const itsPlace = `
LEFT JOIN LATERAL (SELECT * FROM belfry.ready WHERE run_id = r.id OFFSET 0) q ON true
LEFT JOIN LATERAL (SELECT * FROM belfry.delayed WHERE run_id = r.id OFFSET 0) d ON true
CROSS JOIN LATERAL (
  SELECT max(run_state) AS run_state, max(reason) FILTER (WHERE run_state IS NOT NULL) AS reason,
         max(ended_at) FILTER (WHERE run_state IS NOT NULL) AS finished_at,
         min(started_at) FILTER (WHERE number > 0) AS first_started_at, max(number) AS last_number
  FROM belfry.attempt WHERE run_id = r.id
) past
CROSS JOIN LATERAL (
  SELECT CASE WHEN q.session_id IS NOT NULL THEN 'running'
              WHEN q.run_id IS NOT NULL OR d.run_id IS NOT NULL THEN 'pending'
              ELSE coalesce(past.run_state, 'pending') END AS state
) derived`

/** The same with the job that `r` is of. */
const itsPlaceAndJob = `
JOIN belfry.job j ON j.id = r.job_id
JOIN belfry.job_version v ON v.job_id = r.job_id AND v.version = r.job_version
${itsPlace}`

export type AttemptJson = {
  number: number
  outcome: string
  startedAt: string
  endedAt: string
  errorCode: string | null
  errorMessage: string | null
  httpStatus: number | null
  response: string | null
  responseTruncated: boolean
  retryAt: string | null
  sessionId: string | null
  leaseEpoch: number
}

export type RunRow = RunSummaryRow & {
  has_input: boolean
  input: unknown
  attempt_list: AttemptJson[]
  present_number: number | null
  present_started_at: Date | null
  present_session_id: string | null
  present_lease_epoch: number | null
}

/** One run with all its attempts, and the one under way. */
export const findRun = statement<RunRow, [id: string]>(
  'run_find',
  `
SELECT ${columns}, r.input IS NOT NULL AS has_input, r.input,
  CASE WHEN q.session_id IS NOT NULL THEN q.attempt END AS present_number,
  q.claimed_at AS present_started_at, q.session_id AS present_session_id,
  q.lease_epoch AS present_lease_epoch,
  (SELECT coalesce(jsonb_agg(jsonb_build_object(
     'number', a.number, 'outcome', a.outcome, 'startedAt', a.started_at, 'endedAt', a.ended_at,
     'errorCode', a.error_code, 'errorMessage', a.error_message, 'httpStatus', a.http_status,
     'response', a.response, 'responseTruncated', a.response_truncated, 'retryAt', a.retry_at,
     'sessionId', a.session_id, 'leaseEpoch', a.lease_epoch) ORDER BY a.lease_epoch, a.number), '[]')
   FROM belfry.attempt a WHERE a.run_id = r.id) AS attempt_list
FROM belfry.run r ${itsPlaceAndJob}
WHERE r.tenant_id = belfry.tenant_id() AND r.id = $1`,
)

type Walk = [lowId: string, highId: string, createdAfter: string, createdBefore: string, limit: number]

/** The page is found first, by the runs alone; then the rest is looked up for what is on it. */
const walk = (by: string, place: string, wanted: string) => `
WITH page AS MATERIALIZED (
  SELECT r.* FROM belfry.run r ${place}
  WHERE r.tenant_id = belfry.tenant_id() AND r.id >= $1 AND r.id < $2
    AND r.created_at >= $3 AND r.created_at < $4 ${by} ${wanted}
  ORDER BY r.id DESC LIMIT $5
)
SELECT ${columns} FROM page r ${itsPlaceAndJob} ORDER BY r.id DESC`

const ofJob = 'AND r.job_id = $6'
const ofSchedule = 'AND r.schedule_id = $6 AND ($7::uuid IS NULL OR r.job_id = $7)'
/**
 * Written so that the planner takes nearly every run to pass: with a plain `= ANY`, and the limit unknown to
 * a generic plan, it would look up all runs of the tenant and sort them (3 ms became 700 ms at 150,000 runs).
 */
const inState = (parameter: string) => `AND array_position(${parameter}::text[], derived.state) IS NOT NULL`

/** Newest first, whatever their state. */
export const listRuns = statement<RunSummaryRow, Walk>('run_list', walk('', '', ''))

/** The same for one job. */
export const listRunsOfJob = statement<RunSummaryRow, [...Walk, jobId: string]>(
  'run_list_job',
  walk(ofJob, '', ''),
)

/** The same for one schedule. */
export const listRunsOfSchedule = statement<
  RunSummaryRow,
  [...Walk, scheduleId: string, jobId: string | null]
>('run_list_schedule', walk(ofSchedule, '', ''))

/** The same where `succeeded` is among the states: most runs are, so the walk soon fills a page. */
export const listRunsInStates = statement<RunSummaryRow, [...Walk, states: readonly string[]]>(
  'run_list_states',
  walk('', itsPlace, inState('$6')),
)

/** The same for one job. */
export const listRunsOfJobInStates = statement<
  RunSummaryRow,
  [...Walk, jobId: string, states: readonly string[]]
>('run_list_job_states', walk(ofJob, itsPlace, inState('$7')))

/** The same for one schedule. */
export const listRunsOfScheduleInStates = statement<
  RunSummaryRow,
  [...Walk, scheduleId: string, jobId: string | null, states: readonly string[]]
>('run_list_schedule_states', walk(ofSchedule, itsPlace, inState('$8')))

/** A candidate `c` whose run passes the other filters. */
const passing = `
CROSS JOIN LATERAL (
  SELECT 1 FROM belfry.run r
  WHERE r.tenant_id = belfry.tenant_id() AND r.id = c.run_id AND r.created_at >= $3 AND r.created_at < $4
    AND ($8::uuid IS NULL OR r.job_id = $8) AND ($9::uuid IS NULL OR r.schedule_id = $9)
  OFFSET 0
) passing`
const within = 'c.tenant_id = belfry.tenant_id() AND c.run_id >= $1 AND c.run_id < $2'
const newest = 'ORDER BY c.run_id DESC LIMIT $5'

/**
 * Newest first, of states that few runs are in: not `succeeded`. It starts from what is alive (`$6`: states
 * pending and running) and from the index of ends that are no success (`$7`), and looks at no other run.
 */
export const listRareRuns = statement<
  RunSummaryRow,
  [
    ...Walk,
    live: readonly string[],
    ended: readonly string[],
    jobId: string | null,
    scheduleId: string | null,
  ]
>(
  'run_list_rare',
  `
WITH candidate AS (
  (SELECT c.run_id FROM belfry.ready c ${passing}
   WHERE ${within} AND c.session_id IS NULL AND 'pending' = ANY($6::text[]) ${newest})
  UNION ALL
  (SELECT c.run_id FROM belfry.ready c ${passing}
   WHERE ${within} AND c.session_id IS NOT NULL AND 'running' = ANY($6::text[]) ${newest})
  UNION ALL
  (SELECT c.run_id FROM belfry.delayed c ${passing}
   WHERE ${within} AND 'pending' = ANY($6::text[]) ${newest})
  UNION ALL
  SELECT e.run_id FROM unnest($7::text[]) AS wanted (run_state)
  CROSS JOIN LATERAL (
    SELECT c.run_id FROM belfry.attempt c ${passing}
    WHERE ${within} AND c.run_state = wanted.run_state
      AND c.run_state IS NOT NULL AND c.run_state <> 'succeeded'
    ${newest}
  ) e
), page AS (
  SELECT run_id FROM candidate ORDER BY run_id DESC LIMIT $5
)
SELECT ${columns}
FROM page JOIN belfry.run r ON r.tenant_id = belfry.tenant_id() AND r.id = page.run_id ${itsPlaceAndJob}
ORDER BY r.id DESC`,
)

/**
 * Ends a run that waits. It leaves `ready` or `delayed` together with the attempt row number 0 that says why;
 * one that a worker claims at this moment is not touched.
 */
export const cancelWaitingRun = statement<{ run_id: string }, [id: string]>(
  'run_cancel_waiting',
  `
WITH was_ready AS (
  DELETE FROM belfry.ready
  WHERE tenant_id = belfry.tenant_id() AND run_id = $1 AND session_id IS NULL
  RETURNING run_id, tenant_id, lease_epoch
), was_delayed AS (
  DELETE FROM belfry.delayed WHERE tenant_id = belfry.tenant_id() AND run_id = $1
  RETURNING run_id, tenant_id, lease_epoch
)
INSERT INTO belfry.attempt
  (run_id, number, tenant_id, lease_epoch, outcome, run_state, reason, started_at, error_code, error_message)
SELECT run_id, 0, tenant_id, lease_epoch, 'canceled', 'canceled', 'canceled_by_request', belfry.now(),
       'canceled', 'Canceled by request while it waited.'
FROM (SELECT * FROM was_ready UNION ALL SELECT * FROM was_delayed) AS gone
RETURNING run_id`,
)

/** Asks the session that runs it to cancel; the first request keeps its time. */
export const requestRunCancel = statement<{ session_id: string }, [id: string]>(
  'run_request_cancel',
  `
UPDATE belfry.ready SET cancel_requested_at = coalesce(cancel_requested_at, belfry.now())
WHERE tenant_id = belfry.tenant_id() AND run_id = $1 AND session_id IS NOT NULL
RETURNING session_id`,
)
