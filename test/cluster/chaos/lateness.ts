/**
 * How late each run was first seen by the target, by its due instant: the planned time of a schedule,
 * `runAt`, the moment in which it was accepted, or the end of the last parent that it waited for. Runs that
 * were never called are not in here; whether they had to be, the other parts of the checker say.
 */
import type pg from 'pg'
import type { DrawnWorkflow } from '../../support/drawn-workflow.ts'
import type { RecordedCall } from '../support/ledger.ts'
import { startsEarly } from '../support/workflow-checker.ts'

export interface Lateness {
  readonly what: string
  /** Whole milliseconds; below 0: it was early. */
  readonly lateMs: number
}

interface RunRow {
  id: string
  job: string
  /** Epoch ms, as all times here. */
  scheduled_for: number | null
  run_at: number
  parents_ended: number | null
}

/** `due_at` of a run is its `runAt`, or when it was accepted. */
const runs = `
  SELECT r.id, coalesce(j.name, 'job') AS job,
    (extract(epoch FROM o.scheduled_for) * 1000)::float8 AS scheduled_for,
    (extract(epoch FROM r.due_at) * 1000)::float8 AS run_at,
    (SELECT (extract(epoch FROM max(a.ended_at)) * 1000)::float8
     FROM belfry.dependency d JOIN belfry.attempt a ON a.run_id = d.parent_id AND a.run_state IS NOT NULL
     WHERE d.child_id = r.id) AS parents_ended
  FROM belfry.run r
  LEFT JOIN belfry.job j ON j.id = r.job_id
  LEFT JOIN belfry.occurrence o ON o.run_id = r.id
  WHERE r.workflow_run_id IS NULL`

interface TaskRow {
  id: string
  workflow_run_id: string
  task: number
  planned: number
  ended: number | null
}

const tasks = `
  SELECT r.id, r.workflow_run_id, r.task, (extract(epoch FROM w.scheduled_for) * 1000)::float8 AS planned,
    (SELECT (extract(epoch FROM a.ended_at) * 1000)::float8 FROM belfry.attempt a
     WHERE a.run_id = r.id AND a.run_state IS NOT NULL) AS ended
  FROM belfry.run r JOIN belfry.workflow_run w ON w.id = r.workflow_run_id`

export async function findLateness(
  sql: pg.Client,
  calls: readonly RecordedCall[],
  begun: ReadonlyMap<string, DrawnWorkflow>,
): Promise<{ readonly all: readonly Lateness[]; readonly worst: Lateness | undefined }> {
  const firstMs = new Map<string, number>()
  for (const { runId, atMs } of calls) firstMs.set(runId, Math.min(atMs, firstMs.get(runId) ?? Infinity))
  const all: Lateness[] = []
  const add = (runId: string, words: string, dueMs: number): void => {
    const atMs = firstMs.get(runId)
    if (atMs !== undefined) all.push({ what: `${words} (${runId})`, lateMs: Math.round(atMs - dueMs) })
  }
  for (const row of (await sql.query<RunRow>(runs)).rows) {
    const words = row.parents_ended === null ? `a run of ${row.job}` : `a run of ${row.job} after others`
    add(row.id, words, row.scheduled_for ?? Math.max(row.run_at, row.parents_ended ?? 0))
  }
  const rows = (await sql.query<TaskRow>(tasks)).rows
  for (const [id, its] of Map.groupBy(rows, (row) => row.workflow_run_id)) {
    const drawn = begun.get(id)
    if (drawn === undefined) continue
    for (const row of its) {
      const dueMs = dueOfTask(row, its, drawn)
      if (dueMs !== undefined) add(row.id, `task ${row.task} of workflow run ${id}`, dueMs)
    }
  }
  return { all, worst: all.toSorted((a, b) => b.lateMs - a.lateMs)[0] }
}

/** Undefined where it depends on more than the ends of its parents: their skips, or the turn of a part. */
function dueOfTask(row: TaskRow, its: readonly TaskRow[], drawn: DrawnWorkflow): number | undefined {
  const task = drawn.definition.tasks[row.task]
  if (task === undefined || startsEarly(task.rule)) return undefined
  const parents = drawn.parents[row.task] ?? []
  if (parents.length === 0) return row.planned
  const ended = parents.map((parent) => its.find((each) => each.task === parent)?.ended)
  if (ended.some((each) => each === undefined || each === null)) return undefined
  return Math.max(...ended.map(Number))
}
