/**
 * Idempotency-Key of requests, and the clock of a request's transaction. See migrations/0006_idempotency.sql
 * for the protocol.
 */
import { statement } from '../statement.ts'

/** Limit for each wait for a lock, until the end of the transaction or the next such call; '0': none. */
export const limitLockWait = statement<unknown, [limit: string]>(
  'idempotency_limit_lock_wait',
  `SELECT set_config('lock_timeout', $1, true)`,
)

/**
 * Takes the key: one row if it was free (or had run out), none if an answer is kept with it. While another
 * transaction holds it, this waits for its end.
 */
export const beginIdempotent = statement<
  { key: string },
  [tenantId: string, apiKeyId: string, key: string, fingerprint: Uint8Array]
>(
  'idempotency_begin',
  `
INSERT INTO belfry.idempotency_key AS i (tenant_id, api_key_id, key, fingerprint, expires_at)
VALUES ($1, $2, $3, $4, belfry.now() + interval '1 day')
ON CONFLICT (tenant_id, api_key_id, key) DO UPDATE
  SET fingerprint = excluded.fingerprint, status = 0, response = NULL, expires_at = excluded.expires_at
  WHERE i.expires_at <= belfry.now()
RETURNING i.key`,
)

/** The answer that is kept with a key, and the fingerprint of the request that it answered. */
export const findIdempotent = statement<
  { fingerprint: Buffer; status: number; response: unknown },
  [tenantId: string, apiKeyId: string, key: string]
>(
  'idempotency_find',
  `
SELECT fingerprint, status, response FROM belfry.idempotency_key
WHERE tenant_id = $1 AND api_key_id = $2 AND key = $3`,
)

/** Keeps the answer, in the transaction that did the work. */
export const keepIdempotent = statement<
  unknown,
  [tenantId: string, apiKeyId: string, key: string, status: number, response: string]
>(
  'idempotency_keep',
  `
UPDATE belfry.idempotency_key SET status = $4, response = $5
WHERE tenant_id = $1 AND api_key_id = $2 AND key = $3`,
)

/** Database time of the transaction. */
export const readNow = statement<{ now: Date }>('catalog_now', 'SELECT belfry.now() AS now')
