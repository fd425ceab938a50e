/**
 * Rows of workflow runs as the records that requests work with (ports/workflows.ts), for lists and for one of
 * them alike.
 */
import type { JsonValue, WorkflowRunAct, WorkflowRunSource } from '@belfry/contract'
import type { StoredItems } from '../../domain/workflow/stored-states.ts'
import type { WorkflowRunRecord, WorkflowRunSummaryRecord } from '../../ports/workflows.ts'
import type { WorkflowRunRow, WorkflowRunSummaryRow } from '../statements/workflow-runs.ts'
import { msOf, msOrNull } from './values.ts'

export function summaryRecord(row: WorkflowRunSummaryRow): WorkflowRunSummaryRecord {
  return {
    id: row.id,
    workflowId: row.workflow_id,
    workflowName: row.workflow_name,
    version: row.version,
    state: row.state as WorkflowRunSummaryRecord['state'],
    queued: row.queued,
    source: row.source as WorkflowRunSource,
    scheduleId: row.schedule_id,
    scheduledForMs: msOrNull(row.scheduled_for),
    intervalStartMs: msOrNull(row.interval_start),
    intervalEndMs: msOrNull(row.interval_end),
    causeId: row.cause_id,
    createdAtMs: msOf(row.created_at),
    endedAtMs: msOrNull(row.ended_at),
  }
}

export function runRecord(row: WorkflowRunRow): WorkflowRunRecord {
  return {
    ...summaryRecord(row),
    input: row.has_input ? (row.input as JsonValue) : undefined,
    output: (row.output ?? undefined) as JsonValue | undefined,
    priority: row.priority,
    parentId: row.parent_id,
    revision: row.revision,
    acts: row.acts as WorkflowRunAct[],
    states: row.states,
    items: row.items as Record<string, StoredItems>,
    notes: row.notes as Record<string, string>,
  }
}
