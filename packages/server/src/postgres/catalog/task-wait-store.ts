/**
 * Waits of tasks of one tenant: the columns and rows of statements/task-wait-decisions.ts. Who decided is
 * kept as it was named then.
 */
import type { OpenApprovalRecord, SaidBy, TaskWaitRecord, TaskWaitStore } from '../../ports/task-waits.ts'
import type { Transaction } from '../database.ts'
import type { OpenApprovalRow, TaskWaitRow } from '../statements/task-wait-decisions.ts'
import * as statements from '../statements/task-wait-decisions.ts'
import { lastId, msOf, msOrNull } from './values.ts'

export function createTaskWaitStore(tx: Transaction): TaskWaitStore {
  return {
    list: async (workflowRunId) =>
      (await tx.query(statements.listTaskWaits, [workflowRunId])).map(waitRecord),
    openApprovals: async ({ beforeId, limit }) =>
      (await tx.query(statements.listOpenApprovals, [beforeId ?? lastId, limit])).map(approvalRecord),
    async decide({ workflowRunId, task, item, approved, by, reason }) {
      const output = approved ? JSON.stringify({ approved, by: by.name, reason }) : null
      const place = [workflowRunId, task, item] as const
      const [ended] = await tx.query(statements.decideTaskWait, [
        ...place,
        approved,
        output,
        JSON.stringify(by),
        reason,
      ])
      return (ended?.state ?? undefined) as Exclude<TaskWaitRecord['state'], null> | undefined
    },
    async signal(workflowRunId, { name, payload, by }) {
      const text = payload === undefined ? null : JSON.stringify(payload)
      await tx.query(statements.sendSignal, [workflowRunId, name, text, JSON.stringify(by)])
    },
  }
}

function waitRecord(row: TaskWaitRow): TaskWaitRecord {
  return {
    task: row.task,
    item: row.item,
    kind: row.kind as TaskWaitRecord['kind'],
    message: row.message,
    signal: row.signal,
    childId: row.child_id,
    createdAtMs: msOf(row.created_at),
    dueAtMs: msOrNull(row.due_at),
    state: row.state as TaskWaitRecord['state'],
    endedAtMs: msOrNull(row.ended_at),
    by: row.ended_by as SaidBy | null,
    reason: row.reason,
    open: row.open,
  }
}

function approvalRecord(row: OpenApprovalRow): OpenApprovalRecord {
  return {
    id: row.id,
    workflowRunId: row.workflow_run_id,
    workflowName: row.workflow_name,
    taskId: row.task_id,
    item: row.item,
    message: row.message,
    createdAtMs: msOf(row.created_at),
    dueAtMs: msOrNull(row.due_at),
  }
}
