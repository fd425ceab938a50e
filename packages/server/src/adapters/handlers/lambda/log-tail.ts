/**
 * The end of a function's log, as Lambda answers it (4 KiB at most, base64): kept as the log of the attempt.
 * It is text of somebody else's program and nothing more; what it may hold of API keys the store masks.
 */
import type { LogLine } from '@belfry/contract'
import { printable } from '../http/response-text.ts'

const mostLines = 1_000
/** Characters of one line. */
const mostLength = 16_384

export function logLines(tail: string, at: string): readonly LogLine[] {
  const text = Buffer.from(tail, 'base64').toString('utf8')
  const lines = text.split(/\r\n|\r|\n/).filter((line) => line !== '')
  return lines.slice(-mostLines).map((line) => {
    const level = /\b(?:ERROR|FATAL|Task timed out)\b/.test(line) ? 'error' : 'info'
    return { at, level, message: printable(line).slice(0, mostLength) }
  })
}
