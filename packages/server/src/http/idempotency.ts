/**
 * Idempotency-Key on routes that create:
 *
 * 1. The key's row is inserted first, in the transaction that does the work; a second request with the key
 *    waits there.
 * 2. The work is done and its answer kept in the row. A failure takes the row away with everything else, so
 *    only answers of success are kept.
 * 3. Who finds a row gets its answer if he asked the same, else 422. Keys are of one API key each and last a
 *    day.
 */
import { createHash, createHmac } from 'node:crypto'
import { BelfryError } from '@belfry/contract'
import type { CommonTx, IdempotencyKey, KeptAnswer, StoredAnswer } from '../ports/catalog.ts'

/**
 * SHA-256 of what was asked, independent of the order of keys in objects. `keyedBy`: what the caller alone
 * knows, where the body holds a secret: whoever has the database could else try values against its hash.
 */
export function fingerprintOf(
  asked: { route: string; params: unknown; body: unknown },
  keyedBy?: string,
): Uint8Array {
  const hash = keyedBy === undefined ? createHash('sha256') : createHmac('sha256', keyedBy)
  return hash.update(canonical([asked.route, asked.params ?? null, asked.body ?? null])).digest()
}

function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'null'
  const entries = Object.entries(value).filter(([, item]) => item !== undefined)
  const sorted = entries.sort(([a], [b]) => (a < b ? -1 : 1))
  return `{${sorted.map(([key, item]) => `${JSON.stringify(key)}:${canonical(item)}`).join(',')}}`
}

export interface Outcome<Result> {
  readonly result: Result
  /** What to keep. */
  readonly kept: KeptAnswer
}

/** Does the work, or answers what was kept. Throws `idempotency_key_reused`. */
export async function onceOnly<Result>(
  tx: CommonTx,
  key: IdempotencyKey,
  work: () => Promise<Outcome<Result>>,
): Promise<{ readonly replayed: StoredAnswer } | { readonly result: Result }> {
  const earlier = await tx.idempotency.begin(key)
  if (earlier === undefined) {
    const { result, kept } = await work()
    tx.idempotency.keep(key, kept)
    return { result }
  }
  if (Buffer.from(earlier.fingerprint).equals(key.fingerprint)) return { replayed: earlier.answer }
  const message = 'was used with another request; use a new key for a new request'
  throw new BelfryError('idempotency_key_reused', `The Idempotency-Key ${message}.`, {
    errors: [{ pointer: '/headers/idempotency-key', message }],
  })
}

/** What is kept is what was sent. */
export function keptAnswer(status: number, headers: Record<string, string>, body: unknown): KeptAnswer {
  return { status, headers, json: JSON.stringify(body ?? null) }
}
