/**
 * Schema parts that several resources share: ids, names, instants, durations, pages, limits. Every object schema of the
 * contract is strict: an unknown field is refused by name.
 */
import { z } from 'zod'

/** Bytes of a request body that the API takes. */
export const maxBodyBytes = 1024 * 1024
/** Bytes of a JSON input, serialized. */
export const maxInputBytes = 256 * 1024

/** Bytes of a text in UTF-8. */
export const utf8Bytes = (text: string): number => new TextEncoder().encode(text).length

const noNul = (text: string): boolean => !text.includes('\u0000')

/** Text without NUL bytes, which Postgres cannot store. */
export const safeText = (maxLength: number, minLength = 0) =>
  z
    .string()
    .min(minLength)
    .max(maxLength)
    .refine(noNul, { error: 'must not contain a NUL character (U+0000); remove it' })

export const idSchema = z.uuid().meta({ description: 'UUIDv7', examples: ['019ad0c1-7f3e-7c63-9a52-6e4d8c1b2a3f'] })

/** Names of jobs, schedules, queues and tenants: what fits in a URL and a metric label. */
export const nameSchema = z
  .string()
  .min(1)
  .max(128)
  .regex(/^[A-Za-z0-9][A-Za-z0-9._-]*$/, {
    error: 'use letters, digits, ".", "_" and "-", starting with a letter or digit',
  })
  .meta({ examples: ['nightly-report'] })

/** An instant: RFC 3339 with offset; answers are always UTC. */
export const instantSchema = z.iso.datetime({ offset: true }).meta({ examples: ['2026-12-01T02:30:00Z'] })

export const durationMsSchema = (max: number, min = 0) => z.int().min(min).max(max)

/** Whether every string inside a JSON value, keys included, is free of NUL. */
function jsonIsSafe(value: unknown): boolean {
  return !JSON.stringify(value ?? null).includes('\\u0000')
}

/** Any JSON value, at most `maxInputBytes` serialized. */
export const jsonSchema = z
  .json()
  .refine(jsonIsSafe, { error: 'must not contain a NUL character (U+0000); remove it' })
  .refine((value) => utf8Bytes(JSON.stringify(value ?? null)) <= maxInputBytes, {
    error: `must be at most ${maxInputBytes} bytes of JSON; store large data elsewhere and pass a reference`,
  })

export const pageQuery = {
  limit: z.coerce.number().int().min(1).max(1000).default(50).meta({ description: 'Items a page, 1 to 1000' }),
  cursor: z.string().max(512).optional().meta({ description: '`nextCursor` of the page before' }),
}

export const pageOf = <T extends z.ZodType>(item: T) =>
  z.strictObject({ items: z.array(item), nextCursor: z.string().nullable() })

export const dryRunQuery = z.strictObject({
  dryRun: z.stringbool().default(false).meta({ description: 'Check everything and answer, but store nothing' }),
})

export const problemSchema = z
  .strictObject({
    type: z.string(),
    title: z.string(),
    status: z.int(),
    detail: z.string(),
    instance: z.string(),
    code: z.string(),
    retryable: z.boolean(),
    errors: z.array(z.strictObject({ pointer: z.string(), message: z.string() })),
  })
  .meta({ id: 'Problem' })
