/**
 * API keys, and sessions of people in the same way: made from 32 random bytes, stored as SHA-256, checked in
 * constant time.
 *
 * 1. `bfy_<prefix>_<secret><checksum>` is taken apart; anything of another shape, or with a wrong checksum,
 * is
 *    refused without a look at the database.
 * 2. A key that was checked lately is known by the hash of its whole text, for at most 2.5 s, so that
 * revoking
 *    it, or disabling its owner, takes effect everywhere within 5 s, for open streams too, which look again
 *    each 2 s (http/open-streams.ts). Failures are never remembered. That a key once proved right is
 *    remembered longer and gives no access: it only tells a caller from a guesser.
 * 3. Else the row is read by prefix, once for all that ask with the key at this time, and the hashes are
 *    compared; for an unknown prefix too, so that both take as long.
 *
 * What is remembered is bounded: what was set first goes first, one by one, so that many keys never come back
 * to the database all at once.
 */
import { permissionsOfScopes, rolePermissions } from '@belfry/contract'
import { createHash, randomBytes, randomInt, timingSafeEqual } from 'node:crypto'
import type { Clock } from '../ports/clock.ts'
import type { Authenticator, Credential, KeyDirectory, KeyMint, StoredKey } from '../ports/credentials.ts'
import { sessionTokenPattern } from './session-tokens.ts'

// keys of before have no checksum
const keyPattern = /^bfy_([0-9a-z]{12})_([0-9A-Za-z_-]{43})([0-9a-f]{8})?$/
const prefixAlphabet = '0123456789abcdefghjkmnpqrstvwxyz'
const prefixLength = 12
const secretBytes = 32
const rememberMs = 2_500
const touchEachMs = 60_000
const maxRemembered = 10_000

const hashOf = (text: string): Buffer => createHash('sha256').update(text).digest()
const hashOfNobody = hashOf('')
const checksumOf = (prefix: string, secret: string): string =>
  hashOf(`key ${prefix} ${secret}`).toString('hex').slice(0, 8)

export const keyMint: KeyMint = {
  mint() {
    const characters = Array.from(
      { length: prefixLength },
      () => prefixAlphabet[randomInt(prefixAlphabet.length)],
    )
    const prefix = characters.join('')
    const secret = randomBytes(secretBytes).toString('base64url')
    const key = `bfy_${prefix}_${secret}${checksumOf(prefix, secret)}`
    return { key, prefix, secretHash: hashOf(secret) }
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

/** Of sessions, which have no scopes, the role alone says the permissions. */
export function createSessionAuthenticator(options: {
  directory: KeyDirectory
  clock: Clock
}): Authenticator {
  const byRole = (stored: StoredKey) =>
    credentialWith(stored, new Set(stored.role === null ? [] : rolePermissions[stored.role]))
  return authenticatorOf({ ...options, pattern: sessionTokenPattern, credentialOf: byRole })
}

export function createAuthenticator(options: { directory: KeyDirectory; clock: Clock }): Authenticator {
  return authenticatorOf({ ...options, pattern: keyPattern, credentialOf })
}

/** By key or by session token, whichever the text is. */
export function eitherAuthenticator(keys: Authenticator, sessions: Authenticator): Authenticator {
  const of = (text: string): Authenticator => (text.startsWith('bfs_') ? sessions : keys)
  return {
    authenticate: (text) => of(text).authenticate(text),
    provedLately: (text) => of(text).provedLately(text),
    forget(id) {
      keys.forget(id)
      sessions.forget(id)
    },
  }
}

function touchNowAndThen(directory: KeyDirectory, clock: Clock): (keyId: string) => void {
  const touchedAtMs = new Map<string, number>()
  return (keyId) => {
    const nowMs = clock.monotonicMs()
    const lastMs = touchedAtMs.get(keyId)
    if (lastMs !== undefined && nowMs - lastMs < touchEachMs) return
    setBounded(touchedAtMs, keyId, nowMs)
    // of a key for display only, of a session the begin of its idle time: a database that takes no writes
    // must not keep readers out
    directory.touch(keyId).catch(() => touchedAtMs.delete(keyId))
  }
}

function authenticatorOf(options: {
  readonly directory: KeyDirectory
  readonly clock: Clock
  readonly pattern: RegExp
  readonly credentialOf: (stored: StoredKey) => Credential
}): Authenticator {
  const { directory, clock, pattern } = options
  const remembered = new Map<string, Remembered>()
  const proved = new Map<string, true>()
  const asking = new Map<string, Promise<Credential | undefined>>()
  const touch = touchNowAndThen(directory, clock)
  /** Grows when a key is forgotten: what was asked for before that may be out of date. */
  let forgotten = 0

  async function ask(text: string, prefix: string, secret: string): Promise<Credential | undefined> {
    const askedAtMs = clock.monotonicMs()
    const before = forgotten
    const stored = await directory.findByPrefix(prefix)
    const right = timingSafeEqual(hashOf(secret), stored?.secretHash ?? hashOfNobody)
    if (stored === undefined || !right) {
      proved.delete(text)
      return undefined
    }
    const credential = options.credentialOf(stored)
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
      const parts = pattern.exec(key)
      if (parts === null) return undefined
      const [, prefix = '', secret = '', checksum] = parts
      if (checksum !== undefined && checksum !== checksumOf(prefix, secret)) return undefined
      const text = textOf(key)
      const known = remembered.get(text)
      if (known !== undefined && clock.monotonicMs() < known.untilMs) return known.credential
      remembered.delete(text)
      return askOnce(text, prefix, secret)
    },
    provedLately: (key) => proved.has(textOf(key)),
    forget(id) {
      forgotten += 1
      asking.clear()
      for (const [text, { credential }] of remembered) {
        if (credential.keyId === id || credential.principal.id === id) remembered.delete(text)
      }
    },
  }
}

const textOf = (key: string): string => hashOf(key).toString('base64')

function credentialOf(stored: StoredKey): Credential {
  const ofScopes = permissionsOfScopes(stored.scopes)
  const { role } = stored
  if (role === null) return credentialWith(stored, ofScopes)
  return credentialWith(stored, new Set(rolePermissions[role].filter((each) => ofScopes.has(each))))
}

function credentialWith(
  { secretHash: _, expiresInMs: __, ...known }: StoredKey,
  permissions: Credential['permissions'],
): Credential {
  return { ...known, permissions }
}
