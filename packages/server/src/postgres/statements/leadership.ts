/**
 * Leadership of the 64 shards (postgres/leadership.ts). All of one renewal runs in one transaction; shard
 * rows are always locked in the order of their numbers, by renewals and by fires alike, so none waits for
 * another in a circle.
 *
 *   a fire takes      FOR KEY SHARE        conflicts with a takeover only
 *   a renewal takes   FOR NO KEY UPDATE    neither waits for fires nor makes them wait
 *   a takeover takes  FOR UPDATE           only where no fire is under way
 */
import { statement } from '../statement.ts'

/** Enters this scheduler process, or renews it. */
export const renewNode = statement<
  { now_ms: number },
  [id: string, host: string, version: string, termMs: number]
>(
  'leadership_renew_node',
  `
  INSERT INTO belfry.scheduler_node AS node (id, host, version, expires_at)
  VALUES ($1::uuid, $2, $3, belfry.now() + $4::float8 * interval '1 millisecond')
  ON CONFLICT (id) DO UPDATE SET expires_at = excluded.expires_at
  RETURNING (extract(epoch FROM belfry.now()) * 1000)::float8 AS now_ms
  `,
)

/** Every process alive, in an order that all agree on. `ends_in_ms`: until its term runs out. */
export const liveNodes = statement<{ id: string; ends_in_ms: number }>(
  'leadership_live_nodes',
  `
  SELECT id, (extract(epoch FROM expires_at - belfry.now()) * 1000)::float8 AS ends_in_ms
  FROM belfry.scheduler_node
  WHERE expires_at > belfry.now()
  ORDER BY id
  `,
)

/** Locks what the node holds. */
export const lockOwnShards = statement<{ shard: number; term: number }, [nodeId: string]>(
  'leadership_lock_own',
  `
  SELECT shard, term::float8 AS term
  FROM belfry.shard_term
  WHERE owner_id = $1::uuid
  ORDER BY shard
  FOR NO KEY UPDATE
  `,
)

/** What nobody holds: free, or the term ran out; a term without an end ends with its holder. */
const isFree = `(owner_id IS NULL OR expires_at <= belfry.now()
      OR (expires_at = 'infinity' AND NOT EXISTS (
        SELECT FROM belfry.scheduler_node AS node
        WHERE node.id = shard_term.owner_id AND node.expires_at > belfry.now())))`

/** Looked at, not locked. */
export const findFreeShards = statement<{ shard: number }>(
  'leadership_find_free',
  `
  SELECT shard
  FROM belfry.shard_term
  WHERE ${isFree}
  ORDER BY shard
  `,
)

/**
 * Locks up to `limit` shards that nobody holds, of `among` where that is not null; leaves out those that
 * somebody takes or fires in now.
 */
export const lockFreeShards = statement<
  { shard: number },
  [nodeId: string, limit: number, among: readonly number[] | null]
>(
  'leadership_lock_free',
  `
  SELECT shard
  FROM belfry.shard_term
  WHERE owner_id IS DISTINCT FROM $1::uuid
    AND ${isFree}
    AND ($3::smallint[] IS NULL OR shard = ANY($3::smallint[]))
  ORDER BY shard
  LIMIT $2::int
  FOR UPDATE SKIP LOCKED
  `,
)

/** Renews shards that were locked as the node's own: same term, later end. */
export const renewShards = statement<never, [shards: readonly number[], termMs: number]>(
  'leadership_renew_shards',
  `
  UPDATE belfry.shard_term
  SET expires_at = belfry.now() + $2::float8 * interval '1 millisecond'
  WHERE shard = ANY($1::smallint[])
  `,
)

/** Takes shards that were locked as free: a new term begins. */
export const takeShards = statement<
  { shard: number; term: number },
  [nodeId: string, shards: readonly number[], termMs: number]
>(
  'leadership_take_shards',
  `
  UPDATE belfry.shard_term
  SET owner_id = $1::uuid, term = term + 1, expires_at = belfry.now() + $3::float8 * interval '1 millisecond'
  WHERE shard = ANY($2::smallint[])
  RETURNING shard, term::float8 AS term
  `,
)

/** Gives up shards that were locked as the node's own, so that anybody may take them at once. */
export const freeShards = statement<never, [shards: readonly number[]]>(
  'leadership_free_shards',
  `
  UPDATE belfry.shard_term
  SET owner_id = NULL, expires_at = '-infinity'
  WHERE shard = ANY($1::smallint[])
  `,
)

/**
 * Locks those of `shards` that the node holds under no term, or under one that has an end; leaves out those
 * that somebody fires in now.
 */
export const lockNewShards = statement<{ shard: number }, [nodeId: string, shards: readonly number[]]>(
  'leadership_lock_new',
  `
  SELECT shard
  FROM belfry.shard_term
  WHERE shard = ANY($2::smallint[]) AND (owner_id IS DISTINCT FROM $1::uuid OR expires_at < 'infinity')
  ORDER BY shard
  FOR UPDATE SKIP LOCKED
  `,
)

/** A term without an end for shards that were locked as new: the old one where the node held it. */
export const beginTerms = statement<never, [nodeId: string, shards: readonly number[]]>(
  'leadership_begin_terms',
  `
  UPDATE belfry.shard_term
  SET owner_id = $1::uuid, term = term + (owner_id IS DISTINCT FROM $1::uuid)::int, expires_at = 'infinity'
  WHERE shard = ANY($2::smallint[])
  `,
)

/** When the first shard of somebody else runs out. */
export const foreignExpiry = statement<{ ends_in_ms: number | null }, [nodeId: string]>(
  'leadership_foreign_expiry',
  `
  SELECT (extract(epoch FROM min(expires_at) - belfry.now()) * 1000)::float8 AS ends_in_ms
  FROM belfry.shard_term
  WHERE owner_id <> $1::uuid AND expires_at > belfry.now() AND expires_at < 'infinity'
  `,
)

/** Takes this process off the list. */
export const removeNode = statement<never, [nodeId: string]>(
  'leadership_remove_node',
  `DELETE FROM belfry.scheduler_node WHERE id = $1::uuid`,
)
