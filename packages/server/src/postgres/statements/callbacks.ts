/**
 * Runs that their target took over (migrations/0041_callbacks.sql). Whoever locks rows of both tables takes
 * that of `ready` first.
 */
import { parkedSession } from '../../domain/parked.ts'
import { byIndex, statement } from '../statement.ts'

/** The id of the session that stands for no worker, as SQL. */
export const parked = `'${parkedSession}'::uuid`

type Attempt = [tenantId: string, runId: string, leaseEpoch: number]

/** Stores the hash of the token of an attempt; no row: the session does not hold the run any more. */
export const openCallback = statement<
  { readonly run_id: string },
  [...Attempt, sessionId: string, tokenHash: Uint8Array]
>(
  'callback_open',
  `
INSERT INTO belfry.callback (tenant_id, run_id, lease_epoch, token_hash)
SELECT ready.tenant_id, ready.run_id, ready.lease_epoch, $5::bytea
FROM belfry.ready
WHERE ready.run_id = $2 AND ready.tenant_id = $1 AND ready.lease_epoch = $3 AND ready.session_id = $4
RETURNING run_id`,
  byIndex,
)

/**
 * Takes a run from its worker and parks it; no row: the worker does not hold it any more. One that is parked
 * already keeps its times.
 */
export const parkRun = statement<
  { readonly run_id: string },
  [...Attempt, sessionId: string, deadlineMs: number, heartbeatMs: number | null]
>(
  'callback_park',
  `
WITH held AS MATERIALIZED (
  SELECT ready.run_id, ready.session_id,
    least(belfry.now() + $5::float8 * interval '1 millisecond', ready.run_deadline) AS report_by
  FROM belfry.ready
  WHERE ready.run_id = $2 AND ready.tenant_id = $1 AND ready.lease_epoch = $3
    AND ready.session_id IN ($4, ${parked})
  FOR UPDATE
), noted AS (
  UPDATE belfry.callback AS c
  SET accepted_at = belfry.now(), report_by = held.report_by, heartbeat_ms = $6::int,
    due_at = least(held.report_by, belfry.now() + $6::float8 * interval '1 millisecond')
  FROM held
  WHERE c.tenant_id = $1 AND c.run_id = $2 AND c.lease_epoch = $3 AND held.session_id = $4
  RETURNING c.due_at
), moved AS (
  UPDATE belfry.ready SET session_id = ${parked}, settled_by = ${parked}, deadline = noted.due_at
  FROM noted WHERE ready.run_id = $2
)
SELECT held.run_id FROM held WHERE held.session_id = ${parked} OR EXISTS (SELECT FROM noted)`,
  byIndex,
)

export type CallbackRow = {
  readonly tenant_id: string
  readonly run_id: string
  readonly lease_epoch: number
  readonly session_id: string | null
  readonly job_id: string | null
  readonly job_version: number | null
  readonly cancel_requested: boolean
  readonly claimed_at_ms: number | null
  readonly report_by_ms: number | null
  readonly heartbeat_by_ms: number | null
  readonly now_ms: number
}

/** The attempt that a token is for, and who holds its run under the epoch of the token. */
export const findCallback = statement<CallbackRow, [tokenHash: Uint8Array]>(
  'callback_find',
  `
SELECT c.tenant_id, c.run_id, c.lease_epoch, mine.session_id, its.job_id, its.job_version,
  coalesce(mine.canceled, false) AS cancel_requested, mine.claimed_at_ms,
  (extract(epoch FROM c.report_by) * 1000)::float8 AS report_by_ms,
  CASE WHEN c.heartbeat_ms IS NOT NULL
    THEN (extract(epoch FROM c.due_at) * 1000)::float8 END AS heartbeat_by_ms,
  (extract(epoch FROM belfry.now()) * 1000)::float8 AS now_ms
FROM belfry.callback AS c
LEFT JOIN LATERAL (
  SELECT ready.session_id,
    ready.cancel_requested_at IS NOT NULL AS canceled,
    (extract(epoch FROM ready.claimed_at) * 1000)::float8 AS claimed_at_ms
  FROM belfry.ready
  WHERE ready.run_id = c.run_id AND ready.lease_epoch = c.lease_epoch AND ready.session_id IS NOT NULL
  OFFSET 0
) AS mine ON true
LEFT JOIN LATERAL (
  SELECT run.job_id, run.job_version FROM belfry.run
  WHERE run.tenant_id = c.tenant_id AND run.id = c.run_id
  OFFSET 0
) AS its ON true
WHERE c.token_hash = $1`,
  byIndex,
)

