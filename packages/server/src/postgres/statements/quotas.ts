/**
 * Quotas of tenants: what was set for them, how much there is, and the buckets of what is limited in time.
 * As belfry_app for the tenant of the transaction, or as belfry_platform for any.
 */
import { byIndex, statement } from '../statement.ts'
import { parked } from './callbacks.ts'

export type QuotaRow = { readonly quota: string; readonly most: string | null; readonly set_at: Date }

/** What was set for the tenant of the transaction. */
export const listOwnQuotas = statement<QuotaRow>(
  'quota_list_own',
  'SELECT quota, most, set_at FROM belfry.tenant_quota WHERE tenant_id = belfry.tenant_id()',
)

/** What was set for a tenant. */
export const listQuotasOf = statement<QuotaRow, [tenantId: string]>(
  'quota_list_of',
  'SELECT quota, most, set_at FROM belfry.tenant_quota WHERE tenant_id = $1',
)

/** Sets limits of a tenant; null: none. */
export const setQuotas = statement<
  unknown,
  [tenantId: string, quotas: readonly string[], most: readonly (number | null)[]]
>(
  'quota_set',
  `
INSERT INTO belfry.tenant_quota (tenant_id, quota, most)
SELECT $1, asked.quota, asked.most FROM unnest($2::text[], $3::bigint[]) AS asked (quota, most)
ON CONFLICT (tenant_id, quota) DO UPDATE SET most = excluded.most, set_at = excluded.set_at`,
)

/** Leaves limits of a tenant to the configuration again. */
export const resetQuotas = statement<unknown, [tenantId: string, quotas: readonly string[]]>(
  'quota_reset',
  'DELETE FROM belfry.tenant_quota WHERE tenant_id = $1 AND quota = ANY ($2::text[])',
)

/** What the gate holds of them; null: no limit. */
export const setGateQuotas = statement<
  unknown,
  [tenantId: string, runCap: number | null, startRate: number | null]
>('quota_set_gate', 'UPDATE belfry.tenant SET run_cap = $2, start_rate = $3 WHERE id = $1')

/** Until the end of the transaction nobody else of the tenant counts the same. */
export const lockQuota = statement<unknown, [quota: string]>(
  'quota_lock',
  `SELECT pg_advisory_xact_lock(
  hashtextextended('belfry.quota:' || $1 || ':' || belfry.tenant_id()::text, 0))`,
)

type Count = { readonly count: number }

/** Counted up to a limit, along an index that begins with the tenant. */
export const countJobs = statement<Count, [upTo: number]>(
  'quota_count_jobs',
  `
SELECT count(*)::int AS count FROM (
  SELECT FROM belfry.job
  WHERE tenant_id = belfry.tenant_id() AND deleted_at IS NULL AND workflow_id IS NULL LIMIT $1
) AS found`,
)

/** Those that are not deleted. */
export const countSchedules = statement<Count, [upTo: number]>(
  'quota_count_schedules',
  `
SELECT count(*)::int AS count FROM (
  SELECT FROM belfry.schedule WHERE tenant_id = belfry.tenant_id() AND deleted_at IS NULL LIMIT $1
) AS found`,
)

/** Those that are not deleted. */
export const countWorkflows = statement<Count, [upTo: number]>(
  'quota_count_workflows',
  `
SELECT count(*)::int AS count FROM (
  SELECT FROM belfry.workflow WHERE tenant_id = belfry.tenant_id() AND deleted_at IS NULL LIMIT $1
) AS found`,
)

/** Those that could be used. */
export const countKeys = statement<Count, [upTo: number]>(
  'quota_count_keys',
  `
SELECT count(*)::int AS count FROM (
  SELECT FROM belfry.api_key
  WHERE tenant_id = belfry.tenant_id() AND revoked_at IS NULL
    AND (expires_at IS NULL OR expires_at > belfry.now())
  LIMIT $1
) AS found`,
)

/** Whatever versions they have. */
export const countSecrets = statement<Count, [upTo: number]>(
  'quota_count_secrets',
  `
SELECT count(*)::int AS count FROM (
  SELECT FROM belfry.secret WHERE tenant_id = belfry.tenant_id() LIMIT $1
) AS found`,
)

/**
 * Those that wait or run. Of `ready` no index has all the runs of a tenant, so each kind goes by its own:
 * those that wait, those that targets took over, and those of workers, of which there are as many as they
 * have slots, whoever's they are.
 */
export const countRuns = statement<Count, [upTo: number]>(
  'quota_count_runs',
  `
SELECT count(*)::int AS count FROM (
  (SELECT FROM belfry.ready WHERE tenant_id = belfry.tenant_id() AND settled_by IS NULL LIMIT $1)
  UNION ALL
  (SELECT FROM belfry.delayed WHERE tenant_id = belfry.tenant_id() LIMIT $1)
  UNION ALL
  (SELECT FROM (
     SELECT run_id, lease_epoch FROM belfry.callback
     WHERE tenant_id = belfry.tenant_id() AND due_at IS NOT NULL ORDER BY accepted_at
   ) AS c
   CROSS JOIN LATERAL (
     -- one that has ended may be due until a sweep
     SELECT FROM belfry.ready
     WHERE ready.run_id = c.run_id AND ready.lease_epoch = c.lease_epoch AND ready.settled_by = ${parked}
     OFFSET 0
   ) AS still LIMIT $1)
  UNION ALL
  (SELECT FROM belfry.ready
   WHERE tenant_id = belfry.tenant_id() AND settled_by IS NOT NULL AND settled_by < ${parked} LIMIT $1)
) AS found`,
  byIndex,
)

export type TakenRow = { readonly taken: number; readonly tokens: number }

/**
 * Takes from a bucket: between need and want, or nothing. `tokens`: what is left. A bucket that was never
 * used is full. One that is asked for more than it can hold gives that when it is full.
 */
export const takeTokens = statement<
  TakenRow,
  [quota: string, perSecond: number, burst: number, need: number, want: number]
>(
  'quota_take_tokens',
  `
INSERT INTO belfry.quota_bucket AS b (tenant_id, quota, tokens, taken, counted_at)
VALUES (belfry.tenant_id(), $1, $3::float8 - greatest($4::float8, least($5::float8, $3::float8)),
        greatest($4::float8, least($5::float8, $3::float8)), belfry.now())
ON CONFLICT (tenant_id, quota) DO UPDATE SET (tokens, taken, counted_at) = (
  SELECT have.tokens - got.taken, got.taken, greatest(b.counted_at, excluded.counted_at)
  FROM (SELECT least($3::float8, b.tokens + $2::float8
          * greatest(0, extract(epoch FROM excluded.counted_at - b.counted_at)::float8))) AS have (tokens)
  CROSS JOIN LATERAL (
    SELECT CASE WHEN have.tokens >= least($4::float8, $3::float8)
             THEN greatest($4::float8, least($5::float8, floor(have.tokens))) ELSE 0 END
  ) AS got (taken)
)
RETURNING taken, tokens`,
)
