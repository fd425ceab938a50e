// Events that leave: of the shape that the contract gives, with an id that is the same each time, and keys
// that keep together what must stay in order.
import { cloudEventSchema, type RunEventData, type WorkflowRunEventData } from '@belfry/contract'
import { expect, it } from 'vitest'
import { cloudEventOf } from '../../packages/server/src/domain/cloud-event.ts'

const id = (digit: number): string => `01930b1c-6c00-7aaa-8aaa-00000000000${digit}`
const run: RunEventData = {
  runId: id(1),
  tenantId: id(2),
  jobId: id(3),
  queue: 'default',
  source: 'manual',
  scheduleId: null,
  scheduledFor: null,
  workflowRunId: null,
  attempt: 2,
  outcome: 'failed',
  state: 'failed',
  reason: 'attempts_exhausted',
  errorCode: 'http_status',
  startedAt: '2026-11-30T12:00:00.000Z',
  endedAt: '2026-11-30T12:00:01.000Z',
  retryAt: null,
}
const workflowRun: WorkflowRunEventData = {
  workflowRunId: id(4),
  tenantId: id(2),
  workflowId: id(5),
  version: 1,
  source: 'manual',
  scheduleId: null,
  scheduledFor: null,
  state: 'canceled',
  createdAt: '2026-11-30T12:00:00.000Z',
  endedAt: '2026-11-30T12:00:02.000Z',
}

it('tells the end of a run, and of an attempt that is not its last', () => {
  const { key, event } = cloudEventOf({ kind: 'run', data: run }, 'eu')
  expect(cloudEventSchema.parse(event)).toEqual(event)
  expect(event).toMatchObject({
    type: 'belfry.run.failed',
    id: `${run.runId}.2`,
    subject: run.runId,
    source: `/belfry/eu/tenants/${run.tenantId}`,
    time: run.endedAt,
  })
  expect(key).toBe(run.runId)
  const later = { ...run, state: null, reason: null, retryAt: run.endedAt }
  expect(cloudEventOf({ kind: 'run', data: later }, 'eu').event.type).toBe('belfry.run.retrying')
})

it('keeps a workflow run and its tasks in one order, and tells its second end from its first', () => {
  const task = cloudEventOf({ kind: 'run', data: { ...run, workflowRunId: id(4) } }, 'eu')
  const whole = cloudEventOf({ kind: 'workflow_run', data: workflowRun }, 'eu')
  expect(cloudEventSchema.parse(whole.event)).toEqual(whole.event)
  expect(whole.event.type).toBe('belfry.workflow_run.canceled')
  expect(task.key).toBe(whole.key)
  const again = { ...workflowRun, endedAt: '2026-11-30T13:00:00.000Z' }
  expect(cloudEventOf({ kind: 'workflow_run', data: again }, 'eu').event.id).not.toBe(whole.event.id)
})
