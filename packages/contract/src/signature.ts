/**
 * Signatures of HTTP calls by Standard Webhooks: made by the server for a job's calls, checked by whoever is
 * called. An edge of this package of its own (`@belfry/contract/signature`), because it needs Node.
 *
 *   signed    `${webhook-id}.${webhook-timestamp}.${body}`, byte for byte
 *   v1        HMAC-SHA256; key `whsec_` + base64 of 24 to 64 bytes
 *   v1a       Ed25519; private key `whsk_` + base64 of seed, or of seed and public key; public key `whpk_`
 *   header    one signature a key, separated by blanks: whoever knows one of the keys can check it
 *
 * The id stays the same over all attempts of a run; the timestamp is that of the attempt, in whole seconds.
 */
import {
  createHmac,
  createPrivateKey,
  createPublicKey,
  type KeyObject,
  sign,
  timingSafeEqual,
  verify,
} from 'node:crypto'

export type SigningKey =
  | { readonly kind: 'hmac'; readonly secret: Uint8Array }
  | { readonly kind: 'ed25519'; readonly privateKey: KeyObject }

/** Seconds by which the clocks of both sides may differ. */
const toleranceSeconds = 300

const privatePrefix = Buffer.from('302e020100300506032b657004220420', 'hex')
const publicPrefix = Buffer.from('302a300506032b6570032100', 'hex')

function bytesOf(text: string, prefix: string): Buffer | undefined {
  const encoded = text.startsWith(prefix) ? text.slice(prefix.length) : ''
  return /^[A-Za-z0-9+/]+={0,2}$/.test(encoded) ? Buffer.from(encoded, 'base64') : undefined
}

function hmacSecret(text: string): Buffer | undefined {
  const secret = bytesOf(text, 'whsec_')
  return secret !== undefined && secret.length >= 24 && secret.length <= 64 ? secret : undefined
}

function rawPublicKey(key: KeyObject): Buffer {
  return createPublicKey(key).export({ type: 'spki', format: 'der' }).subarray(publicPrefix.length)
}

function ed25519PrivateKey(text: string): KeyObject | undefined {
  const bytes = bytesOf(text, 'whsk_')
  if (bytes === undefined || (bytes.length !== 32 && bytes.length !== 64)) return undefined
  const key = Buffer.concat([privatePrefix, bytes.subarray(0, 32)])
  const privateKey = createPrivateKey({ key, format: 'der', type: 'pkcs8' })
  const isWhole = bytes.length === 32 || rawPublicKey(privateKey).equals(bytes.subarray(32))
  return isWhole ? privateKey : undefined
}

function ed25519PublicKey(text: string): KeyObject | undefined {
  const bytes = bytesOf(text, 'whpk_')
  if (bytes?.length !== 32) return undefined
  return createPublicKey({ key: Buffer.concat([publicPrefix, bytes]), format: 'der', type: 'spki' })
}

/** A key as it is stored; undefined where the text is none. */
export function readSigningKey(text: string): SigningKey | undefined {
  const secret = hmacSecret(text.trim())
  if (secret !== undefined) return { kind: 'hmac', secret }
  const privateKey = ed25519PrivateKey(text.trim())
  return privateKey === undefined ? undefined : { kind: 'ed25519', privateKey }
}

/** The `whpk_…` that belongs to an Ed25519 key, for those who check its signatures; undefined for others. */
export function publicKeyText(key: SigningKey): string | undefined {
  return key.kind === 'hmac' ? undefined : `whpk_${rawPublicKey(key.privateKey).toString('base64')}`
}

function signedBytes(id: string, timestamp: number | string, body: string | Uint8Array): Buffer {
  return Buffer.concat([Buffer.from(`${id}.${timestamp}.`), Buffer.from(body)])
}

const hmac = (secret: Uint8Array, bytes: Buffer): Buffer =>
  createHmac('sha256', secret).update(bytes).digest()

