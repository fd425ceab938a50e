/**
 * Values as people type them, turned into what the API takes: durations, instants, JSON, headers, lists.
 * Each answers a value or throws a `UsageError` that names the flag and shows how it is written.
 */
import { UsageError } from './exit-codes.ts'

const unitMs: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 }

/**
 * "500ms", "30s", "5m", "1h30m", "1d" in ms. A bare number is refused, since its unit would be a guess; 0 is
 * 0.
 */
export function durationMs(text: string, flag: string): number {
  const fault = (): UsageError =>
    new UsageError(
      `${flag} "${text}" is not a duration; write a number with a unit: 500ms, 30s, 5m, 1h30m, 1d`,
    )
  if (text === '0') return 0
  if (!/^(?:\d+(?:\.\d+)?(?:ms|s|m|h|d))+$/.test(text)) throw fault()
  let total = 0
  for (const [, number = '', unit = ''] of text.matchAll(/(\d+(?:\.\d+)?)(ms|s|m|h|d)/g)) {
    total += Number(number) * (unitMs[unit] ?? Number.NaN)
  }
  if (!Number.isSafeInteger(Math.round(total))) throw fault()
  return Math.round(total)
}

/** RFC 3339 with offset as it is; `+10m` counted from now; `now`. */
export function instant(text: string, flag: string, nowMs: number): string {
  if (text === 'now') return new Date(nowMs).toISOString()
  if (text.startsWith('+')) return after(nowMs, durationMs(text.slice(1), flag), flag)
  if (/^\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d)$/.test(text)) return text
  throw new UsageError(
    `${flag} "${text}" is not an instant; write it with its offset, like 2026-12-01T02:30:00Z, or +10m`,
  )
}

/** A past instant: RFC 3339, or a duration that counts back from now ("1h"). */
export function pastInstant(text: string, flag: string, nowMs: number): string {
  if (/^\d{4}-/.test(text)) return instant(text, flag, nowMs)
  return after(nowMs, -durationMs(text, flag), flag)
}

function after(nowMs: number, ms: number, flag: string): string {
  const date = new Date(nowMs + ms)
  if (Number.isNaN(date.getTime())) throw new UsageError(`${flag} is too far away; give a nearer time`)
  return date.toISOString()
}

/** A whole number within bounds. */
export function whole(text: string, flag: string, min: number, max: number): number {
  const value = Number(text)
  if (/^-?\d+$/.test(text) && value >= min && value <= max) return value
  throw new UsageError(`${flag} "${text}" must be a whole number from ${min} to ${max}`)
}

/** JSON as typed. */
export function json(text: string, flag: string): unknown {
  try {
    return JSON.parse(text)
  } catch (cause) {
    const words = cause instanceof Error ? cause.message : ''
    throw new UsageError(
      `${flag} is not valid JSON (${words}); quote it for the shell, like '{"a": 1}', or give @file`,
      { cause },
    )
  }
}

/** "Name: value" lines as an object; a name given twice is refused. */
export function headers(lines: readonly string[], flag: string): Record<string, string> {
  const found = new Map<string, string>()
  const names = new Set<string>()
  for (const line of lines) {
    const colon = line.indexOf(':')
    const name = line.slice(0, Math.max(0, colon)).trim()
    if (name === '')
      throw new UsageError(`${flag} "${line}" is not a header; write it like 'X-Team: billing'`)
    if (names.has(name.toLowerCase())) {
      throw new UsageError(`${flag} "${name}" is given twice; join the values by a comma`)
    }
    names.add(name.toLowerCase())
    found.set(name, line.slice(colon + 1).trim())
  }
  return Object.fromEntries(found)
}
