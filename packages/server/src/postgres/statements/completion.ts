/**
 * The end of attempts, many at once. A row leaves `ready` only here, together with the attempt row that says
 * why, guarded by epoch and session: whoever comes second finds nothing. What may run again goes to `delayed`
 * in the same statement. A cancel that was asked for while the run ran wins over a further attempt, also when
 * the worker had not heard of it. Who asked for it, a person or the schedule, is the reason of that end.
 *
 * Runs that wait for one that ends here are let go, where its row says that there are some: by a function,
 * and so by a younger snapshot, which sees those too that lined up while this statement waited for their
 * fire. Its slots are freed in the same way (free-slots.ts).
 *
 * Worker and rescuer send the same statement but for the session: one for all rows, or one a row. Rows are
 * looked up and locked one by one by their key: a join may be planned as a walk over the whole table while
 * statistics are old. They are locked in the order of their ids, whatever order the caller has them in: two
 * who end the same runs at the same time would wait for each other otherwise.
 */
import { byIndex, statement } from '../statement.ts'
import { freeSlots } from './free-slots.ts'

export type AppliedRow = {
  readonly now_ms: number
  /** Null in the one row that is answered when nothing was applied. */
  readonly run_id: string | null
  readonly run_state: string | null
  /** Shards of all runs that waited for one that has ended, null for none; the same in every row. */
  readonly timer_shards: readonly number[] | null
  /** Tenants of whose limits something is free now, null for none; the same in every row. */
  readonly gate_tenants: readonly string[] | null
}

/** Columns of the ends, one array each, all of one length. Times are epoch ms. */
export type EndColumns = [
  runIds: readonly string[],
  leaseEpochs: readonly number[],
  outcomes: readonly string[],
  runStates: readonly (string | null)[],
  reasons: readonly (string | null)[],
  retryDelaysMs: readonly (number | null)[],
  countsAs: readonly string[],
  startedAtMs: readonly number[],
  endedAtMs: readonly number[],
  errorCodes: readonly (string | null)[],
  errorMessages: readonly (string | null)[],
  httpStatuses: readonly (number | null)[],
  responses: readonly (string | null)[],
  responsesTruncated: readonly boolean[],
  results: readonly (string | null)[],
  responseHeaders: readonly (string | null)[],
]

const columns = `run_id, lease_epoch, outcome, run_state, reason, retry_delay_ms, count_as, started_ms,
    ended_ms, error_code, error_message, http_status, response, response_truncated, result, response_headers`
const arrays = `$1::uuid[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::float8[], $7::text[],
    $8::float8[], $9::float8[], $10::text[], $11::text[], $12::smallint[], $13::text[], $14::boolean[],
    $15::jsonb[], $16::jsonb[]`

