/**
 * Kept answers of requests with an Idempotency-Key, in the transaction of the request. The protocol stands in
 * migrations/0006_idempotency.sql.
 */
import type { IdempotencyStore, StoredAnswer } from '../../ports/catalog.ts'
import type { Transaction } from '../database.ts'
import { beginIdempotent, findIdempotent, keepIdempotent } from '../statements/idempotency.ts'
import { only } from './values.ts'

export function createIdempotencyStore(tx: Transaction, tenantId: string): IdempotencyStore {
  return {
    async begin({ apiKeyId, key, fingerprint }) {
      const taken = await tx.query(beginIdempotent, [tenantId, apiKeyId, key, fingerprint])
      if (taken.length > 0) return undefined
      const row = only(await tx.query(findIdempotent, [tenantId, apiKeyId, key]))
      const kept = row.response as Omit<StoredAnswer, 'status'>
      return { fingerprint: row.fingerprint, answer: { ...kept, status: row.status } }
    },
    async keep({ apiKeyId, key }, { status, headers, body }) {
      await tx.query(keepIdempotent, [tenantId, apiKeyId, key, status, JSON.stringify({ headers, body })])
    },
  }
}
