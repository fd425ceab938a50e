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

/** `days` days from yesterday, by database time. */
export const makePartitions = statement<{ readonly name: string }, [days: number]>(
  'belfry_make_partitions',
  `
SELECT name FROM belfry.make_partitions((belfry.now() AT TIME ZONE 'UTC')::date - 1, $1) AS made (name)`,
)

/** Drops the days before the retention, by database time; answers their names. */
export const dropPartitions = statement<{ readonly name: string }, [retentionDays: number]>(
  'belfry_drop_partitions',
  `
SELECT name FROM belfry.drop_partitions((belfry.now() AT TIME ZONE 'UTC')::date - $1::int) AS dropped (name)`,
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

/** A node that ran out a day ago is of no interest, not even to a person who looks. */
export const deleteDeadNodes = statement<{ readonly count: number }>(
  'belfry_delete_dead_nodes',
  `
WITH deleted AS (
  DELETE FROM belfry.scheduler_node WHERE expires_at < belfry.now() - interval '1 day' RETURNING 1
)
SELECT count(*)::int AS count FROM deleted`,
)
