/**
 * Service accounts of a tenant: identities that own keys and as which jobs run. The last
 * statement is the engine's, over all tenants.
 */
import { statement } from '../statement.ts'

export type ServiceAccountRow = {
  id: string
  name: string
  description: string
  role: string
  queues: string[] | null
  version: number
  created_at: Date
  updated_at: Date
  disabled_at: Date | null
}

const columns = 'id, name, description, role, queues, version, created_at, updated_at, disabled_at'
const own = 'tenant_id = belfry.tenant_id()'

/** A new account; its name must be free. */
export const insertServiceAccount = statement<
  ServiceAccountRow,
  [id: string, name: string, description: string, role: string, queues: readonly string[] | null]
>(
  'service_account_insert',
  `
INSERT INTO belfry.service_account (tenant_id, id, name, description, role, queues)
VALUES (belfry.tenant_id(), $1, $2, $3, $4, $5)
RETURNING ${columns}`,
)

/** Newest first, a page at a time, also those that are disabled. */
export const listServiceAccounts = statement<
  ServiceAccountRow,
  [beforeId: string, limit: number, name: string | null]
>(
  'service_account_list',
  `
SELECT ${columns} FROM belfry.service_account
WHERE ${own} AND id < $1 AND ($3::text IS NULL OR name = $3) ORDER BY id DESC LIMIT $2`,
)

/** One account. */
export const findServiceAccount = statement<ServiceAccountRow, [id: string]>(
  'service_account_find',
  `SELECT ${columns} FROM belfry.service_account WHERE ${own} AND id = $1`,
)

/** One account, for a change. */
export const lockServiceAccount = statement<ServiceAccountRow, [id: string]>(
  'service_account_lock',
  `SELECT ${columns} FROM belfry.service_account WHERE ${own} AND id = $1 FOR NO KEY UPDATE`,
)

/** The account of this name; it stays as it is until the end of the transaction. */
export const holdServiceAccountByName = statement<ServiceAccountRow, [name: string]>(
  'service_account_hold_by_name',
  `SELECT ${columns} FROM belfry.service_account WHERE ${own} AND name = $1 FOR SHARE`,
)

/** A new version; one that is disabled already keeps its time. */
export const updateServiceAccount = statement<
  ServiceAccountRow,
  [id: string, description: string, role: string, queues: readonly string[] | null, disabled: boolean]
>(
  'service_account_update',
  `
UPDATE belfry.service_account
SET description = $2, role = $3, queues = $4, version = version + 1, updated_at = belfry.now(),
    disabled_at = CASE WHEN $5 THEN coalesce(disabled_at, belfry.now()) END
WHERE ${own} AND id = $1
RETURNING ${columns}`,
)

/** Of accounts by tenant and name, those as which nothing may run now; one that is not there is left out. */
export const listIdentities = statement<
  { tenant_id: string; name: string; queues: string[] | null; disabled: boolean },
  [tenantIds: readonly string[], names: readonly string[]]
>(
  'belfry_list_identities',
  `
SELECT found.tenant_id, found.name, found.queues, found.disabled
FROM unnest($1::uuid[], $2::text[]) AS asked (tenant_id, name)
CROSS JOIN LATERAL (
  SELECT a.tenant_id, a.name, a.queues, a.disabled_at IS NOT NULL AS disabled
  FROM belfry.service_account a
  WHERE a.tenant_id = asked.tenant_id AND a.name = asked.name
  OFFSET 0
) AS found`,
)
