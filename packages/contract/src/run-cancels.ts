/**
 * Canceling many runs at once, by a filter: what they may be told by, what a preview shows, what each step
 * answers. A step is one transaction over a bounded number of runs; the next one goes on behind its cursor,
 * and never reaches runs that were made after the first.
 */
import { z } from 'zod'
import { givenInstantSchema, idSchema, nameSchema } from './common.ts'
import { cancelReasonSchema, runSummarySchema } from './runs.ts'

/** Runs that one step of an operation on many takes, at most. */
export const maxBulkStep = 1_000
/** Runs that a preview counts; beyond them its counts are lower bounds. */
export const maxBulkCounted = 100_000
/** Jobs, and errors, that a preview counts by, those with the most runs. */
export const maxBulkBreakdown = 20
/** Examples in a preview, the newest. */
export const bulkSampleSize = 10

/** What every operation on many takes besides its filter. */
export const bulkFields = {
  expectedCount: z
    .int()
    .min(0)
    .optional()
    .meta({
      description:
        'As the preview counted: refused as `precondition_failed` where more match now, with nothing done. ' +
        'Looked at in the first step only',
    }),
  limit: z
    .int()
    .min(1)
    .max(maxBulkStep)
    .default(500)
    .meta({ description: `How many one step takes, 1 to ${maxBulkStep}` }),
  cursor: z.string().max(512).optional().meta({ description: '`nextCursor` of the step before' }),
}

/** A filter that says nothing would take everything: that must be said. */
export const saysSomething = (filter: Readonly<Record<string, unknown>>): boolean =>
  Object.values(filter).some((value) => value !== undefined)

export const jobCountSchema = z.strictObject({ jobId: idSchema, job: z.string(), count: z.int() })
export type JobCount = z.infer<typeof jobCountSchema>

/** The states in which a run can be canceled. */
export const cancelableStates = ['waiting_for_dependencies', 'pending', 'running'] as const
export type CancelableState = (typeof cancelableStates)[number]

export const runCancelFilterSchema = z
  .strictObject({
    state: z.array(z.enum(cancelableStates)).min(1).optional().meta({
      description: 'All if left out; a running one that was asked to cancel before is not asked again',
    }),
    job: nameSchema.optional(),
    jobId: idSchema.optional(),
    queue: nameSchema.optional(),
    scheduleId: idSchema.optional(),
    backfillId: idSchema.optional(),
    createdAfter: givenInstantSchema.optional(),
    createdBefore: givenInstantSchema.optional(),
  })
  .refine(saysSomething, {
    error: 'must name something; {"state": ["pending", "running"]} stands for all runs that are not over',
  })
  .meta({ id: 'RunCancelFilter' })
export type RunCancelFilter = z.infer<typeof runCancelFilterSchema>

export const runCancelManySchema = z
  .strictObject({ filter: runCancelFilterSchema, reason: cancelReasonSchema.optional(), ...bulkFields })
  .meta({ id: 'RunCancelMany' })
export type RunCancelMany = z.infer<typeof runCancelManySchema>

export const runSelectionSchema = z
  .strictObject({
    count: z.int(),
    exact: z.boolean().meta({
      description: `Whether all were counted; else there are more: ${maxBulkCounted} are looked at`,
    }),
    byState: z.strictObject({ waiting_for_dependencies: z.int(), pending: z.int(), running: z.int() }),
    byJob: z
      .array(jobCountSchema)
      .meta({ description: `The ${maxBulkBreakdown} jobs with the most of them, most first` }),
    sample: z.array(runSummarySchema).meta({ description: `The newest ${bulkSampleSize}` }),
  })
  .meta({ id: 'RunSelection' })
export type RunSelection = z.infer<typeof runSelectionSchema>

export const runsCanceledSchema = z
  .strictObject({
    canceled: z.int().meta({ description: 'Waited, and ended with this step' }),
    asked: z.int().meta({ description: 'Run; their workers were asked to stop them' }),
    ended: z.int().meta({ description: 'Ended by themselves meanwhile' }),
    nextCursor: z.string().nullable().meta({ description: 'Null: nothing is left' }),
    preview: runSelectionSchema.nullable().meta({ description: 'Of a dry run; else null' }),
  })
  .meta({ id: 'RunsCanceled' })
export type RunsCanceled = z.infer<typeof runsCanceledSchema>
