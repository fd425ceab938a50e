/**
 * API keys of one tenant, and the directory in which a caller's key is looked up before the tenant is known.
 * Only hashes of secrets pass here.
 */
import type { Scope } from '@belfry/contract'
import type { KeyRecord, KeyStore, NewKey } from '../../ports/catalog.ts'
import type { KeyDirectory } from '../../ports/credentials.ts'
import type { Database, Transaction } from '../database.ts'
import type { KeyRow } from '../statements/access.ts'
import { findKeyByPrefix, insertKey, listKeys, revokeKey, touchKey } from '../statements/access.ts'
import { isoOrNull, lastId, msOf, msOrNull, only, refusingTaken } from './values.ts'

export function createKeyStore(tx: Transaction, tenantId: string): KeyStore {
  return {
    insert: (key) => insertKeyOf(tx, tenantId, key),
    async list({ beforeId, limit }) {
      return (await tx.query(listKeys, [beforeId ?? lastId, limit])).map(keyRecord)
    },
    async revoke(id) {
      const [row] = await tx.query(revokeKey, [id])
      return row === undefined ? undefined : keyRecord(row)
    },
  }
}

export async function insertKeyOf(tx: Transaction, tenantId: string, key: NewKey): Promise<KeyRecord> {
  const { id, name, prefix, secretHash, scopes, expiresAtMs, queues } = key
  const taken = `A key named "${name}" is in use; choose another name or revoke it first.`
  const bounds = [scopes, isoOrNull(expiresAtMs), queues] as const
  const write = tx.query(insertKey, [id, tenantId, name, prefix, secretHash, ...bounds])
  return keyRecord(only(await refusingTaken('api_key_name', taken, write)))
}

function keyRecord(row: KeyRow): KeyRecord {
  return {
    id: row.id,
    name: row.name,
    prefix: row.prefix,
    scopes: row.scopes as Scope[],
    queues: row.queues,
    createdAtMs: msOf(row.created_at),
    expiresAtMs: msOrNull(row.expires_at),
    revokedAtMs: msOrNull(row.revoked_at),
    lastUsedAtMs: msOrNull(row.last_used_at),
  }
}

/** Throws `database_*`; a short limit, because every request waits for it. */
export function createKeyDirectory(options: { db: Database; timeoutMs?: number }): KeyDirectory {
  const scope = { role: 'belfry_platform', timeoutMs: options.timeoutMs ?? 5_000 } as const
  return {
    async findByPrefix(prefix) {
      const [row] = await options.db.run({ ...scope, readOnly: true }, findKeyByPrefix, [prefix])
      if (row === undefined) return undefined
      return {
        keyId: row.id,
        tenantId: row.tenant_id,
        tenantName: row.tenant_name,
        tenantCreatedAtMs: msOf(row.tenant_created_at),
        scopes: row.scopes as Scope[],
        queues: row.queues,
        secretHash: row.secret_hash,
        expiresInMs: row.expires_in_ms,
      }
    },
    async touch(keyId) {
      await options.db.run(scope, touchKey, [keyId])
    },
  }
}
