/**
 * Changes of what limits runs, as the API makes them for one tenant: pools, pauses, the limit of the tenant.
 * Whoever changes one holds the limits of the tenant alone (`holdLimits`), so that a job which is made at
 * this moment is judged by what was before or after, and then tells each job again whether anything may hold
 * its runs (`refreshLimited`). Jobs follow by a trigger (migrations/0017_gate.sql). What waits and what runs
 * is brought under the new limits by the gatekeeper (gate-walk.ts).
 */
import { statement } from '../statement.ts'

/** Jobs first, then the limits: as who edits a job does. */
export const holdLimits = statement<unknown>(
  'gate_hold_limits',
  `
WITH held AS MATERIALIZED (
  SELECT id FROM belfry.job WHERE tenant_id = belfry.tenant_id() ORDER BY id FOR NO KEY UPDATE
)
SELECT belfry.hold_limits(belfry.tenant_id(), count(*) >= 0) FROM held`,
)

/** No limit changes until the end of the transaction: for who looks at them and then writes a job. */
export const shareLimits = statement<unknown>(
  'gate_share_limits',
  'SELECT belfry.hold_limits(belfry.tenant_id(), false)',
)

/**
 * Jobs whose runs may be held now and were not, or the other way round; and the walk that follows. The same
 * as `belfry.job_limited`, of all jobs at once: what is asked of the tenant is asked once. Deleted jobs
 * too: their runs may still wait.
 */
export const refreshLimited = statement<unknown>(
  'gate_refresh_limited',
  `
WITH facts AS MATERIALIZED (
  SELECT coalesce((SELECT coalesce(run_limit, run_cap, start_rate) FROM belfry.tenant
                   WHERE id = belfry.tenant_id()) IS NOT NULL
           OR EXISTS (SELECT FROM belfry.queue_pause WHERE tenant_id = belfry.tenant_id()),
           false) AS all_jobs,
         ARRAY(SELECT host FROM belfry.pool
               WHERE tenant_id = belfry.tenant_id() AND host IS NOT NULL) AS hosts
), changed AS (
  UPDATE belfry.job AS j SET limited = NOT j.limited
  FROM facts
  WHERE j.tenant_id = belfry.tenant_id()
    AND j.limited <> (facts.all_jobs OR belfry.job_limits_itself(j)
      OR coalesce(j.target_host = ANY (facts.hosts), false))
  RETURNING 1
)
SELECT belfry.request_regate(belfry.tenant_id()) FROM (SELECT count(*) FROM changed) AS done`,
)

/** Sets or takes away the pause of a job; null: none. One that is paused keeps its first time. */
export const setJobPause = statement<unknown, [id: string, reason: string | null]>(
  'gate_set_job_pause',
  `
UPDATE belfry.job
SET paused_at = CASE WHEN $2::text IS NOT NULL THEN coalesce(paused_at, belfry.now()) END,
    paused_reason = $2::text
WHERE tenant_id = belfry.tenant_id() AND id = $1`,
)

/** Pauses a queue for the tenant; one that is paused keeps its time and gets the new reason. */
export const pauseQueue = statement<unknown, [queue: string, reason: string]>(
  'gate_pause_queue',
  `
INSERT INTO belfry.queue_pause (tenant_id, queue, reason) VALUES (belfry.tenant_id(), $1, $2)
ON CONFLICT (tenant_id, queue) DO UPDATE SET reason = excluded.reason`,
)

/** Ends the pause of a queue. */
export const resumeQueue = statement<unknown, [queue: string]>(
  'gate_resume_queue',
  'DELETE FROM belfry.queue_pause WHERE tenant_id = belfry.tenant_id() AND queue = $1',
)

/** How many runs of the tenant there may be at once, and are. */
export const readTenantLimit = statement<{ readonly run_limit: number | null; readonly used: number }>(
  'gate_read_tenant_limit',
  `
SELECT least(t.run_limit, t.run_cap) AS run_limit, (
  SELECT count(*)::int FROM belfry.slot AS s
  WHERE s.tenant_id = t.id AND s.limit_key = 'tenant' AND NOT s.freed
) AS used
FROM belfry.tenant AS t WHERE t.id = belfry.tenant_id()`,
)

