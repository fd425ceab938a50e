/**
 * Schedules: when a job fires. The timing is text as people write it; the server compiles it and refuses what
 * can never fire. What happened at each planned time: occurrences.ts.
 */
import { z } from 'zod'
import { calendarUse } from './calendars.ts'
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
import { jobDefinitionSchema } from './jobs.ts'
import { retryPolicySchema, runLimitFields } from './retry-policy.ts'
import { afterCompletions, deliveries, overlapPolicies, scheduleStates } from './states.ts'

const dayMs = 86_400_000

const cronDialects = ['unix', 'kubernetes', 'github', 'quartz', 'eventbridge', 'jenkins', 'systemd'] as const
const dstGaps = ['next_valid', 'skip'] as const
const dstOverlaps = ['first', 'both'] as const
const dayMatches = ['and', 'or'] as const

const dstSchema = z.strictObject({
  gap: z
    .enum(dstGaps)
    .optional()
    .meta({ description: 'A time that the clock leaps over: at the first instant after the gap, or not' }),
  overlap: z.enum(dstOverlaps).optional().meta({ description: 'A time that comes twice' }),
})

/** Exactly one of `at`, `every`, `cron` says when. */
const timing = {
  at: safeText(64, 1)
    .optional()
    .meta({ description: 'One time: RFC 3339 with offset, or wall time without one in `zone`' }),
  every: safeText(256, 1)
    .optional()
    .meta({
      description:
        'A rate: "90s", "5m", "1h", "1d" or "rate(5 minutes)"; or a calendar interval: "every 2 weeks on ' +
        'fri at 09:00". Counted from `startAt`, else from creation',
    }),
  cron: safeText(256, 1).optional().meta({ description: 'A calendar expression in `dialect`' }),
  dialect: z
    .enum(cronDialects)
    .default('unix')
    .meta({ description: 'How `cron` is read; stored, never guessed' }),
  dayMatch: z
    .enum(dayMatches)
    .optional()
    .meta({ description: 'When both day fields of `cron` are set; as in `dialect` if left out' }),
  zone: safeText(64, 1)
    .optional()
    .meta({
      description: 'IANA time zone; UTC if left out, or the one that an OnCalendar expression names',
      examples: ['Europe/Berlin'],
    }),
  dst: dstSchema
    .optional()
    .meta({ description: 'What happens when the clock changes; a rate is not touched by it' }),
  startAt: givenInstantSchema.optional().meta({ description: 'First planned time at or after this' }),
  endAt: givenInstantSchema.optional().meta({ description: 'No planned time at or after this' }),
  ifPast: z
    .enum(['reject', 'runNow'])
    .default('reject')
    .meta({ description: 'What to do with an `at` that is over' }),
}

/** Why `jitterMs` and `flexibleWindowMs` are not both taken. */
export const twoDelaysMessage =
  'cannot be set together with "jitterMs": a jitter differs from time to time, the flexible window is one ' +
  'delay of the schedule; set one of them to 0'

const catchUpFields = {
  policy: z.enum(['latest', 'all', 'none']),
  windowMs: durationMsSchema(365 * dayMs, 60_000),
  maxRuns: z.int().min(1).max(1000),
}

/** Each without a default; null takes a limit away. */
const policyFields = {
  jitterMs: durationMsSchema(dayMs).meta({
    description: 'Each planned time starts up to this much later, by another delay each time',
  }),
  flexibleWindowMs: durationMsSchema(dayMs).meta({
    description: 'All planned times start later by one delay of the schedule, up to this; not with a jitter',
  }),
  overlap: z
    .enum(overlapPolicies)
    .meta({ description: 'What happens to a planned time while the run before is alive' }),
  runLimit: z
    .int()
    .min(1)
    .max(1_000_000)
    .nullable()
    .meta({ description: 'Completed after so many runs, counted from when the limit was set' }),
  pauseAfterFailures: z
    .int()
    .min(1)
    .max(100)
    .nullable()
    .meta({ description: 'Paused when so many runs that it started have failed one after the other' }),
  afterCompletion: z
    .enum(afterCompletions)
    .meta({ description: 'Whether it stays when its last planned time is over; history always stays' }),
}

const policies = {
  jitterMs: policyFields.jitterMs.default(0),
  flexibleWindowMs: policyFields.flexibleWindowMs.default(0),
  catchUp: z
    .strictObject({
      policy: catchUpFields.policy.default('latest'),
      windowMs: catchUpFields.windowMs.default(365 * dayMs),
      maxRuns: catchUpFields.maxRuns.default(100),
    })
    .prefault({}),
  overlap: policyFields.overlap.default('skip'),
  runLimit: policyFields.runLimit.default(null),
  pauseAfterFailures: policyFields.pauseAfterFailures.default(null),
  afterCompletion: policyFields.afterCompletion.default('keep'),
  skipOn: calendarUse.skipOn.default([]),
  onlyOn: calendarUse.onlyOn.default([]),
  onExcluded: calendarUse.onExcluded.default('skip'),
}

