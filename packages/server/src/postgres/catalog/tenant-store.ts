/**
 * Tenants, as belfry_platform: the only place that makes keys for another tenant than the caller's. It sees
 * no table but tenants, keys and idempotency keys.
 */
import type { TenantRecord, TenantStore } from '../../ports/tenants.ts'
import type { Transaction } from '../database.ts'
import type { TenantRow } from '../statements/access.ts'
import { findHands, findTenantByName, insertTenant, listTenants } from '../statements/access.ts'
import { insertKeyOf } from './key-store.ts'
import { lastId, msOf, only, refusingTaken } from './values.ts'

export function createTenantStore(tx: Transaction): TenantStore {
  return {
    async insert({ id, name }) {
      const taken = `A tenant named "${name}" exists; choose another name.`
      return tenantRecord(
        only(await refusingTaken('tenant_name_key', taken, tx.query(insertTenant, [id, name]))),
      )
    },
    async list({ beforeId, limit }) {
      return (await tx.query(listTenants, [beforeId ?? lastId, limit])).map(tenantRecord)
    },
    async findByName(name) {
      const [row] = await tx.query(findTenantByName, [name])
      return row === undefined ? undefined : tenantRecord(row)
    },
    async handsOf(tenantId) {
      const row = only(await tx.query(findHands, [tenantId]))
      return { hasOwner: row.has_owner, hasAdminKey: row.has_admin_key }
    },
    insertKey: (tenantId, key) => insertKeyOf(tx, tenantId, key),
  }
}

function tenantRecord(row: TenantRow): TenantRecord {
  return { id: row.id, name: row.name, createdAtMs: msOf(row.created_at) }
}