/** Null: no limit. */
export const setTenantLimit = statement<unknown, [runLimit: number | null]>(
  'gate_set_tenant_limit',
  'UPDATE belfry.tenant SET run_limit = $1 WHERE id = belfry.tenant_id()',
)

export type PoolRow = {
  readonly id: string
  readonly name: string
  readonly slots: number | null
  readonly rate: unknown
  readonly host: string | null
  readonly version: number
  readonly created_at: Date
  readonly updated_at: Date
  readonly used: number
  readonly waiting: number
}

const columns = `
  p.id, p.name, p.slots, p.rate, p.host, p.version, p.created_at, p.updated_at,
  (SELECT coalesce(sum(s.weight), 0)::int FROM belfry.slot AS s
   WHERE s.tenant_id = p.tenant_id AND s.limit_key = 'pool:' || p.id::text AND NOT s.freed) AS used,
  (SELECT count(*)::int FROM (
     SELECT FROM belfry.gate_group AS g
     WHERE g.tenant_id = p.tenant_id
       AND g.waits_on IN ('slot:pool:' || p.id::text, 'rate:pool:' || p.id::text) LIMIT 1000
   ) AS part) AS waiting`

type PoolFields = [slots: number | null, rate: string | null, host: string | null]

/** A new pool. */
export const insertPool = statement<PoolRow, [id: string, name: string, ...PoolFields]>(
  'pool_insert',
  `
WITH p AS (
  INSERT INTO belfry.pool (id, tenant_id, name, slots, rate, host)
  VALUES ($1, belfry.tenant_id(), $2, $3, $4, $5) RETURNING *
)
SELECT ${columns} FROM p`,
)

/** All fields of a pool but its name. */
export const updatePool = statement<PoolRow, [id: string, ...PoolFields]>(
  'pool_update',
  `
WITH p AS (
  UPDATE belfry.pool
  SET slots = $2, rate = $3, host = $4, version = version + 1, updated_at = belfry.now()
  WHERE tenant_id = belfry.tenant_id() AND id = $1 RETURNING *
)
SELECT ${columns} FROM p`,
)

/** Deletes a pool; whether a job names it is the caller's to look at. */
export const removePool = statement<unknown, [id: string]>(
  'pool_remove',
  'DELETE FROM belfry.pool WHERE tenant_id = belfry.tenant_id() AND id = $1',
)

const one = `SELECT ${columns} FROM belfry.pool AS p WHERE p.tenant_id = belfry.tenant_id() AND p.id = $1`

/** One pool. */
export const findPool = statement<PoolRow, [id: string]>('pool_find', one)

/** Held until the end of the transaction. */
export const lockPool = statement<PoolRow, [id: string]>('pool_lock', `${one} FOR UPDATE OF p`)

/** Newest first. */
export const listPools = statement<PoolRow, [beforeId: string, limit: number, name: string | null]>(
  'pool_list',
  `
SELECT ${columns} FROM belfry.pool AS p
WHERE p.tenant_id = belfry.tenant_id() AND p.id < $1 AND ($3::text IS NULL OR p.name = $3::text)
ORDER BY p.id DESC LIMIT $2`,
)

/** How many pools there are. */
export const countPools = statement<{ readonly count: number }>(
  'pool_count',
  'SELECT count(*)::int AS count FROM belfry.pool WHERE tenant_id = belfry.tenant_id()',
)

/** Those of these names that there are. */
export const findPoolNames = statement<{ readonly name: string }, [names: readonly string[]]>(
  'pool_names',
  'SELECT name FROM belfry.pool WHERE tenant_id = belfry.tenant_id() AND name = ANY ($1::text[])',
)

/** A job that names the pool. */
export const findPoolUser = statement<{ readonly name: string }, [poolName: string]>(
  'pool_user',
  `
SELECT j.name FROM belfry.job AS j
WHERE j.tenant_id = belfry.tenant_id() AND j.deleted_at IS NULL
  AND j.concurrency -> 'pools' @> jsonb_build_array(jsonb_build_object('name', $1::text))
LIMIT 1`,
)
