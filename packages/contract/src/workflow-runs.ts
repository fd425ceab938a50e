/**
 * Runs of workflows and how their tasks stand. A run keeps the version of its workflow that it was begun
 * with.
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
} from './common.ts'
import { taskWaitSchema } from './workflow-decisions.ts'
import { taskIdSchema } from './workflow-paths.ts'
import { taskStates } from './workflow-words.ts'

/**
 * `pending`: it waits for its turn, where its workflow limits how many runs there are at once, or the overlap
 * policy of its schedule lets it wait for the run before; `skipped`: it
 * found that limit reached, and its workflow says that it is to end then.
 */
export const workflowRunStates = ['pending', 'running', 'succeeded', 'failed', 'canceled', 'skipped'] as const
export type WorkflowRunState = (typeof workflowRunStates)[number]

/** Whether one in this state has yet to end. */
export const isLiveWorkflowRun = (state: WorkflowRunState): boolean =>
  state === 'pending' || state === 'running'

/**
 * Who asked for it: a planned time of a schedule, a person through a schedule (`trigger`), a backfill, the
 * end of another workflow, an event, or a task of another workflow run.
 */
export const workflowRunSources = [
  'manual',
  'schedule',
  'trigger',
  'backfill',
  'workflow',
  'event',
  'task',
] as const
export type WorkflowRunSource = (typeof workflowRunSources)[number]

export const workflowRunCreateSchema = z
  .strictObject({
    workflow: nameSchema,
    input: jsonSchema.optional(),
    priority: z.int().min(-100).max(100).optional().meta({
      description: 'As the workflow says if left out; of two that wait, the higher one begins first',
    }),
    skip: z
      .array(taskIdSchema)
      .min(1)
      .max(1_000)
      .optional()
      .meta({ description: 'Tasks that are skipped this once' }),
  })
  .meta({ id: 'WorkflowRunCreate' })
export type WorkflowRunCreate = z.infer<typeof workflowRunCreateSchema>

const core = {
  id: idSchema,
  workflowId: idSchema,
  workflow: nameSchema,
  version: z.int(),
  source: z.enum(workflowRunSources),
  scheduleId: idSchema.nullable(),
  scheduledFor: instantSchema.nullable().meta({ description: 'The planned time that it is for' }),
  dataInterval: z
    .strictObject({ start: instantSchema.nullable(), end: instantSchema })
    .nullable()
    .meta({
      description:
        'The time whose data it is about: from the planned time before that runs (null: there is none) to ' +
        'its own',
    }),
  triggeredBy: idSchema.nullable().meta({ description: 'The workflow run whose end began it, or the event' }),
  state: z.enum(workflowRunStates),
  createdAt: instantSchema,
  endedAt: instantSchema.nullable(),
}

export const workflowRunSummarySchema = z.strictObject(core).meta({ id: 'WorkflowRunSummary' })
export type WorkflowRunSummary = z.infer<typeof workflowRunSummarySchema>

export const workflowRunSchema = z
  .strictObject({
    ...core,
    input: jsonValueSchema,
    output: jsonValueSchema.meta({ description: 'What it gives, as its workflow says; null: nothing' }),
    priority: z.int().nullable().meta({ description: 'Null: as its workflow says' }),
    parentId: idSchema.nullable().meta({ description: 'The workflow run that it is a task of' }),
    note: z
      .string()
      .nullable()
      .meta({ description: 'Why its output could not be made, or its input was not taken' }),
    taskCounts: z
      .partialRecord(z.enum(taskStates), z.int())
      .meta({ description: 'How many tasks are in each state' }),
  })
  .meta({ id: 'WorkflowRun' })
export type WorkflowRun = z.infer<typeof workflowRunSchema>

const stateList = z
  .string()
  .max(256)
  .transform((text) => text.split(','))
  .pipe(z.array(z.enum(workflowRunStates)).min(1))

export const workflowRunListQuery = z.strictObject({
  ...pageQuery,
  workflow: nameSchema.optional(),
  scheduleId: idSchema.optional(),
  state: stateList.optional().meta({ description: 'One or more states, separated by commas' }),
  createdAfter: givenInstantSchema.optional(),
  createdBefore: givenInstantSchema.optional(),
})
export const workflowRunPageSchema = pageOf(workflowRunSummarySchema)

export const workflowRunTaskSchema = z
  .strictObject({
    id: z.string(),
    state: z.enum(taskStates),
    runId: idSchema.nullable().meta({ description: 'Its newest run; null where it has none' }),
    runs: z.int().meta({ description: 'How many runs it has, with those of its items' }),
    items: z
      .array(z.enum(taskStates))
      .nullable()
      .meta({ description: 'Of a task that runs for each item: the state of each' }),
    note: z.string().nullable().meta({ description: 'Why it failed without a run' }),
    wait: taskWaitSchema
      .nullable()
      .meta({ description: 'What a task waits for, or waited, that runs no job' }),
  })
  .meta({ id: 'WorkflowRunTask' })
export type WorkflowRunTask = z.infer<typeof workflowRunTaskSchema>

export const workflowRunTasksSchema = z
  .strictObject({ tasks: z.array(workflowRunTaskSchema) })
  .meta({ id: 'WorkflowRunTasks' })
export type WorkflowRunTasks = z.infer<typeof workflowRunTasksSchema>
