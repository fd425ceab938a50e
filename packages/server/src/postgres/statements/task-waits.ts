/**
 * Tasks that run no job, as the resolver begins and ends them (migration 0025 says how the tables work
 * together). The end of a wait and the event that tells of it are one statement.
 */
import type { InputSchema } from '@belfry/contract'
import { byIndex, statement } from '../statement.ts'
import { isBegun } from './workflow-gates.ts'

/** Lists of one length. */
type NewWaits = [
  ids: readonly string[],
  tenantIds: readonly string[],
  workflowRunIds: readonly string[],
  tasks: readonly number[],
  items: readonly (number | null)[],
  taskIds: readonly string[],
  kinds: readonly string[],
  messages: readonly (string | null)[],
  signals: readonly (string | null)[],
  childIds: readonly (string | null)[],
  dueInMs: readonly (number | null)[],
  dueAtMs: readonly (number | null)[],
  onTimeouts: readonly string[],
  onRejects: readonly string[],
]

/** They are known as runs of tasks are, until their end was taken in. */
export const startTaskWaits = statement<unknown, NewWaits>(
  'task_wait_start',
  `
WITH given AS MATERIALIZED (
  SELECT *
  FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::integer[], $5::integer[], $6::text[], $7::text[],
              $8::text[], $9::text[], $10::uuid[], $11::float8[], $12::float8[], $13::text[], $14::text[])
    AS given (id, tenant_id, workflow_run_id, task, item, task_id, kind, message, signal, child_id, due_in_ms,
              due_at_ms, on_timeout, on_reject)
), alive AS (
  INSERT INTO belfry.task_run (run_id, tenant_id, workflow_run_id, task, item)
  SELECT id, tenant_id, workflow_run_id, task, item FROM given
)
INSERT INTO belfry.task_wait
  (id, tenant_id, workflow_run_id, task, item, task_id, kind, message, signal, child_id, due_at, on_timeout,
   on_reject)
SELECT id, tenant_id, workflow_run_id, task, item, task_id, kind, message, signal, child_id,
       coalesce(to_timestamp(due_at_ms / 1000), belfry.now() + due_in_ms * interval '1 millisecond'),
       on_timeout, on_reject
FROM given`,
)

const told = `
  INSERT INTO belfry.workflow_event (workflow_run_id, tenant_id, kind, run_id)
  SELECT workflow_run_id, tenant_id, 'end', id FROM ended`

/** Ends open ones whose time has come, those longest due first; whom another ends is passed over. */
export const endDueWaits = statement<{ ended: number }, [limit: number]>(
  'task_wait_end_due',
  `
WITH due AS MATERIALIZED (
  SELECT id FROM belfry.task_wait
  WHERE state IS NULL AND due_at <= belfry.now() ORDER BY due_at LIMIT $1
  FOR UPDATE SKIP LOCKED
), ended AS (
  UPDATE belfry.task_wait
  SET state = on_timeout, ended_at = belfry.now(),
      reason = CASE WHEN kind <> 'time' THEN 'Nothing came in time.' END
  WHERE id = ANY (ARRAY(SELECT id FROM due)) AND state IS NULL
  RETURNING id, tenant_id, workflow_run_id
), told AS (${told}
  RETURNING 1
)
SELECT count(*)::integer AS ended FROM told`,
  byIndex,
)

/** How long until the next one is due, or the time of a workflow run is over, ms; null: there is none. */
export const nextWorkflowDue = statement<{ due_in_ms: number | null }>(
  'workflow_next_due',
  `
SELECT extract(epoch FROM least(
    (SELECT due_at FROM belfry.task_wait WHERE state IS NULL AND due_at IS NOT NULL ORDER BY due_at LIMIT 1),
    (SELECT deadline FROM belfry.workflow_progress
     WHERE deadline IS NOT NULL AND ${isBegun} ORDER BY deadline LIMIT 1)
  ) - belfry.now())::float8 * 1000 AS due_in_ms`,
  byIndex,
)

