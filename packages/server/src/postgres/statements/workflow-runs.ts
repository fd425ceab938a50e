/**
 * Runs of workflows, as the API makes, reads and cancels them for one tenant. What moves them on is the
 * resolver's (workflow-resolving.ts).
 */
import { byIndex, statement } from '../statement.ts'

/** A run with its progress, in which no task has begun, and the event that begins it. */
export const insertWorkflowRun = statement<
  unknown,
  [
    id: string,
    workflowId: string,
    version: number,
    taskCount: number,
    input: string | null,
    timeoutMs: number | null,
    priority: number | null,
    source: string,
    scheduleId: string | null,
    scheduledFor: string | null,
    intervalStart: string | null,
    causeId: string | null,
  ]
>(
  'workflow_run_insert',
  `
WITH run AS (
  INSERT INTO belfry.workflow_run (id, tenant_id, workflow_id, version, source, input, priority, schedule_id,
                                   scheduled_for, interval_start, interval_end, cause_id)
  VALUES ($1, belfry.tenant_id(), $2, $3, $8, $5, $7, $9, $10, $11, $10, $12)
  RETURNING id, tenant_id, workflow_id, version, belfry.workflow_gate(workflow_id, input) AS gate
), progress AS (
  INSERT INTO belfry.workflow_progress
    (workflow_run_id, tenant_id, workflow_id, version, states, turn, gate, timeout_ms, priority, deadline)
  SELECT id, tenant_id, workflow_id, version, decode(repeat('00', $4::integer), 'hex'), 'main', gate, $6, $7,
         CASE WHEN gate IS NULL THEN belfry.now() + $6::bigint * interval '1 millisecond' END
  FROM run
)
INSERT INTO belfry.workflow_event (workflow_run_id, tenant_id, kind)
SELECT id, tenant_id, 'begin' FROM run`,
)

export type WorkflowRunSummaryRow = {
  id: string
  workflow_id: string
  workflow_name: string
  version: number
  state: string | null
  queued: boolean
  source: string
  schedule_id: string | null
  scheduled_for: Date | null
  interval_start: Date | null
  interval_end: Date | null
  cause_id: string | null
  created_at: Date
  ended_at: Date | null
}

export const workflowRunSummary = `
       r.id, r.workflow_id, w.name AS workflow_name, r.version, r.state, r.created_at, r.ended_at,
       p.waits OR (p.gate IS NOT NULL AND p.admitted_at IS NULL) AS queued, r.source, r.schedule_id,
       r.scheduled_for, r.interval_start, r.interval_end, r.cause_id`

export type WorkflowRunRow = WorkflowRunSummaryRow & {
  has_input: boolean
  input: unknown
  output: unknown
  priority: number | null
  parent_id: string | null
  revision: number
  acts: unknown
  states: Buffer
  items: unknown
  notes: unknown
}

/** One run and how its tasks stand. */
export const findWorkflowRun = statement<WorkflowRunRow, [id: string]>(
  'workflow_run_find',
  `
SELECT ${workflowRunSummary}, r.input IS NOT NULL AS has_input, r.input, r.revision, r.acts, r.output,
       r.priority, r.parent_id,
       coalesce(r.states, p.states) AS states, coalesce(r.items, p.items) AS items,
       coalesce(r.notes, p.notes) AS notes
FROM belfry.workflow_run r
JOIN belfry.workflow w ON w.tenant_id = r.tenant_id AND w.id = r.workflow_id
LEFT JOIN belfry.workflow_progress p ON p.workflow_run_id = r.id
WHERE r.tenant_id = belfry.tenant_id() AND r.id = $1`,
  byIndex,
)

/** The version that a run keeps. */
export const findRunDefinition = statement<{ definition: unknown }, [workflowId: string, version: number]>(
  'workflow_run_definition',
  `
SELECT definition FROM belfry.workflow_version
WHERE tenant_id = belfry.tenant_id() AND workflow_id = $1 AND version = $2`,
)

/** How many runs each task has, and the newest of them. */
export const listRunsOfTasks = statement<
  { task: number; runs: number; newest_run_id: string },
  [workflowRunId: string]
>(
  'workflow_run_task_runs',
  `
SELECT task, count(*)::integer AS runs, (array_agg(id ORDER BY id DESC))[1] AS newest_run_id
FROM belfry.run
WHERE tenant_id = belfry.tenant_id() AND workflow_run_id = $1
GROUP BY task`,
  byIndex,
)

/** Asks for the cancel of a run that is alive. */
export const requestWorkflowCancel = statement<{ workflow_run_id: string }, [id: string]>(
  'workflow_run_cancel',
  `
INSERT INTO belfry.workflow_event (workflow_run_id, tenant_id, kind)
SELECT workflow_run_id, tenant_id, 'cancel' FROM belfry.workflow_progress
WHERE tenant_id = belfry.tenant_id() AND workflow_run_id = $1
RETURNING workflow_run_id`,
)
