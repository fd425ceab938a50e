/**
 * The token of a callback: 32 random bytes with a checksum behind them, stored as SHA-256. Text of another
 * shape, or with a wrong checksum, is refused without a look at the database.
 */
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'
import type { CallbackTokens } from '../ports/callbacks.ts'

const form = /^bfr_([0-9A-Za-z_-]{43})([0-9a-f]{8})$/
const secretBytes = 32
const checksumLength = 8

const sha256 = (text: string): Buffer => createHash('sha256').update(text).digest()
const checksumOf = (secret: string): string =>
  sha256(`callback ${secret}`).toString('hex').slice(0, checksumLength)

export const callbackTokens: CallbackTokens = {
  mint() {
    const secret = randomBytes(secretBytes).toString('base64url')
    const token = `bfr_${secret}${checksumOf(secret)}`
    return { token, hash: sha256(token) }
  },
  hashOf(text) {
    const [, secret, checksum] = form.exec(text) ?? []
    if (secret === undefined || checksum === undefined) return undefined
    const isRight = timingSafeEqual(Buffer.from(checksumOf(secret)), Buffer.from(checksum))
    return isRight ? sha256(text) : undefined
  },
}
