/**
 * Service accounts: who programs are. One has a role, owns keys, and jobs run as it. Its name is for good,
 * and it is disabled and never deleted, so that records keep their meaning.
 */
import { z } from 'zod'
import { idSchema, instantSchema, nameSchema, pageOf, pageQuery, safeText } from './common.ts'

/** Roles that a program may have: an owner is a person, and nobody's program manages the platform. */
export const serviceAccountRoles = ['admin', 'operator', 'developer', 'viewer', 'auditor', 'worker'] as const

const queuesSchema = z
  .array(nameSchema)
  .min(1)
  .max(50)
  .refine((list) => new Set(list).size === list.length, { error: 'name each queue once' })
  .nullable()
  .meta({
    description: 'Queues that its workers may serve and that jobs which run as it may be in; null: all',
  })

const fields = {
  description: safeText(1024),
  role: z.enum(serviceAccountRoles).meta({ description: 'What its keys may do at most' }),
  queues: queuesSchema,
}

export const serviceAccountCreateSchema = z
  .strictObject({
    name: nameSchema,
    description: fields.description.default(''),
    role: fields.role,
    queues: fields.queues.default(null),
  })
  .meta({ id: 'ServiceAccountCreate' })
export type ServiceAccountCreate = z.infer<typeof serviceAccountCreateSchema>

export const serviceAccountUpdateSchema = z
  .strictObject({
    description: fields.description.optional(),
    role: fields.role.optional(),
    queues: fields.queues.optional(),
    disabled: z
      .boolean()
      .optional()
      .meta({ description: 'From then on, within 5 s, its keys do nothing and jobs do not run as it' }),
  })
  .meta({ id: 'ServiceAccountUpdate' })
export type ServiceAccountUpdate = z.infer<typeof serviceAccountUpdateSchema>

export const serviceAccountSchema = z
  .strictObject({
    id: idSchema,
    name: nameSchema,
    ...fields,
    version: z.int(),
    createdAt: instantSchema,
    updatedAt: instantSchema,
    disabledAt: instantSchema.nullable(),
  })
  .meta({ id: 'ServiceAccount' })
export type ServiceAccount = z.infer<typeof serviceAccountSchema>

export const serviceAccountListQuery = z.strictObject({ ...pageQuery, name: nameSchema.optional() })
export const serviceAccountPageSchema = pageOf(serviceAccountSchema)
