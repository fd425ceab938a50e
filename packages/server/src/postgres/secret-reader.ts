/**
 * Reads sealed secrets for attempts, as the engine, of one tenant at a time; and which keys of the
 * installation the keys of tenants need.
 */
import type { KeptSecret, SecretReader, WrappedKey } from '../ports/secrets.ts'
import type { Database } from './database.ts'
import {
  type KeptSecretRow,
  countTenantKeys,
  readAskedSecrets,
  readKeptSecrets,
} from './statements/secrets.ts'

const timeoutMs = 5_000
const asEngine = { role: 'belfry_engine', readOnly: true, timeoutMs } as const

export function createPostgresSecretReader(db: Database): SecretReader {
  return {
    async read({ tenantId, jobId, runAs, names }) {
      const rows = await db.run(asEngine, readAskedSecrets, [tenantId, jobId, names, runAs])
      const secrets = rows.map((row) => ({ ...keptOf(row), grants: row.grants ?? [] }))
      return { key: keyOf(rows), secrets }
    },
    async readKept({ tenantId, names }) {
      const rows = await db.run(asEngine, readKeptSecrets, [tenantId, names])
      return { key: keyOf(rows), secrets: rows.map(keptOf) }
    },
  }
}

function keyOf([first]: readonly KeptSecretRow[]): WrappedKey | undefined {
  return first && { wrapperId: first.wrapper_id, bytes: first.wrapped }
}

function keptOf({ name, secret_id: secretId, version, sealed }: KeptSecretRow): KeptSecret {
  return { name, secretId, version, sealed }
}

/** Ids of the keys that wrapped the keys of tenants, with how many. */
export async function readKeyWrappers(db: Database) {
  const rows = await db.run({ role: 'belfry_platform', readOnly: true, timeoutMs }, countTenantKeys, [])
  return rows.map((row) => ({ wrapperId: row.wrapper_id, tenants: row.tenants }))
}
