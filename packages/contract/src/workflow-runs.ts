/**
 * Runs of workflows and how their tasks stand. A run keeps the version of its workflow that it was begun
 * with.
 */
import { z } from 'zod'
import {
  idSchema,
  instantSchema,
  jsonSchema,
  jsonValueSchema,
  nameSchema,
  pageOf,
  pageQuery,
} from './common.ts'
import { taskStates } from './workflow-words.ts'

export const workflowRunStates = ['running', 'succeeded', 'failed', 'canceled'] as const
export type WorkflowRunState = (typeof workflowRunStates)[number]

export const workflowRunCreateSchema = z
  .strictObject({ workflow: nameSchema, input: jsonSchema.optional() })
  .meta({ id: 'WorkflowRunCreate' })
export type WorkflowRunCreate = z.infer<typeof workflowRunCreateSchema>

const core = {
  id: idSchema,
  workflowId: idSchema,
  workflow: nameSchema,
  version: z.int(),
  source: z.enum(['manual']),
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
    taskCounts: z
      .partialRecord(z.enum(taskStates), z.int())
      .meta({ description: 'How many tasks are in each state' }),
  })
  .meta({ id: 'WorkflowRun' })
export type WorkflowRun = z.infer<typeof workflowRunSchema>

export const workflowRunListQuery = z.strictObject({
  ...pageQuery,
  workflow: nameSchema.optional(),
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
  })
  .meta({ id: 'WorkflowRunTask' })
export type WorkflowRunTask = z.infer<typeof workflowRunTaskSchema>

export const workflowRunTasksSchema = z
  .strictObject({ tasks: z.array(workflowRunTaskSchema) })
  .meta({ id: 'WorkflowRunTasks' })
export type WorkflowRunTasks = z.infer<typeof workflowRunTasksSchema>
