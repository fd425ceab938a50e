/**
 * The rows by which processes tell that they are there, and how fast runs go (migrations/0028_nodes.sql). A
 * few small writes a minute for each process.
 */
import { byIndex, statement } from '../statement.ts'

/** Enters a process, or renews its row. */
export const reportNode = statement<
  { readonly now_ms: number },
  [
    id: string,
    host: string,
    version: string,
    roles: readonly string[],
    lifeMs: number,
    skewMs: number | null,
    skewErrorMs: number | null,
    lagMs: number | null,
    workerQueues: readonly string[] | null,
    workerSlots: number | null,
    workerBusy: number | null,
    parts: string,
  ]
>(
  'node_report',
  `
INSERT INTO belfry.node AS node
  (id, host, version, roles, expires_at, skew_ms, skew_error_ms, lag_ms, worker_queues, worker_slots,
   worker_busy, parts)
VALUES ($1, $2, $3, $4::text[], belfry.now() + $5::float8 * interval '1 millisecond', $6, $7, $8, $9::text[],
        $10, $11, $12::jsonb)
ON CONFLICT (id) DO UPDATE
SET reported_at = belfry.now(), expires_at = excluded.expires_at, skew_ms = excluded.skew_ms,
    skew_error_ms = excluded.skew_error_ms, lag_ms = excluded.lag_ms, worker_queues = excluded.worker_queues,
    worker_slots = excluded.worker_slots, worker_busy = excluded.worker_busy, parts = excluded.parts
RETURNING (extract(epoch FROM belfry.now()) * 1000)::float8 AS now_ms`,
)

/** Takes a process off the list. */
export const removeReport = statement<never, [id: string]>(
  'node_remove',
  'DELETE FROM belfry.node WHERE id = $1',
)

/** What is left of a figure after the time since it was noted: half of it a minute later. */
export const fading = (noted: string): string =>
  `power(0.5, least(500, greatest(0, extract(epoch FROM belfry.now() - ${noted})::float8 / 60)))`

/** Adds what ended to what is left of before, in one order of rows for all processes. */
export const notePace = statement<
  never,
  [
    tenantIds: readonly string[],
    queues: readonly string[],
    kinds: readonly string[],
    attempts: readonly number[],
    busyMs: readonly number[],
  ]
>(
  'node_note_pace',
  `
INSERT INTO belfry.queue_pace AS pace (tenant_id, queue, kind, attempts, busy_ms)
SELECT tenant_id, queue, kind, attempts, busy_ms
FROM unnest($1::uuid[], $2::text[], $3::text[], $4::float8[], $5::float8[])
  AS ended (tenant_id, queue, kind, attempts, busy_ms)
ORDER BY queue, kind, tenant_id
ON CONFLICT (queue, kind, tenant_id) DO UPDATE
SET attempts = pace.attempts * ${fading('pace.noted_at')} + excluded.attempts,
    busy_ms = pace.busy_ms * ${fading('pace.noted_at')} + excluded.busy_ms, noted_at = belfry.now()`,
)

/** Processes that have been silent for long, and queues in which nothing has ended for long. */
export const forgetNodes = statement<never, [silentMinutes: number, idleHours: number]>(
  'node_forget',
  `
WITH silent AS (
  DELETE FROM belfry.node WHERE expires_at < belfry.now() - $1::int * interval '1 minute'
)
DELETE FROM belfry.queue_pace WHERE ctid = ANY (ARRAY(
  SELECT ctid FROM belfry.queue_pace WHERE noted_at < belfry.now() - $2::int * interval '1 hour'
  ORDER BY noted_at LIMIT 10000 FOR UPDATE SKIP LOCKED
))`,
  byIndex,
)
