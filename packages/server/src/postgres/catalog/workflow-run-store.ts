/**
 * Runs of workflows of one tenant. While one is alive, how its tasks stand is in its progress; afterwards it
 * is kept with the run.
 */
import type { JsonValue, WorkflowDefinition, WorkflowRunAct, WorkflowRunSource } from '@belfry/contract'
import type { StoredItems } from '../../domain/workflow/stored-states.ts'
import type {
  WorkflowRunOrigin,
  WorkflowRunRecord,
  WorkflowRunStore,
  WorkflowRunSummaryRecord,
} from '../../ports/workflows.ts'
import type { Transaction } from '../database.ts'
import type { WorkflowRunRow, WorkflowRunSummaryRow } from '../statements/workflow-runs.ts'
import * as statements from '../statements/workflow-runs.ts'
import { isoOrNull, lastId, msOf, msOrNull } from './values.ts'

const manual: WorkflowRunOrigin = {
  source: 'manual',
  scheduleId: null,
  scheduledForMs: null,
  intervalStartMs: null,
  causeId: null,
}

export function createWorkflowRunStore(tx: Transaction): WorkflowRunStore {
  return {
    async insert({ id, workflow, input, timeoutMs, priority, origin = manual }) {
      const text = input === undefined ? null : JSON.stringify(input)
      const { id: workflowId, version, taskCount } = workflow
      const { source, scheduleId, scheduledForMs, intervalStartMs, causeId } = origin
      const times = [isoOrNull(scheduledForMs), isoOrNull(intervalStartMs)] as const
      const from = [source, scheduleId, ...times, causeId] as const
      const params = [id, workflowId, version, taskCount, text, timeoutMs, priority] as const
      await tx.query(statements.insertWorkflowRun, [...params, ...from])
    },
    find: async (id) => (await tx.query(statements.findWorkflowRun, [id])).map(runRecord)[0],
    async list({ beforeId, limit }, workflowId, scheduleId) {
      const page = [beforeId ?? lastId, limit] as const
      if (scheduleId !== undefined) {
        const wanted = [...page, scheduleId, workflowId ?? null] as const
        return (await tx.query(statements.listRunsOfWorkflowSchedule, wanted)).map(summaryRecord)
      }
      const rows =
        workflowId === undefined
          ? await tx.query(statements.listWorkflowRuns, page)
          : await tx.query(statements.listRunsOfWorkflow, [...page, workflowId])
      return rows.map(summaryRecord)
    },
    async definition({ workflowId, version }) {
      const [row] = await tx.query(statements.findRunDefinition, [workflowId, version])
      return row?.definition as WorkflowDefinition | undefined
    },
    async taskRuns(id) {
      const rows = await tx.query(statements.listRunsOfTasks, [id])
      return rows.map(({ task, runs, newest_run_id: newestRunId }) => ({ task, runs, newestRunId }))
    },
    requestCancel: async (id) => (await tx.query(statements.requestWorkflowCancel, [id])).length > 0,
  }
}

function summaryRecord(row: WorkflowRunSummaryRow): WorkflowRunSummaryRecord {
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

function runRecord(row: WorkflowRunRow): WorkflowRunRecord {
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
