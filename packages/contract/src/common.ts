/**
 * Schema parts that several resources share: ids, names, instants, durations, pages, limits. Every object
 * schema of the contract is strict: an unknown field is refused by name. In zod, `.optional()` after
 * `.default()` still fills in the default, so schemas of changes are written without defaults.
 */
import { z } from 'zod'

/** Bytes of a request body that the API takes. */
export const maxBodyBytes = 1024 * 1024
/** Bytes of a JSON input, serialized. */
export const maxInputBytes = 256 * 1024
/** Bytes of the JSON result of an attempt, serialized. */
export const maxResultBytes = 256 * 1024
/** Levels of objects and lists inside each other, in any JSON that Belfry takes. */
export const maxJsonDepth = 64

export type JsonValue =
  | string
  | number
  | boolean
  | null
  | readonly JsonValue[]
  | { readonly [key: string]: JsonValue }

const encoder = new TextEncoder()
/** Bytes of a text in UTF-8. */
export const utf8Bytes = (text: string): number => encoder.encode(text).length
/** Counted only where its length does not say it: a character is one to three bytes. */
const isLonger = (text: string, maxBytes: number): boolean =>
  text.length * 3 > maxBytes && utf8Bytes(text) > maxBytes

/** Why Postgres could not keep this text, with the fix; undefined where it can. */
function textFault(text: string): string | undefined {
  if (text.includes('\u0000')) return 'must not contain a NUL character (U+0000); remove it'
  if (!text.isWellFormed()) return 'must not contain half of a surrogate pair; send whole Unicode characters'
  return undefined
}

/** Text without what Postgres cannot store: NUL characters and halves of surrogate pairs. */
export const safeText = (maxLength: number, minLength = 0) =>
  z
    .string()
    .min(minLength)
    .max(maxLength)
    .superRefine((text, context) => {
      const message = textFault(text)
      if (message !== undefined) context.addIssue({ code: 'custom', message })
    })

export const idSchema = z
  .uuid()
  .toLowerCase()
  .meta({ description: 'UUIDv7', examples: ['019ad0c1-7f3e-7c63-9a52-6e4d8c1b2a3f'] })

/** Names of jobs, schedules, queues and tenants: what fits in a URL and a metric label. */
export const nameSchema = z
  .string()
  .min(1)
  .max(128)
  .regex(/^[A-Za-z0-9][A-Za-z0-9._-]*$/, {
    error: 'use letters, digits, ".", "_" and "-", starting with a letter or digit',
  })
  .meta({ examples: ['nightly-report'] })

/** The instants that Belfry takes, epoch ms: the years 1970 to 2199 in UTC. */
export const earliestInstantMs = 0
export const latestInstantMs = Date.UTC(2200, 0) - 1

/** An instant in an answer: RFC 3339 in UTC. What comes in is `givenInstantSchema`. */
export const instantSchema = z.iso
  .datetime({
    offset: true,
    abort: true,
    error: 'is not an instant; write it like 2026-12-01T02:30:00Z or 2026-12-01T03:30:00+01:00',
  })
  .meta({ examples: ['2026-12-01T02:30:00Z'] })

/** An instant that comes in: RFC 3339 with any offset, within the bounds once it is in UTC. */
export const givenInstantSchema = instantSchema
  .superRefine((text, context) => {
    const instantMs = Date.parse(text)
    if (instantMs >= earliestInstantMs && instantMs <= latestInstantMs) return
    const message = 'is outside the years 1970 to 2199 (in UTC); give an instant within them'
    context.addIssue({ code: 'custom', message })
  })
  .meta({
    description: 'RFC 3339 with offset, in the years 1970 to 2199',
    examples: ['2026-12-01T02:30:00Z'],
  })

export const durationMsSchema = (max: number, min = 0) => z.int().min(min).max(max)

export interface JsonFault {
  readonly path: (string | number)[]
  readonly message: string
  /** Of the value as a whole, whatever it was found in. */
  readonly isWhole?: boolean
}

/**
 * The first thing in a value that is not JSON, or that Postgres could not keep; undefined where there is
 * none. The path is written on the way back, so that what is whole costs none.
 */
