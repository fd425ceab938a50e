/**
 * The protocol of workers: how a process that knows nothing but the API and a token executes functions. A
 * worker opens a session, claims runs in batches, reports that it lives, and says how each attempt ended.
 *
 *   open ──► claim (waits) ──► execute ──► complete ──► … ──► close
 *              heartbeat, every `heartbeatMs`, from open to close
 *
 * 1. Everything that a worker holds hangs on its session. Without a heartbeat for `leaseMs` the session ends
 *    and the runs are given to others; every later call with it answers `session_lost`.
 * 2. Every run is named with the `leaseEpoch` under which it was claimed. What comes with an older one
 *    changes nothing and is answered as `applied: false`.
 * 3. Every call may be sent again when its answer was lost.
 */
import { z } from 'zod'
import {
  durationMsSchema,
  givenInstantSchema,
  idSchema,
  instantSchema,
  jsonUpTo,
  jsonValueSchema,
  maxResultBytes,
  nameSchema,
  pageOf,
  pageQuery,
  safeText,
} from './common.ts'
import { functionSecretsSchema, jobDefinitionSchema, jobUpdateSchema } from './jobs.ts'
import { deliveries, runStates } from './states.ts'

/** Runs in one claim, ends in one report. */
export const maxWorkerBatch = 500
/** How long a claim waits for a run, at most. */
export const maxClaimWaitMs = 20_000
/** Functions of a worker, and queues that it serves. */
export const maxWorkerFunctions = 200
export const maxWorkerQueues = 50
/** Bytes of the log of one attempt; lines beyond are dropped, and the log says so. */
export const maxLogBytes = 256 * 1024
/** Bytes of what a run reports about its progress. */
export const maxProgressBytes = 16 * 1024

const unique = (names: readonly string[]): boolean => new Set(names).size === names.length
const eachOnce = { error: 'name each one once' }

/** A function as its definition in code describes it. What is left out stays as it is on the server. */
export const functionJobSchema = z
  .strictObject({
    name: nameSchema.meta({ description: 'Name of the job and of its function' }),
    ...jobUpdateSchema.omit({ handler: true }).shape,
    secrets: functionSecretsSchema.optional(),
  })
  .meta({ id: 'FunctionJob' })
export type FunctionJob = z.infer<typeof functionJobSchema>

export const functionRegisterSchema = z
  .strictObject({ jobs: z.array(functionJobSchema).min(1).max(maxWorkerFunctions) })
  .meta({ id: 'FunctionRegister' })
export const functionRegisteredSchema = z
  .strictObject({
    jobs: z.array(
      z.strictObject({
        id: idSchema,
        name: nameSchema,
        version: z.int(),
        queue: jobDefinitionSchema.shape.queue,
        change: z.enum(['created', 'updated', 'none']),
      }),
    ),
  })
  .meta({ id: 'FunctionRegistered' })
export type FunctionRegistered = z.infer<typeof functionRegisteredSchema>

export const workerOpenSchema = z
  .strictObject({
    functions: z
      .array(nameSchema)
      .min(1)
      .max(maxWorkerFunctions)
      .refine(unique, eachOnce)
      .meta({ description: 'Names of the functions that it has' }),
    queues: z.array(nameSchema).min(1).max(maxWorkerQueues).refine(unique, eachOnce),
    slots: z.int().min(1).max(10_000).meta({ description: 'Runs at a time; for people to see' }),
    host: safeText(255).default(''),
    version: safeText(128).default('').meta({ description: 'Of the program; for people to see' }),
  })
  .meta({ id: 'WorkerOpen' })
export type WorkerOpen = z.infer<typeof workerOpenSchema>

export const workerOpenedSchema = z
  .strictObject({
    id: idSchema.meta({ description: 'The session; named in every further call' }),
    leaseMs: z.int().meta({ description: 'Without a heartbeat for so long, the session ends' }),
    heartbeatMs: z.int().meta({ description: 'How often to send one' }),
    maxBatch: z.int(),
    maxWaitMs: z.int(),
    logCapBytes: z.int(),
  })
  .meta({ id: 'WorkerOpened' })
export type WorkerOpened = z.infer<typeof workerOpenedSchema>

