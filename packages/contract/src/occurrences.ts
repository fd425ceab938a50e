/**
 * Occurrences: what happened at each planned time of a schedule, with its run or the reason why there is
 * none. Over the API they are only read; the scheduler writes them.
 */
import { z } from 'zod'
import { givenInstantSchema, idSchema, instantSchema, pageOf, pageQuery } from './common.ts'
import { occurrenceOutcomes, occurrenceReasons } from './states.ts'

export const occurrenceSchema = z
  .strictObject({
    scheduleId: idSchema,
    scheduledFor: instantSchema,
    outcome: z.enum(occurrenceOutcomes),
    reason: z.enum(occurrenceReasons).nullable(),
    detail: z
      .string()
      .nullable()
      .meta({ description: 'The calendar and why, or the reason given for a sleep or a pause' }),
    missedCount: z
      .int()
      .meta({ description: 'Planned times that this row stands for; 1 unless an outage is summed up' }),
    runId: idSchema.nullable(),
    workflowRunId: idSchema.nullable().meta({ description: 'Where the schedule runs a workflow' }),
    laterRunIds: z.array(idSchema).meta({
      description:
        'Newest first, at most ten: runs for this planned time by a backfill or a trigger; workflow runs ' +
        'where it runs a workflow',
    }),
    firedAt: instantSchema,
    lateMs: z.int().meta({ description: 'firedAt − (scheduledFor + jitter), in ms' }),
  })
  .meta({ id: 'Occurrence' })
export type Occurrence = z.infer<typeof occurrenceSchema>

export const occurrenceListQuery = z.strictObject({
  ...pageQuery,
  outcome: z.enum(occurrenceOutcomes).optional(),
  reason: z.enum(occurrenceReasons).optional().meta({ description: 'Why it did not run' }),
  from: givenInstantSchema.optional(),
  to: givenInstantSchema.optional(),
})
export const occurrencePageSchema = pageOf(occurrenceSchema)
