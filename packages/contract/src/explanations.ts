/**
 * Explanations of a schedule: when it runs next, and why it ran or did not run at a time. Each planned time
 * comes with a verdict, a sentence, and what to change; everybody who shows one shows these sentences.
 */
import { z } from 'zod'
import { givenInstantSchema, idSchema, instantSchema, nameSchema, safeText } from './common.ts'
import {
  occurrenceOutcomes,
  occurrenceReasons,
  runReasons,
  runSources,
  runStates,
  scheduleStates,
} from './states.ts'

/** Planned times in one explanation, at most. */
export const maxExplainedTimes = 100

/**
 * What is known of a time. `ran`, `skipped`, `missed`: as its row says. `summed`: one row stands for many
 * times, this among them. `waiting`: held back by its delay. `due`: nobody looked at it yet. `older_timing`,
 * `pruned`, `no_record`: nobody can tell any more. `not_planned` and what follows: nothing was planned then.
 */
export const explainVerdicts = [
  'ran',
  'skipped',
  'missed',
  'summed',
  'waiting',
  'due',
  'not_yet',
  'paused',
  'completed',
  'older_timing',
  'pruned',
  'no_record',
  'not_planned',
  'before_creation',
  'before_start',
  'after_end',
  'deleted',
] as const
export type ExplainVerdict = (typeof explainVerdicts)[number]

export const explainQuery = z
  .strictObject({
    at: safeText(64, 1)
      .optional()
      .meta({
        description:
          'The time in question: an instant, a wall time of the schedule as 2026-12-01T02:30, or a day: ' +
          '2026-12-01, today, yesterday',
      }),
    from: givenInstantSchema.optional().meta({ description: 'Times at or after this' }),
    to: givenInstantSchema.optional().meta({ description: 'Times before this; now if left out' }),
    limit: z.coerce.number().int().min(1).max(maxExplainedTimes).default(50),
  })
  .refine((query) => query.at === undefined || (query.from === undefined && query.to === undefined), {
    path: ['at'],
    error: 'give either "at", or "from" and "to"',
  })

const explainedRunSchema = z
  .strictObject({
    id: idSchema,
    source: z.enum(runSources),
    backfillId: idSchema.nullable(),
    state: z.enum(runStates),
    reason: z.enum(runReasons).nullable(),
    startedAt: instantSchema.nullable(),
    finishedAt: instantSchema.nullable(),
  })
  .meta({ id: 'ExplainedRun' })

export const explainedTimeSchema = z
  .strictObject({
    scheduledFor: instantSchema,
    local: z.iso.datetime({ offset: true }).meta({
      description: 'The same on the wall clock of the schedule',
      examples: ['2026-12-01T03:30:00+01:00'],
    }),
    verdict: z.enum(explainVerdicts),
    message: z.string().meta({ description: 'What became of it, in words' }),
    fix: z.string().nullable().meta({ description: 'What to change or to do, in words' }),
    note: z.string().nullable().meta({ description: 'What a change of the clock did to it' }),
    outcome: z.enum(occurrenceOutcomes).nullable().meta({ description: 'Of the row that tells it' }),
    reason: z.enum(occurrenceReasons).nullable(),
    detail: z.string().nullable(),
    missedCount: z.int().nullable().meta({ description: 'Planned times that the row stands for' }),
    firedAt: instantSchema.nullable(),
    lateMs: z.int().nullable().meta({ description: 'firedAt − (scheduledFor + delay), in ms' }),
    runs: z.array(explainedRunSchema).meta({
      description: 'The run of the schedule itself, then those of backfills and triggers for this time',
    }),
  })
  .meta({ id: 'ExplainedTime' })
export type ExplainedTime = z.infer<typeof explainedTimeSchema>

export const explanationSchema = z
  .strictObject({
    scheduleId: idSchema,
    schedule: nameSchema,
    state: z.enum([...scheduleStates, 'deleted']),
    standing: z.string().meta({ description: 'How it stands now and why, in words' }),
    words: z.string().nullable().meta({ description: 'The timing in words; null where it was deleted' }),
    zone: z.string(),
    now: instantSchema,
    next: z.array(explainedTimeSchema).meta({ description: 'What comes, at most three' }),
    from: instantSchema,
    to: instantSchema,
    planned: z
      .strictObject({ count: z.int(), capped: z.boolean() })
      .nullable()
      .meta({ description: 'Planned times from `from` to `to` by the timing as it is; `capped`: at least' }),
    times: z.array(explainedTimeSchema).meta({ description: 'In order, planned times and rows' }),
    more: instantSchema.nullable().meta({ description: 'Where to go on, as `from`; null: that was all' }),
  })
  .meta({ id: 'Explanation' })
export type Explanation = z.infer<typeof explanationSchema>