export const workerSchema = z
  .strictObject({
    id: idSchema,
    host: z.string(),
    version: z.string(),
    queues: z.array(z.string()),
    functions: z.array(z.string()),
    slots: z.int(),
    held: z.int().meta({ description: 'Runs that it holds now' }),
    startedAt: instantSchema,
    heartbeatAt: instantSchema,
    expiresAt: instantSchema,
  })
  .meta({ id: 'Worker' })
export type WorkerView = z.infer<typeof workerSchema>
export const workerListQuery = z.strictObject({ ...pageQuery })
export const workerPageSchema = pageOf(workerSchema)

const heldRun = { runId: idSchema, leaseEpoch: z.int().min(0) }
export const heldRunSchema = z.strictObject(heldRun).meta({ id: 'HeldRun' })

export const workerClaimSchema = z
  .strictObject({
    max: z
      .int()
      .min(0)
      .max(maxWorkerBatch)
      .meta({ description: 'Runs that there is room for; 0 waits for cancels only' }),
    waitMs: durationMsSchema(maxClaimWaitMs)
      .default(0)
      .meta({ description: 'How long to wait where nothing is ready' }),
    known: z
      .array(heldRunSchema)
      .max(10_000)
      .optional()
      .meta({
        description:
          'All runs that the worker holds, after a claim whose answer was lost: what the session holds ' +
          'beyond them is given back',
      }),
  })
  .meta({ id: 'WorkerClaim' })
export type WorkerClaim = z.infer<typeof workerClaimSchema>

export const claimedRunSchema = z
  .strictObject({
    ...heldRun,
    function: z.string(),
    jobId: idSchema,
    jobVersion: z.int(),
    queue: z.string(),
    attempt: z.int(),
    timeoutMs: z.int().meta({
      description:
        'How long the attempt may take: the limit of one attempt, or what is left until `runDeadline`, ' +
        'whichever is less. Cut it off then, and report `timed_out`',
    }),
    runDeadline: instantSchema
      .nullable()
      .meta({ description: 'The whole run must be over by then, with all its attempts; null: no limit' }),
    delivery: z.enum(deliveries).meta({
      description: '`at_most_once`: it is called this once; whatever is no success ends the run',
    }),
    idempotencyKey: z.string(),
    scheduledFor: instantSchema.nullable(),
    traceparent: z.string(),
    input: jsonValueSchema,
    secrets: z
      .record(z.string(), z.string())
      .optional()
      .meta({ description: 'Values of the secrets that the job names; mask them in all that is sent back' }),
  })
  .meta({ id: 'ClaimedRun' })
export type ClaimedFunctionRun = z.infer<typeof claimedRunSchema>

const cancelRunIds = z
  .array(idSchema)
  .meta({ description: 'Runs that it holds and whose cancel was asked for' })

const heldRunIds = z.array(idSchema).meta({
  description:
    'All runs that the session holds. One that the worker held before it sent this call and that is not ' +
    'among them was ended elsewhere: stop it, there is nothing to report. Null: nothing new is known',
})

export const workerClaimedSchema = z
  .strictObject({ runs: z.array(claimedRunSchema), heldRunIds: heldRunIds.nullable(), cancelRunIds })
  .meta({ id: 'WorkerClaimed' })
export type WorkerClaimed = z.infer<typeof workerClaimedSchema>

export const workerHeartbeatSchema = z
  .strictObject({
    progress: z
      .array(z.strictObject({ ...heldRun, progress: jsonUpTo(maxProgressBytes) }))
      .max(maxWorkerBatch)
      .default([])
      .meta({ description: 'The latest of each run that has something new to say' }),
  })
  .meta({ id: 'WorkerHeartbeat' })
export const workerHeartbeatAnswerSchema = z
  .strictObject({ leaseMs: z.int(), heldRunIds, cancelRunIds })
  .meta({ id: 'WorkerHeartbeatAnswer' })

/** How a worker says that an attempt ended. */
export const workerOutcomes = ['succeeded', 'failed', 'timed_out', 'canceled', 'skipped', 'released'] as const