function jsonFault(value: unknown, depth = 0): JsonFault | undefined {
  if (depth > maxJsonDepth)
    return { path: [], message: `is nested deeper than ${maxJsonDepth} levels; flatten it`, isWhole: true }
  if (typeof value === 'string') {
    const message = textFault(value)
    return message === undefined ? undefined : { path: [], message }
  }
  if (typeof value === 'number')
    return Number.isFinite(value)
      ? undefined
      : { path: [], message: 'is not a finite number; send it as a string' }
  if (value === null || typeof value === 'boolean') return undefined
  if (Array.isArray(value)) {
    for (let index = 0; index < value.length; index++) {
      const found = jsonFault(value[index], depth + 1)
      if (found !== undefined) return below(index, found)
    }
    return undefined
  }
  if (typeof value !== 'object')
    return { path: [], message: 'is not JSON; send text, a number, true, false, null, a list or an object' }
  for (const key of Object.keys(value)) {
    const message = textFault(key)
    if (message !== undefined) return { path: [], message: `has a key that ${message}` }
    const found = jsonFault((value as Record<string, unknown>)[key], depth + 1)
    if (found !== undefined) return below(key, found)
  }
  return undefined
}

const below = (key: string | number, { path, message, isWhole }: JsonFault): JsonFault =>
  isWhole === true ? { path, message, isWhole } : { path: [key, ...path], message }

const tooLarge = (limit: number): string =>
  `must be at most ${limit} bytes of JSON; store large data elsewhere and pass a reference`

/**
 * Why a value cannot be kept as the result of an attempt, with the fix: not JSON, too deep, too large.
 * Undefined where it can.
 */
export function resultFault(value: unknown): string | undefined {
  const found = value === undefined ? undefined : jsonFault(value)
  if (found !== undefined) {
    const place = found.path.length === 0 ? '' : `/${found.path.join('/')} `
    return `${place}${found.message}`
  }
  return isLonger(JSON.stringify(value ?? null), maxResultBytes) ? tooLarge(maxResultBytes) : undefined
}

/** Why a value that comes in cannot be kept, and where in it. Undefined where it can. */
function jsonFaultUpTo(value: unknown, maxBytes: number): JsonFault | undefined {
  const found = value === undefined ? undefined : jsonFault(value)
  if (found !== undefined) return found
  return isLonger(JSON.stringify(value ?? null), maxBytes)
    ? { path: [], message: tooLarge(maxBytes) }
    : undefined
}

/** As `jsonSchema` judges: for many inputs, each at a fifth of the time. */
export const inputFault = (input: unknown): JsonFault | undefined => jsonFaultUpTo(input, maxInputBytes)

/** Any JSON value. */
export const jsonValueSchema = z.custom<JsonValue>().meta({ description: 'Any JSON value' })

/** Any JSON value that comes in: at most so many bytes serialized, at most `maxJsonDepth` deep. */
export const jsonUpTo = (maxBytes: number) =>
  z
    .custom<JsonValue>()
    .superRefine((value, context) => {
      const found = jsonFaultUpTo(value, maxBytes)
      if (found !== undefined) context.addIssue({ code: 'custom', path: found.path, message: found.message })
    })
    .meta({ description: `Any JSON value, at most ${maxBytes} bytes` })

/** The input of a run. */
export const jsonSchema = jsonUpTo(maxInputBytes)

const pageLimit = (max: number) =>
  z.coerce
    .number()
    .int()
    .min(1)
    .max(max)
    .default(50)
    .meta({ description: `Items a page at most, 1 to ${max}` })

export const pageQuery = {
  limit: pageLimit(1000),
  cursor: z.string().max(512).optional().meta({ description: '`nextCursor` of the page before' }),
}

/** Of lists whose items are large. */
export const smallPageQuery = { ...pageQuery, limit: pageLimit(100) }

/**
 * A page. It may hold fewer items than asked for, also none, and still name a next one: a filter that few
 * things pass is looked for within a bounded stretch of the list a page.
 */
export const pageOf = <T extends z.ZodType>(item: T) =>
  z.strictObject({ items: z.array(item), nextCursor: z.string().nullable() })

export const dryRunQuery = z.strictObject({
  dryRun: z
    .stringbool()
    .default(false)
    .meta({ description: 'Check everything and answer, but store nothing' }),
})

export const problemSchema = z
  .strictObject({
    type: z.string(),
    title: z.string(),
    status: z.int(),
    detail: z.string(),
    instance: z.string().meta({ description: 'The request id, as in the header X-Request-Id' }),
    code: z.string(),
    retryable: z.boolean(),
    errors: z.array(z.strictObject({ pointer: z.string(), message: z.string() })),
    quota: z.string().optional().meta({ description: 'Of a refusal by a quota: its name' }),
  })
  .meta({
    id: 'Problem',
    description: 'RFC 9457 problem; `code` is stable and listed in the errors reference',
  })
