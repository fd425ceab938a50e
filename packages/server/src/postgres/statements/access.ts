/**
 * Tenants and API keys: looked up by prefix before the tenant is known (belfry_platform), and managed by
 * people afterwards, inside their tenant.
 */
import { statement } from '../statement.ts'

export type StoredKeyRow = {
  id: string
  name: string
  owner_kind: string | null
  owner_id: string | null
  owner_name: string | null
  owner_role: string | null
  /** Of a service account; null: every one. */
  owner_queues: string[] | null
  tenant_id: string
  tenant_name: string
  tenant_created_at: Date
  secret_hash: Buffer
  scopes: string[]
  queues: string[] | null
  expires_in_ms: number | null
}

/** A key that may be used now, before the caller's tenant is known. That of a disabled owner may not. */
export const findKeyByPrefix = statement<StoredKeyRow, [prefix: string]>(
  'key_find_by_prefix',
  `
SELECT k.id, k.name, k.owner_kind, k.owner_id, coalesce(a.name, m.name) AS owner_name,
       coalesce(a.role, m.role) AS owner_role, a.queues AS owner_queues, k.tenant_id, t.name AS tenant_name,
       t.created_at AS tenant_created_at,
       k.secret_hash, k.scopes, k.queues,
       (extract(epoch FROM k.expires_at - belfry.now()) * 1000)::float8 AS expires_in_ms
FROM belfry.api_key k JOIN belfry.tenant t ON t.id = k.tenant_id
     LEFT JOIN belfry.service_account a
       ON k.owner_kind = 'service_account' AND a.tenant_id = k.tenant_id AND a.id = k.owner_id
          AND a.disabled_at IS NULL
     LEFT JOIN belfry.member m
       ON k.owner_kind = 'person' AND m.tenant_id = k.tenant_id AND m.id = k.owner_id AND m.state = 'active'
WHERE k.prefix = $1 AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > belfry.now())
      AND (k.owner_kind IS NULL OR coalesce(a.id, m.id) IS NOT NULL)`,
)

/** Whose key this is, though it may not be used. */
export const findKnownKey = statement<{ id: string; tenant_id: string; name: string }, [prefix: string]>(
  'key_find_known',
  'SELECT id, tenant_id, name FROM belfry.api_key WHERE prefix = $1',
)

/** When a key was last used; written now and then, not at every request. */
export const touchKey = statement<unknown, [id: string]>(
  'key_touch',
  'UPDATE belfry.api_key SET last_used_at = belfry.now() WHERE id = $1',
)

export type TenantRow = { id: string; name: string; created_at: Date }

/** A new tenant; its name must be free. */
export const insertTenant = statement<TenantRow, [id: string, name: string]>(
  'tenant_insert',
  'INSERT INTO belfry.tenant (id, name) VALUES ($1, $2) RETURNING id, name, created_at',
)

/** Makes the tenant unless it is there; answers it either way, and the row only when this call made it. */
export const ensureTenant = statement<TenantRow, [id: string, name: string]>(
  'tenant_ensure',
  `
INSERT INTO belfry.tenant (id, name) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING
RETURNING id, name, created_at`,
)

/** The tenant of this name. */
export const findTenantByName = statement<TenantRow, [name: string]>(
  'tenant_find_by_name',
  'SELECT id, name, created_at FROM belfry.tenant WHERE name = $1',
)

/** Who could let others into the tenant. A key counts only while its owner may use it. */
export const findHands = statement<{ has_owner: boolean; has_admin_key: boolean }, [tenantId: string]>(
  'tenant_find_hands',
  `
SELECT
  EXISTS (SELECT FROM belfry.member
          WHERE tenant_id = $1 AND role = 'owner' AND state = 'active') AS has_owner,
  EXISTS (
    SELECT FROM belfry.api_key k
    WHERE k.tenant_id = $1 AND 'admin' = ANY (k.scopes) AND k.revoked_at IS NULL
      AND (k.expires_at IS NULL OR k.expires_at > belfry.now())
      AND (k.owner_id IS NULL
           OR EXISTS (SELECT FROM belfry.member m
                      WHERE m.tenant_id = k.tenant_id AND m.id = k.owner_id AND m.state = 'active'
                        AND m.role IN ('owner', 'admin'))
           OR EXISTS (SELECT FROM belfry.service_account a
                      WHERE a.tenant_id = k.tenant_id AND a.id = k.owner_id AND a.disabled_at IS NULL
                        AND a.role IN ('owner', 'admin')))
  ) AS has_admin_key`,
)

/** Newest first, a page at a time. */
export const listTenants = statement<TenantRow, [beforeId: string, limit: number]>(
  'tenant_list',
  'SELECT id, name, created_at FROM belfry.tenant WHERE id < $1 ORDER BY id DESC LIMIT $2',
)

export type KeyRow = {
  id: string
  name: string
  owner_kind: string | null
  owner_id: string | null
  owner_name: string | null
  prefix: string
  scopes: string[]
  queues: string[] | null
  created_at: Date
  expires_at: Date | null
  revoked_at: Date | null
  last_used_at: Date | null
}

const keyColumns = `id, name, prefix, scopes, queues, created_at, expires_at, revoked_at, last_used_at,
  owner_kind, owner_id, CASE owner_kind
    WHEN 'person' THEN
      (SELECT m.name FROM belfry.member m WHERE m.tenant_id = api_key.tenant_id AND m.id = owner_id)
    ELSE
      (SELECT a.name FROM belfry.service_account a WHERE a.tenant_id = api_key.tenant_id AND a.id = owner_id)
  END AS owner_name`

/** A new key of a tenant: only the hash of its secret is kept. */
export const insertKey = statement<
  KeyRow,
  [
    id: string,
    tenantId: string,
    name: string,
    prefix: string,
    secretHash: Uint8Array,
    scopes: readonly string[],
    expiresAt: string | null,
    queues: readonly string[] | null,
    ownerKind: string | null,
    ownerId: string | null,
  ]
>(
  'key_insert',
  `
INSERT INTO belfry.api_key (id, tenant_id, name, prefix, secret_hash, scopes, expires_at, queues, owner_kind,
                            owner_id)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
RETURNING ${keyColumns}`,
)

/** Keys of the tenant, newest first, also those that were revoked or ran out. */
export const listKeys = statement<KeyRow, [beforeId: string, limit: number]>(
  'key_list',
  `
SELECT ${keyColumns} FROM belfry.api_key
WHERE tenant_id = belfry.tenant_id() AND id < $1 ORDER BY id DESC LIMIT $2`,
)

/** One key of the tenant. */
export const findKey = statement<KeyRow, [id: string]>(
  'key_find',
  `SELECT ${keyColumns} FROM belfry.api_key WHERE tenant_id = belfry.tenant_id() AND id = $1`,
)

/** Those of a person or an account; one that was revoked before keeps its time. */
export const revokeKeysOf = statement<unknown, [ownerId: string]>(
  'key_revoke_of',
  `
UPDATE belfry.api_key SET revoked_at = belfry.now()
WHERE tenant_id = belfry.tenant_id() AND owner_id = $1 AND revoked_at IS NULL`,
)

/** A key that was revoked before keeps its time. */
export const revokeKey = statement<KeyRow, [id: string]>(
  'key_revoke',
  `
UPDATE belfry.api_key SET revoked_at = coalesce(revoked_at, belfry.now())
WHERE tenant_id = belfry.tenant_id() AND id = $1
RETURNING ${keyColumns}`,
)
