/**
 * The audit log as the API shows it: entries, the chain they stand in, and what attests it. An entry is put
 * on record with what it tells of; within seconds it gets its place in the chain of its tenant
 * (`seq`).
 */
import { z } from 'zod'
import { principalKinds } from './access.ts'
import { givenInstantSchema, idSchema, instantSchema, pageOf, pageQuery, safeText } from './common.ts'

export const auditActorKinds = [...principalKinds, 'system'] as const
export type AuditActorKind = (typeof auditActorKinds)[number]

export const auditOutcomes = ['done', 'refused'] as const
export type AuditOutcome = (typeof auditOutcomes)[number]

export const auditSubjectKinds = [
  'audit',
  'backfill',
  'calendar',
  'callback',
  'dead_letter',
  'event',
  'job',
  'key',
  'lambda_identity',
  'member',
  'pool',
  'queue',
  'quota',
  'role',
  'route',
  'run',
  'schedule',
  'secret',
  'service_account',
  'session',
  'target',
  'tenant',
  'worker',
  'workflow',
  'workflow_run',
] as const
export type AuditSubjectKind = (typeof auditSubjectKinds)[number]

const hashSchema = z
  .string()
  .regex(/^[0-9a-f]{64}$/)
  .meta({ description: 'SHA-256, hexadecimal' })

const entryShape = {
  id: idSchema,
  at: instantSchema.meta({ description: 'By the clock of the database' }),
  action: z.string().meta({ examples: ['schedule.update'] }),
  outcome: z.enum(auditOutcomes),
  code: z.string().nullable().meta({ description: 'Why it was refused' }),
  actor: z.strictObject({
    kind: z.enum(auditActorKinds),
    id: idSchema.nullable(),
    name: z.string(),
  }),
  keyId: idSchema.nullable().meta({ description: 'The API key or session that was used' }),
  address: z.string().nullable().meta({ description: 'Where the request came from' }),
  requestId: z.string().nullable(),
  claimedAt: instantSchema
    .nullable()
    .meta({ description: 'When the caller said that it was (`Date` header); proves nothing' }),
  subject: z.strictObject({
    kind: z.string(),
    id: z.string().nullable(),
    name: z.string().nullable(),
  }),
  details: z
    .record(z.string(), z.union([z.string(), z.number(), z.boolean(), z.array(z.string())]))
    .meta({ description: 'Names, ids, versions and counts; never values' }),
}

export const auditEntrySchema = z
  .strictObject({
    ...entryShape,
    seq: z.int().nullable().meta({ description: 'Place in the chain; null until it has one' }),
  })
  .meta({ id: 'AuditEntry' })
export type AuditEntryView = z.infer<typeof auditEntrySchema>

export const auditListQuery = z.strictObject({
  ...pageQuery,
  actor: safeText(256, 1).optional().meta({ description: 'Id or name of who did it' }),
  action: z
    .string()
    .regex(/^[a-z_]+(\.[a-z_]+)?$/, { error: 'is not an action; write schedule.update, or schedule for all' })
    .optional()
    .meta({ description: '`schedule.update`, or `schedule` for all that begin so' }),
  subject: safeText(256, 1).optional().meta({ description: 'Id or name of what it was done to' }),
  outcome: z.enum(auditOutcomes).optional(),
  after: givenInstantSchema.optional().meta({ description: 'Not before' }),
  before: givenInstantSchema.optional(),
})
export const auditPageSchema = pageOf(auditEntrySchema)

/** A link of the chain: an entry with all that its hash covers, and the hash. */
export const auditLinkSchema = z
  .strictObject({
    type: z.literal('entry'),
    tenantId: idSchema,
    seq: z.int().min(1),
    sealedAt: instantSchema,
    ...entryShape,
    previousHash: hashSchema,
    hash: hashSchema,
  })
  .meta({ id: 'AuditLink' })
export type AuditLink = z.infer<typeof auditLinkSchema>

const signed = {
  tenantId: idSchema,
  at: instantSchema,
  keyId: z.string().meta({ description: 'First 16 hexadecimal digits of SHA-256 of the public key' }),
  signature: z.base64().meta({ description: 'Ed25519' }),
}

/** "The chain had so many entries, and the hash of the last was this." */
export const auditCheckpointSchema = z
  .strictObject({ type: z.literal('checkpoint'), size: z.int().min(1), head: hashSchema, ...signed })
  .meta({ id: 'AuditCheckpoint' })
export type AuditCheckpoint = z.infer<typeof auditCheckpointSchema>

/** "Retention took away what was before this number, and the hash of the last of it was this." */
export const auditCutSchema = z
  .strictObject({ type: z.literal('cut'), firstSeq: z.int().min(1), previousHash: hashSchema, ...signed })
  .meta({ id: 'AuditCut' })
export type AuditCut = z.infer<typeof auditCutSchema>

/** A line of an export, of the file of the server and of the topic. */
export const auditRecordSchema = z.discriminatedUnion('type', [
  auditLinkSchema,
  auditCheckpointSchema,
  auditCutSchema,
])
export type AuditRecord = z.infer<typeof auditRecordSchema>

/** Ascending; `cursor` is how far one has come. */
export const auditExportQuery = z.strictObject({ ...pageQuery })
export const auditExportSchema = z
  .strictObject({
    items: z.array(auditLinkSchema),
    checkpoints: z.array(auditCheckpointSchema).meta({
      description: 'Of these items; after the last page also the newest one',
    }),
    cuts: z.array(auditCutSchema).meta({ description: 'On the first page' }),
    nextCursor: z.string().nullable(),
  })
  .meta({ id: 'AuditExport' })
export type AuditExport = z.infer<typeof auditExportSchema>

export const auditStatusSchema = z
  .strictObject({
    size: z.int().meta({ description: 'Entries in the chain' }),
    head: hashSchema.nullable(),
    waiting: z.int().meta({ description: 'Entries on record that have no place in the chain yet' }),
    waitingSince: instantSchema.nullable(),
    signedSize: z.int().meta({ description: 'Entries that the last checkpoint attests' }),
    signedAt: instantSchema.nullable(),
    publicKeys: z
      .array(z.strictObject({ keyId: z.string(), publicKey: z.base64() }))
      .meta({ description: 'Ed25519, 32 bytes each; hold a copy of your own to verify by' }),
  })
  .meta({ id: 'AuditStatus' })
export type AuditStatus = z.infer<typeof auditStatusSchema>
