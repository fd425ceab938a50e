/**
 * Dead letters: runs that ended as failed, as something to be dealt with: replayed as a new run, or deleted,
 * which acknowledges them and leaves the history of the run as it is. They are told apart by fingerprint: the
 * code of the error and its words without numbers, ids, times and quoted values.
 */
import { z } from 'zod'
import {
  givenInstantSchema,
  idSchema,
  instantSchema,
  jsonSchema,
  nameSchema,
  pageOf,
  pageQuery,
} from './common.ts'
import {
  bulkFields,
  bulkSampleSize,
  jobCountSchema,
  maxBulkBreakdown,
  maxBulkCounted,
  saysSomething,
} from './run-cancels.ts'
import { runSchema } from './runs.ts'
import { runReasons, runSources } from './states.ts'

export const deadLetterStates = ['open', 'replayed', 'deleted'] as const
export type DeadLetterState = (typeof deadLetterStates)[number]

/** Dead letters that groups are made of, the newest. */
export const maxGroupedLetters = maxBulkCounted
/** Jobs that a group names, those with the most of it. */
export const maxGroupJobs = 5

const fingerprintSchema = z
  .string()
  .regex(/^[0-9a-f]{16}$/, { error: 'is not a fingerprint: 16 hex digits, as a list shows it' })
  .meta({ examples: ['9c1f0c2ad07f2b41'] })
const errorCodeSchema = z.string().min(1).max(128)

export const deadLetterSchema = z
  .strictObject({
    runId: idSchema.meta({ description: 'Id of the run, and of the dead letter' }),
    jobId: idSchema,
    job: z.string(),
    jobVersion: z.int(),
    scheduleId: idSchema.nullable(),
    scheduledFor: instantSchema.nullable(),
    source: z.enum(runSources),
    queue: nameSchema,
    reason: z.enum(runReasons).nullable(),
    errorCode: z.string(),
    errorMessage: z.string().nullable(),
    fingerprint: fingerprintSchema,
    attempts: z.int(),
    createdAt: instantSchema,
    failedAt: instantSchema,
    keptUntil: instantSchema.meta({
      description: 'Run and dead letter are deleted after this, whatever its state',
    }),
    state: z.enum(deadLetterStates),
    replayedAs: idSchema.nullable().meta({ description: 'The run that was made of it' }),
    replayedAt: instantSchema.nullable(),
    deletedAt: instantSchema.nullable(),
  })
  .meta({ id: 'DeadLetter' })
export type DeadLetter = z.infer<typeof deadLetterSchema>

export const deadLetterDetailSchema = z
  .strictObject({ ...deadLetterSchema.shape, run: runSchema })
  .meta({ id: 'DeadLetterDetail', description: 'With the run: its input and its attempts' })
export type DeadLetterDetail = z.infer<typeof deadLetterDetailSchema>

const told = {
  job: nameSchema.optional(),
  jobId: idSchema.optional(),
  queue: nameSchema.optional(),
  errorCode: errorCodeSchema.optional(),
  failedAfter: givenInstantSchema.optional(),
  failedBefore: givenInstantSchema.optional(),
}

const stateList = z
  .string()
  .max(64)
  .transform((text) => [...new Set(text.split(','))])
  .pipe(z.array(z.enum(deadLetterStates)).min(1))
  .default(['open'])
  .meta({ description: 'One or more states, separated by commas; `open` if left out' })

export const deadLetterListQuery = z.strictObject({
  ...pageQuery,
  ...told,
  fingerprint: fingerprintSchema.optional(),
  state: stateList,
})
export const deadLetterPageSchema = pageOf(deadLetterSchema)

export const deadLetterGroupQuery = z.strictObject({
  ...told,
  state: stateList,
  limit: z.coerce
    .number()
    .int()
    .min(1)
    .max(200)
    .default(50)
    .meta({ description: 'Groups, those with the most dead letters; 1 to 200' }),
})

export const deadLetterGroupSchema = z
  .strictObject({
    fingerprint: fingerprintSchema,
    errorCode: z.string(),
    pattern: z.string().meta({ description: 'The words of the error without what differs' }),
    count: z.int(),
    firstAt: instantSchema,
    lastAt: instantSchema,
    sampleRunId: idSchema.meta({ description: 'The newest' }),
    sampleMessage: z.string().nullable(),
    jobs: z
      .array(jobCountSchema)
      .meta({ description: `The ${maxGroupJobs} jobs with the most of them, most first` }),
    jobsTotal: z.int(),
  })
  .meta({ id: 'DeadLetterGroup' })
