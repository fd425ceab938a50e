/**
 * Why a run is where it is: the first thing that holds it back now, since when, who or what it is, when it
 * may pass, and what can be done; or, of a run that ended, why it ended so. And the timeline: what happened
 * to it, step by step, with the reason of every delay.
 */
import { z } from 'zod'
import { idSchema, instantSchema } from './common.ts'
import { runReasons, runStates } from './states.ts'

/**
 * What was looked at, in this order; the first that holds is the verdict. `ended` and `running` hold nothing
 * back.
 */
export const runVerdicts = [
  'ended',
  'running',
  'cancel_requested',
  'worker_lost',
  'waiting_for_run',
  'waiting_for_dependencies',
  'gathering',
  'waiting_for_time',
  'retry_delay',
  'held',
  'no_worker',
  'queued',
] as const
export type RunVerdict = (typeof runVerdicts)[number]

export const runExplanationSchema = z
  .strictObject({
    runId: idSchema,
    job: z.string().meta({ description: 'Name of the job; of a task that has none, workflow/task' }),
    state: z.enum(runStates),
    reason: z.enum(runReasons).nullable(),
    verdict: z.enum(runVerdicts).meta({ description: 'The first check that holds' }),
    message: z.string().meta({ description: 'In words: what holds it, or why it ended so' }),
    since: instantSchema.nullable().meta({ description: 'Since when that is so, where it is known' }),
    clearsAt: instantSchema
      .nullable()
      .meta({ description: 'When it may pass by itself; null: not known, or not by itself' }),
    fix: z.string().nullable().meta({ description: 'What can be done, in words' }),
    runIds: z.array(idSchema).meta({ description: 'Runs that it waits for, where it does' }),
    workerId: idSchema.nullable().meta({ description: 'Session of the worker that runs it' }),
    place: z.strictObject({ ahead: z.int(), capped: z.boolean() }).nullable().meta({
      description: 'Runs before it in the fair order of its queue; `capped`: at least so many',
    }),
    now: instantSchema,
  })
  .meta({ id: 'RunExplanation' })
export type RunExplanation = z.infer<typeof runExplanationSchema>

/**
 * Steps of a run. A delay says what it waits or waited for: `due_time` its own time, `run` another run of its
 * schedule, `dependencies` the runs that it depends on, `limit` a limit or a pause, `retry_backoff`,
 * `retry_after` (the handler asked for it), `crash_backoff` after a lost worker, `queue` its turn or a free
 * worker.
 */
export const timelineKinds = ['created', 'delay', 'due', 'attempt', 'ended'] as const
export const delayReasons = [
  'due_time',
  'run',
  'dependencies',
  'limit',
  'retry_backoff',
  'retry_after',
  'crash_backoff',
  'queue',
] as const
export type DelayReason = (typeof delayReasons)[number]

export const timelineEntrySchema = z
  .strictObject({
    kind: z.enum(timelineKinds),
    at: instantSchema.meta({ description: 'When it happened or began' }),
    until: instantSchema
      .nullable()
      .meta({ description: 'When it ended, or is expected to; null: it goes on, or takes no time' }),
    over: z.boolean().meta({ description: 'Whether it has ended' }),
    reason: z.enum(delayReasons).nullable().meta({ description: 'Of a delay' }),
    attempt: z.int().nullable(),
    words: z.string().meta({ description: 'The same in words' }),
  })
  .meta({ id: 'TimelineEntry' })
export type TimelineEntry = z.infer<typeof timelineEntrySchema>