const endAttempts = (source: string, sessionId: string): string => `
WITH held AS MATERIALIZED (
  SELECT ending.*, mine.*, ending.run_state IS NULL AND mine.cancel_requested_at IS NOT NULL AS canceled
  FROM (SELECT * FROM ${source} ORDER BY run_id) AS ending
  CROSS JOIN LATERAL (
    SELECT ready.tenant_id, ready.job_id, ready.job_version, ready.queue, ready.handler, ready.priority,
      ready.timeout_ms, ready.attempt, ready.session_id, ready.crash_count, ready.failure_count,
      ready.cancel_requested_at, ready.cancel_reason, ready.followed, ready.run_deadline, ready.slotted
    FROM belfry.ready
    WHERE ready.run_id = ending.run_id AND ready.lease_epoch = ending.lease_epoch
      AND ready.session_id = ${sessionId}
    FOR UPDATE
  ) AS mine
), gone AS (
  DELETE FROM belfry.ready WHERE run_id = ANY (ARRAY(SELECT run_id FROM held))
), verdict AS (
  SELECT held.*,
    CASE WHEN canceled THEN 'canceled' ELSE run_state END AS end_state,
    CASE WHEN canceled OR reason = 'canceled_by_request' THEN coalesce(cancel_reason, 'canceled_by_request')
      ELSE reason END AS end_reason,
    CASE WHEN run_state IS NULL AND NOT canceled
      THEN belfry.now() + retry_delay_ms * interval '1 millisecond' END AS retry_at
  FROM held
), history AS (
  INSERT INTO belfry.attempt (run_id, number, tenant_id, lease_epoch, session_id, outcome, run_state, reason,
    started_at, ended_at, retry_at, error_code, error_message, http_status, response, response_truncated,
    result, response_headers)
  SELECT run_id, CASE WHEN outcome = 'expired' THEN 0 ELSE attempt END, tenant_id, lease_epoch, session_id,
    outcome, end_state, end_reason,
    to_timestamp(started_ms / 1000), to_timestamp(ended_ms / 1000), retry_at, error_code, error_message,
    http_status, response, response_truncated, result, response_headers
  FROM verdict
), later AS (
  INSERT INTO belfry.delayed (run_id, tenant_id, job_id, job_version, due_at, shard, queue, handler, priority,
    timeout_ms, lease_epoch, attempt, crash_count, failure_count, followed, run_deadline)
  SELECT run_id, tenant_id, job_id, job_version, retry_at, belfry.shard_of(run_id), queue, handler, priority,
    timeout_ms, lease_epoch + 1, attempt,
    crash_count + (count_as = 'crash')::int, failure_count + (count_as = 'failure')::int, followed,
    run_deadline
  FROM verdict WHERE retry_at IS NOT NULL
)
SELECT (extract(epoch FROM belfry.now()) * 1000)::float8 AS now_ms,
       verdict.run_id, verdict.end_state AS run_state,
       (SELECT belfry.let_followers_go(array_agg(run_id)) FROM verdict
        WHERE followed AND end_state IS NOT NULL) AS timer_shards,
       ${freeSlots('held')},
       (SELECT array_agg(DISTINCT tenant_id) FROM held WHERE slotted) AS gate_tenants
FROM (VALUES (1)) AS one (row) LEFT JOIN verdict ON true`

/** Ends attempts of one session. */
export const completeAttempts = statement<AppliedRow, [...EndColumns, sessionId: string]>(
  'belfry_complete_attempts',
  endAttempts(`unnest(${arrays}) AS ending (${columns})`, '$17::uuid'),
  byIndex,
)

/** Ends attempts whose sessions are gone or whose deadline passed. */
export const rescueAttempts = statement<AppliedRow, [...EndColumns, sessionIds: readonly string[]]>(
  'belfry_rescue_attempts',
  endAttempts(
    `unnest(${arrays}, $17::uuid[]) AS ending (${columns}, lost_session_id)`,
    'ending.lost_session_id',
  ),
  byIndex,
)

/**
 * Which ends were applied by an earlier call. The rescuer's row carries the same epoch and session, so the
 * end is told by its own instant as well.
 */
export const listAppliedBefore = statement<
  { readonly run_id: string; readonly run_state: string | null },
  [
    sessionId: string,
    runIds: readonly string[],
    leaseEpochs: readonly number[],
    endedAtMs: readonly number[],
    outcomes: readonly string[],
  ]
>(
  'belfry_list_applied_before',
  `
SELECT written.run_id, written.run_state
FROM unnest($2::uuid[], $3::bigint[], $4::float8[], $5::text[])
  AS ending (run_id, lease_epoch, ended_ms, outcome)
CROSS JOIN LATERAL (
  SELECT attempt.run_id, attempt.run_state
  FROM belfry.attempt
  WHERE attempt.run_id = ending.run_id AND attempt.lease_epoch = ending.lease_epoch
    AND attempt.session_id = $1
    AND attempt.outcome = ending.outcome AND attempt.ended_at = to_timestamp(ending.ended_ms / 1000)
  OFFSET 0
) AS written`,
  byIndex,
)
