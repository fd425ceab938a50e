/**
 * How what has ended is told to others: the shape of contract/cloud-events.ts, made of the record. The id
 * comes from the record too, so an event that is sent again has the same.
 */
import type { CloudEvent, RunEventData, WorkflowRunEventData } from '@belfry/contract'

export type EndedRecord =
  | { readonly kind: 'run'; readonly data: RunEventData }
  | { readonly kind: 'workflow_run'; readonly data: WorkflowRunEventData }

export interface KeyedEvent {
  /** What stays in order. */
  readonly key: string
  readonly event: CloudEvent
}

/** `installation` tells several of them apart that send to one place. */
export function cloudEventOf(record: EndedRecord, installation: string): KeyedEvent {
  const common = {
    specversion: '1.0',
    source: `/belfry/${installation}/tenants/${record.data.tenantId}`,
    time: record.data.endedAt,
    datacontenttype: 'application/json',
  } as const
  if (record.kind === 'workflow_run') {
    const { data } = record
    const { workflowRunId: subject } = data
    // one that was begun again from some task ends once more
    const id = `${subject}.${Date.parse(data.endedAt)}`
    const event = { ...common, type: `belfry.workflow_run.${data.state}` as const, id, subject, data }
    return { key: subject, event }
  }
  const { data } = record
  const { runId: subject, state } = data
  const type = state === null ? ('belfry.run.retrying' as const) : (`belfry.run.${state}` as const)
  const event = { ...common, type, id: `${subject}.${data.attempt}`, subject, data }
  return { key: data.workflowRunId ?? subject, event }
}
