/**
 * What an error is, apart from the run that it happened in: its code, and its words without what differs from
 * run to run. Runs that failed of the same cause have the same fingerprint, whatever ids, numbers, times and
 * quoted values their messages name. Pure, and the same on every node and in every version: the fingerprint
 * is stored. One pass over the text, whose time grows with its length and no faster.
 */
import { createHash } from 'node:crypto'

const fingerprintBytes = 8

const month = '(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)'
const clock = '\\d{1,2}:\\d{2}(?::\\d{2}(?:[.,]\\d{1,9})?)?'
const offset = '(?:Z|(?: ?(?:UTC|GMT))?[+-]\\d{2}:?\\d{2}| ?(?:UTC|GMT))?'

const quotes = '"[^"\\n]{0,400}"|`[^`\\n]{0,400}`|“[^”\\n]{0,400}”|«[^»\\n]{0,400}»'
const weekday = '(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun),? )?'

/** The first that fits at a place is taken, so the longer ones stand first. */
const pattern = new RegExp(
  [
    // 2026-11-30T02:30:00.123+01:00, 2026-11-30 02:30, 2026-11-30
    `(?<iso>\\b\\d{4}-\\d{2}-\\d{2}(?:[T ]${clock}${offset})?(?![\\w-]))`,
    // Mon, 30 Nov 2026 02:30:00 GMT, as HTTP writes it
    `(?<http>\\b${weekday}\\d{1,2} ${month} \\d{4}(?: ${clock}${offset})?(?!\\w))`,
    `(?<uuid>\\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\\b)`,
    `(?<quoted>${quotes}|(?<!\\w)'[^'\\n]{0,400}'(?!\\w))`,
    `(?<mail>[\\w.+-]{1,64}@[\\w-]{1,63}(?:\\.[\\w-]{1,63}){1,8})`,
    `(?<word>[A-Za-z0-9_+-]*[A-Za-z0-9_])`,
  ].join('|'),
  'gu',
)

const isHex = /^(?:0[xX])?[0-9a-fA-F]+$/
/** `utf8`, `http2`, `s3`, `30s`, `5000ms`: names and amounts, of which only the number differs. */
const shortName = /^[A-Za-z]{1,6}\d{1,4}$|^\d+[A-Za-z]{1,3}$/
const numbers = /\d+/g
const between = /<n>(?:[.,:]<n>)+/g

/** The words of an error without what differs from run to run, for example `order <n> was not found`. */
export function errorPattern(message: string): string {
  const marked = message.replace(pattern, (whole, ...rest) => {
    const groups = rest.at(-1) as Record<string, string | undefined>
    if (groups['iso'] !== undefined || groups['http'] !== undefined) return '<time>'
    if (groups['uuid'] !== undefined) return '<id>'
    if (groups['quoted'] !== undefined || groups['mail'] !== undefined) return '<value>'
    return wordPattern(whole)
  })
  return marked.replace(between, '<n>').replace(/\s+/gu, ' ').trim()
}

function wordPattern(word: string): string {
  if (!/\d/.test(word)) return word.length >= 16 && isHex.test(word) ? '<id>' : word
  if (/^[-+]?\d+$/.test(word)) return '<n>'
  if (isHex.test(word) && word.length >= 8) return '<id>'
  if (shortName.test(word)) return word.replace(numbers, '<n>')
  const parts = word.split('-')
  // `order-42`, `2-3`: each part by itself
  if (parts.length > 1) return parts.map((part) => (part === '' ? '' : wordPattern(part))).join('-')
  return '<id>'
}

/** Sixteen hex digits: the first of the SHA-256 of the code and the pattern of the words. */
export function errorFingerprint(code: string, message: string | null): string {
  const text = `${code}\n${errorPattern(message ?? '')}`
  return createHash('sha256').update(text, 'utf8').digest().subarray(0, fingerprintBytes).toString('hex')
}
