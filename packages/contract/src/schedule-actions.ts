/**
 * What people do with a schedule besides changing it: pause and resume, skip and sleep, run it out of turn.
 * Every body may be left out where nothing in it is required.
 */
import { z } from 'zod'
import { givenInstantSchema, jsonSchema, safeText } from './common.ts'
import { dedupeRequest, hasDedupeKey } from './runs.ts'

const reason = safeText(512)
  .default('')
  .meta({ description: 'Why; shown with the schedule and with each planned time that does not run for it' })

export const pauseSchema = z.strictObject({ reason }).meta({ id: 'Pause' })

/** What fell due while it was paused does not run by itself. */
export const resumeSchema = z
  .strictObject({
    backfillFrom: givenInstantSchema
      .optional()
      .meta({ description: 'Runs the planned times from here until now as well, in a backfill' }),
  })
  .meta({ id: 'Resume' })

/** The same twice skips no more: it is counted from the next planned time, whether that is skipped or not. */
export const skipSchema = z
  .strictObject({
    count: z.int().min(1).max(100).default(1).meta({ description: 'How many planned times, from the next' }),
    reason,
  })
  .meta({ id: 'Skip' })

export const sleepSchema = z
  .strictObject({
    until: givenInstantSchema.meta({ description: 'The first instant whose planned time runs again' }),
    reason,
  })
  .meta({ id: 'Sleep' })

export const wakeSchema = z.strictObject({}).meta({ id: 'Wake' })

export const triggerSchema = z
  .strictObject({
    input: jsonSchema.optional().meta({ description: 'Instead of the input of the schedule' }),
    scheduledFor: givenInstantSchema.optional().meta({
      description:
        'The planned time that the run stands for, for its handler to see; at most a minute ahead of now',
    }),
    ...dedupeRequest.fields,
  })
  .refine(hasDedupeKey, dedupeRequest.refusal)
  .meta({ id: 'Trigger' })