export const attemptReportSchema = z
  .strictObject({
    ...heldRun,
    outcome: z.enum(workerOutcomes).meta({
      description:
        '`failed`: as `retryable` says. `timed_out`: cut off after `timeoutMs`. `canceled`: after a ' +
        'cancel, or the function called it off. `skipped`: the function had nothing to do. `released`: the ' +
        'worker stops; not counted as an attempt',
    }),
    durationMs: z.int().min(0).max(2_147_483_647),
    result: jsonUpTo(maxResultBytes)
      .optional()
      .meta({ description: `What a success answers: JSON, at most ${maxResultBytes} bytes` }),
    error: z.strictObject({ code: safeText(128, 1), message: safeText(16_384) }).optional(),
    retryable: z.boolean().default(true).meta({ description: 'False: another attempt cannot help' }),
    retryAfterMs: durationMsSchema(86_400_000)
      .optional()
      .meta({ description: 'The next attempt not before' }),
  })
  .meta({ id: 'AttemptReport' })
export type AttemptReport = z.infer<typeof attemptReportSchema>

export const workerCompleteSchema = z
  .strictObject({ ends: z.array(attemptReportSchema).min(1).max(maxWorkerBatch) })
  .meta({ id: 'WorkerComplete' })
export const workerCompletedSchema = z
  .strictObject({
    results: z.array(
      z.strictObject({
        ...heldRun,
        applied: z.boolean().meta({ description: 'False: the run is no longer held under this epoch' }),
        state: z
          .enum(runStates)
          .nullable()
          .meta({ description: 'Of the run after it; null where it was not applied' }),
      }),
    ),
  })
  .meta({ id: 'WorkerCompleted' })
export type WorkerCompleted = z.infer<typeof workerCompletedSchema>

export const workerReleaseSchema = z
  .strictObject({ runs: z.array(heldRunSchema).min(1).max(maxWorkerBatch) })
  .meta({ id: 'WorkerRelease', description: 'Runs that were claimed and not begun' })
export const workerReleasedSchema = z
  .strictObject({ releasedRunIds: z.array(idSchema) })
  .meta({ id: 'WorkerReleased' })

export const logLevels = ['debug', 'info', 'warn', 'error'] as const

export const logLineSchema = z
  .strictObject({
    at: givenInstantSchema,
    level: z.enum(logLevels),
    message: safeText(16_384),
    fields: jsonUpTo(16_384).optional(),
  })
  .meta({ id: 'LogLine' })
export type LogLine = z.infer<typeof logLineSchema>

export const logChunkSchema = z
  .strictObject({
    ...heldRun,
    firstLine: z.int().min(0).max(1_000_000).meta({
      description: 'Number of the first line among those of the attempt, from 0; sent again, it adds nothing',
    }),
    lines: z.array(logLineSchema).min(1).max(1_000),
  })
  .meta({ id: 'LogChunk' })
export type LogChunk = z.infer<typeof logChunkSchema>

export const workerLogSchema = z
  .strictObject({ chunks: z.array(logChunkSchema).min(1).max(maxWorkerBatch) })
  .meta({ id: 'WorkerLog' })
export const workerLoggedSchema = z
  .strictObject({
    results: z.array(
      z.strictObject({
        ...heldRun,
        kept: z.boolean().meta({ description: 'False: the run is not held, or its log is full' }),
        full: z.boolean().meta({ description: 'Nothing more of this attempt is kept' }),
      }),
    ),
    logCapBytes: z.int(),
  })
  .meta({ id: 'WorkerLogged' })

/** Nothing may be said; the body may be left out. */
export const workerCloseSchema = z.strictObject({}).meta({ id: 'WorkerClose' })

/** Numbers of attempts and lines that the database can hold. */
const mostCounted = 2_000_000_000

export const runLogQuery = z.strictObject({
  attempt: z.coerce
    .number()
    .int()
    .min(1)
    .max(mostCounted)
    .optional()
    .meta({ description: 'The newest if left out' }),
  after: z.coerce
    .number()
    .int()
    .min(-1)
    .max(mostCounted)
    .default(-1)
    .meta({ description: 'Only lines behind this one; `lastLine` of the page before' }),
})
export const runLogSchema = z
  .strictObject({
    attempt: z.int().nullable().meta({ description: 'Null: no attempt has logged anything' }),
    lines: z.array(z.strictObject({ number: z.int(), ...logLineSchema.shape, at: instantSchema })),
    lastLine: z.int(),
    more: z.boolean().meta({ description: 'There are further lines already' }),
    full: z.boolean().meta({ description: 'Lines beyond the cap were dropped' }),
    logCapBytes: z.int(),
  })
  .meta({ id: 'RunLog' })
export type RunLog = z.infer<typeof runLogSchema>
