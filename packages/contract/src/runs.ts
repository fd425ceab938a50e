/**
 * Runs and their attempts: one execution of a job, its tries, what each answered. What is listed is a
 * summary; the run itself has its input and its newest attempts, and all attempts have a list of their own.
 */
import { z } from 'zod'
import {
  givenInstantSchema,
  idSchema,
  instantSchema,
  jsonSchema,
  jsonValueSchema,
  maxResultBytes,
  nameSchema,
  pageOf,
  pageQuery,
  safeText,
  smallPageQuery,
} from './common.ts'
import { runLimitFields } from './retry-policy.ts'
import { reasonWords } from './run-reasons.ts'
import { taskIdSchema } from './workflow-paths.ts'
import { timelineEntrySchema } from './run-explanations.ts'
import {
  attemptOutcomes,
  deliveries,
  runReasons,
  runSources,
  runStates,
  terminalRunStates,
} from './states.ts'
import { defaultTriggerRule, triggerRules } from './workflow-words.ts'

/** How many attempts, the newest, a run is shown with. */
export const maxShownAttempts = 100

/** Bytes of a target's response that are kept with an attempt. */
export const maxCapturedBytes = 16 * 1024

/** Runs that one run depends on, at most. */
export const maxDependencies = 1_000

const dependencyFields = {
  dependsOn: z
    .array(idSchema)
    .min(1)
    .max(maxDependencies)
    .refine((ids) => new Set(ids).size === ids.length, { error: 'names a run twice; name it once' })
    .optional()
    .meta({
      description:
        'Runs of any job that have to end first; those that have ended count as they ended. Until then it ' +
        'is `waiting_for_dependencies`',
    }),
  rule: z
    .enum(triggerRules)
    .optional()
    .meta({
      description: `How the runs of \`dependsOn\` have to end; ${defaultTriggerRule} if left out`,
    }),
}
const ruleWithoutRuns = { path: ['rule'], error: 'needs dependsOn; give the runs, or leave this out' }
const hasDependencies = (body: { dependsOn?: unknown; rule?: unknown }) =>
  body.rule === undefined || body.dependsOn !== undefined

/** How long a dedupe key is held by the run of its first request. */
const dedupeFields = {
  dedupeKey: safeText(256, 1).optional().meta({
    description:
      'While a run of the job holds this key, a request with it makes no other and answers that run',
  }),
  dedupe: z
    .strictObject({
      windowMs: z
        .int()
        .min(1_000)
        .max(30 * 86_400_000)
        .optional()
        .meta({
          description: 'The key is held for so long from the request on, also when the run has ended',
        }),
      while: z
        .literal('active')
        .optional()
        .meta({ description: 'The key is held while the run waits or runs; the default' }),
    })
    .refine(({ windowMs, while: active }) => (windowMs === undefined) !== (active === undefined), {
      error: 'give either windowMs or while',
    })
    .optional()
    .meta({ description: 'How long this run will hold its dedupeKey' }),
}

/** Says nothing by itself. */
const dedupeWithoutKey = {
  path: ['dedupe'],
  error: 'needs a dedupeKey; give one, or leave this out',
}
export const hasDedupeKey = (body: { dedupeKey?: string | undefined; dedupe?: object | undefined }) =>
  body.dedupe === undefined || body.dedupeKey !== undefined
export const dedupeRequest = { fields: dedupeFields, refusal: dedupeWithoutKey }

export const runCreateSchema = z
  .strictObject({
    job: nameSchema,
    input: jsonSchema.optional(),
    runAt: givenInstantSchema.optional().meta({
      description: 'Not before this; now if left out. One that is over by more than a minute is refused',
    }),
    queue: nameSchema.optional(),
    priority: z.int().min(-100).max(100).optional(),
    runDeadlineMs: runLimitFields.runDeadlineMs.optional(),
    startWithinMs: runLimitFields.startWithinMs.optional(),
    ...dependencyFields,
    ...dedupeFields,
  })
  .refine(hasDedupeKey, dedupeWithoutKey)
  .refine(hasDependencies, ruleWithoutRuns)
  .meta({ id: 'RunCreate' })
export type RunCreate = z.infer<typeof runCreateSchema>

export const runErrorSchema = z
  .strictObject({ code: z.string(), message: z.string() })
  .meta({ id: 'RunError', description: 'Why an attempt failed: a stable code and words' })
export type RunError = z.infer<typeof runErrorSchema>

export const attemptSchema = z
  .strictObject({
    number: z.int().meta({ description: '0: the run ended while it waited, without an attempt' }),
    outcome: z.enum([...attemptOutcomes, 'running']),
    startedAt: instantSchema,
    endedAt: instantSchema.nullable(),
    durationMs: z.int().nullable(),
    error: runErrorSchema.nullable(),
    httpStatus: z.int().nullable(),
    response: z.string().nullable(),
    responseTruncated: z.boolean(),
    responseHeaders: z.record(z.string(), z.string()).nullable().meta({
      description:
        'Headers of the response that the job asked to keep (`capture`); null where there are none',
    }),
    responseCapBytes: z.int(),
    result: jsonValueSchema.meta({
      description: `What the function answered, at most ${maxResultBytes} bytes; null where there is none`,
    }),
    retryAt: instantSchema.nullable().meta({ description: 'When the next attempt becomes due' }),
    workerId: idSchema.nullable().meta({ description: 'Session of the worker' }),
    leaseEpoch: z.int(),
    progress: jsonValueSchema.meta({
      description: 'What the running attempt last said of its progress; null otherwise',
    }),
  })
  .meta({ id: 'Attempt' })
