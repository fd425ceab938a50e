/**
 * What explains a workflow run and its tasks (ports/workflow-insight.ts), for one tenant: of each task one
 * row, found by an index, however many runs it has.
 */
import { byIndex, statement } from '../statement.ts'
import { liveTaskRuns } from './live-task-runs.ts'

export type WorkflowFactsRow = {
  id: string
  workflow_id: string
  workflow_name: string
  version: number
  state: string | null
  created_at: Date
  ended_at: Date | null
  has_input: boolean
  input: unknown
  states: Buffer
  items: unknown
  notes: unknown
  turn: string | null
  stop: string | null
  canceling: boolean
  at_gate: boolean
  waits: boolean
  deadline: Date | null
  gone_tasks: string[]
  now: Date
}

/** A workflow run, and what holds it as a whole. */
export const findWorkflowFacts = statement<WorkflowFactsRow, [id: string]>(
  'workflow_insight_find',
  `
SELECT r.id, r.workflow_id, w.name AS workflow_name, r.version, r.state, r.created_at, r.ended_at,
       r.input IS NOT NULL AS has_input, r.input, coalesce(r.states, p.states) AS states,
       coalesce(r.items, p.items) AS items, coalesce(r.notes, p.notes) AS notes, p.turn,
       coalesce(p.stop, r.stop) AS stop, p.deadline, r.gone_tasks, belfry.now() AS now,
       coalesce(p.gate IS NOT NULL AND p.admitted_at IS NULL, false) AS at_gate,
       coalesce(p.waits, false) AS waits,
       EXISTS (
         SELECT FROM belfry.workflow_event e WHERE e.workflow_run_id = r.id AND e.kind = 'cancel'
       ) AS canceling
FROM belfry.workflow_run r
JOIN belfry.workflow w ON w.tenant_id = r.tenant_id AND w.id = r.workflow_id
LEFT JOIN belfry.workflow_progress p ON p.workflow_run_id = r.id
WHERE r.tenant_id = belfry.tenant_id() AND r.id = $1`,
  byIndex,
)

/** Of each task the oldest run that is alive. */
export const listOldestLiveRuns = statement<
  { task: number; run_id: string },
  [workflowRunId: string, tasks: readonly number[]]
>(
  'workflow_insight_live_runs',
  `
SELECT wanted.task, alive.run_id
FROM unnest($2::integer[]) AS wanted (task)
CROSS JOIN LATERAL (
  SELECT run_id
  FROM (${liveTaskRuns('belfry.tenant_id()', '$1', 'ARRAY[wanted.task]')}
  ) AS its
  ORDER BY run_id LIMIT 1
) AS alive`,
  byIndex,
)

export type OpenWaitRow = {
  task: number
  id: string
  kind: string
  message: string | null
  signal: string | null
  child_id: string | null
  due_at: Date | null
  created_at: Date
}

/** Of each task the oldest wait that is open. */
export const listOpenWaits = statement<OpenWaitRow, [workflowRunId: string, tasks: readonly number[]]>(
  'workflow_insight_waits',
  `
SELECT open.*
FROM unnest($2::integer[]) AS wanted (task)
CROSS JOIN LATERAL (
  SELECT its.*
  FROM (
    SELECT task, id, kind, message, signal, child_id, due_at, created_at FROM belfry.task_wait
    WHERE tenant_id = belfry.tenant_id() AND workflow_run_id = $1 AND task_wait.task = wanted.task
      AND state IS NULL
    OFFSET 0
  ) AS its
  ORDER BY id LIMIT 1
) AS open`,
  byIndex,
)

export type EndedWaitRow = {
  task: number
  kind: string
  message: string | null
  signal: string | null
  item: number | null
  state: string
  due_at: Date | null
  ended_at: Date
  ended_by: unknown
  reason: string | null
}

/** Of each task the newest wait of each item that has ended, and of those the one that failed first. */
export const listEndedWaits = statement<EndedWaitRow, [workflowRunId: string, tasks: readonly number[]]>(
  'workflow_insight_ended_waits',
  `
SELECT wanted.task, over.*
FROM unnest($2::integer[]) AS wanted (task)
CROSS JOIN LATERAL (
  SELECT kind, message, signal, item, state, due_at, ended_at, ended_by, reason
  FROM (
    SELECT DISTINCT ON (item) *
    FROM (
      SELECT * FROM belfry.task_wait
      WHERE tenant_id = belfry.tenant_id() AND workflow_run_id = $1 AND task_wait.task = wanted.task
        AND kind <> 'workflow'
      OFFSET 0
    ) AS its
    ORDER BY item, id DESC
  ) AS newest
  WHERE state IS NOT NULL
  ORDER BY array_position(ARRAY['failed', 'canceled', 'skipped', 'succeeded'], state), ended_at LIMIT 1
) AS over`,
  byIndex,
)

/** Of each task the newest run. */
export const listNewestTaskRuns = statement<
  { task: number; run_id: string; created_at: Date; ended_at: Date | null },
  [workflowRunId: string, tasks: readonly number[]]
>(
  'workflow_insight_newest_runs',
  `
SELECT wanted.task, newest.id AS run_id, newest.created_at, (
         SELECT max(ended_at) FROM belfry.attempt
         WHERE attempt.run_id = newest.id AND run_state IS NOT NULL
       ) AS ended_at
FROM unnest($2::integer[]) AS wanted (task)
CROSS JOIN LATERAL (
  SELECT id, created_at
  FROM (
    SELECT id, created_at FROM belfry.run
    WHERE tenant_id = belfry.tenant_id() AND workflow_run_id = $1 AND run.task = wanted.task
    OFFSET 0
  ) AS its
  ORDER BY id DESC LIMIT 1
) AS newest`,
  byIndex,
)

/** Of each task the workflow runs, each the newest of its item, that did not succeed. */
export const listFailedChildren = statement<
  { task: number; item: number | null; child_id: string; ended_at: Date | null },
  [workflowRunId: string, tasks: readonly number[], limit: number]
>(
  'workflow_insight_failed_children',
  `
SELECT wanted.task, failed.item, failed.child_id, failed.ended_at
FROM unnest($2::integer[]) AS wanted (task)
CROSS JOIN LATERAL (
  SELECT item, child_id, state, ended_at
  FROM (
    SELECT DISTINCT ON (item) item, child_id, state, ended_at
    FROM (
      SELECT id, item, child_id, state, ended_at FROM belfry.task_wait
      WHERE tenant_id = belfry.tenant_id() AND workflow_run_id = $1 AND task_wait.task = wanted.task
        AND kind = 'workflow'
      OFFSET 0
    ) AS its
    ORDER BY item, id DESC
  ) AS newest
  WHERE state IN ('failed', 'canceled')
  ORDER BY state DESC, item LIMIT $3
) AS failed`,
  byIndex,
)
