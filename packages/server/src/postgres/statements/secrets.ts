/**
 * Secrets: managed by the API for one tenant, which never selects what is sealed; read by the engine when an
 * attempt begins; and the keys of tenants, which the platform wraps anew.
 */
import { byIndex, statement } from '../statement.ts'

export type SecretRow = {
  id: string
  name: string
  description: string
  version: number
  revision: number
  created_at: Date
  updated_at: Date
}

const columns = 's.id, s.name, s.description, s.version, s.revision, s.created_at, s.updated_at'

/** A secret and its first version. */
export const insertSecret = statement<
  SecretRow,
  [id: string, name: string, description: string, sealed: Uint8Array, createdBy: string]
>(
  'secret_insert',
  `
WITH s AS (
  INSERT INTO belfry.secret (tenant_id, id, name, description) VALUES (belfry.tenant_id(), $1, $2, $3)
  RETURNING *
), v AS (
  INSERT INTO belfry.secret_version (tenant_id, secret_id, version, sealed, created_by)
  SELECT tenant_id, id, version, $4, $5 FROM s
)
SELECT ${columns} FROM s`,
)

const one = `SELECT ${columns} FROM belfry.secret s WHERE s.tenant_id = belfry.tenant_id() AND s.id = $1`

/** One secret. */
export const findSecret = statement<SecretRow, [id: string]>('secret_find', one)

/** Likewise, held against every change. */
export const lockSecret = statement<SecretRow, [id: string]>('secret_lock', `${one} FOR UPDATE`)

/** Newest first, a page at a time; or the one of a name. */
export const listSecrets = statement<
  SecretRow & { grants: number },
  [beforeId: string, limit: number, name: string | null]
>(
  'secret_list',
  `
SELECT ${columns},
  (SELECT count(*)::int FROM belfry.secret_grant g
   WHERE g.tenant_id = s.tenant_id AND g.secret_id = s.id) AS grants
FROM belfry.secret s
WHERE s.tenant_id = belfry.tenant_id() AND s.id < $1 AND ($3::text IS NULL OR s.name = $3)
ORDER BY s.id DESC LIMIT $2`,
)

/** Its description alone. */
export const describeSecret = statement<SecretRow, [id: string, description: string]>(
  'secret_describe',
  `
UPDATE belfry.secret s SET description = $2, revision = revision + 1, updated_at = belfry.now()
WHERE s.tenant_id = belfry.tenant_id() AND s.id = $1
RETURNING ${columns}`,
)

/** A new version, the current one from now on; those below the fifth parameter go. */
export const rotateSecret = statement<
  SecretRow,
  [id: string, version: number, sealed: Uint8Array, createdBy: string, keepFrom: number]
>(
  'secret_rotate',
  `
WITH v AS (
  INSERT INTO belfry.secret_version (tenant_id, secret_id, version, sealed, created_by)
  VALUES (belfry.tenant_id(), $1, $2, $3, $4)
), gone AS (
  DELETE FROM belfry.secret_version
  WHERE tenant_id = belfry.tenant_id() AND secret_id = $1 AND version < $5
)
UPDATE belfry.secret s SET version = $2, revision = revision + 1, updated_at = belfry.now()
WHERE s.tenant_id = belfry.tenant_id() AND s.id = $1
RETURNING ${columns}`,
)

/** Another of its versions is the current one; whether it is kept is the caller's to look at. */
export const restoreSecret = statement<SecretRow, [id: string, version: number]>(
  'secret_restore',
  `
UPDATE belfry.secret s SET version = $2, revision = revision + 1, updated_at = belfry.now()
WHERE s.tenant_id = belfry.tenant_id() AND s.id = $1
RETURNING ${columns}`,
)

/** With its versions. */
export const removeSecret = statement<unknown, [id: string]>(
  'secret_remove',
  'DELETE FROM belfry.secret WHERE tenant_id = belfry.tenant_id() AND id = $1',
)

/** Which of these names there are. */
export const listSecretNames = statement<{ name: string }, [names: readonly string[]]>(
  'secret_names',
  'SELECT name FROM belfry.secret WHERE tenant_id = belfry.tenant_id() AND name = ANY ($1::text[])',
)

export type SecretVersionRow = { version: number; created_by: string; created_at: Date }