/** Of a create or an update: two delays would hide what either is for. */
const oneDelay = {
  says: (value: { jitterMs?: number | undefined; flexibleWindowMs?: number | undefined }): boolean =>
    (value.jitterMs ?? 0) === 0 || (value.flexibleWindowMs ?? 0) === 0,
  refusal: { path: ['flexibleWindowMs'], error: twoDelaysMessage },
}

const target = {
  workflow: nameSchema.optional().meta({
    description: 'Name of a workflow, instead of a job: each planned time begins a run of its newest version',
  }),
  job: nameSchema.optional().meta({ description: 'Name of an existing job' }),
  handler: jobDefinitionSchema.shape.handler.optional().meta({
    description: 'Instead of `job`: a job of the same name as the schedule is made with this handler',
  }),
  retry: retryPolicySchema.optional(),
  attemptTimeoutMs: jobDefinitionSchema.shape.attemptTimeoutMs.unwrap().optional(),
  runDeadlineMs: runLimitFields.runDeadlineMs.optional(),
  startWithinMs: runLimitFields.startWithinMs.optional(),
  delivery: z.enum(deliveries).optional(),
  queue: nameSchema.optional(),
}

/** Of the job that a handler makes: without one they have nothing to apply to. */
const targetPolicies = [
  'retry',
  'attemptTimeoutMs',
  'runDeadlineMs',
  'startWithinMs',
  'delivery',
  'queue',
] as const

const ofCron = 'says how "cron" is read; give "cron" too, or leave it out'

export const scheduleCreateSchema = z
  .strictObject({
    name: nameSchema,
    description: safeText(1024).default(''),
    ...timing,
    ...policies,
    ...target,
    input: jsonSchema.optional(),
  })
  .refine(oneDelay.says, oneDelay.refusal)
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
    for (const key of ['dialect', 'dayMatch'] as const) {
      const said = key === 'dialect' ? value.dialect !== 'unix' : value.dayMatch !== undefined
      if (said && value.cron === undefined) context.addIssue({ code: 'custom', path: [key], message: ofCron })
    }
    const targets = (['job', 'workflow', 'handler'] as const).filter((key) => value[key] !== undefined)
    if (targets.length !== 1) {
      const message = 'give one of "job" (a name), "workflow" (a name) or "handler"'
      context.addIssue({ code: 'custom', path: [targets[1] ?? 'job'], message })
    }
    for (const key of targetPolicies) {
      const owner = value.job === undefined ? value.workflow && 'tasks of the workflow' : 'job'
      if (owner !== undefined && value[key] !== undefined) {
        const message = `belongs to the ${owner}; change it there`
        context.addIssue({ code: 'custom', path: [key], message })
      }
    }
  })
  .meta({ id: 'ScheduleCreate' })
export type ScheduleCreate = z.infer<typeof scheduleCreateSchema>

const warningSchema = z
  .strictObject({
    code: z.string().meta({ description: 'Of the table in the reference of schedules' }),
    message: z.string(),
    at: instantSchema.nullable().meta({ description: 'The instant that it is about, where there is one' }),
  })
  .meta({ id: 'ScheduleWarning' })

export const scheduleSchema = z
  .strictObject({
    id: idSchema,
    name: nameSchema,
    description: z.string(),
    jobId: idSchema.nullable(),
    job: nameSchema.nullable().meta({ description: 'Null where it runs a workflow' }),
    workflowId: idSchema.nullable(),
    workflow: nameSchema.nullable().meta({ description: 'Null where it runs a job' }),
    at: z.string().nullable(),
    every: z.string().nullable(),
    cron: z.string().nullable(),
    dialect: z.enum(cronDialects).nullable(),
    dayMatch: z.enum(dayMatches).nullable(),
    zone: z.string(),
    dst: dstSchema.nullable(),
    startAt: instantSchema.nullable(),
    endAt: instantSchema.nullable(),
    ...policies,
    input: jsonValueSchema,
    state: z.enum(scheduleStates),
    pausedReason: z.string().nullable(),
    pausedAt: instantSchema.nullable(),
    resumedAt: instantSchema
      .nullable()
      .meta({ description: 'Runs made before this do not count for `pauseAfterFailures`' }),
    sleepUntil: instantSchema
      .nullable()
      .meta({ description: 'Planned times before this are skipped; null while awake' }),
    sleepReason: z.string().nullable(),
    runCount: z.int().meta({ description: 'Runs started that count for `runLimit`; 0 without one' }),
    nextAt: instantSchema.nullable().meta({
      description:
        'Next planned time that runs: what calendars leave out or a sleep skips is told in `notes`; ' +
        'null if paused or completed, or if there is none',
    }),
    zoneDataVersion: z
      .string()
      .meta({ description: 'Release of the time zone data that `nextAt` was computed with' }),
    words: z.string().meta({ description: 'The timing as one English sentence, with its zone' }),
    upcoming: z.array(instantSchema).meta({ description: '`nextAt` and what follows it, at most three' }),
    warnings: z.array(warningSchema).meta({ description: 'What people misread in such a timing' }),
    notes: z.array(z.string()).meta({ description: 'How the timing was read, where that may surprise' }),
    createdAt: instantSchema,
    updatedAt: instantSchema,
  })
  .meta({ id: 'Schedule' })
