/**
 * Kept answers of requests with an Idempotency-Key, in the transaction of the request. The protocol stands in
 * migrations/0006_idempotency.sql. Who finds the key held by another request waits only for a moment: a
 * request that waits holds a connection.
 */
import { BelfryError } from '@belfry/contract'
import type { IdempotencyStore, StoredAnswer } from '../../ports/catalog.ts'
import type { Transaction } from '../database.ts'
import { beginIdempotent, findIdempotent, keepIdempotent, limitLockWait } from '../statements/idempotency.ts'
import { isLockTimeout, only } from './values.ts'

export const lockWaitMs = 2_000

export function createIdempotencyStore(tx: Transaction, tenantId: string): IdempotencyStore {
  return {
    async begin({ apiKeyId, key, fingerprint }) {
      const identity = [tenantId, apiKeyId, key] as const
      // sent together, done one after the other; after a failure the transaction is at its end anyway
      const [, taken] = await saysBusy(
        Promise.all([
          tx.query(limitLockWait, [`${lockWaitMs}ms`]),
          tx.query(beginIdempotent, [...identity, fingerprint]),
          tx.query(limitLockWait, ['0']),
        ]),
      )
      if (taken.length > 0) return undefined
      const row = only(await tx.query(findIdempotent, identity))
      const kept = row.response as Omit<StoredAnswer, 'status'>
      return { fingerprint: row.fingerprint, answer: { ...kept, status: row.status } }
    },
    keep({ apiKeyId, key }, { status, headers, json }) {
      const response = `{"headers":${JSON.stringify(headers)},"body":${json}}`
      tx.atEnd(keepIdempotent, [tenantId, apiKeyId, key, status, response])
    },
  }
}

async function saysBusy<T>(begun: Promise<T>): Promise<T> {
  try {
    return await begun
  } catch (error) {
    throw isLockTimeout(error) ? busy(error) : error
  }
}

function busy(cause: unknown): BelfryError {
  const message = 'is held by a request that is still running; send this one again for its answer'
  return new BelfryError('idempotency_key_busy', `The Idempotency-Key ${message}.`, {
    cause,
    errors: [{ pointer: '/headers/idempotency-key', message }],
  })
}
