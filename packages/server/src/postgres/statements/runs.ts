/**
 * Runs, as the API makes, reads and cancels them for one tenant. A run has no state column: its state follows
 * from where it stands (migrations/0005_running.sql), and is derived here in one snapshot, so that no reader
 * sees it in between.
 */
import { byIndex, statement } from '../statement.ts'
import { type AwaitedJson, awaitedOf } from './callbacks.ts'
import { inputOfGathered } from './gatherings.ts'
import { heldRuns, unheld } from './held.ts'

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
  scheduledFor: string | null,
  route: string,
  timeoutMs: number,
  startBy: string | null,
  runDeadline: string | null,
]

const insertRun = `
WITH made AS (
  INSERT INTO belfry.run
    (id, tenant_id, job_id, job_version, schedule_id, source, queue, priority, input, due_at, scheduled_for)
  VALUES ($1, belfry.tenant_id(), $2, $3, $4, $5, $6, $7, $8, $9, $10)
  RETURNING id, tenant_id, job_id, job_version, queue, priority, due_at
)`

/**
 * A run that may start at once. Whether its job has limits is read here: who changes them waits for what this
 * statement saw (postgres/gate/regate.ts), and not for what its transaction has read before.
 */
export const insertReadyRun = statement<{ shard: number }, readonly [...NewRun, tag: number]>(
  'run_insert_ready',
  `${insertRun}
INSERT INTO belfry.ready
  (run_id, tenant_id, job_id, job_version, queue, priority, available_at, handler, timeout_ms, start_by,
   run_deadline, tag, gate)
SELECT id, tenant_id, job_id, job_version, queue, priority, due_at, $11, $12, $13, $14, $15,
       CASE WHEN (SELECT j.limited FROM belfry.job AS j WHERE j.id = made.job_id)
         THEN belfry.gate_of(job_id, queue, $8) END
FROM made
RETURNING belfry.shard_of(run_id) AS shard`,
)

/** A run that waits for its time. */
export const insertDelayedRun = statement<{ shard: number }, NewRun>(
  'run_insert_delayed',
  `${insertRun}
INSERT INTO belfry.delayed
  (run_id, tenant_id, job_id, job_version, queue, priority, due_at, shard, handler, timeout_ms,
   start_by, run_deadline, lease_epoch, attempt, crash_count, failure_count)
SELECT id, tenant_id, job_id, job_version, queue, priority, due_at, belfry.shard_of(id), $11, $12, $13, $14,
       0, 0, 0, 0
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
  run_as: string | null
  attempts: number
  max_attempts: number
  created_at: Date
  due_at: Date
  next_attempt_at: Date | null
  start_by: Date | null
  run_deadline: Date | null
  started_at: Date | null
  finished_at: Date | null
  cancel_requested: boolean
}

const columns = `
  r.id, r.job_id, j.name AS job_name, r.job_version, r.schedule_id, r.scheduled_for, r.source, derived.state,
  past.reason, r.queue, r.priority, v.definition ->> 'delivery' AS delivery,
  v.definition ->> 'runAs' AS run_as,
  coalesce(q.attempt, d.attempt, past.last_number, 0) AS attempts,
  (v.definition #>> '{retry,maxAttempts}')::integer AS max_attempts,
  r.created_at, CASE WHEN d.gathers IS NULL THEN r.due_at ELSE d.due_at END AS due_at,
  CASE
    -- it waits for others; nobody knows until when
    WHEN d.after_run_id IS NOT NULL OR d.depends_rule IS NOT NULL THEN NULL
    WHEN q.session_id IS NULL THEN coalesce(d.due_at, q.available_at)
  END AS next_attempt_at,
  CASE WHEN q.session_id IS NULL THEN coalesce(q.start_by, d.start_by) END AS start_by,
  coalesce(q.run_deadline, d.run_deadline) AS run_deadline,
  coalesce(past.first_started_at, q.claimed_at) AS started_at, past.finished_at,
  q.cancel_requested_at IS NOT NULL AS cancel_requested`

/**
 * Where `r`, a row of run, stands. OFFSET 0 keeps each look-up a look-up by key, whatever the statistics say.
 */
export const itsPlace = `
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
              WHEN d.depends_rule IS NOT NULL THEN 'waiting_for_dependencies'
              WHEN q.run_id IS NOT NULL OR d.run_id IS NOT NULL THEN 'pending'
              ELSE coalesce(past.run_state, 'pending') END AS state
) derived`

/** The same with the job that `r` is of. */
const itsPlaceAndJob = `
CROSS JOIN LATERAL (SELECT name FROM belfry.job WHERE id = r.job_id OFFSET 0) j
CROSS JOIN LATERAL (
  SELECT definition FROM belfry.job_version WHERE job_id = r.job_id AND version = r.job_version OFFSET 0
) v
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
  responseHeaders: Record<string, string> | null
  result: unknown
  retryAt: string | null
  sessionId: string | null
  leaseEpoch: number
}

