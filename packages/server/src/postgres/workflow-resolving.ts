/**
 * Rounds of the resolver on Postgres. What makes one safe stands in ports/workflow-runs.ts and with its
 * statements; here are its columns and rows.
 */
import type { JsonValue, TerminalRunState, WorkflowDefinition } from '@belfry/contract'
import type { TaskRole } from '../domain/workflow/plan.ts'
import type { StopCause } from '../domain/workflow/progress.ts'
import type { StoredItems } from '../domain/workflow/stored-states.ts'
import type { DeliveryLimits } from '../ports/event-bus.ts'
import {
  type DueWorkflowRuns,
  type LockedWorkflowRun,
  type ResolvingTx,
  type SavedProgress,
  TasksMoved,
  type WorkflowEvent,
  type WorkflowResolving,
} from '../ports/workflow-runs.ts'
import { storedDefinition } from './catalog/stored-definition.ts'
import type { Database, Transaction } from './database.ts'
import { startTaskRuns } from './statements/task-starts.ts'
import * as statements from './statements/workflow-resolving.ts'
import { pauseFailingWorkflowSchedules } from './failure-pauses.ts'
import { taskOutput } from './task-output.ts'
import { dropStaleEvents } from './statements/workflow-mending.ts'
import { createWorkflowMending } from './workflow-mending.ts'
import { turnsTx } from './workflow-turns.ts'
import { createPostgresWorkflowTimers, waitingTx } from './workflow-waits.ts'
import { taskStartColumns } from './task-starts.ts'

const engine = { role: 'belfry_engine' } as const
const mostCounted = 100_000
/** Of a cancel at runs that move on between two looks, as in engine/catalog/run-canceler.ts. */
const mostLooks = 5

export function createPostgresWorkflowResolving(db: Database): WorkflowResolving {
  return {
    ...createPostgresWorkflowTimers(db),
    doubts: db.doubts,
    within: (work) => db.transaction(engine, (tx) => work(resolvingTx(tx))),
    mend: createWorkflowMending(db),
    pauseFailing: (scheduleIds) => pauseFailingWorkflowSchedules(db, scheduleIds),
    async backlog() {
      const [row] = await db.run({ ...engine, readOnly: true }, statements.readWorkflowBacklog, [mostCounted])
      return { events: row?.events ?? 0, oldestMs: row?.oldest_ms ?? 0, alive: row?.alive ?? 0 }
    },
  }
}

function resolvingTx(tx: Transaction): ResolvingTx {
  return {
    waits: waitingTx(tx),
    turns: turnsTx(tx),
    lockDue: (limits) => lockDue(tx, limits),
    async begunWith(ids) {
      if (ids.length === 0) return new Map()
      const rows = await tx.query(statements.listBegunWith, [ids, ...endsOf(ids)])
      return new Map(
        rows.map((row) => [
          row.id,
          {
            input: row.has_input ? (row.input as JsonValue) : undefined,
            scheduledForMs: row.scheduled_for?.getTime() ?? null,
            intervalStartMs: row.interval_start?.getTime() ?? null,
            intervalEndMs: row.interval_end?.getTime() ?? null,
          },
        ]),
      )
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
      return (await tx.query(statements.listTaskOutputs, [tenantId, id, tasks])).map(taskOutput)
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
      if (runs.length > 0) await tx.query(startTaskRuns, taskStartColumns(runs))
    },
    cancel: (run, tasks) => cancel(tx, run, tasks),
    async goOn(ids) {
      if (ids.length > 0) await tx.query(statements.beginAgain, [ids])
    },
    async save(progress) {
      const over = progress.filter(({ state }) => state !== null)
      const alive = progress.filter(({ state }) => state === null)
      await Promise.all([
        alive.length > 0 && tx.query(statements.saveProgress, [...packed(alive), ...turnsOf(alive)]),
        over.length > 0 && tx.query(statements.endWorkflowRuns, [...packed(over), ...howEnded(over)]),
      ])
    },
  }
}

