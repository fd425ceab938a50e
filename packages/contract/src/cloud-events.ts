/**
 * What leaves for others when something has ended: CloudEvents 1.0 in their JSON form, at least once, in
 * order for each run and each workflow run but for repeats (docs/reference/cloud-events.md). An event carries
 * facts that may be shown to whoever may read the topic: no input, result, header or secret.
 */
import { z } from 'zod'
import { attemptOutcomes, terminalRunStates } from './states.ts'

export const cloudEventTypes = {
  'belfry.run.succeeded': 'A run is over: it succeeded.',
  'belfry.run.failed': 'A run is over: it failed, and is not tried again.',
  'belfry.run.canceled': 'A run is over: it was canceled.',
  'belfry.run.skipped': 'A run is over: it was not to run.',
  'belfry.run.upstream_failed': 'A run is over: what it waits for failed.',
  'belfry.run.retrying': 'An attempt of a run is over, and the run goes on later.',
  'belfry.workflow_run.succeeded': 'A workflow run is over: it succeeded.',
  'belfry.workflow_run.failed': 'A workflow run is over: it failed.',
  'belfry.workflow_run.canceled': 'A workflow run is over: it was canceled.',
} as const
export type CloudEventType = keyof typeof cloudEventTypes

const id = z.uuid()
const time = z.iso.datetime({ precision: 3 })

export const runEventDataSchema = z.strictObject({
  runId: id,
  tenantId: id.describe('The tenant that the run belongs to'),
  jobId: id,
  queue: z.string(),
  source: z.string().describe('Who asked for it, as in the API'),
  scheduleId: id.nullable(),
  scheduledFor: time.nullable().describe('The planned time, of a run of a schedule'),
  workflowRunId: id.nullable().describe('The workflow run that it is a task of'),
  attempt: z.int().min(0).describe('The attempt that ended; 0: the run ended without one of its own'),
  outcome: z.enum(attemptOutcomes).describe('How that attempt ended'),
  state: z.enum(terminalRunStates).nullable().describe('State of the run; null: it goes on'),
  reason: z.string().nullable().describe('Why it ended so, in the words of the API'),
  errorCode: z.string().nullable(),
  startedAt: time,
  endedAt: time,
  retryAt: time.nullable().describe('When it is tried again'),
})
export type RunEventData = z.infer<typeof runEventDataSchema>

export const workflowRunEventDataSchema = z.strictObject({
  workflowRunId: id,
  tenantId: id,
  workflowId: id,
  version: z.int().min(1).describe('The version of the workflow that it ran'),
  source: z.string(),
  scheduleId: id.nullable(),
  scheduledFor: time.nullable(),
  state: z.enum(['succeeded', 'failed', 'canceled']),
  createdAt: time,
  endedAt: time,
})
export type WorkflowRunEventData = z.infer<typeof workflowRunEventDataSchema>

const attributes = {
  specversion: z.literal('1.0'),
  id: z.string().describe('The same each time that the event is sent: `source` and `id` tell repeats'),
  source: z.string().describe('`/belfry/<prefix>/tenants/<tenant id>`'),
  subject: z.string().describe('Id of the run or workflow run'),
  time: time.describe('When it ended'),
  datacontenttype: z.literal('application/json'),
}

const runTypes = z.enum([
  'belfry.run.succeeded',
  'belfry.run.failed',
  'belfry.run.canceled',
  'belfry.run.skipped',
  'belfry.run.upstream_failed',
  'belfry.run.retrying',
])
const workflowRunTypes = z.enum([
  'belfry.workflow_run.succeeded',
  'belfry.workflow_run.failed',
  'belfry.workflow_run.canceled',
])

export const cloudEventSchema = z.union([
  z.strictObject({ ...attributes, type: runTypes, data: runEventDataSchema }),
  z.strictObject({ ...attributes, type: workflowRunTypes, data: workflowRunEventDataSchema }),
])
export type CloudEvent = z.infer<typeof cloudEventSchema>