export type Attempt = z.infer<typeof attemptSchema>

const reasonsInWords = Object.entries(reasonWords)
  .map(([reason, words]) => `\`${reason}\`: ${words}`)
  .join(' ')

const runCore = {
  id: idSchema,
  jobId: idSchema,
  job: z
    .string()
    .regex(/^[A-Za-z0-9._/-]{1,193}$/)
    .meta({ description: 'Name of the job; `<workflow>/<task>` for one of a workflow itself' }),
  jobVersion: z.int(),
  scheduleId: idSchema.nullable(),
  scheduledFor: instantSchema
    .nullable()
    .meta({ description: 'Nominal time of the occurrence that asked for it' }),
  source: z.enum(runSources),
  state: z.enum(runStates),
  reason: z
    .enum(runReasons)
    .nullable()
    .meta({ description: `Why it ended so. ${reasonsInWords}` }),
  queue: nameSchema,
  priority: z.int(),
  runAs: nameSchema.nullable().meta({ description: 'The service account as which it runs' }),
  delivery: z.enum(deliveries).meta({
    description: '`at_most_once`: the handler is never called a second time, whatever happens',
  }),
  attempts: z.int().meta({ description: 'Attempts begun so far' }),
  maxAttempts: z.int(),
  idempotencyKey: z.string(),
  createdAt: instantSchema,
  dueAt: instantSchema.meta({ description: 'When it was, or is, first meant to start' }),
  nextAttemptAt: instantSchema.nullable(),
  startBy: instantSchema.nullable().meta({
    description:
      'The first attempt must start by then, or the run ends as `expired`; null once it has, or without a ' +
      'limit',
  }),
  runDeadline: instantSchema.nullable().meta({
    description: 'The whole run must be over by then; null without a limit, and once it is over',
  }),
  startedAt: instantSchema.nullable().meta({ description: 'Start of the first attempt' }),
  finishedAt: instantSchema.nullable(),
  lateMs: z.int().nullable().meta({ description: 'startedAt − dueAt, in ms' }),
  cancelRequested: z.boolean(),
}

export const runSummarySchema = z.strictObject(runCore).meta({ id: 'RunSummary' })
export type RunSummary = z.infer<typeof runSummarySchema>

export const dependencySchema = z
  .strictObject({
    runId: idSchema,
    state: z
      .enum([...terminalRunStates, 'unknown'])
      .nullable()
      .meta({
        description: 'How it ended; null: not yet, or it was not looked at; `unknown`: its record is gone',
      }),
  })
  .meta({ id: 'Dependency' })
export type Dependency = z.infer<typeof dependencySchema>

export const runSchema = z
  .strictObject({
    ...runCore,
    input: jsonValueSchema,
    dependsOn: z.array(dependencySchema).meta({ description: 'The runs that it depends on' }),
    rule: z
      .enum(triggerRules)
      .nullable()
      .meta({ description: 'How they have to end; null where it depends on none' }),
    cancelReason: z.string().nullable().meta({ description: 'What was said when its cancel was asked for' }),
    replayOf: idSchema.nullable().meta({
      description: 'The failed run that it replays; null also where that is no longer on record',
    }),
    replayedAs: idSchema.nullable().meta({ description: 'The run that replays this one, which failed' }),
    attemptList: z
      .array(attemptSchema)
      .meta({ description: `The newest ${maxShownAttempts}, in the order they began; all: /attempts` }),
    attemptsTotal: z.int().meta({ description: 'How many there are, with those that are not shown here' }),
    timeline: z.array(timelineEntrySchema).meta({
      description: 'What happened to it, step by step; of the attempts those that are shown here',
    }),
  })
  .meta({ id: 'Run' })
export type Run = z.infer<typeof runSchema>

const stateList = z
  .string()
  .max(256)
  .transform((text) => text.split(','))
  .pipe(z.array(z.enum(runStates)).min(1))

export const runListQuery = z.strictObject({
  ...pageQuery,
  state: stateList.optional().meta({ description: 'One or more states, separated by commas' }),
  jobId: idSchema.optional(),
  job: nameSchema.optional(),
  scheduleId: idSchema.optional(),
  backfillId: idSchema.optional(),
  workflowRunId: idSchema.optional().meta({ description: 'Of its tasks, those before a rerun too' }),
  task: taskIdSchema.optional().meta({ description: 'Of this task; with workflowRunId' }),
  createdAfter: givenInstantSchema.optional(),
  createdBefore: givenInstantSchema.optional(),
})
export const runPageSchema = pageOf(runSummarySchema)

export const attemptListQuery = z.strictObject({ ...smallPageQuery })
export const attemptPageSchema = pageOf(attemptSchema)

export const cancelReasonSchema = safeText(512, 1).meta({
  description: 'Why, in your words; kept with the run and shown',
})

/** The body may be left out. */
export const cancelSchema = z.strictObject({ reason: cancelReasonSchema.optional() }).meta({ id: 'Cancel' })
