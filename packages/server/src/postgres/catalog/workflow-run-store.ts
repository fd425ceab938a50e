/**
 * Runs of workflows of one tenant. While one is alive, how its tasks stand is in its progress; afterwards it
 * is kept with the run.
 */
import type { JsonValue, WorkflowDefinition } from '@belfry/contract'
import type { StoredItems } from '../../domain/workflow/stored-states.ts'
import type { WorkflowRunRecord, WorkflowRunStore, WorkflowRunSummaryRecord } from '../../ports/workflows.ts'
import type { Transaction } from '../database.ts'
import type { WorkflowRunRow, WorkflowRunSummaryRow } from '../statements/workflow-runs.ts'
import * as statements from '../statements/workflow-runs.ts'
import { lastId, msOf, msOrNull } from './values.ts'

export function createWorkflowRunStore(tx: Transaction): WorkflowRunStore {
  return {
    async insert({ id, workflow, input, timeoutMs }) {
      const text = input === undefined ? null : JSON.stringify(input)
      const { id: workflowId, version, taskCount } = workflow
      await tx.query(statements.insertWorkflowRun, [id, workflowId, version, taskCount, text, timeoutMs])
    },
    find: async (id) => (await tx.query(statements.findWorkflowRun, [id])).map(runRecord)[0],
    async list({ beforeId, limit }, workflowId) {
      const page = [beforeId ?? lastId, limit] as const
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
    createdAtMs: msOf(row.created_at),
    endedAtMs: msOrNull(row.ended_at),
  }
}

function runRecord(row: WorkflowRunRow): WorkflowRunRecord {
  return {
    ...summaryRecord(row),
    input: row.has_input ? (row.input as JsonValue) : undefined,
    states: row.states,
    items: row.items as Record<string, StoredItems>,
    notes: row.notes as Record<string, string>,
  }
}
