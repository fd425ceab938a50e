/**
 * Takes secrets out of what is kept of an attempt: values of a job's headers that are never shown, which a
 * target may repeat in its answer, and API keys of Belfry, whoever prints them. A text is masked as a whole,
 * after its pieces were put together and before it is cut; of a text that came cut already, the beginning of
 * a secret at its end is masked too.
 */
import type { JsonValue } from '@belfry/contract'
import { isSecretHeader, secretMask } from '@belfry/contract'

/** A shorter value would be found in every other word. */
const leastValue = 4
const leastPart = 8
/** So much of a secret at the end of a cut text is taken for one. */
const leastRest = 4
const keyBegin = 'bfy_'
const keyPattern = /bfy_([0-9a-z]{12})_[0-9A-Za-z_-]{1,43}/g

/** A text without the secret part of API keys. */
export function maskKeys(text: string): string {
  return text.includes(keyBegin) ? text.replace(keyPattern, `bfy_$1_${secretMask}`) : text
}

/** The same in everything that JSON holds. */
export function maskKeysInJson(value: JsonValue): JsonValue {
  const text = JSON.stringify(value)
  const masked = maskKeys(text)
  // a key has no character that JSON writes in another way, and neither has the mask
  return masked === text ? value : (JSON.parse(masked) as JsonValue)
}

/**
 * The texts by which the secret headers of a job may show, the longest first: each value, its parts (a token
 * without its scheme, a password without its user), and both as JSON and URLs write them.
 */
export function secretTexts(headers: Readonly<Record<string, string>>): readonly string[] {
  const values = Object.entries(headers).flatMap(([name, value]) => (isSecretHeader(name) ? [value] : []))
  const wanted = values.flatMap((value) => [
    ...[value.trim()].filter((text) => text.length >= leastValue),
    ...partsOf(value).filter((text) => text.length >= leastPart),
  ])
  const forms = wanted.flatMap((text) => [text, JSON.stringify(text).slice(1, -1), encodeURIComponent(text)])
  return [...new Set(forms)].toSorted((a, b) => b.length - a.length)
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

/** `cut`: the text goes on where it came from. */
export function maskSecrets(text: string, secrets: readonly string[], cut = false): string {
  if (secrets.length === 0) return text
  const anyOf = new RegExp(secrets.map(escaped).join('|'), 'g')
  const masked = text.replace(anyOf, secretMask)
  return cut ? withoutBegin(masked, secrets) : masked
}

const escaped = (text: string): string => text.replace(/[\\^$.*+?()[\]{}|/-]/g, '\\$&')

/** Masks the longest end of the text that a secret begins with. */
function withoutBegin(text: string, secrets: readonly string[]): string {
  const longest = Math.max(...secrets.map((secret) => longestOverlap(text, secret)))
  return longest < leastRest ? text : text.slice(0, text.length - longest) + secretMask
}

function longestOverlap(text: string, secret: string): number {
  for (let length = Math.min(secret.length - 1, text.length); length >= leastRest; length--)
    if (text.endsWith(secret.slice(0, length))) return length
  return 0
}
