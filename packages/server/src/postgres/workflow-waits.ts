/**
 * Waits, workflow runs that are tasks, and gates, on Postgres: the columns and rows of
 * statements/task-waits.ts and statements/workflow-gates.ts.
 */
import type { JsonValue } from '@belfry/contract'
import type { NewChildRun, NewTaskWait, WaitingTx, WorkflowTimers } from '../ports/workflow-waits.ts'
import type { Database, Transaction } from './database.ts'
import * as statements from './statements/task-waits.ts'
import { admitWorkflowRuns, holdWorkflowGates, replaceWorkflowRuns } from './statements/workflow-gates.ts'

const engine = { role: 'belfry_engine' } as const

export function createPostgresWorkflowTimers(db: Database): WorkflowTimers {
  return {
    async endDue(limit) {
      const [row] = await db.run(engine, statements.endDueWaits, [limit])
      return row?.ended ?? 0
    },
    async nextDueMs() {
      const [row] = await db.run(engine, statements.nextWorkflowDue, [])
      return row?.due_in_ms ?? null
    },
  }
}

export function waitingTx(tx: Transaction): WaitingTx {
  return {
    async start(waits) {
      if (waits.length > 0) await tx.query(statements.startTaskWaits, [...waitColumns(waits)])
    },
    async startChildren(children) {
      if (children.length === 0) return
      await tx.query(statements.startTaskWaits, [...childWaitColumns(children)])
      await tx.query(statements.startChildRuns, [...childColumns(children)])
    },
    async subWorkflows(tenantId, ids) {
      const rows = await tx.query(statements.listSubWorkflows, [tenantId, ids])
      return rows.map((row) => ({
        id: row.id,
        name: row.name,
        deleted: row.deleted,
        version: row.version,
        taskCount: row.task_count,
        inputSchema: row.input_schema ?? undefined,
        timeoutMs: row.timeout_ms,
      }))
    },
    async cancel(workflowRunId, tasks) {
      await tx.query(statements.cancelTaskWaits, [workflowRunId, tasks])
    },
    async endSignaled(workflowRunIds) {
      if (workflowRunIds.length > 0) await tx.query(statements.endSignaledWaits, [workflowRunIds])
    },
    async endChildren(ends) {
      if (ends.length === 0) return
      const states = ends.map(({ state }) => state)
      const outputs = ends.map(({ output }) => textOf(output))
      await tx.query(statements.endChildWaits, [ends.map(({ waitId }) => waitId), states, outputs])
    },
    async keepOutputs(outputs) {
      const [first, ...more] = outputs.map(({ id }) => id).toSorted()
      if (first === undefined) return
      const ids = outputs.map(({ id }) => id)
      const texts = outputs.map(({ output }) => JSON.stringify(output))
      await tx.query(statements.keepWorkflowOutputs, [ids, texts, first, more.at(-1) ?? first])
    },
    async holdGates(gates) {
      await tx.query(holdWorkflowGates, [gates.toSorted()])
    },
    async admit(gates, seen) {
      const rows = await tx.query(admitWorkflowRuns, [gates.toSorted(), seen])
      return new Set(rows.map(({ id }) => id))
    },
    async replace(gate, workflowRunId) {
      await tx.query(replaceWorkflowRuns, [[gate], workflowRunId])
    },
  }
}

const textOf = (value: JsonValue | undefined): string | null =>
  value === undefined ? null : JSON.stringify(value)

function placeColumns(waits: readonly (NewTaskWait | NewChildRun)[]) {
  return [
    waits.map(({ id }) => id),
    waits.map(({ tenantId }) => tenantId),
    waits.map(({ workflowRunId }) => workflowRunId),
    waits.map(({ task }) => task),
    waits.map(({ item }) => item ?? null),
    waits.map(({ taskId }) => taskId),
  ] as const
}

function waitColumns(waits: readonly NewTaskWait[]) {
  return [
    ...placeColumns(waits),
    waits.map(({ wait }) => wait.kind),
    waits.map(({ wait }) => wait.message),
    waits.map(({ wait }) => wait.signal),
    waits.map(() => null),
    waits.map(({ wait }) => wait.dueInMs),
    waits.map(({ wait }) => wait.dueAtMs),
    waits.map(({ wait }) => wait.ends.onTimeout),
    waits.map(({ wait }) => wait.ends.onReject),
  ] as const
}

/** Nothing but the end of its run ends such a wait. */
function childWaitColumns(children: readonly NewChildRun[]) {
  const none = children.map(() => null)
  return [
    ...placeColumns(children),
    children.map(() => 'workflow'),
    none,
    none,
    children.map(({ childId }) => childId),
    none,
    none,
    children.map(() => 'failed'),
    children.map(() => 'failed'),
  ] as const
}

function childColumns(children: readonly NewChildRun[]) {
  return [
    children.map(({ childId }) => childId),
    children.map(({ tenantId }) => tenantId),
    children.map(({ workflow }) => workflow.id),
    children.map(({ workflow }) => workflow.version),
    children.map(({ workflow }) => workflow.taskCount),
    children.map(({ input }) => textOf(input)),
    children.map(({ workflowRunId }) => workflowRunId),
    children.map(({ id }) => id),
    children.map(({ depth }) => depth),
    children.map(({ priority }) => priority),
    children.map(({ workflow }) => workflow.timeoutMs),
  ] as const
}