export type Schedule = z.infer<typeof scheduleSchema>

/** As lists show it: without the input, which may be large, and what takes a longer look at the timing. */
export const scheduleSummarySchema = scheduleSchema
  .omit({ input: true, upcoming: true, warnings: true })
  .meta({ id: 'ScheduleSummary' })
export type ScheduleSummary = z.infer<typeof scheduleSummarySchema>

const dstChangeSchema = z.strictObject({
  gap: dstSchema.shape.gap.unwrap().nullable().optional(),
  overlap: dstSchema.shape.overlap.unwrap().nullable().optional(),
})

/** What an edit can say of when; what is left out stays, null takes away. */
const timingChange = {
  at: timing.at,
  every: timing.every,
  cron: timing.cron,
  dialect: timing.dialect.unwrap().optional(),
  dayMatch: timing.dayMatch.unwrap().nullable().optional(),
  zone: timing.zone,
  dst: dstChangeSchema.nullable().optional(),
  startAt: givenInstantSchema.nullable().optional(),
  endAt: givenInstantSchema.nullable().optional(),
  skipOn: calendarUse.skipOn.nullable().optional(),
  onlyOn: calendarUse.onlyOn.nullable().optional(),
  onExcluded: calendarUse.onExcluded.optional(),
  ifPast: z
    .enum(['reject', 'runNow'])
    .optional()
    .meta({ description: 'For a new `at` that is over; reject if left out' }),
}

function timesSaid(value: { at?: unknown; every?: unknown; cron?: unknown }): number {
  return [value.at, value.every, value.cron].filter((part) => part !== undefined).length
}

/**
 * Merge of the fields given, `catchUp` and `dst` field by field. Only a change of timing moves the next
 * planned time, and never into the past. Another `runLimit` counts from 0.
 */
export const scheduleUpdateSchema = z
  .strictObject({
    description: safeText(1024).optional(),
    ...timingChange,
    jitterMs: policyFields.jitterMs.optional(),
    flexibleWindowMs: policyFields.flexibleWindowMs.optional(),
    catchUp: z.strictObject(catchUpFields).partial().optional(),
    overlap: policyFields.overlap.optional(),
    runLimit: policyFields.runLimit.optional(),
    pauseAfterFailures: policyFields.pauseAfterFailures.optional(),
    afterCompletion: policyFields.afterCompletion.optional(),
    input: jsonSchema.optional(),
  })
  .refine(oneDelay.says, oneDelay.refusal)
  .refine((value) => timesSaid(value) <= 1, { error: 'give only one of "at", "every", "cron"' })
  .meta({ id: 'ScheduleUpdate' })
export type ScheduleUpdate = z.infer<typeof scheduleUpdateSchema>

/** The timing of a create; with `scheduleId` that of an update, merged into what is stored. */
export const schedulePreviewSchema = z
  .strictObject({
    ...timingChange,
    count: z.int().min(1).max(100).default(5),
    from: givenInstantSchema.optional().meta({ description: 'Times after this; now if left out' }),
    scheduleId: idSchema.optional().meta({ description: 'The schedule that would be changed' }),
  })
  .refine((value) => timesSaid(value) <= 1, { error: 'give only one of "at", "every", "cron"' })
  .refine((value) => value.scheduleId !== undefined || timesSaid(value) > 0, {
    error: 'say when: give one of "at", "every" or "cron"',
  })
  .meta({ id: 'SchedulePreview' })
export type SchedulePreview = z.infer<typeof schedulePreviewSchema>

const plannedTimes = z.array(instantSchema)
export const schedulePreviewedSchema = z
  .strictObject({
    next: plannedTimes.meta({ description: 'Planned times that run, without jitter' }),
    excluded: z
      .array(
        z.strictObject({
          at: instantSchema,
          calendar: z.string(),
          reason: z.string(),
          movedTo: instantSchema.nullable().meta({ description: 'The planned time that runs instead' }),
        }),
      )
      .meta({ description: 'Planned times on the way that calendars leave out, at most 100' }),
    notes: z
      .array(z.strictObject({ at: instantSchema, message: z.string() }))
      .meta({ description: 'What a change of the clock does to one of `next`' }),
    description: z.string().meta({ description: 'The timing as one English sentence, with its zone' }),
    warnings: z.array(warningSchema),
    zone: z.strictObject({ name: z.string(), dataVersion: z.string() }),
    before: plannedTimes.nullable().meta({ description: 'Of an edit: the times as they are' }),
    after: plannedTimes.nullable().meta({ description: 'Of an edit: the times as they would be' }),
  })
  .meta({ id: 'SchedulePreviewed' })
export type SchedulePreviewed = z.infer<typeof schedulePreviewedSchema>

export const scheduleListQuery = z.strictObject({
  ...pageQuery,
  name: nameSchema.optional(),
  state: z.enum(scheduleStates).optional(),
  jobId: idSchema.optional(),
  workflowId: idSchema.optional(),
})
export const schedulePageSchema = pageOf(scheduleSummarySchema)
