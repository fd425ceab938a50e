/**
 * Rounds of the resolver (ports/workflow-runs.ts; migration 0022 says how the tables work together). Locks
 * come in this order: workflow_progress by id, then ready and delayed by run id.
 */
import { byIndex, statement } from '../statement.ts'
import { freeSlots } from './free-slots.ts'

export type LockedRow = {
  id: string
  tenant_id: string
  workflow_id: string
  version: number
  has_input: boolean
  input: unknown
  states: Buffer
  items: unknown
  notes: unknown
  turn: string | null
  stop: string | null
  overdue: boolean
}

/**
 * Those with events, oldest first, and those whose time is over; what another resolver has is passed over.
 */
export const lockDueWorkflowRuns = statement<LockedRow, [limit: number]>(
  'workflow_lock_due',
  `
WITH due AS MATERIALIZED (
  SELECT workflow_run_id
  FROM (SELECT at, workflow_run_id FROM belfry.workflow_event ORDER BY at LIMIT 5000) AS event
  UNION
  (SELECT workflow_run_id FROM belfry.workflow_progress
   WHERE deadline <= belfry.now() ORDER BY deadline LIMIT 100)
)
SELECT p.workflow_run_id AS id, p.tenant_id, p.workflow_id, p.version, r.input IS NOT NULL AS has_input,
       r.input, p.states, p.items, p.notes, p.turn, p.stop,
       coalesce(p.deadline <= belfry.now(), false) AS overdue
FROM belfry.workflow_progress p
CROSS JOIN LATERAL (SELECT input FROM belfry.workflow_run WHERE id = p.workflow_run_id OFFSET 0) AS r
WHERE p.workflow_run_id = ANY (ARRAY(SELECT workflow_run_id FROM due))
ORDER BY p.workflow_run_id LIMIT $1
FOR UPDATE OF p SKIP LOCKED`,
  byIndex,
)

export type EventRow = {
  workflow_run_id: string
  kind: string
  run_id: string | null
  task: number | null
  item: number | null
  run_state: string | null
}

