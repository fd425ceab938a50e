/**
 * Rounds of the resolver (ports/workflow-runs.ts; migration 0022 says how the tables work together). Locks
 * come in this order: workflow_progress by id, then ready and delayed by run id.
 */
import { byHash, byIndex, statement } from '../statement.ts'
import { askedToCancel, endedWaiting, isUnasked } from './ended-waiting.ts'
import { freeSlots } from './free-slots.ts'
import { taskOutputs, type TaskOutputRow } from './task-outputs.ts'
import { liveTaskRuns } from './live-task-runs.ts'
import { isBegun } from './workflow-gates.ts'

export type LockedRow = {
  id: string
  tenant_id: string
  workflow_id: string
  version: number
  states: Buffer
  items: unknown
  notes: unknown
  turn: string | null
  stop: string | null
  schedule_id: string | null
  waits: boolean
  overdue: boolean
  gate: string | null
  admitted: boolean
  priority: number | null
  depth: number
  wait_id: string | null
  now_ms: number
  /** How many were looked for; the same in every row. */
  due: number
}

/**
 * Those with events, oldest first, what goes on before what begins, and those whose time is over; what
 * another resolver has is passed over, and so is what the caller leaves alone.
 */
export const lockDueWorkflowRuns = statement<
  LockedRow,
  [mostRuns: number, mostEvents: number, without: readonly string[]]
>(
  'workflow_lock_due',
  `
WITH due AS MATERIALIZED (
  SELECT workflow_run_id FROM (
    SELECT workflow_run_id FROM belfry.workflow_event
    WHERE kind <> 'begin' AND workflow_run_id <> ALL ($3::uuid[]) ORDER BY at LIMIT $2
  ) AS going_on
  UNION
  SELECT workflow_run_id FROM (
    SELECT workflow_run_id FROM belfry.workflow_event
    WHERE kind = 'begin' AND workflow_run_id <> ALL ($3::uuid[]) ORDER BY at LIMIT $1
  ) AS beginning
  UNION
  (SELECT workflow_run_id FROM belfry.workflow_progress
   WHERE deadline <= belfry.now() AND ${isBegun} AND workflow_run_id <> ALL ($3::uuid[])
   ORDER BY deadline LIMIT 100)
)
SELECT workflow_run_id AS id, tenant_id, workflow_id, version, states, items, notes, turn, stop,
       gate, admitted_at IS NOT NULL AS admitted, priority, depth, wait_id, schedule_id, waits,
       coalesce(deadline <= belfry.now() AND ${isBegun}, false) AS overdue,
       date_part('epoch', belfry.now()) * 1000 AS now_ms, (SELECT count(*)::integer FROM due) AS due
FROM belfry.workflow_progress
WHERE workflow_run_id = ANY (ARRAY(SELECT workflow_run_id FROM due))
ORDER BY workflow_run_id LIMIT $1
FOR UPDATE SKIP LOCKED`,
  byIndex,
)

/** An event; or, with `kind` null, ends of runs of one workflow run that ended alike. */
export type EventRow = {
  workflow_run_id: string
  kind: string | null
  waited_ms: number
  run_state: string
  /** Lists of one length, as Postgres writes them. */
  tasks: string
  items: string
}

/**
 * Taken after the lock, by a later snapshot, so that none that was there is passed over. With it the runs
 * that ended are forgotten: an end that is told again finds none. How they ended is looked up where the event
 * does not say so, as one that is told by hand or again.
 */