/** Ends what waits for a signal that came, with its payload. */
export const endSignaledWaits = statement<unknown, [workflowRunIds: readonly string[]]>(
  'task_wait_end_signaled',
  `
WITH ended AS (
  UPDATE belfry.task_wait AS w
  SET state = 'succeeded', ended_at = belfry.now(), output = s.payload, ended_by = s.sent_by
  FROM belfry.workflow_signal s
  WHERE s.workflow_run_id = ANY ($1::uuid[]) AND w.workflow_run_id = s.workflow_run_id AND w.signal = s.name
    AND w.signal IS NOT NULL AND w.state IS NULL
  RETURNING w.id, w.tenant_id, w.workflow_run_id
)${told}`,
  byIndex,
)

/**
 * Ends open ones of tasks that are canceled, and asks for the cancel of their workflow runs. The waits of
 * these are not locked: whoever ends such a run locks many of them.
 */
export const cancelTaskWaits = statement<unknown, [workflowRunId: string, tasks: readonly number[]]>(
  'task_wait_cancel',
  `
WITH ended AS (
  UPDATE belfry.task_wait
  SET state = 'canceled', ended_at = belfry.now(), reason = 'Canceled with its workflow run.'
  WHERE workflow_run_id = $1 AND task = ANY ($2::integer[]) AND state IS NULL AND kind <> 'workflow'
  RETURNING id, tenant_id, workflow_run_id
), told AS (${told}
)
INSERT INTO belfry.workflow_event (workflow_run_id, tenant_id, kind)
SELECT w.child_id, w.tenant_id, 'cancel'
FROM belfry.task_wait w
WHERE w.workflow_run_id = $1 AND w.task = ANY ($2::integer[]) AND w.state IS NULL AND w.kind = 'workflow'
  AND EXISTS (SELECT FROM belfry.workflow_progress p WHERE p.workflow_run_id = w.child_id OFFSET 0)`,
  byIndex,
)

/** Newest versions of workflows that run as a task; deleted ones too. */
export const listSubWorkflows = statement<
  {
    id: string
    name: string
    deleted: boolean
    version: number
    task_count: number
    input_schema: InputSchema | null
    timeout_ms: number | null
  },
  [tenantId: string, workflowIds: readonly string[]]
>(
  'workflow_list_sub',
  `
SELECT w.id, w.name, w.deleted_at IS NOT NULL AS deleted, v.version, v.task_count,
       v.definition -> 'inputSchema' AS input_schema, (v.definition ->> 'timeoutMs')::float8 AS timeout_ms
FROM belfry.workflow w
JOIN belfry.workflow_version v
  ON v.tenant_id = w.tenant_id AND v.workflow_id = w.id AND v.version = w.version
WHERE w.tenant_id = $1 AND w.id = ANY ($2::uuid[])`,
)

/** Workflow runs that are tasks of others, each with the event that begins it. */
export const startChildRuns = statement<
  unknown,
  [
    ids: readonly string[],
    tenantIds: readonly string[],
    workflowIds: readonly string[],
    versions: readonly number[],
    taskCounts: readonly number[],
    inputs: readonly (string | null)[],
    parentIds: readonly string[],
    waitIds: readonly string[],
    depths: readonly number[],
    priorities: readonly (number | null)[],
    timeoutsMs: readonly (number | null)[],
  ]