export type RunRow = RunSummaryRow & {
  now_ms: number
  /** As stored with the version of the job. */
  retry: unknown
  after_run_id: string | null
  held_since: Date | null
  has_input: boolean
  input: unknown
  cancel_reason: string | null
  replay_of: string | null
  replayed_as: string | null
  rule: string | null
  /** [runId, state] */
  depends_on: readonly (readonly [string, string | null])[]
  attempt_list: AttemptJson[]
  attempts_ended: number
  present_number: number | null
  present_started_at: Date | null
  present_session_id: string | null
  present_lease_epoch: number | null
  present_progress: unknown
  present_awaited: AwaitedJson | null
}

/**
 * One run with the newest of its attempts that began before number `before`, and the one under way. Number 0
 * is written when a run ends while it waits, so nothing is newer.
 */
export const findRun = statement<RunRow, [id: string, before: number | null, limit: number]>(
  'run_find',
  `
SELECT ${columns}, whole.input IS NOT NULL AS has_input, whole.input,
  (SELECT reason FROM belfry.cancel_note WHERE run_id = r.id) AS cancel_reason,
  (SELECT run_id FROM belfry.dead_letter WHERE replayed_as = r.id LIMIT 1) AS replay_of,
  (SELECT replayed_as FROM belfry.dead_letter WHERE run_id = r.id) AS replayed_as,
  (SELECT rule FROM belfry.dependency WHERE child_id = r.id LIMIT 1) AS rule,
  (SELECT coalesce(jsonb_agg(jsonb_build_array(parent_id, state) ORDER BY parent_id), '[]')
   FROM belfry.dependency WHERE child_id = r.id) AS depends_on,
  (extract(epoch FROM belfry.now()) * 1000)::float8 AS now_ms, v.definition -> 'retry' AS retry,
  d.after_run_id, CASE WHEN q.session_id IS NULL AND q.gate IS NOT NULL THEN q.available_at END AS held_since,
  CASE WHEN q.session_id IS NOT NULL THEN q.attempt END AS present_number,
  q.claimed_at AS present_started_at, q.session_id AS present_session_id,
  q.lease_epoch AS present_lease_epoch, q.progress AS present_progress,
  ${awaitedOf('r.tenant_id', 'q')} AS present_awaited,
  (SELECT count(*) FROM belfry.attempt WHERE run_id = r.id) AS attempts_ended,
  (SELECT coalesce(jsonb_agg(jsonb_build_object(
     'number', a.number, 'outcome', a.outcome, 'startedAt', a.started_at, 'endedAt', a.ended_at,
     'errorCode', a.error_code, 'errorMessage', a.error_message, 'httpStatus', a.http_status,
     'response', a.response, 'responseTruncated', a.response_truncated,
     'responseHeaders', a.response_headers, 'result', a.result, 'retryAt', a.retry_at,
     'sessionId', a.session_id, 'leaseEpoch', a.lease_epoch) ORDER BY a.number = 0 DESC, a.number DESC), '[]')
   FROM (
     SELECT * FROM belfry.attempt
     WHERE run_id = r.id AND ($2::integer IS NULL OR (number > 0 AND ($2 = 0 OR number < $2)))
     ORDER BY number = 0 DESC, number DESC LIMIT $3
   ) a) AS attempt_list
FROM belfry.run r ${itsPlaceAndJob}
CROSS JOIN LATERAL (SELECT coalesce(r.input, ${inputOfGathered('r.id')}) AS input OFFSET 0) whole
WHERE r.tenant_id = belfry.tenant_id() AND r.id = $1`,
  byIndex,
)

