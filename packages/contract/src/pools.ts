/**
 * Pools: limits that several jobs of a tenant share. A pool has slots, a rate, or both; one with a host takes
 * in every HTTP job that calls it. And the limit of a tenant, for all of its runs together.
 */
import { z } from 'zod'
import { idSchema, instantSchema, nameSchema, pageOf, pageQuery } from './common.ts'
import { maxConcurrency, rateSchema } from './limits.ts'

export const maxPoolsOfTenant = 500

/** A host as it stands in a URL: a name, an IPv4 address, or an IPv6 address in brackets. */
export const hostSchema = z
  .string()
  .min(1)
  .max(253)
  .toLowerCase()
  .regex(/^(?:[a-z0-9_](?:[a-z0-9._-]*[a-z0-9_])?|\[[0-9a-f:.]+\])$/, {
    error: 'is not a host; write it as in the URL, without scheme, port and path, such as api.example.com',
  })

const fields = {
  slots: z
    .int()
    .min(0)
    .max(maxConcurrency)
    .nullable()
    .meta({ description: 'Weights of the runs at once, in all; 0 lets nothing in; null: no limit' }),
  rate: rateSchema.nullable().meta({ description: 'Starts in a stretch of time; null: no limit' }),
  host: hostSchema
    .nullable()
    .meta({ description: 'HTTP jobs whose target has this host belong to the pool, with weight 1' }),
}

export const poolCreateSchema = z
  .strictObject({
    name: nameSchema,
    slots: fields.slots.default(null),
    rate: fields.rate.default(null),
    host: fields.host.default(null),
  })
  .refine(({ slots, rate }) => slots !== null || rate !== null, {
    error: 'limits nothing; give slots, a rate or both',
  })
  .meta({ id: 'PoolCreate' })
export type PoolCreate = z.infer<typeof poolCreateSchema>

export const poolUpdateSchema = z.strictObject(fields).partial().meta({ id: 'PoolUpdate' })
export type PoolUpdate = z.infer<typeof poolUpdateSchema>

export const poolSchema = z
  .strictObject({
    id: idSchema,
    name: nameSchema,
    ...fields,
    used: z.int().meta({ description: 'Slots taken now' }),
    waiting: z.int().meta({ description: 'Groups of runs that it holds now, up to 1,000' }),
    version: z.int(),
    createdAt: instantSchema,
    updatedAt: instantSchema,
  })
  .meta({ id: 'Pool' })
export type Pool = z.infer<typeof poolSchema>

export const poolListQuery = z.strictObject({ ...pageQuery, name: nameSchema.optional() })
export const poolPageSchema = pageOf(poolSchema)

export const tenantLimitSchema = z
  .strictObject({
    runLimit: z
      .int()
      .min(1)
      .max(maxConcurrency)
      .nullable()
      .meta({ description: 'Runs of the whole tenant at once; null: no limit' }),
  })
  .meta({ id: 'TenantLimit' })
export type TenantLimit = z.infer<typeof tenantLimitSchema>

export const tenantLimitStateSchema = z
  .strictObject({ ...tenantLimitSchema.shape, used: z.int() })
  .meta({ id: 'TenantLimitState' })
