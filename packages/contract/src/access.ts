/**
 * Tenants, API keys, and the scopes that say what a key may do. The tenant of a call comes from its key and
 * is never sent.
 */
import { z } from 'zod'
import { givenInstantSchema, idSchema, instantSchema, nameSchema, pageOf, pageQuery } from './common.ts'

/**
 * `read`: look. `enqueue`: start runs of existing jobs. `operate`: pause, resume, trigger, cancel. `admin`:
 * change jobs, schedules and keys of the tenant. A higher one contains those before it. `platform`: make
 * tenants and keys for them. `worker`: run functions, in the queues of the key; `admin` contains it, and it
 * contains nothing.
 */
export const scopes = ['read', 'enqueue', 'operate', 'admin', 'platform', 'worker'] as const
export type Scope = (typeof scopes)[number]

const implied: Readonly<Record<Scope, readonly Scope[]>> = {
  read: ['read'],
  enqueue: ['read', 'enqueue'],
  operate: ['read', 'enqueue', 'operate'],
  admin: ['read', 'enqueue', 'operate', 'admin', 'worker'],
  platform: ['platform'],
  worker: ['worker'],
}

/** Whether a key that was given `granted` may do what needs `needed`. */
export function scopeAllows(granted: readonly Scope[], needed: Scope): boolean {
  return granted.some((scope) => implied[scope].includes(needed))
}

export const tenantCreateSchema = z.strictObject({ name: nameSchema }).meta({ id: 'TenantCreate' })
export const tenantSchema = z
  .strictObject({ id: idSchema, name: nameSchema, createdAt: instantSchema })
  .meta({ id: 'Tenant' })
export type Tenant = z.infer<typeof tenantSchema>
export const tenantListQuery = z.strictObject({ ...pageQuery })
export const tenantPageSchema = pageOf(tenantSchema)

export const keyCreateSchema = z
  .strictObject({
    name: nameSchema,
    scopes: z
      .array(z.enum(scopes))
      .min(1)
      .max(scopes.length)
      .refine((list) => new Set(list).size === list.length, { error: 'name each scope once' }),
    expiresAt: givenInstantSchema.optional(),
    queues: z
      .array(nameSchema)
      .min(1)
      .max(50)
      .refine((list) => new Set(list).size === list.length, { error: 'name each queue once' })
      .optional()
      .meta({ description: 'Queues that a key with the scope `worker` may serve; every one if left out' }),
    tenant: nameSchema
      .optional()
      .meta({ description: 'Another tenant than your own; needs the scope `platform`' }),
  })
  .refine((key) => key.queues === undefined || key.scopes.includes('worker'), {
    error: 'is for keys with the scope "worker"; add that scope, or leave it out',
    path: ['queues'],
  })
  .meta({ id: 'KeyCreate' })
export type KeyCreate = z.infer<typeof keyCreateSchema>

export const keySchema = z
  .strictObject({
    id: idSchema,
    name: nameSchema,
    prefix: z.string(),
    scopes: z.array(z.enum(scopes)),
    queues: z.array(nameSchema).nullable().meta({ description: 'Null: no bound' }),
    createdAt: instantSchema,
    expiresAt: instantSchema.nullable(),
    revokedAt: instantSchema.nullable(),
    lastUsedAt: instantSchema.nullable(),
  })
  .meta({ id: 'Key' })
export type Key = z.infer<typeof keySchema>
export const keyCreatedSchema = z
  .strictObject({
    ...keySchema.shape,
    secret: z
      .string()
      .nullable()
      .meta({
        description:
          'The whole key, shown this once and stored nowhere. Null in a dry run, which makes no key, and ' +
          'when an Idempotency-Key replays the answer: if you never saw it, revoke this key, make another.',
      }),
  })
  .meta({ id: 'KeyCreated' })
export type KeyCreated = z.infer<typeof keyCreatedSchema>
export const keyListQuery = z.strictObject({ ...pageQuery })
export const keyPageSchema = pageOf(keySchema)

/** Nothing may be said; the body may be left out. */
export const revokeSchema = z.strictObject({}).meta({ id: 'Revoke' })

export const whoamiSchema = z
  .strictObject({ tenant: tenantSchema, keyId: idSchema, scopes: z.array(z.enum(scopes)) })
  .meta({ id: 'Whoami' })