>(
  'workflow_start_children',
  `
WITH given AS MATERIALIZED (
  SELECT *, belfry.workflow_gate(workflow_id, input) AS gate
  FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::integer[], $5::integer[], $6::jsonb[], $7::uuid[],
              $8::uuid[], $9::smallint[], $10::smallint[], $11::float8[])
    AS given (id, tenant_id, workflow_id, version, task_count, input, parent_id, wait_id, depth, priority,
              timeout_ms)
), made AS (
  INSERT INTO belfry.workflow_run
    (id, tenant_id, workflow_id, version, source, input, parent_id, wait_id, depth, priority)
  SELECT id, tenant_id, workflow_id, version, 'task', input, parent_id, wait_id, depth, priority FROM given
), alive AS (
  INSERT INTO belfry.workflow_progress
    (workflow_run_id, tenant_id, workflow_id, version, states, turn, wait_id, depth, priority, gate,
     timeout_ms, deadline)
  SELECT id, tenant_id, workflow_id, version, decode(repeat('00', task_count), 'hex'), 'main', wait_id, depth,
         priority, gate, timeout_ms,
         CASE WHEN gate IS NULL THEN belfry.now() + timeout_ms * interval '1 millisecond' END
  FROM given
)
INSERT INTO belfry.workflow_event (workflow_run_id, tenant_id, kind)
SELECT id, tenant_id, 'begin' FROM given`,
)

/** How workflow runs that are tasks ended comes up to those tasks. */
export const endChildWaits = statement<
  unknown,
  [waitIds: readonly string[], states: readonly string[], outputs: readonly (string | null)[]]
>(
  'task_wait_end_children',
  `
WITH mine AS MATERIALIZED (
  SELECT id FROM belfry.task_wait WHERE id = ANY ($1::uuid[]) AND state IS NULL ORDER BY id FOR UPDATE
), ended AS (
  UPDATE belfry.task_wait AS w
  SET state = child.state, ended_at = belfry.now(), output = child.output
  FROM unnest($1::uuid[], $2::text[], $3::jsonb[]) AS child (wait_id, state, output)
  WHERE w.id = ANY (ARRAY(SELECT id FROM mine)) AND w.id = child.wait_id AND w.state IS NULL
  RETURNING w.id, w.tenant_id, w.workflow_run_id
)${told}`,
  byIndex,
)

/** What workflow runs that are over give. */
export const keepWorkflowOutputs = statement<
  unknown,
  [ids: readonly string[], outputs: readonly string[], firstId: string, lastId: string]
>(
  'workflow_keep_outputs',
  `
UPDATE belfry.workflow_run AS run SET output = saved.output
FROM unnest($1::uuid[], $2::jsonb[]) AS saved (id, output)
WHERE run.id = ANY ($1::uuid[]) AND run.id >= $3 AND run.id <= $4 AND run.id = saved.id`,
  byIndex,
)

/** Deletes waits and signals of workflow runs that are over, when they are older than that. */
export const pruneTaskWaits = statement<{ deleted: number }, [retentionDays: number, limit: number]>(
  'task_wait_prune',
  `
WITH kept AS (
  SELECT belfry.uuid_floor(
    (((belfry.now() AT TIME ZONE 'UTC')::date - $1::int)::timestamp) AT TIME ZONE 'UTC') AS first
), waits AS (
  DELETE FROM belfry.task_wait WHERE id = ANY (ARRAY(
    SELECT id FROM belfry.task_wait w
    WHERE id < (SELECT first FROM kept) AND state IS NOT NULL
      AND NOT EXISTS (
        SELECT FROM belfry.workflow_progress p WHERE p.workflow_run_id = w.workflow_run_id OFFSET 0)
    ORDER BY id LIMIT $2))
  RETURNING 1
), signals AS (
  DELETE FROM belfry.workflow_signal WHERE (workflow_run_id, name) IN (
    SELECT workflow_run_id, name FROM belfry.workflow_signal s
    WHERE workflow_run_id < (SELECT first FROM kept)
      AND NOT EXISTS (
        SELECT FROM belfry.workflow_progress p WHERE p.workflow_run_id = s.workflow_run_id OFFSET 0)
    ORDER BY workflow_run_id LIMIT $2)
  RETURNING 1
)
SELECT greatest((SELECT count(*) FROM waits), (SELECT count(*) FROM signals))::integer AS deleted`,
  byIndex,
)
