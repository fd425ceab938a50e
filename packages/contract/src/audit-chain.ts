/**
 * The chain of the audit log: what is hashed, what is signed. Apart from the rest of the contract because it
 * needs node:crypto; the server makes chains by it and the CLI verifies them (audit-verifier.ts).
 *
 *   hash of an entry  = SHA-256("belfry audit entry 1\n"      + canonical JSON of all its fields but `hash`)
 *   signed checkpoint = Ed25519("belfry audit checkpoint 1\n" + canonical JSON of its fields but `signature`)
 *   signed cut        = Ed25519("belfry audit cut 1\n"        + canonical JSON of its fields but `signature`)
 *
 * Canonical JSON: no white space, keys in the order of their UTF-16 units, numbers that are whole and safe.
 * The tenant and the number are among the fields, so no entry can be moved.
 */
import { createHash, createPublicKey, type KeyObject, verify } from 'node:crypto'
import type { AuditCheckpoint, AuditCut, AuditLink } from './audit.ts'

/** Before the first entry. */
export const noHash = '0'.repeat(64)

type Canonical =
  | string
  | number
  | boolean
  | null
  | readonly Canonical[]
  | { readonly [key: string]: Canonical }

/** Throws where a number is not whole and safe: it might not be the same when it is read again. */
export function canonicalJson(value: Canonical): string {
  if (typeof value === 'number' && !Number.isSafeInteger(value))
    throw new RangeError(`${value} is not a whole number that JSON keeps`)
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(',')}]`
  const fields = Object.entries(value as Record<string, Canonical>).sort(([a], [b]) => (a < b ? -1 : 1))
  return `{${fields.map(([key, each]) => `${JSON.stringify(key)}:${canonicalJson(each)}`).join(',')}}`
}

export function hashOfLink({
  hash: _,
  ...fields
}: AuditLink | (Omit<AuditLink, 'hash'> & { hash?: string })): string {
  return createHash('sha256')
    .update(`belfry audit entry 1\n${canonicalJson(fields)}`)
    .digest('hex')
}

export type Unsigned<Signed> = Omit<Signed, 'signature'>

/** The bytes that a signature covers. */
export function signedBytes(record: Unsigned<AuditCheckpoint> | Unsigned<AuditCut>): Buffer {
  const fields = Object.fromEntries(Object.entries(record).filter(([key]) => key !== 'signature'))
  return Buffer.from(`belfry audit ${record.type} 1\n${canonicalJson(fields)}`)
}

/** Of Ed25519, its 32 bytes. */
export function rawPublicKey(key: KeyObject): Buffer {
  const { x } = key.export({ format: 'jwk' })
  return Buffer.from(x ?? '', 'base64url')
}

export const keyIdOf = (publicKey: Uint8Array): string =>
  createHash('sha256').update(publicKey).digest('hex').slice(0, 16)

/** From PEM, or from its 32 bytes in base64; undefined: neither. */
export function readPublicKey(text: string): KeyObject | undefined {
  try {
    if (text.includes('-----BEGIN')) {
      const key = createPublicKey(text)
      return key.asymmetricKeyType === 'ed25519' ? key : undefined
    }
    const bytes = Buffer.from(text.trim(), 'base64')
    if (bytes.length !== 32) return undefined
    return createPublicKey({
      key: { kty: 'OKP', crv: 'Ed25519', x: bytes.toString('base64url') },
      format: 'jwk',
    })
  } catch {
    return undefined
  }
}

export function isSignedBy(record: AuditCheckpoint | AuditCut, key: KeyObject): boolean {
  return verify(null, signedBytes(record), key, Buffer.from(record.signature, 'base64'))
}
