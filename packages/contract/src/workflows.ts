/**
 * Workflows: tasks, what each runs, what it needs, and when it starts. A definition is data throughout:
 * inputs are mapped by path, conditions are comparisons, and there is no expression language.
 *
 * Three parts: `tasks`; `onFailure`, which run once the tasks have ended and one has failed; and `finally`,
 * which run last, however the rest ended. Tasks need tasks of their own part.
 */
import { z } from 'zod'
import { durationMsSchema, jsonSchema, jsonUpTo, nameSchema, safeText } from './common.ts'
import { inputSchemaSchema } from './input-schema.ts'
import { jobHandlerSchema } from './jobs.ts'
import { atLimits, inputKeySchema, maxConcurrency } from './limits.ts'
import { retryChangeSchema } from './retry-policy.ts'
import { deliveries } from './states.ts'
import { jsonPointerSchema, taskIdSchema, valueSources } from './workflow-paths.ts'
import { approvalSchema, waitSchema } from './workflow-waits.ts'
import { workflowTriggersSchema } from './workflow-triggers.ts'
import {
  defaultTriggerRule,
  failFastModes,
  noRule,
  taskKinds,
  taskStates,
  triggerRules,
} from './workflow-words.ts'

const dayMs = 86_400_000

/** Tasks of one workflow, in all its parts: a fan of 10,000 with what begins and what gathers it. */
/** Bytes of a workflow as it is sent: 5,000 tasks that need 50 others each are some 3 MB. */
export const maxWorkflowBytes = 16 * 1024 * 1024

export const maxWorkflowTasks = 12_000
/** Tasks that one matrix makes. */
export const maxMatrixTasks = 256
/** Items over which one task fans out: as many as allowed without a word, and at most. */
export const usualForEachItems = 1_024
export const maxForEachItems = 10_000
const maxConditionDepth = 8

const small = jsonUpTo(4_096)

export const comparisonSchema = z
  .union(
    [
      z.strictObject({ equals: small }),
      z.strictObject({ notEquals: small }),
      z.strictObject({ oneOf: z.array(small).min(1).max(100) }),
      z.strictObject({ contains: small }),
      z.strictObject({ exists: z.boolean() }),
      z.strictObject({ greaterThan: z.number() }),
      z.strictObject({ atLeast: z.number() }),
      z.strictObject({ lessThan: z.number() }),
      z.strictObject({ atMost: z.number() }),
    ],
    {
      error:
        'is no comparison; write one of equals, notEquals, oneOf, contains, exists, greaterThan, atLeast, ' +
        'lessThan, atMost with its value',
    },
  )
  .meta({ id: 'Comparison' })
export type Comparison = z.infer<typeof comparisonSchema>

export type Condition =
  | { readonly all: readonly Condition[] }
  | { readonly any: readonly Condition[] }
  | { readonly not: Condition }
  | { readonly task: string; readonly in: readonly (typeof taskStates)[number][] }
  | { readonly task: string; readonly output: string; readonly is: Comparison }
  | { readonly input: string; readonly is: Comparison }

const conditionError =
  'is no condition; write {all: […]}, {any: […]}, {not: …}, {task, in: [states]}, {task, output: path, is} ' +
  'or {input: path, is}, like {task: extract, in: [succeeded]} or {input: /mode, is: {equals: full}}'

const innerCondition: z.ZodType<Condition> = z.lazy(() => conditionSchema)

export const conditionSchema: z.ZodType<Condition> = z
  .union(
    [
      z.strictObject({ all: z.array(innerCondition).min(1).max(50) }),
      z.strictObject({ any: z.array(innerCondition).min(1).max(50) }),
      z.strictObject({ not: innerCondition }),
      z.strictObject({ task: taskIdSchema, in: z.array(z.enum(taskStates)).min(1) }),
      z.strictObject({ task: taskIdSchema, output: jsonPointerSchema, is: comparisonSchema }),
      z.strictObject({ input: jsonPointerSchema, is: comparisonSchema }),
    ],
    { error: conditionError },
  )
  .meta({
    id: 'Condition',
    description:
      'Comparisons on states and outputs of the tasks that are needed, and on the input of the run',
  })

/** Forms within forms; the depth of what is sent is bounded besides (`maxJsonDepth`). */
function depthOf(condition: Condition): number {
  if ('not' in condition) return 1 + depthOf(condition.not)
  const inner = 'all' in condition ? condition.all : 'any' in condition ? condition.any : []
  return inner.reduce((deepest, each) => Math.max(deepest, 1 + depthOf(each)), 0)
}