/** Versions that are kept, newest first. */
export const listSecretVersions = statement<SecretVersionRow, [secretId: string]>(
  'secret_versions',
  `
SELECT version, created_by, created_at FROM belfry.secret_version
WHERE tenant_id = belfry.tenant_id() AND secret_id = $1 ORDER BY version DESC`,
)

export type SecretGrantRow = {
  grantee_kind: string
  grantee_id: string
  grantee_name: string | null
  targets: string[] | null
  created_by: string
  created_at: Date
}

/** Who may use it, newest first. */
export const listSecretGrants = statement<SecretGrantRow, [secretId: string]>(
  'secret_grants',
  `
SELECT g.grantee_kind, g.grantee_id, g.targets, g.created_by, g.created_at,
       coalesce(j.name, w.name, a.name) AS grantee_name
FROM belfry.secret_grant g
     LEFT JOIN belfry.job j ON g.grantee_kind = 'job' AND j.tenant_id = g.tenant_id AND j.id = g.grantee_id
                               AND j.deleted_at IS NULL
     LEFT JOIN belfry.workflow w ON g.grantee_kind = 'workflow' AND w.tenant_id = g.tenant_id
                                    AND w.id = g.grantee_id AND w.deleted_at IS NULL
     LEFT JOIN belfry.service_account a ON g.grantee_kind = 'service_account' AND a.tenant_id = g.tenant_id
                                           AND a.id = g.grantee_id
WHERE g.tenant_id = belfry.tenant_id() AND g.secret_id = $1
ORDER BY g.created_at DESC, g.grantee_id`,
)

/** A grant; one of before is replaced. */
export const upsertSecretGrant = statement<
  unknown,
  [secretId: string, kind: string, granteeId: string, targets: readonly string[] | null, createdBy: string]
>(
  'secret_grant_upsert',
  `
INSERT INTO belfry.secret_grant (tenant_id, secret_id, grantee_kind, grantee_id, targets, created_by)
VALUES (belfry.tenant_id(), $1, $2, $3, $4, $5)
ON CONFLICT (tenant_id, secret_id, grantee_kind, grantee_id)
DO UPDATE SET targets = excluded.targets, created_by = excluded.created_by, created_at = excluded.created_at`,
)

/** Takes a grant back. */
export const deleteSecretGrant = statement<
  { grantee_id: string },
  [secretId: string, kind: string, granteeId: string]
>(
  'secret_grant_delete',
  `
DELETE FROM belfry.secret_grant
WHERE tenant_id = belfry.tenant_id() AND secret_id = $1 AND grantee_kind = $2 AND grantee_id = $3
RETURNING grantee_id`,
)

const grantee = (table: string, rest: string) => `
SELECT id, name FROM belfry.${table} WHERE tenant_id = belfry.tenant_id() AND name = $1 AND ${rest}`

type GranteeRow = { id: string; name: string }

/** A job by its name, not one of a workflow's own. */
export const findGrantedJob = statement<GranteeRow, [name: string]>(
  'secret_grantee_job',
  grantee('job', 'deleted_at IS NULL AND workflow_id IS NULL'),
)

/** A workflow by its name. */
export const findGrantedWorkflow = statement<GranteeRow, [name: string]>(
  'secret_grantee_workflow',
  grantee('workflow', 'deleted_at IS NULL'),
)

/** A service account by its name. */
export const findGrantedAccount = statement<GranteeRow, [name: string]>(
  'secret_grantee_account',
  grantee('service_account', 'disabled_at IS NULL'),
)

/** The handlers of a workflow's own jobs. */
export const listWorkflowHandlers = statement<{ handler: { kind: string } }, [workflowId: string]>(
  'secret_workflow_handlers',
  `
SELECT definition -> 'handler' AS handler FROM belfry.job
WHERE tenant_id = belfry.tenant_id() AND workflow_id = $1 AND deleted_at IS NULL`,
)

export type TenantKeyRow = { wrapper_id: string; wrapped: Buffer }

/** The key of the tenant of this transaction. */
export const findTenantKey = statement<TenantKeyRow>(
  'tenant_key_find',
  'SELECT wrapper_id, wrapped FROM belfry.tenant_key WHERE tenant_id = belfry.tenant_id()',
)

