/**
 * API keys: made from 32 random bytes, stored as SHA-256, checked in constant time.
 *
 * 1. `bfy_<prefix>_<secret>` is taken apart; anything of another shape is refused without a look at the
 *    database.
 * 2. A key that was checked lately is known by the hash of its whole text, for at most 5 s, so that revoking
 *    it takes effect everywhere within 5 s. Failures are never remembered. That a key once proved right is
 *    remembered longer and gives no access: it only tells a caller from a guesser.
 * 3. Else the row is read by prefix, once for all that ask with the key at this time, and the hashes are
 *    compared; for an unknown prefix too, so that both take as long.
 *
 * What is remembered is bounded: what was set first goes first, one by one, so that many keys never come back
 * to the database all at once.
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

/** Sets a value as the newest; beyond the limit the oldest goes. */
function setBounded<Key, Value>(map: Map<Key, Value>, key: Key, value: Value): void {
  map.delete(key)
  const [oldest] = map.size >= maxRemembered ? map.keys() : []
  if (oldest !== undefined) map.delete(oldest)
  map.set(key, value)
}

export function createAuthenticator(options: { directory: KeyDirectory; clock: Clock }): Authenticator {
  const { directory, clock } = options
  const remembered = new Map<string, Remembered>()
  const proved = new Map<string, true>()
  const asking = new Map<string, Promise<Credential | undefined>>()
  const touchedAtMs = new Map<string, number>()
  /** Grows when a key is forgotten: what was asked for before that may be out of date. */
  let forgotten = 0

  function touch(keyId: string): void {
    const nowMs = clock.monotonicMs()
    const lastMs = touchedAtMs.get(keyId)
    if (lastMs !== undefined && nowMs - lastMs < touchEachMs) return
    setBounded(touchedAtMs, keyId, nowMs)
    // for display only: a database that takes no writes must not keep readers out
    directory.touch(keyId).catch(() => touchedAtMs.delete(keyId))
  }

  async function ask(text: string, prefix: string, secret: string): Promise<Credential | undefined> {
    const askedAtMs = clock.monotonicMs()
    const before = forgotten
    const stored = await directory.findByPrefix(prefix)
    const right = timingSafeEqual(hashOf(secret), stored?.secretHash ?? hashOfNobody)
    if (stored === undefined || !right) {
      proved.delete(text)
      return undefined
    }
    const credential = credentialOf(stored)
    const untilMs = askedAtMs + Math.min(rememberMs, stored.expiresInMs ?? rememberMs)
    if (before === forgotten) setBounded(remembered, text, { credential, untilMs })
    setBounded(proved, text, true)
    touch(stored.keyId)
    return credential
  }

  async function askOnce(text: string, prefix: string, secret: string): Promise<Credential | undefined> {
    const before = asking.get(text)
    if (before !== undefined) return before
    const asked = ask(text, prefix, secret)
    asking.set(text, asked)
    try {
      return await asked
    } finally {
      if (asking.get(text) === asked) asking.delete(text)
    }
  }

  return {
    async authenticate(key) {
      const parts = keyPattern.exec(key)
      if (parts === null) return undefined
      const [, prefix = '', secret = ''] = parts
      const text = textOf(key)
      const known = remembered.get(text)
      if (known !== undefined && clock.monotonicMs() < known.untilMs) return known.credential
      remembered.delete(text)
      return askOnce(text, prefix, secret)
    },
    provedLately: (key) => proved.has(textOf(key)),
    forget(keyId) {
      forgotten += 1
      asking.clear()
      for (const [text, { credential }] of remembered) {
        if (credential.keyId === keyId) remembered.delete(text)
      }
    },
  }
}

const textOf = (key: string): string => hashOf(key).toString('base64')

function credentialOf(stored: StoredKey): Credential {
  const { keyId, tenantId, tenantName, tenantCreatedAtMs, scopes, queues } = stored
  return { keyId, tenantId, tenantName, tenantCreatedAtMs, scopes, queues }
}
