/**
 * Queues as the runs of a tenant stand in them: in which order they will start and why, what holds those that
 * are held, and whether the queue is paused for this tenant.
 */
import { z } from 'zod'
import { idSchema, instantSchema, nameSchema, safeText } from './common.ts'

export const pauseReason = safeText(512, 1).default('Paused by hand.')
export const limitPauseSchema = z.strictObject({ reason: pauseReason }).meta({ id: 'LimitPause' })

export const limitResumeSchema = z.strictObject({}).meta({ id: 'LimitResume' })

/** Null: not paused. */
export const pauseStateSchema = z
  .strictObject({ reason: z.string(), since: instantSchema })
  .nullable()
  .meta({ id: 'PauseState' })
export type PauseState = z.infer<typeof pauseStateSchema>

/** Runs of each kind that are counted; more are shown as this many. */
export const maxCounted = 10_000

export const queueSummarySchema = z
  .strictObject({
    name: nameSchema,
    ready: z.int().meta({ description: `Runs that a worker may take now, up to ${maxCounted}` }),
    held: z.int().meta({ description: `Runs behind the gate, up to ${maxCounted}` }),
    running: z.int().meta({ description: `Up to ${maxCounted}` }),
    oldestReadyAt: instantSchema.nullable().meta({ description: 'Since when the first of them is ready' }),
    paused: pauseStateSchema,
  })
  .meta({ id: 'QueueSummary' })
export type QueueSummary = z.infer<typeof queueSummarySchema>

export const queueListSchema = z
  .strictObject({ items: z.array(queueSummarySchema) })
  .meta({ id: 'QueueList' })

/** What holds a run. `notice`: it has come just now and was not looked at yet. */
export const holdKinds = [
  'paused_job',
  'paused_queue',
  'tenant',
  'job',
  'key',
  'pool',
  'rate',
  'unclaimed',
  'notice',
] as const
export type HoldKind = (typeof holdKinds)[number]

export const holdSchema = z
  .strictObject({
    kind: z.enum(holdKinds),
    name: z.string().nullable().meta({ description: 'Name of the job, queue or pool' }),
    limit: z.int().nullable(),
    used: z.int().nullable(),
    holders: z.array(idSchema).meta({ description: 'Runs that have the slots, oldest first, at most 10' }),
    since: instantSchema.nullable().meta({ description: 'Of a pause' }),
    until: instantSchema.nullable().meta({ description: 'When the next token is due, of a rate' }),
    reason: z.string().nullable().meta({ description: 'Of a pause, as it was given' }),
  })
  .meta({ id: 'Hold' })
export type Hold = z.infer<typeof holdSchema>

export const queuedRunSchema = z
  .strictObject({
    runId: idSchema,
    job: z.string(),
    place: z.int().meta({ description: 'Among all runs of the queue that this tenant has ready, from 1' }),
    priority: z.int(),
    tag: z.number().meta({ description: 'Place in the fair order of the queue; the lowest starts first' }),
    ahead: z
      .number()
      .meta({ description: 'How far the tag lies before the service of the queue, in places' }),
    priorityEffect: z
      .number()
      .meta({ description: 'Places that its priority moves it by; it shrinks as the service comes near' }),
    readySince: instantSchema,
    why: z.string().meta({ description: 'In words' }),
  })
  .meta({ id: 'QueuedRun' })
export type QueuedRun = z.infer<typeof queuedRunSchema>

export const heldGroupSchema = z
  .strictObject({
    job: z.string(),
    runs: z.int().meta({ description: 'Up to 1,000' }),
    firstRunId: idSchema.nullable(),
    hold: holdSchema,
    why: z.string().meta({ description: 'In words' }),
  })
  .meta({ id: 'HeldGroup' })
export type HeldGroup = z.infer<typeof heldGroupSchema>

export const queueSchema = z
  .strictObject({
    ...queueSummarySchema.shape,
    weight: z.number().meta({ description: 'Share of the tenant among those who use the queue' }),
    next: z.array(queuedRunSchema).meta({ description: 'In the order in which they will start' }),
    heldGroups: z
      .array(heldGroupSchema)
      .meta({ description: 'Runs that wait together, with what holds them, in the order of their tags' }),
  })
  .meta({ id: 'Queue' })
export type Queue = z.infer<typeof queueSchema>

export const queueQuery = z.strictObject({
  limit: z.coerce.number().int().min(1).max(200).default(20),
})
