/**
 * A captured response body as text that Postgres can store and a terminal can show: UTF-8, bad bytes
 * replaced, control characters turned into their visible pictures (NUL becomes U+2400), at most so many bytes
 * and never half a character. A compressed body is kept as it came, in base64, because nothing is inflated
 * here.
 */
import { maskKeys } from '../../../domain/secret-mask.ts'
import { maskText } from '@belfry/contract/stream-mask'
import type { EgressResponse } from '../../../ports/egress.ts'

export interface ResponseText {
  readonly text: string
  readonly truncated: boolean
}

/** Control characters other than tab, line feed and carriage return. */
// oxlint-disable-next-line no-control-regex -- finding control characters is what this is for
const controls = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f]/g

function picture(control: string): string {
  const code = control.charCodeAt(0)
  if (code < 0x20) return String.fromCharCode(0x2400 + code)
  return code === 0x7f ? '\u2421' : '\ufffd'
}

/** Text without characters that a store or a terminal would trip over. */
export function printable(text: string): string {
  return text.replace(controls, picture).toWellFormed()
}

/** The longest beginning of a text that fits into so many bytes of UTF-8. */
export function cutToBytes(text: string, maxBytes: number): string {
  const bytes = Buffer.from(text, 'utf8')
  if (bytes.length <= maxBytes) return text
  let end = maxBytes
  // A byte 10xxxxxx continues a character; step back to where one begins.
  while (end > 0 && ((bytes[end] ?? 0) & 0xc0) === 0x80) end -= 1
  return bytes.toString('utf8', 0, end)
}

/** Without these secrets; a compressed body, in which they cannot be found, is then left out. */
export function responseText(
  response: EgressResponse,
  maxBytes: number,
  secrets: readonly string[] = [],
): ResponseText {
  const encoding = response.headers.get('content-encoding')?.trim().toLowerCase() ?? ''
  if (encoding !== '' && encoding !== 'identity')
    return encodedText(response, encoding, maxBytes, secrets.length > 0)
  // A cut body may end within a character; `stream` leaves such a rest out instead of replacing it.
  const decoded = new TextDecoder('utf-8').decode(response.body, { stream: response.truncated })
  const safe = printable(maskKeys(maskText(decoded, secrets, response.truncated)))
  const text = cutToBytes(safe, maxBytes)
  return { text, truncated: response.truncated || text.length < safe.length }
}

function encodedText(
  response: EgressResponse,
  encoding: string,
  maxBytes: number,
  leaveOut: boolean,
): ResponseText {
  const name = printable(encoding.slice(0, 64))
  if (leaveOut) {
    const why = 'left out: it may repeat a secret of the job'
    return { text: `[${response.bodyBytes} bytes of Content-Encoding ${name}, ${why}]`, truncated: true }
  }
  const note = `[${response.bodyBytes} bytes of Content-Encoding ${name}, left as they came, in base64]\n`
  const room = Math.max(0, Math.floor((maxBytes - Buffer.byteLength(note)) / 4) * 3)
  const kept = response.body.subarray(0, room)
  const text = note + Buffer.from(kept).toString('base64')
  return { text, truncated: response.truncated || kept.length < response.body.length }
}
