/**
 * Backfills: runs for planned times of a schedule that are over. Which times, in which order, how many at
 * once, and what of those that have run already; what a preview answers; how far one has come.
 */
import { z } from 'zod'
import {
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

/**
 * `pending`: no step was taken yet. `running`: also when no time is left and runs are still alive. The last
 * two are terminal: `completed` when all its runs have ended, however they did.
 */
export const backfillStates = ['pending', 'running', 'paused', 'completed', 'canceled'] as const
export type BackfillState = (typeof backfillStates)[number]

export const backfillOrders = ['oldest_first', 'newest_first'] as const
export type BackfillOrder = (typeof backfillOrders)[number]

/**
 * Which planned times run, by the newest run that is on record of them. `none`: those without any. `failed`:
 * also those whose newest run did not succeed. `all`: every one. Never one whose run is alive.
 */
export const backfillReprocesses = ['none', 'failed', 'all'] as const
export type BackfillReprocess = (typeof backfillReprocesses)[number]

/** Planned times in one backfill. */
export const maxBackfillTimes = 1_000_000
/** Backfills of a tenant that are not over. */
export const maxOpenBackfills = 100
/** Planned times that a preview looks at one by one. */
export const maxPreviewedTimes = 5_000
/** Runs of one backfill that are alive at the same time. */
export const maxBackfillConcurrency = 100

const settings = {
  order: z.enum(backfillOrders).meta({ description: 'Which planned times come first' }),
  concurrency: z
    .int()
    .min(1)
    .max(maxBackfillConcurrency)
    .meta({ description: 'Runs of it that are alive at the same time, at most' }),
  reprocess: z.enum(backfillReprocesses).meta({
    description:
      'Planned times that run again: none that have a run, those whose newest run did not succeed, or all; ' +
      'never one whose run is alive',
  }),
}

export const backfillCreateSchema = z
  .strictObject({
    from: givenInstantSchema.meta({ description: 'Planned times at or after this' }),
    to: givenInstantSchema
      .optional()
      .meta({ description: 'Planned times before this; now if left out, and never later' }),
    order: settings.order.default('oldest_first'),
    concurrency: settings.concurrency.default(4),
    reprocess: settings.reprocess.default('none'),
    input: jsonSchema.optional().meta({ description: 'Instead of the input of the schedule' }),
  })
  .meta({ id: 'BackfillCreate' })
export type BackfillCreate = z.infer<typeof backfillCreateSchema>

/** What a backfill would do, as far as was looked: counts are lower bounds where `exact` is false. */
export const backfillPreviewSchema = z
  .strictObject({
    exact: z.boolean().meta({
      description: `Whether every planned time was looked at; else the first ${maxPreviewedTimes} were`,
    }),
    looked: z.int().meta({ description: 'Planned times that the counts below are of' }),
    wouldRun: z.int(),
    excluded: z.int().meta({ description: 'Left out by calendars' }),
    leftToSchedule: z.int().meta({ description: 'Not yet fired by the schedule, which will' }),
    without: z.int().meta({ description: 'Without any run on record' }),
    alive: z.int().meta({ description: 'With a run that waits or runs' }),
    succeeded: z.int().meta({ description: 'Whose newest run succeeded' }),
    failed: z.int().meta({ description: 'Whose newest run failed' }),
    canceled: z.int().meta({ description: 'Whose newest run was canceled' }),
    unknown: z.int().meta({ description: 'With a run whose end is no longer on record' }),
    first: z.array(instantSchema).meta({ description: 'The first ten planned times that would run' }),
    last: z.array(instantSchema).meta({
      description: 'The last ten, without those in `first`; both ends are looked at, whatever the order',
    }),
    notes: z.array(z.string()).meta({ description: 'What a person should know before starting it' }),
  })
  .meta({ id: 'BackfillPreview' })
export type BackfillPreview = z.infer<typeof backfillPreviewSchema>

export const backfillSchema = z
  .strictObject({
    id: idSchema,
    scheduleId: idSchema,
    schedule: nameSchema,
    from: instantSchema,
    to: instantSchema,
    ...settings,
    input: jsonValueSchema.meta({ description: 'Null: the input of the schedule' }),
    state: z.enum(backfillStates),
    reason: z.string().nullable().meta({ description: 'Why it is paused or was canceled' }),
    total: z.int().meta({ description: 'Planned times in the range, excluded ones among them' }),
    started: z.int().meta({ description: 'Runs that it has started' }),
    skipped: z.int().meta({
      description: 'Planned times that it passed over: run before, alive, excluded, left to the schedule',
    }),
    alive: z.int().meta({ description: 'Runs of it that wait or run' }),
    succeeded: z.int(),
    failed: z.int(),
    canceled: z.int(),
    nextAt: instantSchema.nullable().meta({ description: 'The planned time that is looked at next' }),
    preview: backfillPreviewSchema.nullable().meta({ description: 'Of a dry run; else null' }),
    createdAt: instantSchema,
    startedAt: instantSchema.nullable(),
    endedAt: instantSchema.nullable(),
  })
  .meta({ id: 'Backfill' })
export type Backfill = z.infer<typeof backfillSchema>

/** As lists show it: without the input, which may be large. */
export const backfillSummarySchema = backfillSchema
  .omit({ input: true, preview: true })
  .meta({ id: 'BackfillSummary' })
export type BackfillSummary = z.infer<typeof backfillSummarySchema>

export const backfillListQuery = z.strictObject({
  ...pageQuery,
  scheduleId: idSchema.optional(),
  state: z.enum(backfillStates).optional(),
})
export const backfillPageSchema = pageOf(backfillSummarySchema)

const reason = safeText(512).default('')

export const backfillPauseSchema = z.strictObject({ reason }).meta({ id: 'BackfillPause' })
/** Nothing may be said; the body may be left out. */
export const backfillResumeSchema = z.strictObject({}).meta({ id: 'BackfillResume' })
export const backfillCancelSchema = z
  .strictObject({
    reason,
    cancelRuns: z
      .boolean()
      .default(false)
      .meta({ description: 'Cancels its runs that wait or run as well; else they go on' }),
  })
  .meta({ id: 'BackfillCancel' })

export function isBackfillOver(state: BackfillState): boolean {
  return state === 'completed' || state === 'canceled'
}
