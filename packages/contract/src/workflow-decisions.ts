/**
 * What people and programs say to tasks that wait: approve or reject, and signals with a payload; and how a
 * wait is shown.
 */
import { z } from 'zod'
import { idSchema, instantSchema, jsonSchema, nameSchema, pageOf, pageQuery, safeText } from './common.ts'
import { taskIdSchema } from './workflow-paths.ts'
import { maxForEachItems } from './workflows.ts'

/** What a task that runs no job waits for. */
export const waitKinds = ['approval', 'time', 'signal', 'workflow'] as const
export type WaitKind = (typeof waitKinds)[number]

export const waitStates = ['waiting', 'succeeded', 'failed', 'canceled', 'skipped'] as const

const item = z
  .int()
  .min(0)
  .max(maxForEachItems - 1)
const place = {
  task: taskIdSchema,
  item: item.optional().meta({ description: 'Of a task that runs for each item: which one, from 0' }),
}

export const workflowApproveSchema = z
  .strictObject({ ...place, reason: safeText(1_024).optional() })
  .meta({ id: 'WorkflowApprove' })
export type WorkflowApprove = z.infer<typeof workflowApproveSchema>

export const workflowRejectSchema = z
  .strictObject({ ...place, reason: safeText(1_024, 1) })
  .meta({ id: 'WorkflowReject' })
export type WorkflowReject = z.infer<typeof workflowRejectSchema>

export const workflowDecisionSchema = z
  .strictObject({
    workflowRunId: idSchema,
    task: taskIdSchema,
    item: z.int().nullable(),
    state: z.enum(waitStates).meta({ description: 'How the task ends by it' }),
  })
  .meta({ id: 'WorkflowDecision' })
export type WorkflowDecision = z.infer<typeof workflowDecisionSchema>

export const workflowSignalSchema = z
  .strictObject({
    signal: nameSchema,
    payload: jsonSchema.optional().meta({ description: 'The output of the tasks that wait for it' }),
  })
  .meta({ id: 'WorkflowSignal' })
export type WorkflowSignal = z.infer<typeof workflowSignalSchema>

/** Who said it: an API key. */
export const saidBySchema = z.strictObject({ keyId: idSchema, name: z.string() })

/** A wait of a task: the newest one, of a task that runs for each item. */
export const taskWaitSchema = z
  .strictObject({
    kind: z.enum(waitKinds),
    item: z.int().nullable(),
    message: z.string().nullable(),
    signal: z.string().nullable(),
    workflowRunId: idSchema.nullable().meta({ description: 'Of kind workflow: its run' }),
    since: instantSchema,
    dueAt: instantSchema.nullable().meta({ description: 'When it ends by itself' }),
    state: z.enum(waitStates),
    endedAt: instantSchema.nullable(),
    by: saidBySchema.nullable(),
    reason: z.string().nullable(),
    open: z.int().meta({ description: 'How many of its items wait' }),
  })
  .meta({ id: 'TaskWait' })
export type TaskWait = z.infer<typeof taskWaitSchema>

export const openApprovalSchema = z
  .strictObject({
    workflowRunId: idSchema,
    workflow: nameSchema,
    task: taskIdSchema,
    item: z.int().nullable(),
    message: z.string(),
    since: instantSchema,
    dueAt: instantSchema.nullable(),
  })
  .meta({ id: 'OpenApproval' })
export type OpenApproval = z.infer<typeof openApprovalSchema>

export const approvalListQuery = z.strictObject(pageQuery)
export const approvalPageSchema = pageOf(openApprovalSchema)
