/**
 * AES-256-GCM with what the ciphertext is bound to as additional data. A sealed text is nonce (12 bytes,
 * random), ciphertext, tag (16 bytes). The bound words are written with their lengths, so that no two lists
 * of them give the same bytes.
 */
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto'

const cipher = 'aes-256-gcm'
const nonceBytes = 12
const tagBytes = 16
export const keyBytes = 32

export function sealBytes(key: Uint8Array, boundTo: readonly string[], plain: Uint8Array): Buffer {
  const nonce = randomBytes(nonceBytes)
  const sealing = createCipheriv(cipher, key, nonce).setAAD(boundBytes(boundTo))
  const body = Buffer.concat([sealing.update(plain), sealing.final()])
  return Buffer.concat([nonce, body, sealing.getAuthTag()])
}

/** Undefined where it was not sealed by this key for this place, or was changed since. */
export function openBytes(
  key: Uint8Array,
  boundTo: readonly string[],
  sealed: Uint8Array,
): Buffer | undefined {
  if (sealed.length < nonceBytes + tagBytes) return undefined
  const nonce = sealed.subarray(0, nonceBytes)
  const tag = sealed.subarray(sealed.length - tagBytes)
  const opening = createDecipheriv(cipher, key, nonce, { authTagLength: tagBytes })
  opening.setAAD(boundBytes(boundTo)).setAuthTag(tag)
  try {
    const body = opening.update(sealed.subarray(nonceBytes, sealed.length - tagBytes))
    return Buffer.concat([body, opening.final()])
  } catch {
    return undefined
  }
}

const boundBytes = (words: readonly string[]): Buffer =>
  Buffer.from(words.map((word) => `${Buffer.byteLength(word)}:${word}`).join(','))
