/**
 * What explains workflow runs of one tenant (statements/workflow-insight.ts): rows become the facts of
 * ports/workflow-insight.ts.
 */
import type { JsonValue } from '@belfry/contract'
import type { TaskRole } from '../../domain/workflow/plan.ts'
import type { StopCause } from '../../domain/workflow/progress.ts'
import type { StoredItems } from '../../domain/workflow/stored-states.ts'
import type { EndedWait, OpenWait, WorkflowInsight, WorkflowRunFacts } from '../../ports/workflow-insight.ts'
import type { Transaction } from '../database.ts'
import * as statements from '../statements/workflow-insight.ts'
import { msOf, msOrNull } from './values.ts'

export function createWorkflowInsightStore(tx: Transaction): WorkflowInsight {
  return {
    find: async (id) => (await tx.query(statements.findWorkflowFacts, [id])).map(runFacts)[0],
    async oldestLiveRuns(id, tasks) {
      const rows = await tx.query(statements.listOldestLiveRuns, [id, tasks])
      return new Map(rows.map((row) => [row.task, row.run_id]))
    },
    openWaits: async (id, tasks) => (await tx.query(statements.listOpenWaits, [id, tasks])).map(openWait),
    endedWaits: async (id, tasks) => (await tx.query(statements.listEndedWaits, [id, tasks])).map(endedWait),
    async newestRuns(id, tasks) {
      const rows = await tx.query(statements.listNewestTaskRuns, [id, tasks])
      return rows.map((row) => ({
        task: row.task,
        runId: row.run_id,
        createdAtMs: msOf(row.created_at),
        endedAtMs: msOrNull(row.ended_at),
      }))
    },
    async failedChildren(id, tasks, limit) {
      const rows = await tx.query(statements.listFailedChildren, [id, tasks, limit])
      return rows.map((row) => ({
        task: row.task,
        item: row.item,
        childId: row.child_id,
        endedAtMs: msOrNull(row.ended_at),
      }))
    },
  }
}

function runFacts(row: statements.WorkflowFactsRow): WorkflowRunFacts {
  return {
    id: row.id,
    workflowId: row.workflow_id,
    workflowName: row.workflow_name,
    version: row.version,
    state: row.state as WorkflowRunFacts['state'],
    createdAtMs: msOf(row.created_at),
    endedAtMs: msOrNull(row.ended_at),
    input: row.has_input ? (row.input as JsonValue) : undefined,
    states: row.states,
    items: row.items as Record<string, StoredItems>,
    notes: row.notes as Record<string, string>,
    turn: row.turn as TaskRole | null,
    stop: row.stop as StopCause | null,
    canceling: row.canceling,
    waitsFor: row.at_gate ? 'concurrency' : row.waits ? 'schedule' : null,
    deadlineMs: msOrNull(row.deadline),
    goneTasks: row.gone_tasks,
    nowMs: msOf(row.now),
  }
}

function endedWait(row: statements.EndedWaitRow): EndedWait {
  return {
    task: row.task,
    kind: row.kind as EndedWait['kind'],
    message: row.message,
    signal: row.signal,
    item: row.item,
    state: row.state as EndedWait['state'],
    dueAtMs: msOrNull(row.due_at),
    endedAtMs: msOf(row.ended_at),
    endedBy: (row.ended_by as { name: string } | null)?.name ?? null,
    reason: row.reason,
  }
}

function openWait(row: statements.OpenWaitRow): OpenWait {
  return {
    task: row.task,
    id: row.id,
    kind: row.kind as OpenWait['kind'],
    message: row.message,
    signal: row.signal,
    childId: row.child_id,
    dueAtMs: msOrNull(row.due_at),
    createdAtMs: msOf(row.created_at),
  }
}
