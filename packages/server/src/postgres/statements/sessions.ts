/**
 * The lease of a worker process: one row, one write a heartbeat, whatever the number of its runs. A lease
 * that ran out is never renewed: its holder may have been given up already.
 */
import { statement } from '../statement.ts'

/** Enters a worker process, with its first lease. */
export const openSession = statement<
  { readonly now_ms: number },
  [id: string, host: string, version: string, queues: readonly string[], slots: number, leaseMs: number]
>(
  'belfry_open_session',
  `
INSERT INTO belfry.session (id, host, version, queues, slots, expires_at)
VALUES ($1, $2, $3, $4::text[], $5, belfry.now() + $6::float8 * interval '1 millisecond')
RETURNING (extract(epoch FROM belfry.now()) * 1000)::float8 AS now_ms`,
)

/** Renews, and tells for which of its runs a cancel was asked. */
export const renewSession = statement<
  { readonly now_ms: number; readonly alive: boolean; readonly cancel_run_ids: readonly string[] },
  [id: string, leaseMs: number]
>(
  'belfry_renew_session',
  `
WITH renewed AS (
  UPDATE belfry.session
  SET heartbeat_at = belfry.now(), expires_at = belfry.now() + $2::float8 * interval '1 millisecond'
  WHERE id = $1 AND expires_at > belfry.now()
  RETURNING id
)
SELECT (extract(epoch FROM belfry.now()) * 1000)::float8 AS now_ms,
       EXISTS (SELECT FROM renewed) AS alive,
       ARRAY(
         SELECT run_id FROM belfry.ready WHERE session_id = $1 AND cancel_requested_at IS NOT NULL
       ) AS cancel_run_ids`,
)

/** Ends a session that holds nothing; one that still holds runs is left to the rescuer, at once. */
export const closeSession = statement<unknown, [id: string]>(
  'belfry_close_session',
  `
WITH ended AS (
  DELETE FROM belfry.session
  WHERE id = $1 AND NOT EXISTS (SELECT FROM belfry.ready WHERE session_id = $1)
)
UPDATE belfry.session SET expires_at = least(expires_at, belfry.now())
WHERE id = $1 AND EXISTS (SELECT FROM belfry.ready WHERE session_id = $1)`,
)

/** What the session holds by the book, to compare with what the process knows. */
export const listHeldRuns = statement<
  { readonly run_id: string; readonly lease_epoch: number; readonly queue: string },
  [sessionId: string]
>('belfry_list_held_runs', 'SELECT run_id, lease_epoch, queue FROM belfry.ready WHERE session_id = $1')

/** Gives unstarted runs back. A run whose cancel was asked for stays: its worker ends it. */
export const handBackRuns = statement<
  { readonly run_id: string },
  [sessionId: string, runIds: readonly string[], leaseEpochs: readonly number[]]
>(
  'belfry_hand_back_runs',
  `
UPDATE belfry.ready AS held
SET session_id = NULL, claimed_at = NULL, deadline = NULL, attempt = held.attempt - 1
FROM unnest($2::uuid[], $3::bigint[]) AS given (run_id, lease_epoch)
WHERE held.run_id = ANY ($2::uuid[]) AND held.run_id = given.run_id AND held.lease_epoch = given.lease_epoch
  AND held.session_id = $1 AND held.cancel_requested_at IS NULL
RETURNING held.run_id`,
)

/** A session that is being renewed at this instant is locked, and passed over. */
export const endExpiredSessions = statement<{ readonly id: string }>(
  'belfry_end_expired_sessions',
  `
DELETE FROM belfry.session
WHERE id = ANY (ARRAY(
  SELECT id FROM belfry.session WHERE expires_at <= belfry.now() FOR UPDATE SKIP LOCKED
))
RETURNING id`,
)