/** Notes a sign of life. The deadline moves with it, where signs are asked for and the run is parked. */
export const hearOfRun = statement<unknown, Attempt>(
  'callback_hear',
  `
WITH held AS MATERIALIZED (
  SELECT ready.session_id FROM belfry.ready
  WHERE ready.run_id = $2 AND ready.tenant_id = $1 AND ready.lease_epoch = $3
  FOR NO KEY UPDATE
), noted AS (
  UPDATE belfry.callback AS c
  SET heard_at = belfry.now(),
    due_at = CASE WHEN c.accepted_at IS NOT NULL
      THEN least(c.report_by, belfry.now() + c.heartbeat_ms * interval '1 millisecond') END
  FROM held
  WHERE c.tenant_id = $1 AND c.run_id = $2 AND c.lease_epoch = $3
  RETURNING c.due_at, held.session_id
)
UPDATE belfry.ready SET deadline = noted.due_at
FROM noted WHERE ready.run_id = $2 AND noted.session_id = ${parked} AND noted.due_at IS NOT NULL`,
  byIndex,
)

/** How an attempt ended, by its run and epoch. */
export const findEndOfAttempt = statement<
  {
    readonly outcome: string
    readonly error_code: string | null
    readonly run_state: string | null
    readonly same_result: boolean
  },
  [...Attempt, result: string | null]
>(
  'callback_find_end',
  `
SELECT outcome, error_code, run_state, result IS NOT DISTINCT FROM $4::jsonb AS same_result
FROM belfry.attempt
WHERE run_id = $2 AND tenant_id = $1 AND lease_epoch = $3 AND number > 0
ORDER BY number DESC LIMIT 1`,
)

/** Whether the rescuer has something to do here. */
export const anyCallbackDue = statement<{ readonly due: boolean }>(
  'callback_any_due',
  'SELECT EXISTS (SELECT FROM belfry.callback WHERE due_at <= belfry.now()) AS due',
)

/** The one of an attempt that is over is due no more. */
export const settleCallback = statement<unknown, Attempt>(
  'callback_settle_one',
  `
UPDATE belfry.callback AS c SET due_at = NULL
WHERE c.tenant_id = $1 AND c.run_id = $2 AND c.lease_epoch = $3 AND c.due_at IS NOT NULL
  AND NOT EXISTS (SELECT FROM belfry.ready WHERE ready.run_id = $2 AND ready.lease_epoch = $3)`,
  byIndex,
)

/** Those of attempts that are over are due no more; so many at once. */
export const settleCallbacks = statement<unknown, [limit: number]>(
  'callback_settle',
  `
UPDATE belfry.callback SET due_at = NULL
WHERE ctid = ANY (ARRAY(
  SELECT c.ctid FROM belfry.callback AS c
  WHERE c.due_at <= belfry.now() AND NOT EXISTS (
    SELECT FROM belfry.ready WHERE ready.run_id = c.run_id AND ready.lease_epoch = c.lease_epoch)
  ORDER BY c.due_at LIMIT $1 FOR UPDATE SKIP LOCKED
))`,
  byIndex,
)

/** Deletes those of attempts that are over, a week after they were made, at most `limit` at once. */
export const deleteOldCallbacks = statement<{ readonly count: number }, [limit: number]>(
  'callback_delete_old',
  `
WITH deleted AS (
  DELETE FROM belfry.callback WHERE ctid = ANY (ARRAY(
    SELECT c.ctid FROM belfry.callback AS c
    WHERE c.created_at < belfry.now() - interval '7 days' AND NOT EXISTS (
      SELECT FROM belfry.ready WHERE ready.run_id = c.run_id AND ready.lease_epoch = c.lease_epoch)
    ORDER BY c.created_at LIMIT $1
  ))
  RETURNING 1
)
SELECT count(*)::int AS count FROM deleted`,
  byIndex,
)

/** What is awaited of the target that took a run over. Epoch ms. */
export type AwaitedJson = {
  readonly acceptedAtMs: number
  readonly reportByMs: number
  readonly heardAtMs: number | null
  readonly heartbeatByMs: number | null
}

const epochMs = (instant: string): string => `(extract(epoch FROM ${instant}) * 1000)::float8`

/** A column of AwaitedJson; null: the run is not parked. `ready`: its row, or one of nulls. */
export const awaitedOf = (tenantId: string, ready: string): string => `(
  SELECT jsonb_build_object('acceptedAtMs', ${epochMs('c.accepted_at')},
    'reportByMs', ${epochMs('c.report_by')}, 'heardAtMs', ${epochMs('c.heard_at')},
    'heartbeatByMs', CASE WHEN c.heartbeat_ms IS NOT NULL THEN ${epochMs('c.due_at')} END)
  FROM belfry.callback AS c
  WHERE ${ready}.session_id = ${parked} AND c.tenant_id = ${tenantId} AND c.run_id = ${ready}.run_id
    AND c.lease_epoch = ${ready}.lease_epoch AND c.accepted_at IS NOT NULL)`
