/**
 * Schedules and their occurrences: when a job fires, what happened at each planned time. The timing is text
 * as people write it; the server compiles it and refuses what can never fire.
 */
import { z } from 'zod'
import {
  durationMsSchema,
  givenInstantSchema,
  idSchema,
  instantSchema,
  jsonSchema,
  jsonValueSchema,
  nameSchema,
  pageOf,
  pageQuery,
  safeText,
} from './common.ts'
import { jobDefinitionSchema, retryPolicySchema } from './jobs.ts'
import { deliveries, occurrenceOutcomes, occurrenceReasons, scheduleStates } from './states.ts'

const dayMs = 86_400_000

/** Exactly one of `at`, `every`, `cron` says when. */
const timing = {
  at: safeText(64, 1)
    .optional()
    .meta({ description: 'One time: RFC 3339 with offset, or wall time without one in `zone`' }),
  every: safeText(64, 1).optional().meta({
    description:
      'A rate: "90s", "5m", "1h", "1d" or "rate(5 minutes)", anchored at `startAt`, else at creation',
  }),
  cron: safeText(256, 1).optional().meta({ description: 'A calendar expression in `dialect`' }),
  dialect: z.enum(['unix']).default('unix'),
  zone: safeText(64, 1)
    .default('UTC')
    .meta({ description: 'IANA time zone', examples: ['Europe/Berlin'] }),
  startAt: givenInstantSchema.optional().meta({ description: 'First planned time at or after this' }),
  endAt: givenInstantSchema.optional().meta({ description: 'No planned time at or after this' }),
  ifPast: z
    .enum(['reject', 'runNow'])
    .default('reject')
    .meta({ description: 'What to do with an `at` that is over' }),
}

const catchUpFields = {
  policy: z.enum(['latest', 'all', 'none']),
  windowMs: durationMsSchema(365 * dayMs, 60_000),
  maxRuns: z.int().min(1).max(1000),
}

const policies = {
  jitterMs: durationMsSchema(dayMs).default(0),
  catchUp: z
    .strictObject({
      policy: catchUpFields.policy.default('latest'),
      windowMs: catchUpFields.windowMs.default(dayMs),
      maxRuns: catchUpFields.maxRuns.default(100),
    })
    .prefault({}),
  overlap: z.enum(['skip', 'allow']).default('skip'),
}

const target = {
  job: nameSchema.optional().meta({ description: 'Name of an existing job' }),
  handler: jobDefinitionSchema.shape.handler.optional().meta({
    description: 'Instead of `job`: a job of the same name as the schedule is made with this handler',
  }),
  retry: retryPolicySchema.optional(),
  attemptTimeoutMs: jobDefinitionSchema.shape.attemptTimeoutMs.unwrap().optional(),
  delivery: z.enum(deliveries).optional(),
  queue: nameSchema.optional(),
}

export const scheduleCreateSchema = z
  .strictObject({
    name: nameSchema,
    description: safeText(1024).default(''),
    ...timing,
    ...policies,
    ...target,
    input: jsonSchema.optional(),
  })
  .superRefine((value, context) => {
    const given = (['at', 'every', 'cron'] as const).filter((key) => value[key] !== undefined)
    if (given.length !== 1) {
      const path = given[1] === undefined ? [] : [given[1]]
      const message =
        given.length === 0
          ? 'say when: give one of "at", "every" or "cron"'
          : `give only one of ${given.join(', ')}`
      context.addIssue({ code: 'custom', path, message })
    }
    if ((value.job === undefined) === (value.handler === undefined)) {
      context.addIssue({ code: 'custom', path: ['job'], message: 'give either "job" (a name) or "handler"' })
    }
    for (const key of ['retry', 'attemptTimeoutMs', 'delivery', 'queue'] as const) {
      if (value.job !== undefined && value[key] !== undefined) {
        context.addIssue({
          code: 'custom',
          path: [key],
          message: 'belongs to the job; change the job instead',
        })
      }
    }
  })
  .meta({ id: 'ScheduleCreate' })
export type ScheduleCreate = z.infer<typeof scheduleCreateSchema>

