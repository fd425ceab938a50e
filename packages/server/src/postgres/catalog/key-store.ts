/**
 * API keys of one tenant, and the directory in which a caller's key is looked up before the tenant is known.
 * Only hashes of secrets pass here.
 */
import type { Role, Scope } from '@belfry/contract'
import type { KeyDirectory, KnownKeys, Principal } from '../../ports/credentials.ts'
import type { KeyRecord, KeyStore, NewKey } from '../../ports/tenants.ts'
import type { Database, Transaction } from '../database.ts'
import type { KeyRow, StoredKeyRow } from '../statements/access.ts'
import {
  findKey,
  findKeyByPrefix,
  findKnownKey,
  insertKey,
  listKeys,
  revokeKey,
  revokeKeysOf,
  touchKey,
} from '../statements/access.ts'
import { isoOrNull, lastId, msOf, msOrNull, only, refusingTaken } from './values.ts'

export function createKeyStore(tx: Transaction, tenantId: string): KeyStore {
  return {
    insert: (key) => insertKeyOf(tx, tenantId, key),
    async list({ beforeId, limit }) {
      return (await tx.query(listKeys, [beforeId ?? lastId, limit])).map(keyRecord)
    },
    async find(id) {
      const [row] = await tx.query(findKey, [id])
      return row === undefined ? undefined : keyRecord(row)
    },
    async revoke(id) {
      const [row] = await tx.query(revokeKey, [id])
      return row === undefined ? undefined : keyRecord(row)
    },
    async revokeAllOf(ownerId) {
      await tx.query(revokeKeysOf, [ownerId])
    },
  }
}

export async function insertKeyOf(tx: Transaction, tenantId: string, key: NewKey): Promise<KeyRecord> {
  const { id, name, prefix, secretHash, scopes, expiresAtMs, queues, owner } = key
  const taken = `A key named "${name}" is in use; choose another name or revoke it first.`
  const ofOwner = [owner?.kind ?? null, owner?.id ?? null] as const
  const bounds = [scopes, isoOrNull(expiresAtMs), queues, ...ofOwner] as const
  const write = tx.query(insertKey, [id, tenantId, name, prefix, secretHash, ...bounds])
  return keyRecord(only(await refusingTaken('api_key_name', taken, write)))
}

function keyRecord(row: KeyRow): KeyRecord {
  return {
    id: row.id,
    name: row.name,
    owner: ownerOf(row),
    prefix: row.prefix,
    scopes: row.scopes as Scope[],
    queues: row.queues,
    createdAtMs: msOf(row.created_at),
    expiresAtMs: msOrNull(row.expires_at),
    revokedAtMs: msOrNull(row.revoked_at),
    lastUsedAtMs: msOrNull(row.last_used_at),
  }
}

/** For the audit of refusals: whether the key may be used or not. Throws `database_*`. */
export function createKnownKeys({ db }: { readonly db: Database }): KnownKeys {
  return {
    async byPrefix(prefix) {
      const scope = { role: 'belfry_platform', readOnly: true, timeoutMs: 2_000 } as const
      const [row] = await db.run(scope, findKnownKey, [prefix])
      return row && { keyId: row.id, tenantId: row.tenant_id, name: row.name }
    },
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
        principal: principalOf(row),
        role: row.owner_role as Role | null,
        tenantId: row.tenant_id,
        tenantName: row.tenant_name,
        tenantCreatedAtMs: msOf(row.tenant_created_at),
        scopes: row.scopes as Scope[],
        queues: inBoth(row.queues, row.owner_queues),
        secretHash: row.secret_hash,
        expiresInMs: row.expires_in_ms,
      }
    },
    async touch(keyId) {
      await options.db.run(scope, touchKey, [keyId])
    },
  }
}

const principalOf = (row: StoredKeyRow): Principal =>
  ownerOf(row) ?? { kind: 'key', id: row.id, name: row.name }

type OwnerColumns = Pick<KeyRow, 'owner_kind' | 'owner_id' | 'owner_name'>

function ownerOf({ owner_kind, owner_id, owner_name }: OwnerColumns): Principal | null {
  if (owner_kind === null || owner_id === null) return null
  // a member who was removed has no name any more, and his keys do nothing
  return { kind: owner_kind as Principal['kind'], id: owner_id, name: owner_name ?? '' }
}

/** Queues that both allow; null: every one. */
function inBoth(ofKey: readonly string[] | null, ofOwner: readonly string[] | null) {
  if (ofKey === null || ofOwner === null) return ofKey ?? ofOwner
  return ofKey.filter((queue) => ofOwner.includes(queue))
}