/** `look`: how many runs are looked at, at most; as many as the page holds where all of them pass. */
export type Walk = [
  lowId: string,
  highId: string,
  createdAfter: string,
  createdBefore: string,
  limit: number,
  look: number,
]

/** `looked_to` is the same in every row; a page without a run is one row without an id. */
export type ListedRunRow = { looked_to: string | null } & (RunSummaryRow | { id: null })

/** What stands behind `page`, the ids of a page: found first, by little; then the rest is looked up. */
const listed = (lookedTo: string) => `
SELECT (${lookedTo}) AS looked_to, item.*
FROM (VALUES (1)) AS one LEFT JOIN (
  SELECT ${columns}
  FROM page
  CROSS JOIN LATERAL (
    SELECT * FROM belfry.run WHERE tenant_id = belfry.tenant_id() AND id = page.id OFFSET 0
  ) r ${itsPlaceAndJob}
) AS item ON true
ORDER BY item.id DESC`

/**
 * Walks runs, newest first. However few of them pass, no more than `look` are looked at: what is wanted may
 * be rare, and the history long.
 */
const walk = (by: string, place: string, wanted: string) =>
  walkOver(
    `
  SELECT r.id, r.created_at, r.job_id FROM belfry.run r
  WHERE r.tenant_id = belfry.tenant_id() AND r.id >= $1 AND r.id < $2 ${by}
  ORDER BY r.id DESC LIMIT $6`,
    place,
    wanted,
  )

export const walkOver = (looked: string, place: string, wanted: string) => `
WITH looked AS MATERIALIZED (${looked}
), page AS MATERIALIZED (
  SELECT r.id FROM looked r ${place}
  WHERE r.created_at >= $3 AND r.created_at < $4 ${wanted}
  ORDER BY r.id DESC LIMIT $5
)${listed('SELECT (array_agg(id ORDER BY id))[1] FROM looked HAVING count(*) >= $6')}`

const ofJob = 'AND r.job_id = $7'
const ofSchedule = 'AND r.schedule_id = $7'
const ofJobToo = 'AND ($8::uuid IS NULL OR r.job_id = $8)'
const inState = (parameter: string) => `AND derived.state = ANY(${parameter}::text[])`

/** Newest first, whatever their state. */
export const listRuns = statement<ListedRunRow, Walk>('run_list', walk('', '', ''), byIndex)

/** The same for one job. */
export const listRunsOfJob = statement<ListedRunRow, [...Walk, jobId: string]>(
  'run_list_job',
  walk(ofJob, '', ''),
  byIndex,
)

/** The same for one schedule. */
export const listRunsOfSchedule = statement<
  ListedRunRow,
  [...Walk, scheduleId: string, jobId: string | null]
>('run_list_schedule', walk(ofSchedule, '', ofJobToo), byIndex)

/** The same where `succeeded` is among the states: most runs are, so the walk soon fills a page. */
export const listRunsInStates = statement<ListedRunRow, [...Walk, states: readonly string[]]>(
  'run_list_states',
  walk('', itsPlace, inState('$7')),
  byIndex,
)

/** The same for one job. */
export const listRunsOfJobInStates = statement<
  ListedRunRow,
  [...Walk, jobId: string, states: readonly string[]]
>('run_list_job_states', walk(ofJob, itsPlace, inState('$8')), byIndex)

/** The same for one schedule. */
export const listRunsOfScheduleInStates = statement<
  ListedRunRow,
  [...Walk, scheduleId: string, jobId: string | null, states: readonly string[]]
