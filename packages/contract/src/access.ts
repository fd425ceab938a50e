/**
 * Tenants and API keys. The tenant of a call comes from its credential and is never sent; what a credential
 * may do is in permissions.ts.
 */
import { z } from 'zod'
import { givenInstantSchema, idSchema, instantSchema, nameSchema, pageOf, pageQuery } from './common.ts'
import type { Permission } from './permissions.ts'
import { permissions, roles, scopes } from './permissions.ts'

export const tenantCreateSchema = z.strictObject({ name: nameSchema }).meta({ id: 'TenantCreate' })
export const tenantSchema = z
  .strictObject({ id: idSchema, name: nameSchema, createdAt: instantSchema })
  .meta({ id: 'Tenant' })
export type Tenant = z.infer<typeof tenantSchema>
export const tenantListQuery = z.strictObject({ ...pageQuery })
export const tenantPageSchema = pageOf(tenantSchema)

/** Who acts: a key of its own, or the person or service account that signed in or that owns the key. */
export const principalKinds = ['key', 'person', 'service_account'] as const
export type PrincipalKind = (typeof principalKinds)[number]
export const principalSchema = z
  .strictObject({ kind: z.enum(principalKinds), id: idSchema, name: z.string() })
  .meta({ id: 'Principal' })

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
    serviceAccount: nameSchema.optional().meta({
      description:
        'The service account whose key it is. Left out: yours, where a person or a service account asks',
    }),
    tenant: nameSchema
      .optional()
      .meta({ description: 'Another tenant than your own; needs the scope `platform`' }),
  })
  .refine((key) => key.queues === undefined || key.scopes.includes('worker'), {
    error: 'is for keys with the scope "worker"; add that scope, or leave it out',
    path: ['queues'],
  })
  .refine((key) => key.serviceAccount === undefined || key.tenant === undefined, {
    error: 'is of your own tenant; leave out "tenant", or this',
    path: ['serviceAccount'],
  })
  .meta({ id: 'KeyCreate' })
export type KeyCreate = z.infer<typeof keyCreateSchema>

export const keySchema = z
  .strictObject({
    id: idSchema,
    name: nameSchema,
    owner: principalSchema.nullable().meta({
      description:
        "Whose key it is: it may do what its scopes and the role of the owner both allow. Null: nobody's",
    }),
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
  .strictObject({
    tenant: tenantSchema,
    keyId: idSchema.meta({ description: 'The key, or the session of a person who signed in' }),
    principal: principalSchema,
    role: z.enum(roles).nullable().meta({ description: 'Of the principal; null: a key that nobody owns' }),
    scopes: z.array(z.enum(scopes)),
    permissions: z
      .array(z.enum(permissions as [Permission, ...Permission[]]))
      .meta({ description: 'All that may be done with this credential' }),
  })
  .meta({ id: 'Whoami' })
