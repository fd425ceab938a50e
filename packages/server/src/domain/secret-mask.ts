/**
 * What has to be taken out of whatever is kept of an attempt: values of a job's headers that are never shown,
 * which a target may repeat in its answer (stream-mask.ts masks them), and API keys and tokens of
 * callbacks, whoever prints them.
 */
import type { JsonValue } from '@belfry/contract'
import { isSecretHeader, secretMask } from '@belfry/contract'

/** A shorter value would be found in every other word. */
const leastValue = 4
const leastPart = 8
const keyBegin = 'bfy_'
const keyPattern = /bfy_([0-9a-z]{12})_[0-9A-Za-z_-]{1,51}/g
/** Tokens of callbacks (security/callback-token.ts). */
const tokenBegin = 'bfr_'
const tokenPattern = /bfr_[0-9A-Za-z_-]{1,51}/g

/** A text without the secret part of API keys. */
export function maskKeys(text: string): string {
  const masked = text.includes(keyBegin) ? text.replace(keyPattern, `bfy_$1_${secretMask}`) : text
  return masked.includes(tokenBegin) ? masked.replace(tokenPattern, `bfr_${secretMask}`) : masked
}

/** The same in everything that JSON holds. */
export function maskKeysInJson(value: JsonValue): JsonValue {
  const text = JSON.stringify(value)
  const masked = maskKeys(text)
  // a key has no character that JSON writes in another way, and neither has the mask
  return masked === text ? value : (JSON.parse(masked) as JsonValue)
}

/**
 * What has to be masked of the headers that a job sends: values of those that carry secrets, and their parts
 * (a token without its scheme, a password without its user).
 */
export function secretValues(headers: Readonly<Record<string, string>>): readonly string[] {
  const values = Object.entries(headers).flatMap(([name, value]) => (isSecretHeader(name) ? [value] : []))
  return values.flatMap((value) => [
    ...[value.trim()].filter((text) => text.length >= leastValue),
    ...partsOf(value).filter((text) => text.length >= leastPart),
  ])
}

/** "Bearer abc" → abc; "a=b; c=d" → b, d; "Basic <user:password>" → also the password. */
function partsOf(value: string): string[] {
  const words = value.split(/[\s;,]+/)
  const assigned = words.flatMap((word) => {
    const at = word.indexOf('=')
    return at > 0 && at < word.length - 1 ? [word.slice(at + 1)] : []
  })
  const [, basic] = /^Basic +(\S+)$/i.exec(value.trim()) ?? []
  const decoded = basic === undefined ? '' : atobOrNothing(basic)
  const password = decoded.slice(decoded.indexOf(':') + 1)
  return [...words, ...assigned, password].filter((word) => !/^(?:bearer|basic|digest|apikey)$/i.test(word))
}

function atobOrNothing(text: string): string {
  try {
    return atob(text)
  } catch {
    return ''
  }
}