export interface SignedMessage {
  /** Without a dot. */
  readonly id: string
  /** Whole seconds since 1970. */
  readonly timestamp: number
  /** As it is sent; empty where nothing is. */
  readonly body: string | Uint8Array
}

/** The three headers of a signed call. */
export function signatureHeaders(
  { id, timestamp, body }: SignedMessage,
  keys: readonly SigningKey[],
): Readonly<Record<'webhook-id' | 'webhook-timestamp' | 'webhook-signature', string>> {
  const bytes = signedBytes(id, timestamp, body)
  const signatures = keys.map((key) =>
    key.kind === 'hmac'
      ? `v1,${hmac(key.secret, bytes).toString('base64')}`
      : `v1a,${sign(null, bytes, key.privateKey).toString('base64')}`,
  )
  return {
    'webhook-id': id,
    'webhook-timestamp': String(timestamp),
    'webhook-signature': signatures.join(' '),
  }
}

/**
 * What the id of a report of this run begins with, and may be as a whole: so a report counts for no other
 * run, and what Belfry signed (its id is that of the run alone) is no report.
 */
export const reportIdOf = (runId: string): string => `${runId}-report`

export interface ReceivedMessage {
  /** Of the request, in any case. */
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>
  /** Exactly the bytes that came, before anything parsed them. */
  readonly body: string | Uint8Array
  /** `whsec_…` and `whpk_…`; one that fits is enough. */
  readonly keys: readonly string[]
  /** Default: now. */
  readonly nowMs?: number
}

/**
 * `unsigned`: a header is missing or not in its form. `expired`: the timestamp is over five minutes away.
 */
export type SignatureVerdict =
  | { readonly ok: true; readonly id: string }
  | { readonly ok: false; readonly reason: 'unsigned' | 'expired' | 'no_match' }

function headerOf(headers: ReceivedMessage['headers'], name: string): string {
  const value = Object.entries(headers).find(([each]) => each.toLowerCase() === name)?.[1] ?? ''
  return typeof value === 'string' ? value : value.join(' ')
}

function fits(key: string, bytes: Buffer, version: string, signature: Buffer): boolean {
  const secret = version === 'v1' ? hmacSecret(key) : undefined
  if (secret !== undefined) {
    const expected = hmac(secret, bytes)
    return signature.length === expected.length && timingSafeEqual(signature, expected)
  }
  const publicKey = version === 'v1a' ? ed25519PublicKey(key) : undefined
  return publicKey !== undefined && verify(null, bytes, publicKey, signature)
}

/**
 * Whether a call was signed with one of the keys, lately. Throws a TypeError where a key is not one: that is
 * a fault of whoever checks. To act once, keep the ids: an id repeats with each attempt of its run.
 */
export function verifySignature({
  headers,
  body,
  keys,
  nowMs = Date.now(),
}: ReceivedMessage): SignatureVerdict {
  for (const key of keys) {
    if (hmacSecret(key) === undefined && ed25519PublicKey(key) === undefined)
      throw new TypeError('A key to check signatures with begins with whsec_ or whpk_, followed by base64.')
  }
  const id = headerOf(headers, 'webhook-id')
  const timestamp = headerOf(headers, 'webhook-timestamp')
  const sent = headerOf(headers, 'webhook-signature')
  // a dot would let the border between id and timestamp be moved; no sender has one
  if (id === '' || id.includes('.') || sent === '' || !/^\d{1,12}$/.test(timestamp))
    return { ok: false, reason: 'unsigned' }
  if (Math.abs(Math.floor(nowMs / 1000) - Number(timestamp)) > toleranceSeconds)
    return { ok: false, reason: 'expired' }
  const bytes = signedBytes(id, timestamp, body)
  const matches = sent.split(' ').some((each) => {
    const [version = '', encoded = ''] = each.split(',')
    const signature = bytesOf(encoded, '')
    return signature !== undefined && keys.some((key) => fits(key, bytes, version, signature))
  })
  return matches ? { ok: true, id } : { ok: false, reason: 'no_match' }
}
