/**
 * The text form of the key ring: master keys of our own, each with a number, as the configuration and the
 * file in the data directory give them.
 */

/** By number. */
export type KeyRing = ReadonlyMap<number, Uint8Array>

const keyBytes = 32
const howTo = 'make one with: openssl rand -base64 32'
/** So many different bytes a random key has in all but one of a billion billions. */
const leastDifferent = 12

/** Not a few bytes over and over, not text (one random key in 10^13 is), not a row of numbers. */
function looksRandom(key: Buffer): boolean {
  const repeats = key.indexOf(key.subarray(0, keyBytes / 2), 1) > 0
  const isText = key.every((byte) => byte >= 0x20 && byte < 0x7f)
  const steps = new Set(key.subarray(1).map((byte, index) => byte - (key[index] ?? 0)))
  return new Set(key).size >= leastDifferent && !repeats && !isText && steps.size > 1
}

/**
 * `2:<base64>,1:<base64>`, also one a line. Answers what is wrong as text that follows the name of the
 * setting, without any part of a key.
 */
export function parseKeyRing(text: string): KeyRing | string {
  const ring = new Map<number, Uint8Array>()
  const entries = text.split(/[\s,]+/).filter((entry) => entry !== '')
  if (entries.length === 0) return 'is empty; write it like 1:<32 random bytes in base64>'
  for (const [index, entry] of entries.entries()) {
    const place = `key ${index + 1} of ${entries.length}`
    const [, digits, base64 = ''] = /^([1-9]\d{0,8}):([A-Za-z0-9+/_-]+={0,2})$/.exec(entry) ?? []
    if (digits === undefined)
      return `is not a list of keys (${place}); write it like 2:<base64>,1:<base64>; ${howTo}`
    const key = Buffer.from(base64, 'base64')
    if (key.length !== keyBytes)
      return `holds a key of ${key.length} bytes (${place}); it must be ${keyBytes}; ${howTo}`
    if (!looksRandom(key)) return `holds a key that is not random (${place}); ${howTo}`
    const number = Number(digits)
    if (ring.has(number)) return `holds the number ${number} twice; give each key its own`
    ring.set(number, key)
  }
  return ring
}

/** As `parseKeyRing` reads it. */
export const keyRingText = (ring: KeyRing): string =>
  [...ring].map(([number, key]) => `${number}:${Buffer.from(key).toString('base64')}\n`).join('')
