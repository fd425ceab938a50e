/**
 * Jobs: handler, retry policy, timeouts, delivery. A job is versioned: each change of its definition is a new
 * version.
 */
import { z } from 'zod'
import {
  durationMsSchema,
  idSchema,
  instantSchema,
  nameSchema,
  pageOf,
  pageQuery,
  safeText,
} from './common.ts'
import { containerHandlerSchema } from './container-handler.ts'
import { gatherFields } from './gathering.ts'
import { httpHandlerSchema, httpMethods, targetUrlSchema } from './http-handler.ts'
import { lambdaHandlerSchema } from './lambda-handler.ts'
import { limitFields } from './limits.ts'
import { secretNameSchema } from './placeholders.ts'
import { pauseStateSchema } from './queues.ts'
import { retryChangeSchema, retryPolicySchema, runLimitFields } from './retry-policy.ts'
import { maxSecretsOfHandler } from './secret-refs.ts'
import { deliveries } from './states.ts'

const hourMs = 3_600_000

export const functionSecretsSchema = z
  .array(secretNameSchema)
  .max(maxSecretsOfHandler)
  .refine((names) => new Set(names).size === names.length, { error: 'name each secret once' })
  .meta({ description: 'Secrets that the function is given when it is called, by name' })

/** Code in a worker of the SDK, by its name: the run goes to workers that have it and serve the queue. */
export const functionHandlerSchema = z
  .strictObject({
    kind: z.literal('function'),
    name: nameSchema.meta({ description: 'Name of the function, as workers define it' }),
    secrets: functionSecretsSchema.optional(),
  })
  .meta({ id: 'FunctionHandler' })
export type FunctionHandlerDefinition = z.infer<typeof functionHandlerSchema>

/** How a run is executed: what a job or a task of a workflow says of it. */
export const jobHandlerSchema = z.discriminatedUnion('kind', [
  httpHandlerSchema,
  functionHandlerSchema,
  containerHandlerSchema,
  lambdaHandlerSchema,
])
export type JobHandler = z.infer<typeof jobHandlerSchema>

const runAsSchema = nameSchema.nullable().meta({
  description:
    'Name of the service account that it runs as: whose secrets and queues it may use, whoever changed it ' +
    'last. Null: it has what is granted to itself',
})

const deliveryMeta =
  '`at_least_once`: after a lost worker or a shutdown the run is tried again, so a handler may be called ' +
  'twice; `idempotencyKey` is the same then. `at_most_once`: it is never called a second time; where ' +
  'nobody can know what the one call did, the run ends `failed` with the reason `outcome_unknown`'

export const jobDefinitionSchema = z
  .strictObject({
    handler: jobHandlerSchema,
    retry: retryPolicySchema.prefault({}),
    attemptTimeoutMs: durationMsSchema(24 * hourMs, 100).default(60_000),
    runDeadlineMs: runLimitFields.runDeadlineMs.default(null),
    startWithinMs: runLimitFields.startWithinMs.default(null),
    delivery: z.enum(deliveries).default('at_least_once').meta({ description: deliveryMeta }),
    queue: nameSchema.default('default'),
    priority: z
      .int()
      .min(-100)
      .max(100)
      .default(0)
      .meta({ description: 'Higher runs earlier, within the tenant' }),
    concurrency: limitFields.concurrency.default(null),
    rateLimit: limitFields.rateLimit.default(null),
    debounce: gatherFields.debounce.default(null),
    collect: gatherFields.collect.default(null),
    runAs: runAsSchema.default(null),
  })
  .meta({ id: 'JobDefinition' })
export type JobDefinition = z.infer<typeof jobDefinitionSchema>

export const jobCreateSchema = z
  .strictObject({ name: nameSchema, description: safeText(1024).default(''), ...jobDefinitionSchema.shape })
  .meta({ id: 'JobCreate' })
export type JobCreate = z.infer<typeof jobCreateSchema>

export const jobSchema = z
  .strictObject({
    id: idSchema,
    name: nameSchema,
    description: z.string(),
    version: z.int(),
    ...jobDefinitionSchema.shape,
    paused: pauseStateSchema,
    createdAt: instantSchema,
    updatedAt: instantSchema,
  })
  .meta({ id: 'Job' })
export type Job = z.infer<typeof jobSchema>

/** As lists show it: of the handler what it calls, without the rest, which may be large. */
export const jobSummarySchema = z
  .strictObject({
    ...jobSchema.shape,
    handler: z.discriminatedUnion('kind', [
      z.strictObject({ kind: z.literal('http'), url: targetUrlSchema, method: z.enum(httpMethods) }),
      functionHandlerSchema,
      z.strictObject({ kind: z.literal('container'), image: z.string() }),
      z.strictObject({ kind: z.literal('lambda'), functionArn: z.string() }),
    ]),
  })
  .meta({ id: 'JobSummary' })
export type JobSummary = z.infer<typeof jobSummarySchema>

/**
 * Merge of the fields given, `retry` field by field and `handler` as a whole; whatever changes makes a new
 * version, and runs that exist keep theirs.
 */
export const jobUpdateSchema = z
  .strictObject({
    description: safeText(1024).optional(),
    handler: jobDefinitionSchema.shape.handler.optional(),
    retry: retryChangeSchema.optional(),
    attemptTimeoutMs: durationMsSchema(24 * hourMs, 100).optional(),
    runDeadlineMs: runLimitFields.runDeadlineMs.optional(),
    startWithinMs: runLimitFields.startWithinMs.optional(),
    delivery: z.enum(deliveries).optional(),
    queue: nameSchema.optional(),
    priority: z.int().min(-100).max(100).optional(),
    concurrency: limitFields.concurrency.optional(),
    rateLimit: limitFields.rateLimit.optional(),
    debounce: gatherFields.debounce.optional(),
    collect: gatherFields.collect.optional(),
    runAs: runAsSchema.optional(),
  })
  .meta({ id: 'JobUpdate' })
export type JobUpdate = z.infer<typeof jobUpdateSchema>

export const jobListQuery = z.strictObject({ ...pageQuery, name: nameSchema.optional() })
export const jobPageSchema = pageOf(jobSummarySchema)
