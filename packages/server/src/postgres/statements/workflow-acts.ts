/**
 * Acts by hand on workflow runs (ports/workflow-acts.ts, migrations/0024_workflow_acts.sql). Locks come in
 * the order of the resolver's: the progress first, then runs of tasks, then the workflow run.
 */
import { byIndex, statement } from '../statement.ts'
import { liveTaskRuns } from './live-task-runs.ts'
import { taskOutputs, type TaskOutputRow } from './task-outputs.ts'
import { isBegun } from './workflow-gates.ts'

/** Waits for whoever moves it on. */
export const lockWorkflowProgress = statement<{ workflow_run_id: string }, [id: string]>(
  'workflow_act_lock',
  `
SELECT workflow_run_id FROM belfry.workflow_progress
WHERE tenant_id = belfry.tenant_id() AND workflow_run_id = $1 FOR UPDATE`,
)

/**
 * Makes the progress of one that has ended; none where another did so first. Where its workflow limits how
 * many runs there are at a time it waits for its turn, as it did at first. A task of which it is the run has
 * ended for good.
 */
export const reopenWorkflowRun = statement<{ workflow_run_id: string }, [id: string]>(
  'workflow_act_reopen',
  `
INSERT INTO belfry.workflow_progress
  (workflow_run_id, tenant_id, workflow_id, version, states, items, notes, stop, depth, priority, gate)
SELECT id, tenant_id, workflow_id, version, states, items, notes, stop, depth, priority, gate
FROM (
  SELECT *, belfry.workflow_gate(workflow_id, input) AS gate FROM belfry.workflow_run
  WHERE tenant_id = belfry.tenant_id() AND id = $1 AND state IS NOT NULL
) AS past
ON CONFLICT (workflow_run_id) DO NOTHING
RETURNING workflow_run_id`,
  byIndex,
)

/** Takes back the progress that was made here. */
export const closeWorkflowProgress = statement<unknown, [id: string]>(
  'workflow_act_close',
  'DELETE FROM belfry.workflow_progress WHERE tenant_id = belfry.tenant_id() AND workflow_run_id = $1',
)

/** Whether there is such a workflow run, alive or not. */
export const existsWorkflowRun = statement<{ id: string }, [id: string]>(
  'workflow_act_exists',
  'SELECT id FROM belfry.workflow_run WHERE tenant_id = belfry.tenant_id() AND id = $1',
  byIndex,
)

export type HeldRow = {
  id: string
  workflow_id: string
  workflow_name: string
  version: number
  states: Buffer
  items: unknown
  notes: unknown
  turn: string | null
  stop: string | null
  canceling: boolean
  has_input: boolean
  input: unknown
  revision: number
  acts: unknown
  last_rerun: unknown
  given_outputs: unknown
  gone_tasks: string[]
}

/** Read after the lock, by a later snapshot: what whoever had it before has written is there. */
export const readHeldWorkflowRun = statement<HeldRow, [id: string]>(
  'workflow_act_read',
  `
SELECT r.id, p.workflow_id, w.name AS workflow_name, p.version, p.states, p.items, p.notes, p.turn, p.stop,
       EXISTS (
         SELECT FROM belfry.workflow_event e WHERE e.workflow_run_id = r.id AND e.kind = 'cancel'
       ) AS canceling,
       r.input IS NOT NULL AS has_input, r.input, r.revision, r.acts, r.last_rerun, r.given_outputs,
       r.gone_tasks
FROM belfry.workflow_progress p
JOIN belfry.workflow_run r ON r.tenant_id = p.tenant_id AND r.id = p.workflow_run_id
JOIN belfry.workflow w ON w.tenant_id = p.tenant_id AND w.id = p.workflow_id
WHERE p.tenant_id = belfry.tenant_id() AND p.workflow_run_id = $1`,
  byIndex,
)

/** As the resolver reads them. */
export const listActOutputs = statement<TaskOutputRow, [workflowRunId: string, tasks: readonly number[]]>(
  'workflow_act_outputs',
  taskOutputs('belfry.tenant_id()', '$1', '$2'),
  byIndex,
)

/** Runs of tasks that have not ended, as far as the resolver knows. */
export const listLiveTaskRuns = statement<
  { run_id: string },
  [workflowRunId: string, tasks: readonly number[]]
>(
  'workflow_act_live_runs',
  `
SELECT run_id
FROM (${liveTaskRuns('belfry.tenant_id()', '$1', '$2::integer[]')}
) AS alive
ORDER BY run_id`,
  byIndex,
)

/** Their ends are no longer ends of tasks. */
export const forgetTaskRuns = statement<unknown, [runIds: readonly string[]]>(
  'workflow_act_forget',
  `DELETE FROM belfry.task_run WHERE tenant_id = belfry.tenant_id() AND run_id = ANY ($1::uuid[])`,
  byIndex,
)

