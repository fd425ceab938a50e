/**
 * The kinds of values that settings have, for schema.ts and its parts. Each has its error in words that
 * follow the name of the setting.
 */
import { z } from 'zod'

/** `a, b` as a list; anything but text as it is. */
export function commaSeparated(value: unknown): unknown {
  if (typeof value !== 'string') return value
  const parts = value.split(',').map((part) => part.trim())
  return parts.filter((part) => part !== '')
}

export const text = z.string({ error: 'is not text' }).min(1, { error: 'is empty' })

export const list = <T extends z.ZodType<string>>(item: T) =>
  z.preprocess(commaSeparated, z.array(item, { error: 'is not a list' }))

export const flag = z.preprocess(
  (value) => (value === 'true' ? true : value === 'false' ? false : value),
  z.boolean({ error: 'is not true or false' }),
)

/** Digits only: `z.coerce` would take an empty variable for 0. */
export function whole(min: number, max: number, error = `is not a whole number from ${min} to ${max}`) {
  return z.preprocess(
    (value) => (typeof value === 'string' && /^\d+$/.test(value.trim()) ? Number(value) : value),
    z.int({ error }).min(min, { error }).max(max, { error }),
  )
}

export const oneOf = <const T extends readonly string[]>(values: T) =>
  z.enum(values, { error: `is not one of ${values.join(', ')}` })

/** `defaultInWords` is for a default that depends on the machine. */
interface SettingMeta extends Record<string, unknown> {
  readonly description: string
  readonly defaultInWords?: string
  /** Never shown, and not taken from a command line, where others would see it. */
  readonly secret?: true
}

export const about = (description: string, defaultInWords?: string): SettingMeta =>
  defaultInWords === undefined ? { description } : { description, defaultInWords }

export const aboutSecret = (description: string): SettingMeta => ({ description, secret: true })