export type DeadLetterGroup = z.infer<typeof deadLetterGroupSchema>

export const deadLetterGroupsSchema = z
  .strictObject({
    items: z.array(deadLetterGroupSchema).meta({ description: 'Those with the most dead letters first' }),
    groupsTotal: z.int(),
    looked: z.int().meta({ description: 'Dead letters that the groups are made of' }),
    exact: z.boolean().meta({
      description: `Whether all were looked at; else the newest ${maxGroupedLetters}, and there are more`,
    }),
  })
  .meta({ id: 'DeadLetterGroups' })
export type DeadLetterGroups = z.infer<typeof deadLetterGroupsSchema>

const newInput = jsonSchema
  .optional()
  .meta({ description: 'Instead of the input of the run that failed; the same if left out' })

export const deadLetterReplaySchema = z.strictObject({ input: newInput }).meta({ id: 'DeadLetterReplay' })

export const deadLetterReplayedSchema = z
  .strictObject({
    deadLetter: deadLetterSchema,
    run: runSchema.meta({ description: 'The new run' }),
    created: z.boolean().meta({ description: 'False: it was replayed before, as this run' }),
  })
  .meta({ id: 'DeadLetterReplayed' })
export type DeadLetterReplayed = z.infer<typeof deadLetterReplayedSchema>

const emptyFilter = { error: 'must name something; {"state": "open"} stands for all that are open' }
const bulkTold = { ...told, fingerprint: fingerprintSchema.optional() }

export const deadLetterReplayFilterSchema = z
  .strictObject({ ...bulkTold, state: z.enum(['open']).optional() })
  .refine(saysSomething, emptyFilter)
  .meta({ id: 'DeadLetterReplayFilter' })

export const deadLetterDeleteFilterSchema = z
  .strictObject({
    ...bulkTold,
    state: z.enum(['open', 'replayed']).optional().meta({ description: '`open` if left out' }),
  })
  .refine(saysSomething, emptyFilter)
  .meta({ id: 'DeadLetterDeleteFilter' })

export const deadLetterReplayManySchema = z
  .strictObject({ filter: deadLetterReplayFilterSchema, input: newInput, ...bulkFields })
  .meta({ id: 'DeadLetterReplayMany' })

export const deadLetterDeleteManySchema = z
  .strictObject({ filter: deadLetterDeleteFilterSchema, ...bulkFields })
  .meta({ id: 'DeadLetterDeleteMany' })

export const deadLetterSelectionSchema = z
  .strictObject({
    count: z.int(),
    exact: z.boolean().meta({
      description: `Whether all were counted; else there are more: ${maxBulkCounted} are looked at`,
    }),
    byJob: z.array(jobCountSchema).meta({ description: `The ${maxBulkBreakdown} jobs with the most` }),
    byError: z
      .array(z.strictObject({ fingerprint: fingerprintSchema, errorCode: z.string(), count: z.int() }))
      .meta({ description: `The ${maxBulkBreakdown} errors with the most` }),
    sample: z.array(deadLetterSchema).meta({ description: `The newest ${bulkSampleSize}` }),
  })
  .meta({ id: 'DeadLetterSelection' })
export type DeadLetterSelection = z.infer<typeof deadLetterSelectionSchema>

const step = {
  nextCursor: z.string().nullable().meta({ description: 'Null: nothing is left' }),
  preview: deadLetterSelectionSchema.nullable().meta({ description: 'Of a dry run; else null' }),
}

export const deadLettersReplayedSchema = z
  .strictObject({
    replayed: z.int().meta({ description: 'New runs that were made' }),
    refused: z
      .array(z.strictObject({ runId: idSchema, message: z.string() }))
      .meta({ description: 'Those that cannot be replayed, and why; they stay open' }),
    ...step,
  })
  .meta({ id: 'DeadLettersReplayed' })
export type DeadLettersReplayed = z.infer<typeof deadLettersReplayedSchema>

export const deadLettersDeletedSchema = z
  .strictObject({ deleted: z.int(), ...step })
  .meta({ id: 'DeadLettersDeleted' })
export type DeadLettersDeleted = z.infer<typeof deadLettersDeletedSchema>
