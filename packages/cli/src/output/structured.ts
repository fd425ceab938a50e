/**
 * Output for programs: JSON, JSON lines, YAML. The objects are the API's, unchanged. Characters that a
 * terminal would act on are written as escapes, which every parser of the format reads back as what they
 * were.
 */
import { stringify } from 'yaml'

export const outputFormats = ['table', 'json', 'jsonl', 'yaml', 'name'] as const
export type OutputFormat = (typeof outputFormats)[number]

// JSON itself escapes U+0000 to U+001F only.
const risky = /[\u007f-\u009f\u200b\u2028\u2029\u2060\ufeff\p{Bidi_Control}]/gu

const escaped = (text: string): string =>
  text.replace(risky, (character) => `\\u${(character.codePointAt(0) ?? 0).toString(16).padStart(4, '0')}`)

export function toJson(value: unknown): string {
  return escaped(JSON.stringify(value, null, 2))
}

export function toJsonLine(value: unknown): string {
  return escaped(JSON.stringify(value))
}

/**
 * YAML without a line break at its end. Quoted throughout where escapes are needed, since only quoted text
 * can hold them.
 */
export function toYaml(value: unknown): string {
  const options = { lineWidth: 0, aliasDuplicateObjects: false } as const
  const simple = stringify(value, options)
  if (simple.search(risky) < 0) return simple.trimEnd()
  const quoted = { ...options, defaultStringType: 'QUOTE_DOUBLE', defaultKeyType: 'QUOTE_DOUBLE' } as const
  return escaped(stringify(value, quoted)).trimEnd()
}
