/**
 * Time that a test sets, for databases that were made for a test and go with it. `belfry.now()` is replaced
 * by one that reads a row, which only the owner of the database can do. It stands still between two moves.
 *
 * A move takes everything along that would run out by it: leases and terms, and the deadlines of runs under
 * way. To them no time passes, as if the machine had slept. The tables are locked first, so that no statement
 * writes an end that counts from the time before.
 */

/** Run one after the other. */
export const makeNowSettable = [
  'CREATE TABLE belfry.settable_now (instant timestamptz NOT NULL)',
  'CREATE UNIQUE INDEX settable_now_once ON belfry.settable_now ((true))',
  'INSERT INTO belfry.settable_now VALUES (pg_catalog.now())',
  'GRANT SELECT ON belfry.settable_now TO PUBLIC',
  `CREATE OR REPLACE FUNCTION belfry.now() RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE
RETURN (SELECT instant FROM belfry.settable_now)`,
] as const

/**
 * In one transaction; $1 of the last one: epoch ms. A lock that cannot be had at once fails, to be tried
 * again.
 */
export const moveNow = {
  begin: 'BEGIN',
  commit: 'COMMIT',
  rollBack: 'ROLLBACK',
  lock: [
    "SET LOCAL lock_timeout = '200ms'",
    'LOCK TABLE belfry.ready, belfry.callback, belfry.session, belfry.scheduler_node, belfry.shard_term ' +
      'IN EXCLUSIVE MODE',
  ],
  move: `
WITH moved AS (
  UPDATE belfry.settable_now SET instant = to_timestamp($1::float8 / 1000) RETURNING instant
), step AS (
  SELECT moved.instant - belfry.now() AS span FROM moved
), sessions AS (
  UPDATE belfry.session SET expires_at = expires_at + span, heartbeat_at = heartbeat_at + span FROM step
  WHERE expires_at > belfry.now()
), nodes AS (
  UPDATE belfry.scheduler_node SET expires_at = expires_at + span FROM step WHERE expires_at > belfry.now()
), terms AS (
  UPDATE belfry.shard_term SET expires_at = expires_at + span FROM step WHERE expires_at > belfry.now()
), callbacks AS (
  UPDATE belfry.callback SET due_at = due_at + span, report_by = report_by + span FROM step
  WHERE due_at > belfry.now()
)
UPDATE belfry.ready SET deadline = deadline + span FROM step WHERE session_id IS NOT NULL`,
} as const

/**
 * When the first planned time, delay or retry is due, epoch ms; null: none. Who waits for another run has no
 * time.
 */
export const readNextDue = `
SELECT (extract(epoch FROM least(
  (SELECT min(due_at) FROM belfry.timer),
  (SELECT min(due_at) FROM belfry.delayed WHERE after_run_id IS NULL AND depends_rule IS NULL)
)) * 1000)::float8 AS due_ms`

/** Runs that are under way, or that one of these routes may claim in one of these queues. */
export const readBusy = `
SELECT count(*)::int AS busy FROM belfry.ready
WHERE session_id IS NOT NULL OR (gate IS NULL AND handler = ANY ($1::text[]) AND queue = ANY ($2::text[]))`
