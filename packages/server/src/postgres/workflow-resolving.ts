/**
 * Rounds of the resolver on Postgres. What makes one safe stands in ports/workflow-runs.ts and with its
 * statements; here are its columns and rows.
 */
import type { JsonValue, TerminalRunState, WorkflowDefinition } from '@belfry/contract'
import { routeOf } from '../domain/route.ts'
import type { TaskRole } from '../domain/workflow/plan.ts'
import type { StopCause } from '../domain/workflow/progress.ts'
import type { StoredItems } from '../domain/workflow/stored-states.ts'
import type {
  LockedWorkflowRun,
  NewTaskRun,
  ResolvingTx,
  WorkflowEvent,
  WorkflowResolving,
} from '../ports/workflow-runs.ts'
import { storedDefinition } from './catalog/stored-definition.ts'
import type { Database, Transaction } from './database.ts'
import { readNow } from './statements/idempotency.ts'
import * as statements from './statements/workflow-resolving.ts'

const engine = { role: 'belfry_engine' } as const

export function createPostgresWorkflowResolving(db: Database): WorkflowResolving {
  return {
    within: (work) => db.transaction(engine, (tx) => work(resolvingTx(tx))),
    async mend() {
      const [row] = await db.run(engine, statements.mendWorkflowEvents, [])
      return row?.mended ?? 0
    },
  }
}

function resolvingTx(tx: Transaction): ResolvingTx {
  return {
    nowMs: async () => (await tx.query(readNow, []))[0]?.now.getTime() ?? 0,
    async lockDue(limit) {
      const rows = await tx.query(statements.lockDueWorkflowRuns, [limit])
      if (rows.length === 0) return { runs: [], events: [] }
      const events = await tx.query(statements.takeWorkflowEvents, [rows.map(({ id }) => id)])
      return { runs: rows.map(lockedRun), events: events.flatMap(eventOf) }
    },
    async version({ tenantId, workflowId, version }) {
      const [row] = await tx.query(statements.readWorkflowVersion, [tenantId, workflowId, version])
      if (row === undefined) return undefined
      const taskJobs = row.job_ids.map((jobId, index) => ({
        jobId,
        version: row.job_versions[index] ?? null,
      }))
      return { definition: row.definition as WorkflowDefinition, taskJobs }
    },
    async outputs({ tenantId, id }, tasks) {
      const rows = await tx.query(statements.listTaskOutputs, [tenantId, id, tasks])
      return rows.map(({ task, item, result, response }) => {
        return { task, item: item ?? undefined, output: outputOf(result, response) }
      })
    },
    async templates(jobs) {
      const ids = jobs.map(({ jobId }) => jobId)
      const versions = jobs.map(({ version }) => version)
      const rows = await tx.query(statements.listTaskTemplates, [ids, versions])
      return rows.map((row) => ({
        jobId: row.job_id,
        version: row.asked,
        jobVersion: row.version,
        definition: storedDefinition(row.definition),
        tenantWeight: row.weight,
      }))
    },
    async start(runs) {
      if (runs.length > 0) await tx.query(statements.startTaskRuns, [...columnsOf(runs)])
    },
    async cancel(workflowRunId, tasks) {
      if (tasks.length === 0) return []
      await tx.query(statements.cancelWaitingTasks, [workflowRunId, tasks])
      const rows = await tx.query(statements.cancelRunningTasks, [workflowRunId, tasks])
      return rows.map((row) => row.session_id)
    },
    async save({ id, state, states, items, notes, turn, stop }, endedRunIds) {
      const packed = [Buffer.from(states), JSON.stringify(items), JSON.stringify(notes)] as const
      if (state === null) await tx.query(statements.saveProgress, [id, ...packed, endedRunIds, turn, stop])
      else await tx.query(statements.endWorkflowRun, [id, ...packed, endedRunIds, state])
    },
  }
}

function lockedRun(row: statements.LockedRow): LockedWorkflowRun {
  return {
    id: row.id,
    tenantId: row.tenant_id,
    workflowId: row.workflow_id,
    version: row.version,
    input: row.has_input ? (row.input as JsonValue) : undefined,
    states: row.states,
    items: row.items as Record<string, StoredItems>,
    notes: row.notes as Record<string, string>,
    turn: row.turn as TaskRole | null,
    stop: row.stop as StopCause | null,
    overdue: row.overdue,
  }
}

/** None for an end that is known already: its run is no longer that of a task. */
function eventOf(row: statements.EventRow): WorkflowEvent[] {
  const { workflow_run_id: workflowRunId, kind, run_id: runId, task, item, run_state: state } = row
  if (kind === 'begin' || kind === 'cancel') return [{ workflowRunId, kind }]
  if (runId === null || task === null || state === null) return []
  return [
    { workflowRunId, kind: 'end', runId, task, item: item ?? undefined, state: state as TerminalRunState },
  ]
}

/** What a function answered; else the response of a target, where that is JSON. */
function outputOf(result: unknown, response: string | null): JsonValue | undefined {
  if (result !== null) return result as JsonValue
  if (response === null) return undefined
  try {
    return JSON.parse(response) as JsonValue
  } catch {
    return undefined
  }
}

function columnsOf(runs: readonly NewTaskRun[]) {
  const of = <T>(value: (run: NewTaskRun) => T): T[] => runs.map(value)
  return [
    of(({ id }) => id),
    of(({ tenantId }) => tenantId),
    of(({ workflowRunId }) => workflowRunId),
    of(({ task }) => task),
    of(({ item }) => item ?? null),
    of(({ template }) => template.jobId),
    of(({ template }) => template.jobVersion),
    of(({ queue }) => queue),
    of(({ template, tenantId }) => routeOf(template.definition.handler, tenantId)),
    of(({ priority }) => priority),
    of(({ template }) => template.definition.attemptTimeoutMs),
    of(({ input }) => (input === undefined ? null : JSON.stringify(input))),
    of(({ tag }) => tag),
    of(({ template }) => template.definition.startWithinMs),
    of(({ template }) => template.definition.runDeadlineMs),
  ] as const
}
