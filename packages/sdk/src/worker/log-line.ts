/**
 * A line of a log from whatever a function gave to `ctx.log.*`. Never throws: a line that says less than was
 * meant is better than a function that fails because it logged. What comes out, the server takes: no NUL, no
 * halves of characters, not too deep, no numbers that would be rounded, no key that it refuses.
 */
import type { JsonValue, LogLine } from '@belfry/contract'
import { utf8Bytes } from '@belfry/contract'
import { tidy } from '../functions/run-function.ts'

const maxFieldsBytes = 16_000
/** Well below what the server takes, which counts what stands around the fields as well. */
const deepest = 32

export function lineOf(level: LogLine['level'], message: unknown, fields: unknown): LogLine {
  const at = new Date().toISOString()
  try {
    const isError = message instanceof Error
    const kept = fieldsOf(isError ? withStack(message, fields) : fields)
    const said = tidy(isError ? message.message || message.name : wordsOf(message))
    return { at, level, message: said, ...(kept === undefined ? {} : { fields: kept }) }
  } catch {
    return { at, level, message: 'a line that cannot be shown' }
  }
}

function withStack(error: Error, fields: unknown): unknown {
  const isPlain = typeof fields === 'object' && fields !== null && !Array.isArray(fields)
  const given = isPlain && !(fields instanceof Error) ? fields : fields === undefined ? {} : { fields }
  return { stack: error.stack ?? String(error), ...given }
}

function wordsOf(message: unknown): string {
  if (typeof message === 'string') return message
  try {
    return JSON.stringify(message) ?? String(message)
  } catch {
    return String(message)
  }
}

/** As JSON, or as much of it as can be kept. */
function fieldsOf(fields: unknown): JsonValue | undefined {
  if (fields === undefined) return undefined
  try {
    const text = JSON.stringify(fields, (_, value: unknown) => {
      if (typeof value === 'bigint') return String(value)
      return value instanceof Error ? `${value.name}: ${value.message}` : value
    })
    if (text === undefined) return undefined
    const kept = keepable(JSON.parse(text) as JsonValue, 0)
    const size = utf8Bytes(JSON.stringify(kept))
    if (size <= maxFieldsBytes) return kept
    return `${tidy(text.slice(0, 1_000))}… (${size} bytes)`
  } catch {
    return 'fields that are not JSON'
  }
}

function keepable(value: JsonValue, depth: number): JsonValue {
  if (typeof value === 'string') return tidy(value)
  if (typeof value === 'number') return /^-?\d{16,}$/.test(String(value)) ? numberOf(value) : value
  if (typeof value !== 'object' || value === null) return value
  if (depth >= deepest) return `… (deeper than ${deepest} levels)`
  if (Array.isArray(value)) return value.map((item: JsonValue) => keepable(item, depth + 1))
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => [keyOf(key), keepable(item, depth + 1)]),
  )
}

const numberOf = (value: number): JsonValue => (Number.isSafeInteger(value) ? value : String(value))

const keyOf = (key: string): string => (key === '__proto__' ? '[__proto__]' : tidy(key))
