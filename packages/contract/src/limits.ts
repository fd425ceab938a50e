/**
 * Limits of a job: how many of its runs at once, and how many starts in a stretch of time. They hold from the
 * next opening of the gate on, whatever version of the job a run was made with.
 */
import { z } from 'zod'
import { durationMsSchema, nameSchema, safeText } from './common.ts'

const dayMs = 86_400_000

/** What becomes of a run that finds the limit reached: it waits, it ends, or the ones before it end. */
export const atLimits = ['queue', 'skip', 'replace'] as const
export type AtLimit = (typeof atLimits)[number]

export const maxConcurrency = 10_000
/** Pools that a job may name. */
export const maxPoolsOfJob = 5

/** Part of an input, by the name of a field or by a JSON pointer. */
export const inputKeySchema = safeText(256, 1)
  .refine((key) => !key.startsWith('/') || !/~(?![01])/.test(key), {
    error: 'is not a JSON pointer: write "~0" for "~" and "~1" for "/" in a name',
  })
  .meta({
    description:
      'Name of a field of the input, or a JSON pointer into it. Runs without it share one key of their own',
    examples: ['customerId', '/customer/id'],
  })

export const concurrencySchema = z
  .strictObject({
    limit: z
      .int()
      .min(1)
      .max(maxConcurrency)
      .nullable()
      .default(null)
      .meta({ description: 'Runs of the job at once; null: no limit of its own' }),
    key: inputKeySchema.nullable().default(null),
    keyLimit: z
      .int()
      .min(1)
      .max(maxConcurrency)
      .default(1)
      .meta({ description: 'With `key`: runs at once that have the same value there' }),
    pools: z
      .array(z.strictObject({ name: nameSchema, weight: z.int().min(1).max(100).default(1) }))
      .max(maxPoolsOfJob)
      .refine((pools) => new Set(pools.map(({ name }) => name)).size === pools.length, {
        error: 'names a pool twice; keep one of them',
      })
      .default([])
      .meta({ description: 'Pools that a run takes `weight` slots of while it runs' }),
    onLimit: z
      .enum(atLimits)
      .default('queue')
      .meta({
        description:
          'At one of these limits: `queue` waits; `skip` ends the run as `skipped`, unless it was tried ' +
          'before; `replace` ends the older ones, of which those that run are asked to cancel',
      }),
  })
  .superRefine(({ limit, key, pools }, context) => {
    if (limit === null && key === null && pools.length === 0)
      context.addIssue({ code: 'custom', message: 'limits nothing; give a limit, a key or a pool' })
  })
  .meta({ id: 'Concurrency' })
export type Concurrency = z.infer<typeof concurrencySchema>

/** A token bucket: it holds `burst` tokens, gets `count` in each `perMs`, and each start takes one. */
const rateFields = {
  count: z.int().min(1).max(1_000_000),
  perMs: durationMsSchema(dayMs, 1_000),
  burst: z
    .int()
    .min(1)
    .max(1_000_000)
    .nullable()
    .default(null)
    .meta({ description: 'Starts at once after a pause; null: as many as `count`' }),
}

export const rateSchema = z.strictObject(rateFields).meta({ id: 'Rate' })
export type Rate = z.infer<typeof rateSchema>

export const rateLimitSchema = z
  .strictObject({ ...rateFields, key: inputKeySchema.nullable().default(null) })
  .meta({ id: 'RateLimit' })
export type RateLimit = z.infer<typeof rateLimitSchema>

/** Fields of a job's definition; null: none. */
export const limitFields = {
  concurrency: concurrencySchema.nullable().meta({ description: 'How many runs at once; null: no limit' }),
  rateLimit: rateLimitSchema
    .nullable()
    .meta({ description: 'How many starts, retries among them, in a stretch of time; null: no limit' }),
}