export const scheduleSchema = z
  .strictObject({
    id: idSchema,
    name: nameSchema,
    description: z.string(),
    jobId: idSchema,
    job: nameSchema,
    at: z.string().nullable(),
    every: z.string().nullable(),
    cron: z.string().nullable(),
    dialect: z.enum(['unix']).nullable(),
    zone: z.string(),
    startAt: instantSchema.nullable(),
    endAt: instantSchema.nullable(),
    ...policies,
    input: jsonValueSchema,
    state: z.enum(scheduleStates),
    pausedReason: z.string().nullable(),
    pausedAt: instantSchema.nullable(),
    nextAt: instantSchema
      .nullable()
      .meta({ description: 'Next planned time; null while paused or when completed' }),
    zoneDataVersion: z
      .string()
      .meta({ description: 'Release of the time zone data that `nextAt` was computed with' }),
    notes: z.array(z.string()).meta({ description: 'How the timing was read, where that may surprise' }),
    createdAt: instantSchema,
    updatedAt: instantSchema,
  })
  .meta({ id: 'Schedule' })
export type Schedule = z.infer<typeof scheduleSchema>

/** As lists show it: without the input, which may be large. */
export const scheduleSummarySchema = scheduleSchema.omit({ input: true }).meta({ id: 'ScheduleSummary' })
export type ScheduleSummary = z.infer<typeof scheduleSummarySchema>

/**
 * Merge of the fields given, `catchUp` field by field. Only a change of timing moves the next planned time,
 * and never into the past.
 */
export const scheduleUpdateSchema = z
  .strictObject({
    description: safeText(1024).optional(),
    at: timing.at,
    every: timing.every,
    cron: timing.cron,
    ifPast: z
      .enum(['reject', 'runNow'])
      .optional()
      .meta({ description: 'For a new `at` that is over; reject if left out' }),
    zone: safeText(64, 1).optional(),
    startAt: givenInstantSchema.nullable().optional(),
    endAt: givenInstantSchema.nullable().optional(),
    jitterMs: durationMsSchema(dayMs).optional(),
    catchUp: z.strictObject(catchUpFields).partial().optional(),
    overlap: z.enum(['skip', 'allow']).optional(),
    input: jsonSchema.optional(),
  })
  .refine((value) => [value.at, value.every, value.cron].filter((part) => part !== undefined).length <= 1, {
    error: 'give only one of "at", "every", "cron"',
  })
  .meta({ id: 'ScheduleUpdate' })
export type ScheduleUpdate = z.infer<typeof scheduleUpdateSchema>

export const pauseSchema = z.strictObject({ reason: safeText(512).default('') }).meta({ id: 'Pause' })
/** Nothing may be said; the body may be left out. */
export const resumeSchema = z.strictObject({}).meta({ id: 'Resume' })
export const triggerSchema = z
  .strictObject({
    input: jsonSchema.optional().meta({ description: 'Instead of the input of the schedule' }),
  })
  .meta({ id: 'Trigger' })

export const scheduleListQuery = z.strictObject({
  ...pageQuery,
  name: nameSchema.optional(),
  state: z.enum(scheduleStates).optional(),
  jobId: idSchema.optional(),
})
export const schedulePageSchema = pageOf(scheduleSummarySchema)

export const occurrenceSchema = z
  .strictObject({
    scheduleId: idSchema,
    scheduledFor: instantSchema,
    outcome: z.enum(occurrenceOutcomes),
    reason: z.enum(occurrenceReasons).nullable(),
    missedCount: z
      .int()
      .meta({ description: 'Planned times that this row stands for; 1 unless an outage is summed up' }),
    runId: idSchema.nullable(),
    firedAt: instantSchema,
    lateMs: z.int().meta({ description: 'firedAt − (scheduledFor + jitter), in ms' }),
  })
  .meta({ id: 'Occurrence' })
export type Occurrence = z.infer<typeof occurrenceSchema>

export const occurrenceListQuery = z.strictObject({
  ...pageQuery,
  outcome: z.enum(occurrenceOutcomes).optional(),
  from: givenInstantSchema.optional(),
  to: givenInstantSchema.optional(),
})
export const occurrencePageSchema = pageOf(occurrenceSchema)
