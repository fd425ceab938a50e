/**
 * API keys: made from 32 random bytes, stored as SHA-256, checked in constant time.
 *
 * 1. `bfy_<prefix>_<secret>` is taken apart; anything of another shape is refused without a look at the
 *    database.
 * 2. A key that was checked lately is known by the hash of its whole text, for at most 5 s, so that revoking
 *    it takes effect everywhere within 5 s. Failures are never remembered.
 * 3. Else the row is read by prefix and the hashes are compared; for an unknown prefix too, so that both take
 *    as long.
 */
import { createHash, randomBytes, randomInt, timingSafeEqual } from 'node:crypto'
import type { Clock } from '../ports/clock.ts'
import type { Authenticator, Credential, KeyDirectory, KeyMint, StoredKey } from '../ports/credentials.ts'

const keyPattern = /^bfy_([0-9a-z]{12})_([0-9A-Za-z_-]{43})$/
const prefixAlphabet = '0123456789abcdefghjkmnpqrstvwxyz'
const prefixLength = 12
const secretBytes = 32
const rememberMs = 5_000
const touchEachMs = 60_000
const maxRemembered = 10_000

const hashOf = (text: string): Buffer => createHash('sha256').update(text).digest()
const hashOfNobody = hashOf('')

export const keyMint: KeyMint = {
  mint() {
    const characters = Array.from(
      { length: prefixLength },
      () => prefixAlphabet[randomInt(prefixAlphabet.length)],
    )
    const prefix = characters.join('')
    const secret = randomBytes(secretBytes).toString('base64url')
    return { key: `bfy_${prefix}_${secret}`, prefix, secretHash: hashOf(secret) }
  },
}

type Remembered = { readonly credential: Credential; readonly untilMs: number }

export function createAuthenticator(options: { directory: KeyDirectory; clock: Clock }): Authenticator {
  const { directory, clock } = options
  const remembered = new Map<string, Remembered>()
  const touchedAtMs = new Map<string, number>()

  function remember(text: string, stored: StoredKey, askedAtMs: number): void {
    if (remembered.size >= maxRemembered) remembered.clear()
    const untilMs = askedAtMs + Math.min(rememberMs, stored.expiresInMs ?? rememberMs)
    remembered.set(text, { credential: credentialOf(stored), untilMs })
  }

  function touch(keyId: string): void {
    const nowMs = clock.monotonicMs()
    const lastMs = touchedAtMs.get(keyId)
    if (lastMs !== undefined && nowMs - lastMs < touchEachMs) return
    if (touchedAtMs.size >= maxRemembered) touchedAtMs.clear()
    touchedAtMs.set(keyId, nowMs)
    // for display only: a database that takes no writes must not keep readers out
    directory.touch(keyId).catch(() => touchedAtMs.delete(keyId))
  }

  return {
    async authenticate(key) {
      const parts = keyPattern.exec(key)
      if (parts === null) return undefined
      const [, prefix = '', secret = ''] = parts
      const text = hashOf(key).toString('base64')
      const askedAtMs = clock.monotonicMs()
      const known = remembered.get(text)
      if (known !== undefined && askedAtMs < known.untilMs) return known.credential
      remembered.delete(text)
      const stored = await directory.findByPrefix(prefix)
      const proved = timingSafeEqual(hashOf(secret), stored?.secretHash ?? hashOfNobody)
      if (stored === undefined || !proved) return undefined
      remember(text, stored, askedAtMs)
      touch(stored.keyId)
      return credentialOf(stored)
    },
    forget(keyId) {
      for (const [text, { credential }] of remembered) {
        if (credential.keyId === keyId) remembered.delete(text)
      }
    },
  }
}

function credentialOf(stored: StoredKey): Credential {
  const { keyId, tenantId, tenantName, tenantCreatedAtMs, scopes } = stored
  return { keyId, tenantId, tenantName, tenantCreatedAtMs, scopes }
}