const boundCondition = conditionSchema.refine((condition) => depthOf(condition) <= maxConditionDepth, {
  error: `is nested deeper than ${maxConditionDepth} levels; flatten it`,
})

const places = { to: jsonPointerSchema, default: jsonSchema.optional() }

export const inputMappingSchema = z
  .union(
    [
      z.strictObject({ ...places, task: taskIdSchema, path: jsonPointerSchema.default('') }),
      z.strictObject({ ...places, input: jsonPointerSchema }),
      z.strictObject({ ...places, item: jsonPointerSchema }),
      z.strictObject({
        ...places,
        run: z.enum(['id', 'scheduledFor', 'dataIntervalStart', 'dataIntervalEnd']),
      }),
    ],
    {
      error:
        'is no mapping; write to and one of {task, path}, {input: path}, {item: path}, ' +
        '{run: id, scheduledFor, dataIntervalStart or dataIntervalEnd}, ' +
        'like {to: /rows, task: extract, path: /rows}',
    },
  )
  .meta({ id: 'InputMapping' })
export type InputMapping = z.infer<typeof inputMappingSchema>

export const forEachSchema = z
  .strictObject({
    from: z.union([...valueSources, z.strictObject({ items: z.array(jsonSchema).max(maxForEachItems) })], {
      error:
        `is no list to go over; write one of {task, path}, {input: path}, {items: […]} with at most ` +
        `${maxForEachItems} items, like {task: list, path: /files}`,
    }),
    maxItems: z.int().min(1).max(maxForEachItems).default(usualForEachItems),
    concurrency: z.int().min(1).max(maxForEachItems).optional(),
  })
  .meta({ id: 'ForEach', description: 'One run for each item of a list; an empty list skips the task' })

/** What a task does: exactly one of these. */
const bodies = ['job', 'handler', 'workflow', 'approval', 'wait'] as const
/** What says how a job runs, and what is given to it. */
const ofJobs = ['retry', 'attemptTimeoutMs', 'delivery', 'queue'] as const
const ofInputs = ['priority', 'input', 'inputFrom'] as const

export const workflowTaskSchema = z
  .strictObject({
    id: taskIdSchema,
    job: nameSchema.optional().meta({ description: 'A job by its name, as it is when the task starts' }),
    handler: jobHandlerSchema.optional(),
    workflow: nameSchema.optional().meta({ description: 'Another workflow, run as one task' }),
    approval: approvalSchema.optional().meta({ description: 'Waits until somebody approves or rejects it' }),
    wait: waitSchema.optional(),
    needs: z.array(taskIdSchema).max(maxWorkflowTasks).default([]),
    rule: z.enum(triggerRules, { error: ({ input }) => noRule(input) }).default(defaultTriggerRule),
    when: boundCondition.optional(),
    kind: z.enum(taskKinds).default('task'),
    allowFailure: z.boolean().default(false),
    teardownOf: z
      .union([taskIdSchema, z.array(taskIdSchema).min(1).max(64)])
      .optional()
      .meta({ description: 'What it takes down: it runs if one of these tasks succeeded' }),
    forEach: forEachSchema.optional(),
    matrix: z
      .record(z.string().min(1).max(64), z.array(small).min(1).max(maxMatrixTasks))
      .refine((axes) => Object.keys(axes).length > 0, { error: 'needs at least one axis' })
      .optional(),
    group: nameSchema.optional(),
    input: jsonSchema.optional(),
    inputFrom: z.array(inputMappingSchema).max(64).default([]),
    retry: retryChangeSchema.optional(),
    attemptTimeoutMs: durationMsSchema(dayMs, 100).optional(),
    delivery: z.enum(deliveries).optional(),
    queue: nameSchema.optional(),
    priority: z.int().min(-100).max(100).optional(),
  })
  .superRefine((task, context) => {
    const given = bodies.filter((name) => task[name] !== undefined)
    if (given.length !== 1) {
      const message =
        given.length === 0
          ? `does nothing; give it one of ${bodies.join(', ')}`
          : `has ${given.join(' and ')}; a task does one thing, keep one of them`
      context.addIssue({ code: 'custom', message, path: given.length === 0 ? [] : [given[1] ?? ''] })
    }
    for (const [field, message] of strayFields(task))
      context.addIssue({ code: 'custom', message, path: [field] })
    if (task.forEach !== undefined && task.matrix !== undefined)
      context.addIssue({
        code: 'custom',
        path: ['matrix'],
        message: 'goes not with forEach; keep one of them',
      })
    const made = Object.values(task.matrix ?? {}).reduce((product, axis) => product * axis.length, 1)
    if (made > maxMatrixTasks) {
      const message = `makes ${made} tasks; a matrix makes ${maxMatrixTasks} at most`
      context.addIssue({ code: 'custom', path: ['matrix'], message })
    }
  })
  .meta({ id: 'WorkflowTask' })