/** Taken after the lock, by a later snapshot, so that none that was there is passed over. */
export const takeWorkflowEvents = statement<EventRow, [workflowRunIds: readonly string[]]>(
  'workflow_take_events',
  `
WITH taken AS (
  DELETE FROM belfry.workflow_event WHERE workflow_run_id = ANY ($1::uuid[])
  RETURNING at, workflow_run_id, kind, run_id
)
SELECT taken.workflow_run_id, taken.kind, taken.run_id, mine.task, mine.item, past.run_state
FROM taken
LEFT JOIN LATERAL (
  SELECT task, item FROM belfry.task_run WHERE run_id = taken.run_id OFFSET 0
) AS mine ON true
LEFT JOIN LATERAL (
  SELECT max(run_state) AS run_state FROM belfry.attempt WHERE run_id = taken.run_id
) AS past ON true
ORDER BY taken.at`,
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

/** Outputs of tasks: of the newest run of each, and of each item, that succeeded. */
export const listTaskOutputs = statement<
  { task: number; item: number | null; result: unknown; response: string | null },
  [tenantId: string, workflowRunId: string, tasks: readonly number[]]
>(
  'workflow_task_outputs',
  `
SELECT DISTINCT ON (r.task, r.item) r.task, r.item, ended.result, ended.response
FROM belfry.run r
CROSS JOIN LATERAL (
  SELECT result, CASE WHEN result IS NULL AND NOT response_truncated THEN response END AS response
  FROM belfry.attempt WHERE run_id = r.id AND run_state = 'succeeded' OFFSET 0
) AS ended
WHERE r.tenant_id = $1 AND r.workflow_run_id = $2 AND r.task = ANY ($3::integer[])
ORDER BY r.task, r.item, r.id DESC`,
  byIndex,
)

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

/**
 * Runs of tasks, ready at once, behind the gate where their job has limits. They are followed: whoever ends
 * one tells of it (let_followers_go).
 */
export const startTaskRuns = statement<
  unknown,
  [
    ids: readonly string[],
    tenantIds: readonly string[],
    workflowRunIds: readonly string[],
    tasks: readonly number[],
    items: readonly (number | null)[],
    jobIds: readonly string[],
    jobVersions: readonly number[],
    queues: readonly string[],
    routes: readonly string[],
    priorities: readonly number[],
    timeoutsMs: readonly number[],
    inputs: readonly (string | null)[],
    tags: readonly number[],
    startWithinMs: readonly (number | null)[],
    runDeadlineMs: readonly (number | null)[],
  ]
>(
  'workflow_start_runs',
  `
WITH given AS MATERIALIZED (
  SELECT *
  FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::integer[], $5::integer[], $6::uuid[], $7::integer[],
              $8::text[], $9::text[], $10::smallint[], $11::integer[], $12::jsonb[], $13::float8[],
              $14::float8[], $15::float8[])
    AS given (id, tenant_id, workflow_run_id, task, item, job_id, job_version, queue, handler, priority,
              timeout_ms, input, tag, start_within_ms, run_deadline_ms)
), made AS (
  INSERT INTO belfry.run (id, tenant_id, job_id, job_version, source, queue, priority, input, due_at,
                          workflow_run_id, task, item)
  SELECT id, tenant_id, job_id, job_version, 'workflow', queue, priority, input, belfry.now(),
         workflow_run_id, task, item
  FROM given
), alive AS (
  INSERT INTO belfry.task_run (run_id, tenant_id, workflow_run_id, task, item)
  SELECT id, tenant_id, workflow_run_id, task, item FROM given
)
INSERT INTO belfry.ready (run_id, tenant_id, job_id, job_version, queue, handler, tag, priority, available_at,
                          timeout_ms, followed, start_by, run_deadline, detailed, gate)
SELECT id, tenant_id, job_id, job_version, queue, handler, tag, priority, belfry.now(), timeout_ms, true,
       belfry.now() + start_within_ms * interval '1 millisecond',
       belfry.now() + run_deadline_ms * interval '1 millisecond', input IS NOT NULL,
       CASE WHEN (SELECT j.limited FROM belfry.job AS j WHERE j.id = given.job_id)
         THEN belfry.gate_of(job_id, queue, input) END
FROM given`,
)

const locked = (table: string, where: string) => `
  SELECT mine.run_id
  FROM (
    SELECT run_id FROM belfry.task_run
    WHERE workflow_run_id = $1 AND task = ANY ($2::integer[]) ORDER BY run_id
  ) AS wanted
  CROSS JOIN LATERAL (
    SELECT run_id FROM belfry.${table} WHERE ${table}.run_id = wanted.run_id ${where} FOR UPDATE
  ) AS mine`

/** Ends runs of tasks that wait, with the attempt row that says why; their ends go on record. */
export const cancelWaitingTasks = statement<unknown, [workflowRunId: string, tasks: readonly number[]]>(
  'workflow_cancel_waiting',
  `
WITH mine_ready AS MATERIALIZED (${locked('ready', 'AND session_id IS NULL')}
), mine_delayed AS MATERIALIZED (${locked('delayed', 'AND (SELECT count(*) FROM mine_ready) >= 0')}
), was_ready AS (
  DELETE FROM belfry.ready WHERE run_id = ANY (ARRAY(SELECT run_id FROM mine_ready))
  RETURNING run_id, tenant_id, lease_epoch, slotted
), was_delayed AS (
  DELETE FROM belfry.delayed WHERE run_id = ANY (ARRAY(SELECT run_id FROM mine_delayed))
  RETURNING run_id, tenant_id, lease_epoch, false AS slotted
), gone AS (
  SELECT * FROM was_ready UNION ALL SELECT * FROM was_delayed
), history AS (
  INSERT INTO belfry.attempt
    (run_id, number, tenant_id, lease_epoch, outcome, run_state, reason, started_at, error_code,
     error_message)
  SELECT run_id, 0, tenant_id, lease_epoch, 'canceled', 'canceled', 'canceled_by_request', belfry.now(),
         'canceled', 'Canceled with its workflow run while it waited.'
  FROM gone
), told AS (
  INSERT INTO belfry.workflow_event (workflow_run_id, tenant_id, kind, run_id)
  SELECT $1, tenant_id, 'end', run_id FROM gone
)
SELECT ${freeSlots('gone')}`,
  byIndex,
)

/** Asks the sessions that run the others; sent after the one above, so that it sees what was claimed. */
export const cancelRunningTasks = statement<
  { session_id: string },
  [workflowRunId: string, tasks: readonly number[]]
>(
  'workflow_cancel_running',
  `
WITH mine AS MATERIALIZED (${locked('ready', 'AND session_id IS NOT NULL')}
)
UPDATE belfry.ready SET cancel_requested_at = coalesce(cancel_requested_at, belfry.now())
WHERE run_id = ANY (ARRAY(SELECT run_id FROM mine))
RETURNING session_id`,
  byIndex,
)

type Saved = [id: string, states: Buffer, items: string, notes: string, endedRunIds: readonly string[]]

const forget = `
  DELETE FROM belfry.task_run WHERE run_id = ANY ($5::uuid[])`

/** How a workflow run that goes on stands; a stop for lack of time takes the deadline away. */
export const saveProgress = statement<unknown, [...Saved, turn: string | null, stop: string | null]>(
  'workflow_save',
  `
WITH forgotten AS (${forget}
)
UPDATE belfry.workflow_progress
SET states = $2, items = $3, notes = $4, turn = $6, stop = $7,
    deadline = CASE WHEN $7::text IS NULL THEN deadline END
WHERE workflow_run_id = $1`,
)

/** The end of a workflow run. */
export const endWorkflowRun = statement<unknown, [...Saved, state: string]>(
  'workflow_end',
  `
WITH forgotten AS (${forget}
), over AS (
  DELETE FROM belfry.workflow_progress WHERE workflow_run_id = $1
)
UPDATE belfry.workflow_run SET state = $6, ended_at = belfry.now(), states = $2, items = $3, notes = $4
WHERE id = $1`,
)

/**
 * Ends of runs of tasks that stand on record without an event, and events of what is over. There are none,
 * but where rows were touched by hand.
 */
export const mendWorkflowEvents = statement<{ mended: number }>(
  'workflow_mend',
  `
WITH stale AS (
  DELETE FROM belfry.workflow_event
  WHERE NOT EXISTS (
    SELECT FROM belfry.workflow_progress p WHERE p.workflow_run_id = workflow_event.workflow_run_id)
), told AS (
  INSERT INTO belfry.workflow_event (workflow_run_id, tenant_id, kind, run_id)
  SELECT t.workflow_run_id, t.tenant_id, 'end', t.run_id
  FROM belfry.task_run t
  WHERE EXISTS (SELECT FROM belfry.attempt a WHERE a.run_id = t.run_id AND a.run_state IS NOT NULL)
    AND NOT EXISTS (SELECT FROM belfry.workflow_event e WHERE e.workflow_run_id = t.workflow_run_id)
  LIMIT 1000
  RETURNING 1
)
SELECT count(*)::integer AS mended FROM told`,
  byIndex,
)