export const takeWorkflowEvents = statement<EventRow, [workflowRunIds: readonly string[]]>(
  'workflow_take_events',
  `
WITH taken AS MATERIALIZED (
  DELETE FROM belfry.workflow_event WHERE workflow_run_id = ANY ($1::uuid[])
  RETURNING at, workflow_run_id, kind, run_id, run_ids, run_state
), told AS MATERIALIZED (
  SELECT run_state, unnest(coalesce(run_ids, ARRAY[run_id])) AS run_id FROM taken WHERE kind = 'end'
), unsure AS MATERIALIZED (
  SELECT array_agg(run_id ORDER BY run_id) AS ids FROM told WHERE run_state IS NULL
), past AS MATERIALIZED (
  SELECT run_id, run_state FROM told WHERE run_state IS NOT NULL
  UNION ALL
  SELECT ended.run_id, ended.run_state FROM unsure CROSS JOIN LATERAL belfry.ends_of(unsure.ids) AS ended
  UNION ALL
  SELECT over.id, over.state
  FROM unsure CROSS JOIN unnest(unsure.ids) AS wait (id)
  CROSS JOIN LATERAL (SELECT id, state FROM belfry.task_wait WHERE task_wait.id = wait.id OFFSET 0) AS over
  WHERE over.state IS NOT NULL
), mine AS (
  DELETE FROM belfry.task_run WHERE run_id = ANY (ARRAY(SELECT run_id FROM past))
  RETURNING run_id, workflow_run_id, task, item
)
SELECT workflow_run_id, kind, date_part('epoch', clock_timestamp() - at) * 1000 AS waited_ms,
       NULL AS run_state, NULL AS tasks, NULL AS items
FROM taken
UNION ALL
SELECT mine.workflow_run_id, NULL, 0, ended.run_state, array_agg(mine.task)::text, array_agg(mine.item)::text
FROM mine JOIN (SELECT DISTINCT run_id, run_state FROM past) AS ended ON ended.run_id = mine.run_id
GROUP BY mine.workflow_run_id, ended.run_state`,
  byHash,
)

/** What runs were begun with. */
export const listBegunWith = statement<
  {
    id: string
    has_input: boolean
    input: unknown
    scheduled_for: Date | null
    interval_start: Date | null
    interval_end: Date | null
  },
  [workflowRunIds: readonly string[], firstId: string, lastId: string]
>(
  'workflow_begun_with',
  `
SELECT id, input IS NOT NULL AS has_input, input, scheduled_for, interval_start, interval_end
FROM belfry.workflow_run
WHERE id = ANY ($1::uuid[]) AND id >= $2 AND id <= $3`,
  byIndex,
)

/** A version of a workflow, with what its tasks run. */
export const readWorkflowVersion = statement<
  { definition: unknown; job_ids: string[]; job_versions: (number | null)[] },
  [tenantId: string, workflowId: string, version: number]
>(
  'workflow_read_version',
  `
SELECT definition, job_ids, job_versions FROM belfry.workflow_version
WHERE tenant_id = $1 AND workflow_id = $2 AND version = $3`,
)

/** Outputs of tasks, as conditions and inputs take them. */
export const listTaskOutputs = statement<
  TaskOutputRow,
  [tenantId: string, workflowRunId: string, tasks: readonly number[]]
>('workflow_task_outputs', taskOutputs('$1', '$2', '$3'), byIndex)

/** What runs of these jobs are made of; without a version, of the newest one. */
export const listTaskTemplates = statement<
  { job_id: string; asked: number | null; version: number; definition: unknown; weight: number },
  [jobIds: readonly string[], versions: readonly (number | null)[]]
>(
  'workflow_task_templates',
  `
SELECT wanted.job_id, wanted.version AS asked, v.version, v.definition, t.weight
FROM unnest($1::uuid[], $2::integer[]) AS wanted (job_id, version)
JOIN belfry.job j ON j.id = wanted.job_id
JOIN belfry.job_version v
  ON v.tenant_id = j.tenant_id AND v.job_id = j.id AND v.version = coalesce(wanted.version, j.version)
JOIN belfry.tenant t ON t.id = j.tenant_id`,
)

const taskRuns = liveTaskRuns('$1', '$2', '$3::integer[]')
const taskRunsInOrder = `
    SELECT tenant_id, run_id FROM (${taskRuns}
    ) AS its ORDER BY run_id`

type Tasks = [tenantId: string, workflowRunId: string, tasks: readonly number[]]

/** Ends runs of tasks that wait, with the attempt row that says why; their ends go on record. */
export const cancelWaitingTasks = statement<unknown, Tasks>(
  'workflow_cancel_waiting',
  `
WITH ${endedWaiting(taskRunsInOrder, 'Canceled with its workflow run while it waited.')}, told AS (
  INSERT INTO belfry.workflow_event (workflow_run_id, tenant_id, kind, run_id)
  SELECT $2, tenant_id, 'end', run_id FROM gone
)
SELECT (SELECT belfry.tell_dependents(array_agg(run_id)) FROM gone) AS told_dependents, ${freeSlots('gone')}`,
  byIndex,
)

