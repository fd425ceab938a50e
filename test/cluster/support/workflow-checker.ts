/**
 * The checker of workflow runs: reads what is on record with SQL of its own and says what is wrong, in words.
 * What a workflow run had to come to is given; of the engine it uses how states are packed, nothing else.
 */
import type pg from 'pg'
import { unpackStates } from '../../../packages/server/src/domain/workflow/stored-states.ts'
import type { DrawnWorkflow } from '../../support/drawn-workflow.ts'
import type { LedgerCall } from './checker.ts'

export interface WorkflowCheckInput {
  readonly sql: pg.Client
  /** What each workflow run was begun of, by its id. */
  readonly begun: ReadonlyMap<string, DrawnWorkflow>
  readonly calls: readonly LedgerCall[]
}

interface TaskRow {
  workflow_run_id: string
  run_id: string
  task: number
  ends: number
  unsuccessful: number
  epochs: number
  attempts: number
  began_ms: number
  ended_ms: number
}

/** Each run of a task, with the span from the first call of a worker to its end on record. */
const taskRuns = `
  SELECT r.workflow_run_id, r.id AS run_id, r.task, count(a.run_state)::int AS ends,
    count(*) FILTER (WHERE a.outcome <> 'succeeded')::int AS unsuccessful,
    count(DISTINCT a.lease_epoch)::int AS epochs, count(*)::int AS attempts,
    (extract(epoch FROM min(a.started_at)) * 1000)::float8 AS began_ms,
    (extract(epoch FROM max(a.ended_at)) * 1000)::float8 AS ended_ms
  FROM belfry.run r LEFT JOIN belfry.attempt a ON a.run_id = r.id
  WHERE r.workflow_run_id IS NOT NULL
  GROUP BY r.workflow_run_id, r.id, r.task`

const leftovers = `
  SELECT 'progress' AS what, workflow_run_id FROM belfry.workflow_progress
  UNION ALL SELECT 'an open task run', workflow_run_id FROM belfry.task_run
  UNION ALL SELECT 'an event', workflow_run_id FROM belfry.workflow_event`

/** Rules that may let a task start while parents are still at work. */
const early: ReadonlySet<string> = new Set(['always', 'one_failed', 'one_success', 'one_done'])
export const startsEarly = (rule: string): boolean => early.has(rule)

/** Everything that is wrong; empty when all promises held. */
export async function findWorkflowFaults({ sql, begun, calls }: WorkflowCheckInput): Promise<string[]> {
  const runs = await sql.query<{ id: string; state: string | null; states: Buffer | null }>(
    'SELECT id, state, states FROM belfry.workflow_run',
  )
  const left = await sql.query<{ what: string; workflow_run_id: string }>(leftovers)
  const byRun = Map.groupBy((await sql.query<TaskRow>(taskRuns)).rows, (row) => row.workflow_run_id)
  const callsOf = Map.groupBy(calls, ({ runId }) => runId)
  const faults = left.rows.map((row) => `${row.what} is left of ${row.workflow_run_id}`)
  const known = new Map(runs.rows.map((row) => [row.id, row]))
  for (const [id, drawn] of begun) {
    const row = known.get(id)
    if (row === undefined) faults.push(`there is no workflow run ${id}`)
    else faults.push(...endFaults(row, drawn), ...taskFaults(id, byRun.get(id) ?? [], drawn, callsOf))
  }
  for (const id of known.keys()) if (!begun.has(id)) faults.push(`nobody asked for ${id}`)
  return faults
}

function endFaults(
  { id, state, states }: { id: string; state: string | null; states: Buffer | null },
  { definition, expected }: DrawnWorkflow,
): string[] {
  if (state === null || states === null) return [`${id} has not ended`]
  const faults = state === expected.run ? [] : [`${id} is ${state}, not ${expected.run}`]
  const tasks = [...definition.tasks, ...definition.onFailure, ...definition.finally]
  for (const [index, found] of unpackStates(states).entries()) {
    const task = tasks[index]?.id ?? ''
    if (found !== expected.states[task])
      faults.push(`${id} ${task} is ${found}, not ${String(expected.states[task])}`)
  }
  return faults
}

function taskFaults(
  id: string,
  rows: readonly TaskRow[],
  { definition, parents, expected }: DrawnWorkflow,
  callsOf: ReadonlyMap<string, readonly LedgerCall[]>,
): string[] {
  const faults: string[] = []
  const tasks = [...definition.tasks, ...definition.onFailure, ...definition.finally]
  const byTask = Map.groupBy(rows, (row) => row.task)
  for (const [index, task] of tasks.entries()) {
    const its = byTask.get(index) ?? []
    const wanted = expected.starts.has(task.id) ? 1 : 0
    if (its.length !== wanted) faults.push(`${id} ${task.id} was started ${its.length} times, not ${wanted}`)
    const waits = startsEarly(task.rule) ? [] : (parents[index] ?? [])
    const lastMs = Math.max(
      ...waits.flatMap((parent) => (byTask.get(parent) ?? []).map((row) => row.ended_ms)),
    )
    for (const row of its) {
      const what = `${id} ${task.id} (${row.run_id})`
      if (row.began_ms < lastMs) faults.push(`${what} began before its parents had ended`)
      faults.push(...runFaults(what, row, callsOf.get(row.run_id) ?? []))
    }
  }
  return faults
}

/** Every call beyond the first needs an attempt on record that did not succeed: lost, released or failed. */
function runFaults(what: string, row: TaskRow, calls: readonly LedgerCall[]): string[] {
  const faults: string[] = []
  if (row.ends !== 1) faults.push(`${what} ended ${row.ends} times`)
  if (row.epochs !== row.attempts) faults.push(`${what} has two attempts under one lease epoch`)
  if (calls.length === 0) faults.push(`${what} never reached the target`)
  if (calls.length - 1 > row.unsuccessful) {
    const explained = `only ${row.unsuccessful} attempts on record explain it`
    faults.push(`${what} was called ${calls.length} times, but ${explained}`)
  }
  return faults
}
