/**
 * Workflows: tasks, what each runs, what it needs, and when it starts. A definition is data throughout:
 * inputs are mapped by path, conditions are comparisons, and there is no expression language.
 *
 * Three parts: `tasks`; `onFailure`, which run once the tasks have ended and one has failed; and `finally`,
 * which run last, however the rest ended. Tasks need tasks of their own part.
 */
import { z } from 'zod'
import { durationMsSchema, jsonSchema, jsonUpTo, nameSchema, safeText } from './common.ts'
import { functionHandlerSchema, httpHandlerSchema } from './jobs.ts'
import { retryChangeSchema } from './retry-policy.ts'
import { deliveries } from './states.ts'
import { defaultTriggerRule, failFastModes, taskKinds, taskStates, triggerRules } from './workflow-words.ts'

const dayMs = 86_400_000

/** Tasks of one workflow, in all its parts. */
export const maxWorkflowTasks = 10_000
/** Tasks that one matrix makes. */
export const maxMatrixTasks = 256
/** Items over which one task fans out: as many as allowed without a word, and at most. */
export const usualForEachItems = 1_024
export const maxForEachItems = 10_000
const maxConditionDepth = 8

export const taskIdSchema = z
  .string()
  .min(1)
  .max(64)
  .regex(/^[A-Za-z0-9][A-Za-z0-9_-]*$/, {
    error: 'use letters, digits, "_" and "-", starting with a letter or digit',
  })
  .meta({ examples: ['extract'] })

/** RFC 6901; '' is the whole value. */
export const jsonPointerSchema = z
  .string()
  .max(512)
  .regex(/^(?:\/(?:[^~/]|~[01])*)*$/, {
    error: 'is no JSON pointer; write it like /rows/0/id, or "" for all',
  })

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
  'or {input: path, is}'

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

/** Where a value comes from. A path is a JSON pointer into it. */
const sources = [
  z.strictObject({ task: taskIdSchema, path: jsonPointerSchema.default('') }),
  z.strictObject({ input: jsonPointerSchema }),
] as const

const places = { to: jsonPointerSchema, default: jsonSchema.optional() }

export const inputMappingSchema = z
  .union([
    z.strictObject({ ...places, task: taskIdSchema, path: jsonPointerSchema.default('') }),
    z.strictObject({ ...places, input: jsonPointerSchema }),
    z.strictObject({ ...places, item: jsonPointerSchema }),
    z.strictObject({
      ...places,
      run: z.enum(['id', 'scheduledFor', 'dataIntervalStart', 'dataIntervalEnd']),
    }),
  ])
  .meta({ id: 'InputMapping' })
export type InputMapping = z.infer<typeof inputMappingSchema>

export const forEachSchema = z
  .strictObject({
    from: z.union([...sources, z.strictObject({ items: z.array(jsonSchema).max(maxForEachItems) })]),
    maxItems: z.int().min(1).max(maxForEachItems).default(usualForEachItems),
    concurrency: z.int().min(1).max(maxForEachItems).optional(),
  })
  .meta({ id: 'ForEach', description: 'One run for each item of a list; an empty list skips the task' })

const handlerSchema = z.discriminatedUnion('kind', [httpHandlerSchema, functionHandlerSchema])

/** What a task does: exactly one of these. */
const bodies = ['job', 'handler', 'workflow', 'approval', 'wait'] as const

export const workflowTaskSchema = z
  .strictObject({
    id: taskIdSchema,
    job: nameSchema.optional().meta({ description: 'A job by its name, as it is when the task starts' }),
    handler: handlerSchema.optional(),
    workflow: nameSchema.optional().meta({ description: 'Another workflow, run as one task' }),
    approval: z.strictObject({ message: safeText(1_024, 1) }).optional(),
    wait: z
      .union(
        [
          z.strictObject({ forMs: durationMsSchema(365 * dayMs, 1) }),
          z.strictObject({ until: z.union(sources) }),
          z.strictObject({ signal: nameSchema, atMostMs: durationMsSchema(365 * dayMs, 1).optional() }),
        ],
        { error: 'is no wait; write one of forMs, until, signal' },
      )
      .optional(),
    needs: z.array(taskIdSchema).max(maxWorkflowTasks).default([]),
    rule: z.enum(triggerRules).default(defaultTriggerRule),
    when: boundCondition.optional(),
    kind: z.enum(taskKinds).default('task'),
    allowFailure: z.boolean().default(false),
    teardownOf: taskIdSchema.optional(),
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

export const workflowDefinitionSchema = z
  .strictObject({
    tasks: z.array(workflowTaskSchema).max(maxWorkflowTasks),
    onFailure: z.array(workflowTaskSchema).max(100).default([]),
    finally: z.array(workflowTaskSchema).max(100).default([]),
    failFast: z.enum(failFastModes).default('off'),
    timeoutMs: durationMsSchema(365 * dayMs, 1_000).optional(),
    priority: z.int().min(-100).max(100).default(0),
    inputSchema: jsonUpTo(65_536).optional().meta({ description: 'JSON Schema of the input of a run' }),
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