/** Asks the sessions that run the others; sent after the one above, so that it sees what was claimed. */
export const cancelRunningTasks = statement<{ session_id: string }, Tasks>(
  'workflow_cancel_running',
  askedToCancel(taskRunsInOrder),
  byIndex,
)

/** What both missed, because it moved between the tables meanwhile; in one snapshot it stands in one. */
export const hasMissedTasks = statement<{ missed: boolean }, Tasks>(
  'workflow_missed_tasks',
  `
SELECT coalesce((
  SELECT true FROM (${taskRuns}
  ) AS its
  WHERE ${isUnasked('its')} LIMIT 1), false) AS missed`,
  byIndex,
)

/** Lists of one length. */
type Saved = [
  ids: readonly string[],
  states: readonly Buffer[],
  items: readonly string[],
  notes: readonly string[],
]

/** How workflow runs that go on stand; a stop for lack of time takes the deadline away. */
export const saveProgress = statement<
  unknown,
  [...Saved, turns: readonly (string | null)[], stops: readonly (string | null)[]]
>(
  'workflow_save',
  `
UPDATE belfry.workflow_progress AS progress
SET states = saved.states, items = saved.items, notes = saved.notes, turn = saved.turn, stop = saved.stop,
    deadline = CASE WHEN saved.stop IS NULL OR saved.stop = 'failed_fast' THEN progress.deadline END
FROM unnest($1::uuid[], $2::bytea[], $3::jsonb[], $4::jsonb[], $5::text[], $6::text[])
  AS saved (id, states, items, notes, turn, stop)
WHERE progress.workflow_run_id = ANY ($1::uuid[]) AND progress.workflow_run_id = saved.id`,
  byHash,
)

/** What waits in these is decided anew. */
export const beginAgain = statement<unknown, [workflowRunIds: readonly string[]]>(
  'workflow_begin_again',
  `
INSERT INTO belfry.workflow_event (workflow_run_id, tenant_id, kind)
SELECT workflow_run_id, tenant_id, 'begin' FROM belfry.workflow_progress
WHERE workflow_run_id = ANY ($1::uuid[])`,
  byIndex,
)

/** Ends of workflow runs. */
export const endWorkflowRuns = statement<
  unknown,
  [...Saved, runStates: readonly string[], firstId: string, lastId: string, stops: readonly (string | null)[]]
>(
  'workflow_end',
  `
WITH over AS (
  DELETE FROM belfry.workflow_progress WHERE workflow_run_id = ANY ($1::uuid[])
)
UPDATE belfry.workflow_run AS run
SET state = saved.run_state, ended_at = belfry.now(), states = saved.states, items = saved.items,
    notes = saved.notes, stop = saved.stop
FROM unnest($1::uuid[], $2::bytea[], $3::jsonb[], $4::jsonb[], $5::text[], $8::text[])
  AS saved (id, states, items, notes, run_state, stop)
WHERE run.id = ANY ($1::uuid[]) AND run.id >= $6 AND run.id <= $7 AND run.id = saved.id`,
  byHash,
)

/** How much is to be done, counted up to a limit. */
export const readWorkflowBacklog = statement<
  { events: number; oldest_ms: number; alive: number },
  [mostCounted: number]
>(
  'workflow_backlog',
  `
SELECT (SELECT count(*)::integer FROM (SELECT FROM belfry.workflow_event LIMIT $1) AS event) AS events,
       (SELECT count(*)::integer FROM (SELECT FROM belfry.workflow_progress LIMIT $1) AS run) AS alive,
       coalesce(greatest(0, date_part('epoch', clock_timestamp() - least(
         (SELECT at FROM belfry.workflow_event WHERE kind <> 'begin' ORDER BY at LIMIT 1),
         (SELECT at FROM belfry.workflow_event WHERE kind = 'begin' ORDER BY at LIMIT 1))) * 1000), 0)
         AS oldest_ms`,
  byIndex,
)
