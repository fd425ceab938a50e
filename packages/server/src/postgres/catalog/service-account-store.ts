/**
 * Service accounts of one tenant. Those who own keys are read with the keys
 * (key-store.ts), those as whom runs are executed by the run store.
 */
import type { ServiceAccountRecord, ServiceAccountStore } from '../../ports/service-accounts.ts'
import type { Transaction } from '../database.ts'
import type { ServiceAccountRow } from '../statements/service-accounts.ts'
import * as statements from '../statements/service-accounts.ts'
import { lastId, msOf, msOrNull, only, refusingTaken } from './values.ts'

export function createServiceAccountStore(tx: Transaction): ServiceAccountStore {
  const first = (rows: readonly ServiceAccountRow[]) => rows.map(recordOf)[0]
  return {
    async insert({ id, name, description, role, queues }) {
      const taken = `A service account named "${name}" exists; choose another name or change that one.`
      const write = tx.query(statements.insertServiceAccount, [id, name, description, role, queues])
      return recordOf(only(await refusingTaken('service_account_name', taken, write)))
    },
    async list({ beforeId, limit }, { name }) {
      const rows = await tx.query(statements.listServiceAccounts, [beforeId ?? lastId, limit, name ?? null])
      return rows.map(recordOf)
    },
    find: async (id) => first(await tx.query(statements.findServiceAccount, [id])),
    lock: async (id) => first(await tx.query(statements.lockServiceAccount, [id])),
    holdByName: async (name) => first(await tx.query(statements.holdServiceAccountByName, [name])),
    async update(id, { description, role, queues, disabled }) {
      const fields = [description, role, queues, disabled] as const
      return recordOf(only(await tx.query(statements.updateServiceAccount, [id, ...fields])))
    },
  }
}

function recordOf(row: ServiceAccountRow): ServiceAccountRecord {
  return {
    id: row.id,
    name: row.name,
    description: row.description,
    role: row.role as ServiceAccountRecord['role'],
    queues: row.queues,
    version: row.version,
    createdAtMs: msOf(row.created_at),
    updatedAtMs: msOf(row.updated_at),
    disabledAtMs: msOrNull(row.disabled_at),
  }
}
