/**
 * Secrets of a tenant: values that jobs need and nobody reads back. A value goes in, is encrypted, and comes
 * out only where an attempt of a job that was granted it begins. Answers hold names, versions and grants.
 */
import { z } from 'zod'
import { idSchema, instantSchema, nameSchema, pageOf, pageQuery, safeText, utf8Bytes } from './common.ts'
import { secretNameSchema } from './placeholders.ts'

export const maxSecretBytes = 32 * 1024
/** A shorter one would be found in every other word, so it could not be masked in logs. */
export const leastSecretLength = 8
/** Versions that are kept, the current one among them. */
export const keptSecretVersions = 5
export const maxGrantsOfSecret = 200

const valueSchema = safeText(maxSecretBytes)
  .refine((value) => utf8Bytes(value) <= maxSecretBytes, {
    error: `is longer than ${maxSecretBytes} bytes; keep large data elsewhere, and its key here`,
  })
  .refine((value) => value.trim().length >= leastSecretLength, {
    error: `is shorter than ${leastSecretLength} characters, so it could not be masked; use a longer one`,
  })
  .meta({ description: 'Stored encrypted and never answered', writeOnly: true })

const descriptionSchema = safeText(1024)

export const secretCreateSchema = z
  .strictObject({ name: secretNameSchema, description: descriptionSchema.default(''), value: valueSchema })
  .meta({ id: 'SecretCreate' })
export type SecretCreate = z.infer<typeof secretCreateSchema>

export const secretUpdateSchema = z
  .strictObject({ description: descriptionSchema.optional() })
  .meta({ id: 'SecretUpdate' })

export const secretRotateSchema = z
  .strictObject({
    value: valueSchema,
    discardBefore: z
      .boolean()
      .default(false)
      .meta({ description: 'Delete the versions of before, for example because they leaked' }),
  })
  .meta({ id: 'SecretRotate' })

export const secretRestoreSchema = z
  .strictObject({ version: z.int().min(1).meta({ description: 'One of those that are kept' }) })
  .meta({ id: 'SecretRestore' })

export const secretGranteeKinds = ['job', 'workflow', 'serviceAccount'] as const
export type SecretGranteeKind = (typeof secretGranteeKinds)[number]

const granteeFields = {
  job: nameSchema.optional().meta({ description: 'Name of a job' }),
  workflow: nameSchema
    .optional()
    .meta({ description: 'Name of a workflow, for its tasks that have handlers of their own' }),
  serviceAccount: nameSchema
    .optional()
    .meta({ description: 'Name of a service account, for every job that runs as it' }),
}

const onlyOne = (given: Readonly<Partial<Record<SecretGranteeKind, string | undefined>>>): boolean =>
  secretGranteeKinds.filter((kind) => given[kind] !== undefined).length === 1
const oneGrantee = { error: 'names no grantee, or several; give one of job, workflow and serviceAccount' }

export const secretGrantCreateSchema = z
  .strictObject({
    ...granteeFields,
    anyTarget: z
      .boolean()
      .default(false)
      .meta({
        description:
          'Without it the grant is bound to where the job sends the secret now (its hosts, its image and ' +
          'command, its function): if that changes, runs fail until it is granted anew. With it, whoever ' +
          'may change the job may send the secret anywhere. A service account is never bound.',
      }),
  })
  .refine(onlyOne, oneGrantee)
  .meta({ id: 'SecretGrantCreate' })

export const secretGrantRevokeSchema = z
  .strictObject(granteeFields)
  .refine(onlyOne, oneGrantee)
  .meta({ id: 'SecretGrantRevoke' })

export const secretGrantSchema = z
  .strictObject({
    grantee: z.strictObject({
      kind: z.enum(secretGranteeKinds),
      id: idSchema,
      name: z.string().nullable().meta({ description: 'Null: it was deleted' }),
    }),
    targets: z.array(z.string()).nullable().meta({ description: 'Where it may be taken; null: anywhere' }),
    createdBy: z.string(),
    createdAt: instantSchema,
  })
  .meta({ id: 'SecretGrant' })
export type SecretGrant = z.infer<typeof secretGrantSchema>

export const secretVersionSchema = z
  .strictObject({ version: z.int(), createdBy: z.string(), createdAt: instantSchema })
  .meta({ id: 'SecretVersion' })

const summaryFields = {
  id: idSchema,
  name: secretNameSchema,
  description: z.string(),
  version: z.int().meta({ description: 'The one that attempts get' }),
  createdAt: instantSchema,
  updatedAt: instantSchema,
}

export const secretSummarySchema = z
  .strictObject({ ...summaryFields, grants: z.int().meta({ description: 'How many there are' }) })
  .meta({ id: 'SecretSummary' })
export type SecretSummary = z.infer<typeof secretSummarySchema>

export const secretSchema = z
  .strictObject({
    ...summaryFields,
    versions: z.array(secretVersionSchema).meta({ description: `Kept ones, newest first` }),
    grants: z.array(secretGrantSchema),
  })
  .meta({ id: 'Secret' })
export type Secret = z.infer<typeof secretSchema>

export const secretListQuery = z.strictObject({ ...pageQuery, name: secretNameSchema.optional() })
export const secretPageSchema = pageOf(secretSummarySchema)

export const secretRewrapSchema = z
  .strictObject({
    limit: z.int().min(1).max(200).default(50).meta({ description: 'Keys of tenants in this step, at most' }),
    after: z.uuid().optional().meta({ description: '`next` of the step before; left out: from the first' }),
  })
  .meta({ id: 'SecretRewrap' })

export const secretsRewrappedSchema = z
  .strictObject({
    current: z.string().meta({ description: 'The key that wraps now' }),
    rewrapped: z.int(),
    failed: z
      .array(z.strictObject({ tenant: z.uuid(), why: z.string() }))
      .meta({ description: 'Keys of this step that could not be opened or wrapped; they stay as they are' }),
    next: z.uuid().nullable().meta({ description: '`after` of the next step; null: this was the last one' }),
    left: z.int().meta({ description: 'Keys of tenants that another key wraps; 0: the others may go' }),
    wrappedBy: z
      .array(z.strictObject({ key: z.string(), tenants: z.int() }))
      .meta({ description: 'After this step' }),
  })
  .meta({ id: 'SecretsRewrapped' })
export type SecretsRewrapped = z.infer<typeof secretsRewrappedSchema>