async function cancel(
  tx: Transaction,
  { tenantId, id }: LockedWorkflowRun,
  tasks: readonly number[],
): Promise<string[]> {
  if (tasks.length === 0) return []
  const its = [tenantId, id, tasks] as const
  const sessions = new Set<string>()
  for (let look = 0; look < mostLooks; look++) {
    await tx.query(statements.cancelWaitingTasks, its)
    const asked = await tx.query(statements.cancelRunningTasks, its)
    for (const row of asked) sessions.add(row.session_id)
    const [left] = await tx.query(statements.hasMissedTasks, its)
    if (left?.missed !== true) return [...sessions]
  }
  // all of the round is taken back, so that the stop is never on record without its cancels
  throw new TasksMoved(id)
}

async function lockDue(
  tx: Transaction,
  { runs, events: mostEvents, without }: DeliveryLimits,
): Promise<DueWorkflowRuns> {
  const look = () => tx.query(statements.lockDueWorkflowRuns, [runs, mostEvents, without])
  let rows = await look()
  // events of what is over would keep others from being seen; others may have the rest
  while (rows.length < Math.min(runs, rows[0]?.due ?? 1)) {
    const [dropped] = await tx.query(dropStaleEvents, [mostEvents])
    if ((dropped?.count ?? 0) === 0) break
    rows = await look()
  }
  const nowMs = rows[0]?.now_ms ?? 0
  if (rows.length === 0) return { runs: [], events: [], nowMs, waitsMs: [] }
  const events = await tx.query(statements.takeWorkflowEvents, [rows.map(({ id }) => id)])
  const waitsMs = events.flatMap((event) => (event.kind === null ? [] : event.waited_ms))
  // one that another took in just before it was locked here has nothing to do any more
  const told = new Set(events.map((event) => event.workflow_run_id))
  const due = rows.filter(({ id, overdue }) => overdue || told.has(id))
  return { runs: due.map(lockedRun), events: events.flatMap(eventsOf), nowMs, waitsMs }
}

function packed(progress: readonly SavedProgress[]) {
  const ids = progress.map(({ id }) => id)
  const states = progress.map((each) => Buffer.from(each.states))
  const items = progress.map((each) => JSON.stringify(each.items))
  return [ids, states, items, progress.map(({ notes }) => JSON.stringify(notes))] as const
}

const turnsOf = (alive: readonly SavedProgress[]) =>
  [alive.map(({ turn }) => turn), alive.map(({ stop }) => stop)] as const

const howEnded = (over: readonly SavedProgress[]) =>
  [
    over.map(({ state }) => state ?? ''),
    ...endsOf(over.map(({ id }) => id)),
    over.map(({ stop }) => stop),
  ] as const

/** The lowest and the highest of ids. */
function endsOf(ids: readonly string[]): readonly [string, string] {
  const [first = ''] = ids
  return [ids.reduce((a, b) => (a < b ? a : b), first), ids.reduce((a, b) => (a > b ? a : b), first)]
}

function lockedRun(row: statements.LockedRow): LockedWorkflowRun {
  return {
    id: row.id,
    tenantId: row.tenant_id,
    workflowId: row.workflow_id,
    version: row.version,
    states: row.states,
    items: row.items as Record<string, StoredItems>,
    notes: row.notes as Record<string, string>,
    turn: row.turn as TaskRole | null,
    stop: row.stop as StopCause | null,
    overdue: row.overdue,
    gate: row.gate,
    admitted: row.admitted,
    priority: row.priority,
    depth: row.depth,
    waitId: row.wait_id,
    scheduleId: row.schedule_id,
    waits: row.waits,
  }
}

/** An event of an end says only that there are some, which have rows of their own. */
function eventsOf({ workflow_run_id: workflowRunId, kind, ...row }: statements.EventRow): WorkflowEvent[] {
  if (kind === 'begin' || kind === 'cancel' || kind === 'signal') return [{ workflowRunId, kind }]
  if (kind !== null) return []
  const state = row.run_state as TerminalRunState
  const items = elementsOf(row.items)
  return elementsOf(row.tasks).map((task, index) => {
    const item = items[index]
    return {
      workflowRunId,
      kind: 'end',
      task: Number(task),
      item: item === 'NULL' ? undefined : Number(item),
      state,
    }
  })
}

/** Of an array of numbers, as Postgres writes it. */
const elementsOf = (text: string): string[] => text.slice(1, -1).split(',')