export type WorkflowTask = z.infer<typeof workflowTaskSchema>

type Given = { readonly [Field in (typeof bodies | typeof ofJobs | typeof ofInputs)[number]]?: unknown }

/** Fields that would do nothing in such a task, each with the fix. */
function strayFields(task: Given): [string, string][] {
  const kind = (['workflow', 'approval', 'wait'] as const).find((body) => task[body] !== undefined)
  if (kind === undefined || task.job !== undefined || task.handler !== undefined) return []
  const isGiven = (field: keyof Given): boolean => {
    const value = task[field]
    return value !== undefined && !(Array.isArray(value) && value.length === 0)
  }
  const stray = [...ofJobs, ...(kind === 'workflow' ? [] : ofInputs)].filter(isGiven)
  const fix =
    kind === 'workflow' ? 'say it in the tasks of that workflow' : `with ${kind} nothing runs, leave it out`
  return stray.map((field) => [field, `goes with a job or a handler; ${fix}`])
}

/** How many runs of a workflow at once: of all of them, or of those with the same value in their input. */
export const workflowConcurrencySchema = z
  .strictObject({
    limit: z.int().min(1).max(maxConcurrency).optional(),
    key: inputKeySchema.optional(),
    keyLimit: z.int().min(1).max(maxConcurrency).optional(),
    onLimit: z
      .enum(atLimits)
      .default('queue')
      .meta({
        description:
          'At the limit: `queue` waits, by priority, then in order; `skip` ends the run as `skipped`; ' +
          '`replace` cancels the older ones',
      }),
  })
  .superRefine(({ limit, key, keyLimit }, context) => {
    const add = (path: string[], message: string): void => context.addIssue({ code: 'custom', path, message })
    if (limit === undefined && key === undefined) add([], 'limits nothing; give limit, or key')
    if (limit !== undefined && key !== undefined)
      add(['limit'], 'goes not with key; write keyLimit for the runs of one key, or leave key out')
    if (keyLimit !== undefined && key === undefined) add(['keyLimit'], 'says nothing without key; add key')
  })
  .meta({ id: 'WorkflowConcurrency' })
export type WorkflowConcurrency = z.infer<typeof workflowConcurrencySchema>

export const outputMappingSchema = z
  .union(
    [
      z.strictObject({ ...places, task: taskIdSchema, path: jsonPointerSchema.default('') }),
      z.strictObject({ ...places, input: jsonPointerSchema }),
    ],
    {
      error:
        'is no mapping; write to and one of {task, path}, {input: path}, ' +
        'like {to: /rows, task: extract, path: /rows}',
    },
  )
  .meta({ id: 'OutputMapping' })
export type OutputMapping = z.infer<typeof outputMappingSchema>

export const workflowDefinitionSchema = z
  .strictObject({
    tasks: z.array(workflowTaskSchema).max(maxWorkflowTasks),
    onFailure: z.array(workflowTaskSchema).max(100).default([]),
    finally: z.array(workflowTaskSchema).max(100).default([]),
    failFast: z.enum(failFastModes).default('off'),
    timeoutMs: durationMsSchema(365 * dayMs, 1_000).optional(),
    priority: z.int().min(-100).max(100).default(0),
    concurrency: workflowConcurrencySchema.optional(),
    inputSchema: inputSchemaSchema.optional().meta({ description: 'JSON Schema of the input of a run' }),
    output: jsonSchema.optional().meta({ description: 'What a run that succeeded gives; see outputFrom' }),
    outputFrom: z
      .array(outputMappingSchema)
      .max(64)
      .default([])
      .meta({ description: 'Parts of it that are taken from outputs of tasks, or from the input' }),
    triggers: workflowTriggersSchema
      .default([])
      .meta({ description: 'What begins runs of it besides people and schedules' }),
  })
  .meta({ id: 'WorkflowDefinition' })
export type WorkflowDefinition = z.infer<typeof workflowDefinitionSchema>

export const workflowFileSchema = z
  .strictObject({
    name: nameSchema,
    description: safeText(1_024).default(''),
    ...workflowDefinitionSchema.shape,
  })
  .meta({ id: 'WorkflowFile' })
export type WorkflowFile = z.infer<typeof workflowFileSchema>
