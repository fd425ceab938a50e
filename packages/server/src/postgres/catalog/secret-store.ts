/**
 * Secrets of one tenant, and its key (ports/secret-catalog.ts). The role that works here may not select what
 * is sealed.
 */
import { BelfryError } from '@belfry/contract'
import type {
  GranteeKind,
  SecretRecord,
  SecretStore,
  TenantKeyList,
  TenantKeyStore,
} from '../../ports/secret-catalog.ts'
import type { Transaction } from '../database.ts'
import * as statements from '../statements/secrets.ts'
import { lastId, msOf, only, refusingTaken } from './values.ts'

/** Before every id. */
const firstId = '00000000-0000-0000-0000-000000000000'

const granteesByName = {
  job: statements.findGrantedJob,
  workflow: statements.findGrantedWorkflow,
  service_account: statements.findGrantedAccount,
} as const

export function createSecretStore(tx: Transaction): SecretStore {
  const whole = async (row: statements.SecretRow): Promise<SecretRecord> => {
    const [versions, grants] = await Promise.all([
      tx.query(statements.listSecretVersions, [row.id]),
      tx.query(statements.listSecretGrants, [row.id]),
    ])
    return {
      ...core(row),
      revision: row.revision,
      versions: versions.map(versionOf),
      grants: grants.map(grantOf),
    }
  }
  const wholeOrNone = async ([row]: readonly statements.SecretRow[]) => row && whole(row)

  return {
    async insert({ id, name, description, sealed, createdBy }) {
      const taken = `A secret named "${name}" exists; choose another name, or rotate that one.`
      const write = tx.query(statements.insertSecret, [id, name, description, sealed, createdBy])
      return whole(only(await refusingTaken('secret_name', taken, write)))
    },
    find: async (id) => wholeOrNone(await tx.query(statements.findSecret, [id])),
    lock: async (id) => wholeOrNone(await tx.query(statements.lockSecret, [id])),
    async list({ beforeId, limit }, { name }) {
      const rows = await tx.query(statements.listSecrets, [beforeId ?? lastId, limit, name ?? null])
      return rows.map((row) => ({ ...core(row), grantCount: row.grants }))
    },
    describe: async (id, description) =>
      whole(only(await tx.query(statements.describeSecret, [id, description]))),
    async rotate(id, { version, sealed, createdBy, keepFrom }) {
      const params = [id, version, sealed, createdBy, keepFrom] as const
      return whole(only(await tx.query(statements.rotateSecret, [...params])))
    },
    restore: async (id, version) => whole(only(await tx.query(statements.restoreSecret, [id, version]))),
    async remove(id) {
      await tx.query(statements.removeSecret, [id])
    },
    async missing(names) {
      const found = new Set((await tx.query(statements.listSecretNames, [names])).map(({ name }) => name))
      return names.filter((name) => !found.has(name))
    },
    async findGrantee(kind, name) {
      const [row] = await tx.query(granteesByName[kind], [name])
      return row && { kind, ...row }
    },
    async handlersOf(workflowId) {
      return (await tx.query(statements.listWorkflowHandlers, [workflowId])).map(({ handler }) => handler)
    },
    async grant(id, { grantee, targets, createdBy }) {
      await tx.query(statements.upsertSecretGrant, [id, grantee.kind, grantee.id, targets, createdBy])
      return whole(only(await tx.query(statements.findSecret, [id])))
    },
    async revoke(id, { kind, id: granteeId }) {
      return (await tx.query(statements.deleteSecretGrant, [id, kind, granteeId])).length > 0
    },
  }
}

const core = (row: statements.SecretRow) => ({
  id: row.id,
  name: row.name,
  description: row.description,
  version: row.version,
  createdAtMs: msOf(row.created_at),
  updatedAtMs: msOf(row.updated_at),
})

const versionOf = (row: statements.SecretVersionRow) => ({
  version: row.version,
  createdBy: row.created_by,
  createdAtMs: msOf(row.created_at),
})

const grantOf = (row: statements.SecretGrantRow) => ({
  granteeKind: row.grantee_kind as GranteeKind,
  granteeId: row.grantee_id,
  granteeName: row.grantee_name,
  targets: row.targets,
  createdBy: row.created_by,
  createdAtMs: msOf(row.created_at),
})

const keyOf = (row: statements.TenantKeyRow) => ({ wrapperId: row.wrapper_id, bytes: row.wrapped })

export function createTenantKeyStore(tx: Transaction): TenantKeyStore {
  const find = async () => (await tx.query(statements.findTenantKey, [])).map(keyOf)[0]
  return {
    find,
    async ensure({ wrapperId, bytes }) {
      await tx.query(statements.insertTenantKey, [wrapperId, bytes])
      const key = await find()
      if (key === undefined)
        throw new BelfryError('internal', 'The key of a tenant was stored and is not there.')
      return key
    },
  }
}

export function createTenantKeyList(tx: Transaction): TenantKeyList {
  return {
    async listNotWrappedBy(wrapperId, afterTenantId = firstId, limit) {
      const rows = await tx.query(statements.listTenantKeys, [wrapperId, afterTenantId, limit])
      return rows.map((row) => ({ tenantId: row.tenant_id, key: keyOf(row) }))
    },
    async replace({ tenantId, key }, { wrapperId, bytes }) {
      const params = [tenantId, key.bytes, wrapperId, bytes] as const
      return (await tx.query(statements.replaceTenantKey, [...params])).length > 0
    },
    async countByWrapper() {
      const rows = await tx.query(statements.countTenantKeys, [])
      return rows.map((row) => ({ wrapperId: row.wrapper_id, tenants: row.tenants }))
    },
  }
}