>('run_list_schedule_states', walk(ofSchedule, itsPlace, `${ofJobToo} ${inState('$9')}`), byIndex)

/** The same of one backfill, whatever their state or in some. */
export const listRunsOfBackfill = statement<
  ListedRunRow,
  [
    ...Walk,
    backfillId: string,
    scheduleId: string | null,
    jobId: string | null,
    states: readonly string[] | null,
  ]
>(
  'run_list_backfill',
  walkOver(
    `
  SELECT e.run_id AS id, r.created_at, r.job_id FROM belfry.extra_run e
  CROSS JOIN LATERAL (
    SELECT created_at, job_id FROM belfry.run WHERE tenant_id = belfry.tenant_id() AND id = e.run_id OFFSET 0
  ) r
  WHERE e.tenant_id = belfry.tenant_id() AND e.run_id >= $1 AND e.run_id < $2 AND e.backfill_id = $7
    AND ($8::uuid IS NULL OR e.schedule_id = $8)
  ORDER BY e.run_id DESC LIMIT $6`,
    itsPlace,
    `AND ($9::uuid IS NULL OR r.job_id = $9) AND ($10::text[] IS NULL OR derived.state = ANY($10::text[]))`,
  ),
  byIndex,
)

/** Fenced off, so that it is read by the index of what is held: few rows, whatever waits. */
const held = heldRuns('run_id, tenant_id')

/** One place where runs of a state stand: the newest of them, as many as are looked at. */
const candidates = (place: string, from: string, where: string) => `
  (SELECT ${place} AS place, c.run_id AS id FROM ${from} c
   WHERE c.tenant_id = belfry.tenant_id() AND c.run_id >= $1 AND c.run_id < $2 AND ${where}
   ORDER BY c.run_id DESC LIMIT $6)`

/**
 * Newest first, of states that few runs are in: not `succeeded`. It starts from what is alive (`$7`: states
 * pending and running) and from the index of ends that are no success (`$8`), and looks at no other run, nor
 * at more than `look` of each. Where a look ended early, only what is newer than its end is complete.
 */
export const listRareRuns = statement<
  ListedRunRow,
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
WITH looked AS MATERIALIZED (
  ${candidates(`'waits'`, 'belfry.ready', `${unheld('c')} AND 'pending' = ANY($7::text[])`)}
  UNION ALL
  ${candidates(`'runs'`, held, `'running' = ANY($7::text[])`)}
  UNION ALL
  ${candidates(`'later'`, 'belfry.delayed', `c.depends_rule IS NULL AND 'pending' = ANY($7::text[])`)}
  UNION ALL
  ${candidates(
    `'depends'`,
    'belfry.delayed',
    `c.depends_rule IS NOT NULL AND 'waiting_for_dependencies' = ANY($7::text[])`,
  )}
  UNION ALL
  SELECT ended.place, ended.id FROM unnest($8::text[]) AS wanted (run_state)
  CROSS JOIN LATERAL ${candidates(
    'c.run_state',
    'belfry.attempt',
    `c.run_state = wanted.run_state AND c.run_state IS NOT NULL AND c.run_state <> 'succeeded'`,
  )} AS ended
), ends AS MATERIALIZED (
  SELECT (array_agg(id ORDER BY id))[1] AS id FROM looked GROUP BY place HAVING count(*) >= $6
), page AS MATERIALIZED (
  SELECT looked.id FROM looked
  CROSS JOIN LATERAL (
    SELECT 1 FROM belfry.run r
    WHERE r.tenant_id = belfry.tenant_id() AND r.id = looked.id AND r.created_at >= $3 AND r.created_at < $4
      AND ($9::uuid IS NULL OR r.job_id = $9) AND ($10::uuid IS NULL OR r.schedule_id = $10)
    OFFSET 0
  ) AS passing
  WHERE NOT EXISTS (SELECT FROM ends WHERE ends.id > looked.id)
  ORDER BY looked.id DESC LIMIT $5
)${listed('SELECT id FROM ends ORDER BY id DESC LIMIT 1')}`,
  byIndex,
)
