/**
 * Dedupe keys (migrations/0018_dedupe.sql): locked first, judged then. Two statements, because only the
 * second one's snapshot sees what those did whose commit the first one waited for.
 */
import { byIndex, statement } from '../statement.ts'

/**
 * Locks the rows of keys, made where there are none, in one order by all who lock several. While another
 * transaction holds one, this waits for its end.
 */
export const lockDedupeKeys = statement<unknown, [jobIds: readonly string[], keys: readonly string[]]>(
  'dedupe_lock',
  `
INSERT INTO belfry.dedupe (tenant_id, job_id, key)
SELECT belfry.tenant_id(), job_id, key
FROM (SELECT DISTINCT job_id, key FROM unnest($1::uuid[], $2::text[]) AS asked (job_id, key)) AS wanted
ORDER BY job_id, key
ON CONFLICT (tenant_id, job_id, key) DO UPDATE SET key = excluded.key`,
)

/** Of those keys, which are held at this time and by what run. */
export const findHeldKeys = statement<
  { job_id: string; key: string; run_id: string },
  [jobIds: readonly string[], keys: readonly string[], now: string]
>(
  'dedupe_find_held',
  `
SELECT held.job_id, held.key, held.run_id
FROM unnest($1::uuid[], $2::text[]) AS wanted (job_id, key)
CROSS JOIN LATERAL (
  SELECT * FROM belfry.dedupe
  WHERE tenant_id = belfry.tenant_id() AND job_id = wanted.job_id AND key = wanted.key
    AND run_id IS NOT NULL OFFSET 0
) AS held
WHERE CASE WHEN held.held_until IS NOT NULL THEN held.held_until > $3
           ELSE coalesce((SELECT true FROM belfry.ready WHERE ready.run_id = held.run_id),
                         (SELECT true FROM belfry.delayed WHERE delayed.run_id = held.run_id), false) END`,
  byIndex,
)

/** Hands keys, which the transaction has locked, to runs. */
export const holdDedupeKeys = statement<
  unknown,
  [
    jobIds: readonly string[],
    keys: readonly string[],
    runIds: readonly string[],
    heldUntil: readonly (string | null)[],
  ]
>(
  'dedupe_hold',
  `
UPDATE belfry.dedupe SET run_id = taken.run_id, held_until = taken.held_until
FROM unnest($1::uuid[], $2::text[], $3::uuid[], $4::timestamptz[]) AS taken (job_id, key, run_id, held_until)
WHERE dedupe.tenant_id = belfry.tenant_id() AND dedupe.job_id = taken.job_id AND dedupe.key = taken.key`,
  byIndex,
)

/** Deletes keys that no run holds any more, at most `limit` of either kind. Skips those in use. */
export const deleteFreeDedupeKeys = statement<{ readonly count: number }, [limit: number]>(
  'belfry_delete_free_dedupe_keys',
  `
WITH by_time AS (
  SELECT tenant_id, job_id, key FROM belfry.dedupe
  WHERE held_until <= belfry.now() ORDER BY held_until LIMIT $1 FOR UPDATE SKIP LOCKED
), by_run AS (
  SELECT tenant_id, job_id, key FROM belfry.dedupe
  WHERE held_until IS NULL AND run_id < belfry.uuid_floor(belfry.now() - interval '1 minute')
    AND NOT EXISTS (SELECT FROM belfry.ready WHERE ready.run_id = dedupe.run_id)
    AND NOT EXISTS (SELECT FROM belfry.delayed WHERE delayed.run_id = dedupe.run_id)
  ORDER BY run_id LIMIT $1 FOR UPDATE SKIP LOCKED
), gone AS (
  DELETE FROM belfry.dedupe USING (SELECT * FROM by_time UNION ALL SELECT * FROM by_run) AS free
  WHERE dedupe.tenant_id = free.tenant_id AND dedupe.job_id = free.job_id AND dedupe.key = free.key
  RETURNING dedupe.held_until
)
SELECT greatest(count(held_until), count(*) - count(held_until))::int AS count FROM gone`,
  byIndex,
)
