/**
 * The lease of a worker process: one row, one write a heartbeat, whatever the number of its runs. A lease
 * that ran out is never renewed: its holder may have been given up already.
 */
import { byIndex, statement } from '../statement.ts'
import { freeSlots } from './free-slots.ts'
import { heldRuns } from './held.ts'

/** Enters a worker process, with its first lease. */
export const openSession = statement<
  { readonly now_ms: number },
  [
    id: string,
    host: string,
    version: string,
    queues: readonly string[],
    slots: number,
    leaseMs: number,
    tenantId: string | null,
    apiKeyId: string | null,
    functions: readonly string[] | null,
  ]
>(
  'belfry_open_session',
  `
INSERT INTO belfry.session
  (id, host, version, queues, slots, expires_at, tenant_id, api_key_id, functions)
VALUES ($1, $2, $3, $4::text[], $5, belfry.now() + $6::float8 * interval '1 millisecond', $7, $8, $9::text[])
RETURNING (extract(epoch FROM belfry.now()) * 1000)::float8 AS now_ms`,
)

/** Renews, and tells which runs the session holds, and for which of them a cancel was asked. */
export const renewSession = statement<
  {
    readonly now_ms: number
    readonly alive: boolean
    readonly held_run_ids: readonly string[]
    readonly cancel_run_ids: readonly string[]
  },
  [id: string, leaseMs: number]
>(
  'belfry_renew_session',
  `
WITH renewed AS (
  UPDATE belfry.session
  SET heartbeat_at = belfry.now(), expires_at = belfry.now() + $2::float8 * interval '1 millisecond'
  WHERE id = $1 AND expires_at > belfry.now()
  RETURNING id
), held AS MATERIALIZED (
  SELECT run_id, cancel_requested_at FROM ${heldRuns('run_id, cancel_requested_at', '$1')} AS its
)
SELECT (extract(epoch FROM belfry.now()) * 1000)::float8 AS now_ms,
       EXISTS (SELECT FROM renewed) AS alive,
       ARRAY(SELECT run_id FROM held) AS held_run_ids,
       ARRAY(SELECT run_id FROM held WHERE cancel_requested_at IS NOT NULL) AS cancel_run_ids`,
  byIndex,
)

/** Ends a session that holds nothing; one that still holds runs is left to the rescuer, at once. */
export const closeSession = statement<unknown, [id: string]>(
  'belfry_close_session',
  `
WITH held AS MATERIALIZED (
  SELECT FROM ${heldRuns('run_id', '$1')} AS its LIMIT 1
), ended AS (
  DELETE FROM belfry.session WHERE id = $1 AND NOT EXISTS (SELECT FROM held)
), over AS (
  DELETE FROM belfry.claim WHERE session_id = $1 AND NOT EXISTS (SELECT FROM held)
)
UPDATE belfry.session SET expires_at = least(expires_at, belfry.now())
WHERE id = $1 AND EXISTS (SELECT FROM held)`,
  byIndex,
)

/** What the session holds by the book, to compare with what the process knows. */
export const listHeldRuns = statement<
  { readonly run_id: string; readonly lease_epoch: number; readonly queue: string },
  [sessionId: string]
>(
  'belfry_list_held_runs',
  `SELECT run_id, lease_epoch, queue FROM ${heldRuns('run_id, lease_epoch, queue', '$1')} AS its`,
  byIndex,
)

/**
 * Gives unstarted runs back. One whose cancel was asked for meanwhile ends instead, as a run that is canceled
 * while it waits (statements/runs.ts): nobody else would end it before its deadline. Rows are locked in the
 * order of their ids, as by everybody who locks several. Of a job with limits they come back behind the
 * gate, and give up their slots: it may have been paused meanwhile.
 *
 * The gate is reckoned apart from the update: within its SET, Postgres 18 dies of it (the whole server
 * does) when the row was changed while this waited for it.
 */
export const handBackRuns = statement<
  { readonly run_id: string; readonly canceled: boolean; readonly timer_shards: readonly number[] | null },
  [sessionId: string, runIds: readonly string[], leaseEpochs: readonly number[]]
>(
  'belfry_hand_back_runs',
  `
WITH held AS MATERIALIZED (
  SELECT mine.*
  FROM (
    SELECT * FROM unnest($2::uuid[], $3::bigint[]) AS given (run_id, lease_epoch) ORDER BY run_id
  ) AS given
  CROSS JOIN LATERAL (
    SELECT ready.run_id, ready.tenant_id, ready.job_id, ready.queue, ready.lease_epoch,
           ready.cancel_requested_at IS NOT NULL AS canceled, ready.cancel_reason, ready.followed,
           ready.slotted
    FROM belfry.ready
    WHERE ready.run_id = given.run_id AND ready.lease_epoch = given.lease_epoch AND ready.session_id = $1
    FOR UPDATE
  ) AS mine
), placed AS MATERIALIZED (
  SELECT held.run_id, CASE WHEN (SELECT j.limited FROM belfry.job AS j WHERE j.id = held.job_id)
    THEN belfry.gate_of(held.job_id, held.queue, belfry.input_of(held.tenant_id, held.run_id)) END AS gate
  FROM held WHERE NOT canceled
), back AS (
  UPDATE belfry.ready AS run
  SET session_id = NULL, settled_by = NULL, claimed_at = NULL, deadline = NULL, progress = NULL,
      attempt = run.attempt - 1, slotted = false, gate_seen = false, gate = placed.gate
  FROM placed WHERE run.run_id = placed.run_id
), gone AS (
  DELETE FROM belfry.ready WHERE run_id = ANY (ARRAY(SELECT run_id FROM held WHERE canceled))
), history AS (
  INSERT INTO belfry.attempt
    (run_id, number, tenant_id, lease_epoch, outcome, run_state, reason, started_at, error_code,
     error_message)
  SELECT run_id, 0, tenant_id, lease_epoch, 'canceled', 'canceled',
         coalesce(cancel_reason, 'canceled_by_request'), belfry.now(), 'canceled',
         'Canceled by request while it waited.'
  FROM held WHERE canceled
)
SELECT run_id, canceled,
       (SELECT belfry.let_followers_go(array_agg(run_id)) FROM held
        WHERE canceled AND followed) AS timer_shards,
       ${freeSlots('held')}
FROM held`,
  byIndex,
)

/**
 * A session that is being renewed at this instant is locked, and passed over. Tells besides whether there are
 * claims to settle, of that age, and parked runs that are due: a look of its own would be a transaction more.
 */
export const endExpiredSessions = statement<
  { readonly session_ids: readonly string[]; readonly claims: boolean; readonly parked_due: boolean },
  [olderThanMs: number]
>(
  'belfry_end_expired_sessions',
  `
WITH ended AS (
  DELETE FROM belfry.session
  WHERE id = ANY (ARRAY(
    SELECT id FROM belfry.session WHERE expires_at <= belfry.now() FOR UPDATE SKIP LOCKED
  ))
  RETURNING id
)
SELECT (SELECT coalesce(json_agg(id), '[]') FROM ended) AS session_ids,
       EXISTS (
         SELECT FROM belfry.claim WHERE claimed_at <= belfry.now() - $1::float8 * interval '1 millisecond'
       ) AS claims,
       EXISTS (SELECT FROM belfry.callback WHERE due_at <= belfry.now()) AS parked_due`,
)