/** Stored unless there is one. */
export const insertTenantKey = statement<unknown, [wrapperId: string, wrapped: Uint8Array]>(
  'tenant_key_insert',
  `
INSERT INTO belfry.tenant_key (tenant_id, wrapper_id, wrapped) VALUES (belfry.tenant_id(), $1, $2)
ON CONFLICT (tenant_id) DO NOTHING`,
)

/** Keys that another wrapped, for one step, by their tenants. */
export const listTenantKeys = statement<
  TenantKeyRow & { tenant_id: string },
  [wrapperId: string, afterTenantId: string, limit: number]
>(
  'tenant_key_list',
  `
SELECT tenant_id, wrapper_id, wrapped FROM belfry.tenant_key
WHERE wrapper_id <> $1 AND tenant_id > $2 ORDER BY tenant_id LIMIT $3`,
)

/** The same key, wrapped by another, unless somebody else has done that meanwhile. */
export const replaceTenantKey = statement<
  { tenant_id: string },
  [tenantId: string, before: Uint8Array, wrapperId: string, wrapped: Uint8Array]
>(
  'tenant_key_replace',
  `
UPDATE belfry.tenant_key SET wrapper_id = $3, wrapped = $4, wrapped_at = belfry.now()
WHERE tenant_id = $1 AND wrapped = $2
RETURNING tenant_id`,
)

/** How many keys each wraps. */
export const countTenantKeys = statement<{ wrapper_id: string; tenants: number }>(
  'tenant_key_count',
  `
SELECT wrapper_id, count(*)::int AS tenants FROM belfry.tenant_key GROUP BY wrapper_id
ORDER BY wrapper_id`,
)

export type KeptSecretRow = {
  wrapper_id: string
  wrapped: Buffer
  name: string
  secret_id: string
  version: number
  sealed: Buffer
}

export type AskedSecretRow = KeptSecretRow & {
  /** Null: no grant. */
  grants: { targets: string[] | null }[] | null
}

/**
 * For an attempt: the current versions of the secrets, and the grants by which its job may use each: its own,
 * that of the workflow it belongs to, that of the service account as which it runs now and the version of the
 * attempt ran too (the fourth parameter): who gave the job an account has not looked at what it did before.
 */
export const readAskedSecrets = statement<
  AskedSecretRow,
  [tenantId: string, jobId: string, names: readonly string[], runAs: string | null]
>(
  'secret_read_asked',
  `
SELECT k.wrapper_id, k.wrapped, s.name, s.id AS secret_id, s.version, v.sealed,
  (SELECT jsonb_agg(jsonb_build_object('targets', g.targets))
   FROM belfry.job j
        LEFT JOIN belfry.service_account a
          ON a.tenant_id = j.tenant_id AND a.name = j.definition ->> 'runAs' AND a.name = $4
             AND a.disabled_at IS NULL
        JOIN belfry.secret_grant g
          ON g.tenant_id = s.tenant_id AND g.secret_id = s.id
             AND (g.grantee_kind = 'job' AND g.grantee_id = j.id
                  OR g.grantee_kind = 'workflow' AND g.grantee_id = j.workflow_id
                  OR g.grantee_kind = 'service_account' AND g.grantee_id = a.id)
   WHERE j.tenant_id = $1 AND j.id = $2) AS grants
FROM belfry.secret s
     JOIN belfry.secret_version v
       ON v.tenant_id = s.tenant_id AND v.secret_id = s.id AND v.version = s.version
     JOIN belfry.tenant_key k ON k.tenant_id = s.tenant_id
WHERE s.tenant_id = $1 AND s.name = ANY ($3::text[])`,
  byIndex,
)

/** For masks: every version of these secrets, whoever may use them. */
export const readKeptSecrets = statement<KeptSecretRow, [tenantId: string, names: readonly string[]]>(
  'secret_read_kept',
  `
SELECT k.wrapper_id, k.wrapped, s.name, s.id AS secret_id, v.version, v.sealed
FROM belfry.secret s
     JOIN belfry.secret_version v ON v.tenant_id = s.tenant_id AND v.secret_id = s.id
     JOIN belfry.tenant_key k ON k.tenant_id = s.tenant_id
WHERE s.tenant_id = $1 AND s.name = ANY ($2::text[])`,
  byIndex,
)
