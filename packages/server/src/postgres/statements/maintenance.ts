/**
 * The pruner's housekeeping: partitions by database time, and rows that ran out. The functions that make and
 * drop partitions are in the migrations, because only the owner of the tables may do that.
 */
import { statement } from '../statement.ts'

/**
 * Making and dropping partitions locks tables for an instant; behind a long query it would make everybody
 * wait in turn. So it gives up after two seconds and comes back later.
 */
export const limitLockWait = statement<unknown>(
  'belfry_limit_lock_wait',
  "SELECT set_config('lock_timeout', '2s', true)",
)

/** Days (UTC, by database time) that lack a partition and need one, the most urgent first. */
export const listMissingDays = statement<
  { readonly day: string },
  [aheadDays: number, retentionDays: number, limit: number]
>(
  'belfry_list_missing_days',
  `
SELECT day FROM (SELECT (belfry.now() AT TIME ZONE 'UTC')::date AS today) AS clock,
  belfry.missing_days(today, $1::int, today - $2::int, $3::int) AS missing (day)`,
)

/** Makes what a day lacks; answers the names. */
export const makePartitions = statement<{ readonly name: string }, [day: string]>(
  'belfry_make_partitions',
  'SELECT name FROM belfry.make_partitions($1::date) AS made (name)',
)

/** Days before the retention, by database time, that still have partitions; oldest first. */
export const listOldDays = statement<{ readonly day: string }, [retentionDays: number, limit: number]>(
  'belfry_list_old_days',
  `
SELECT DISTINCT to_date(right(c.relname, 8), 'YYYYMMDD') AS day
FROM pg_catalog.pg_inherits i
JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid
JOIN pg_catalog.pg_class p ON p.oid = i.inhparent
WHERE p.relnamespace = 'belfry'::regnamespace
  AND p.relname IN ('run', 'attempt', 'run_log', 'occurrence', 'workflow_run')
  AND c.relname ~ '_[0-9]{8}$'
  AND to_date(right(c.relname, 8), 'YYYYMMDD') < (belfry.now() AT TIME ZONE 'UTC')::date - $1::int
ORDER BY day LIMIT $2`,
)

/** Drops the partitions of a day, except those in which a run is still alive; answers their names. */
export const dropPartitions = statement<{ readonly name: string }, [day: string]>(
  'belfry_drop_partitions',
  'SELECT name FROM belfry.drop_partitions($1::date) AS dropped (name)',
)

/** Deletes from the default partitions what is older than the retention, at most `limit` rows a table. */
export const pruneDefault = statement<{ readonly count: number }, [retentionDays: number, limit: number]>(
  'belfry_prune_default',
  `
SELECT belfry.prune_default((belfry.now() AT TIME ZONE 'UTC')::date - $1::int, $2::int) AS count`,
)

/** Deletes keys that ran out, oldest first, at most `limit` at once. */
export const deleteExpiredIdempotencyKeys = statement<{ readonly count: number }, [limit: number]>(
  'belfry_delete_expired_idempotency_keys',
  `
WITH expired AS (
  SELECT ctid FROM belfry.idempotency_key WHERE expires_at <= belfry.now() ORDER BY expires_at LIMIT $1
), deleted AS (
  DELETE FROM belfry.idempotency_key WHERE ctid = ANY (ARRAY(SELECT ctid FROM expired)) RETURNING 1
)
SELECT count(*)::int AS count FROM deleted`,
)

/** Deletes replans that ended before the retention, oldest first, at most `limit` at once. */
export const deleteOldReplans = statement<{ readonly count: number }, [retentionDays: number, limit: number]>(
  'belfry_delete_old_replans',
  `
WITH old AS (
  SELECT id FROM belfry.replan
  WHERE ended_at IS NOT NULL AND ended_at < belfry.now() - make_interval(days => $1)
  ORDER BY ended_at LIMIT $2
), deleted AS (
  DELETE FROM belfry.replan WHERE id = ANY (ARRAY(SELECT id FROM old)) RETURNING 1
)
SELECT count(*)::int AS count FROM deleted`,
)

/** A node that ran out a day ago is of no interest, not even to a person who looks. */
export const deleteDeadNodes = statement<{ readonly count: number }>(
  'belfry_delete_dead_nodes',
  `
WITH deleted AS (
  DELETE FROM belfry.scheduler_node WHERE expires_at < belfry.now() - interval '1 day' RETURNING 1
)
SELECT count(*)::int AS count FROM deleted`,
)