/** Ends waits of tasks that are set by hand; workflow runs that were such tasks are canceled. */
export const closeTaskWaits = statement<{ id: string }, [ids: readonly string[]]>(
  'workflow_act_close_waits',
  `
WITH ended AS (
  UPDATE belfry.task_wait
  SET state = 'canceled', ended_at = belfry.now(), reason = 'Its task was set by hand.'
  WHERE tenant_id = belfry.tenant_id() AND id = ANY ($1::uuid[]) AND state IS NULL
  RETURNING id, child_id
), told AS (
  INSERT INTO belfry.workflow_event (workflow_run_id, tenant_id, kind)
  SELECT p.workflow_run_id, p.tenant_id, 'cancel'
  FROM belfry.workflow_progress p
  WHERE p.tenant_id = belfry.tenant_id() AND p.workflow_run_id = ANY (ARRAY(SELECT child_id FROM ended))
)
SELECT id FROM ended`,
  byIndex,
)

/** Numbers the waits of its tasks anew. */
export const renumberTaskWaits = statement<
  unknown,
  [workflowRunId: string, from: readonly number[], to: readonly number[]]
>(
  'workflow_act_renumber_waits',
  `
UPDATE belfry.task_wait SET task = moved.now
FROM unnest($2::integer[], $3::integer[]) AS moved (before, now)
WHERE task_wait.tenant_id = belfry.tenant_id() AND task_wait.workflow_run_id = $1
  AND task_wait.task = moved.before`,
  byIndex,
)

/** Numbers the tasks of its runs anew. */
export const renumberTaskRuns = statement<
  unknown,
  [workflowRunId: string, from: readonly number[], to: readonly number[]]
>(
  'workflow_act_renumber',
  `
UPDATE belfry.run SET task = moved.now
FROM unnest($2::integer[], $3::integer[]) AS moved (before, now)
WHERE run.tenant_id = belfry.tenant_id() AND run.workflow_run_id = $1 AND run.task = moved.before`,
  byIndex,
)

/** Acknowledges open dead letters of runs of these tasks. */
export const closeTaskLetters = statement<unknown, [workflowRunId: string, tasks: readonly number[]]>(
  'workflow_act_close_letters',
  `
UPDATE belfry.dead_letter SET state = 'deleted', deleted_at = belfry.now()
WHERE tenant_id = belfry.tenant_id() AND state = 'open' AND run_id = ANY (ARRAY(
    SELECT id FROM belfry.run
    WHERE tenant_id = belfry.tenant_id() AND workflow_run_id = $1 AND task = ANY ($2::integer[])))`,
  byIndex,
)

/** The name of an API key. */
export const readKeyName = statement<{ name: string }, [keyId: string]>(
  'workflow_act_key_name',
  'SELECT name FROM belfry.api_key WHERE tenant_id = belfry.tenant_id() AND id = $1',
)

type Saved = [
  id: string,
  version: number,
  states: Buffer,
  items: string,
  notes: string,
  turn: string | null,
  stop: string | null,
  timeoutMs: number | null,
  input: string | null,
  acts: string,
  lastRerun: string | null,
  givenOutputs: string,
  goneTasks: readonly string[],
  startsNothing: boolean,
]

/** How it stands after an act, and the event by which a resolver decides what waits. */
export const saveWorkflowAct = statement<unknown, Saved>(
  'workflow_act_save',
  `
WITH progress AS (
  UPDATE belfry.workflow_progress
  SET version = $2, states = $3, items = $4, notes = $5, turn = $6, stop = $7, timeout_ms = $8::bigint,
      -- what only ends it need not wait for its turn
      admitted_at = CASE WHEN $14 AND gate IS NOT NULL THEN coalesce(admitted_at, belfry.now())
                         ELSE admitted_at END,
      deadline = CASE WHEN $7::text IS NULL AND ${isBegun}
        THEN coalesce(deadline, belfry.now() + $8::float8 * interval '1 millisecond') END
  WHERE tenant_id = belfry.tenant_id() AND workflow_run_id = $1
  RETURNING workflow_run_id, tenant_id
), told AS (
  INSERT INTO belfry.workflow_event (workflow_run_id, tenant_id, kind)
  SELECT workflow_run_id, tenant_id, 'begin' FROM progress
)
UPDATE belfry.workflow_run
SET version = $2, input = $9, acts = $10, last_rerun = $11, given_outputs = $12, gone_tasks = $13,
    revision = revision + 1, state = NULL, ended_at = NULL, states = NULL, items = NULL, notes = NULL,
    stop = NULL, output = NULL
WHERE tenant_id = belfry.tenant_id() AND id = $1`,
  byIndex,
)
