/**
 * Workflows, as the API reads and writes them for one tenant. A workflow and its version are written in one
 * statement, so that neither is ever without the other.
 */
import { statement } from '../statement.ts'

export type WorkflowSummaryRow = {
  id: string
  name: string
  description: string
  version: number
  task_count: number
  created_at: Date
  updated_at: Date
}
export type WorkflowRow = WorkflowSummaryRow & { definition: unknown }

type Version = [
  description: string,
  taskCount: number,
  definition: string,
  jobIds: readonly (string | null)[],
  jobVersions: readonly (number | null)[],
]

const summary = 'w.id, w.name, w.description, w.version, w.task_count, w.created_at, w.updated_at'

const withVersion = (write: string, from: number) => `
WITH w AS (${write}
), v AS (
  INSERT INTO belfry.workflow_version
    (workflow_id, version, tenant_id, description, task_count, definition, job_ids, job_versions)
  SELECT id, version, tenant_id, description, task_count, $${from}, $${from + 1}, $${from + 2} FROM w
)
SELECT ${summary}, $${from}::jsonb AS definition FROM w`

/** A workflow and its first version. */
export const insertWorkflow = statement<WorkflowRow, [id: string, name: string, ...Version]>(
  'workflow_insert',
  withVersion(
    `
  INSERT INTO belfry.workflow (id, tenant_id, name, description, task_count, timeout_ms)
  VALUES ($1, belfry.tenant_id(), $2, $3, $4, ($5::jsonb ->> 'timeoutMs')::bigint)
  RETURNING *`,
    5,
  ),
)

/** The next version of a workflow. */
export const updateWorkflow = statement<WorkflowRow, [id: string, ...Version]>(
  'workflow_update',
  withVersion(
    `
  UPDATE belfry.workflow
  SET description = $2, task_count = $3, timeout_ms = ($4::jsonb ->> 'timeoutMs')::bigint,
      version = version + 1, updated_at = belfry.now()
  WHERE tenant_id = belfry.tenant_id() AND id = $1 AND deleted_at IS NULL
  RETURNING *`,
    4,
  ),
)

const newest = `
SELECT ${summary}, v.definition
FROM belfry.workflow w
JOIN belfry.workflow_version v
  ON v.tenant_id = w.tenant_id AND v.workflow_id = w.id AND v.version = w.version
WHERE w.tenant_id = belfry.tenant_id() AND w.deleted_at IS NULL`

/** A workflow that was not deleted, in its newest version. */
export const findWorkflow = statement<WorkflowRow, [id: string]>('workflow_find', `${newest} AND w.id = $1`)

/** The same in any version: its description, its tasks and its time are those of that version. */
export const findWorkflowVersion = statement<WorkflowRow, [id: string, version: number]>(
  'workflow_find_version',
  `
SELECT w.id, w.name, v.description, v.version, v.task_count, w.created_at, v.created_at AS updated_at,
       v.definition
FROM belfry.workflow w
JOIN belfry.workflow_version v ON v.tenant_id = w.tenant_id AND v.workflow_id = w.id AND v.version = $2
WHERE w.tenant_id = belfry.tenant_id() AND w.deleted_at IS NULL AND w.id = $1`,
)

/** Held by its id: what was read with a lock is read again where it was changed meanwhile. */
export const holdWorkflow = statement<{ id: string }, [id: string]>(
  'workflow_hold',
  `
SELECT w.id FROM belfry.workflow w
WHERE w.tenant_id = belfry.tenant_id() AND w.deleted_at IS NULL AND w.id = $1
FOR NO KEY UPDATE`,
)

/** The same by name. */
export const holdWorkflowByName = statement<{ id: string }, [name: string]>(
  'workflow_hold_by_name',
  `
SELECT w.id FROM belfry.workflow w
WHERE w.tenant_id = belfry.tenant_id() AND w.deleted_at IS NULL AND w.name = $1
FOR NO KEY UPDATE`,
)

/** Of those that make a workflow of one name at the same time, one after the other does. */
export const lockWorkflowName = statement<unknown, [name: string]>(
  'workflow_lock_name',
  `
SELECT pg_advisory_xact_lock(
    hashtextextended('belfry.workflow_name:' || belfry.tenant_id() || '/' || $1, 0))`,
)

/** Held against deletion, but not against change, until the end of the transaction. */
export const keepWorkflowByName = statement<{ id: string }, [name: string]>(
  'workflow_keep_by_name',
  `
SELECT w.id FROM belfry.workflow w
WHERE w.tenant_id = belfry.tenant_id() AND w.deleted_at IS NULL AND w.name = $1
FOR KEY SHARE`,
)

/** Names to suggest when one is not found. */
export const listWorkflowNames = statement<{ name: string }, [limit: number]>(
  'workflow_names',
  `
SELECT name FROM belfry.workflow
WHERE tenant_id = belfry.tenant_id() AND deleted_at IS NULL ORDER BY id DESC LIMIT $1`,
)

const listed = (name: string) => `
SELECT ${summary} FROM belfry.workflow w
WHERE w.tenant_id = belfry.tenant_id() AND w.id < $1 AND w.deleted_at IS NULL ${name}
ORDER BY w.id DESC LIMIT $2`

/** Newest first, a page at a time. */
export const listWorkflows = statement<WorkflowSummaryRow, [beforeId: string, limit: number]>(
  'workflow_list',
  listed(''),
)

/** The one of a name. */
export const listWorkflowsNamed = statement<
  WorkflowSummaryRow,
  [beforeId: string, limit: number, name: string]
>('workflow_list_named', listed('AND w.name = $3'))

/** Versions of one workflow, newest first. */
export const listWorkflowVersions = statement<
  { version: number; task_count: number; created_at: Date },
  [id: string, beforeVersion: number | null, limit: number]
>(
  'workflow_versions',
  `
SELECT version, task_count, created_at FROM belfry.workflow_version
WHERE tenant_id = belfry.tenant_id() AND workflow_id = $1 AND ($2::integer IS NULL OR version < $2)
ORDER BY version DESC LIMIT $3`,
)

/** Deletes in name only, with its own jobs: runs go on naming them. */
export const removeWorkflow = statement<unknown, [id: string]>(
  'workflow_remove',
  `
WITH jobs AS (
  UPDATE belfry.job SET deleted_at = belfry.now(), updated_at = belfry.now()
  WHERE tenant_id = belfry.tenant_id() AND workflow_id = $1 AND deleted_at IS NULL
)
UPDATE belfry.workflow SET deleted_at = belfry.now(), updated_at = belfry.now()
WHERE tenant_id = belfry.tenant_id() AND id = $1`,
)

/** Workflows by their names, held against deletion until the end of the transaction. */
export const holdWorkflowsByName = statement<{ id: string; name: string }, [names: readonly string[]]>(
  'workflow_hold_by_names',
  `
SELECT w.id, w.name FROM belfry.workflow w
WHERE w.tenant_id = belfry.tenant_id() AND w.name = ANY ($1::text[]) AND w.deleted_at IS NULL
ORDER BY w.id
FOR KEY SHARE`,
)

/** Jobs by their names, held against deletion, but not against change, until the end of the transaction. */
export const holdJobsByName = statement<
  { id: string; name: string; definition: unknown },
  [names: readonly string[]]
>(
  'workflow_hold_jobs',
  `
SELECT j.id, j.name, j.definition FROM belfry.job j
WHERE j.tenant_id = belfry.tenant_id() AND j.name = ANY ($1::text[]) AND j.deleted_at IS NULL
  AND j.workflow_id IS NULL
ORDER BY j.id
FOR KEY SHARE`,
)

/**
 * Brings a workflow's own jobs up to date: those that are not there are made, those that are others now get
 * a new version, and the rest stays as it is.
 */
export const keepOwnJobs = statement<
  { name: string; id: string; version: number },
  [
    workflowId: string,
    newIds: readonly string[],
    names: readonly string[],
    routes: readonly string[],
    queues: readonly string[],
    priorities: readonly number[],
    timeoutsMs: readonly number[],
    runDeadlinesMs: readonly (number | null)[],
    startWithinMs: readonly (number | null)[],
    definitions: readonly string[],
  ]
>(
  'workflow_keep_own_jobs',
  `
WITH wanted AS MATERIALIZED (
  SELECT *
  FROM unnest($2::uuid[], $3::text[], $4::text[], $5::text[], $6::smallint[], $7::integer[], $8::bigint[],
              $9::bigint[], $10::jsonb[])
    AS wanted (new_id, name, handler, queue, priority, timeout_ms, run_deadline_ms, start_within_ms,
               definition)
), there AS MATERIALIZED (
  SELECT id, name, version, definition FROM belfry.job
  WHERE tenant_id = belfry.tenant_id() AND workflow_id = $1 AND deleted_at IS NULL
), made AS (
  INSERT INTO belfry.job
    (id, tenant_id, workflow_id, name, handler, queue, priority, attempt_timeout_ms, run_deadline_ms,
     start_within_ms, definition)
  SELECT new_id, belfry.tenant_id(), $1, name, handler, queue, priority, timeout_ms, run_deadline_ms,
         start_within_ms, definition
  FROM wanted WHERE NOT EXISTS (SELECT FROM there WHERE there.name = wanted.name)
  RETURNING id, tenant_id, name, version, definition
), changed AS (
  UPDATE belfry.job
  SET handler = wanted.handler, queue = wanted.queue, priority = wanted.priority,
      attempt_timeout_ms = wanted.timeout_ms, run_deadline_ms = wanted.run_deadline_ms,
      start_within_ms = wanted.start_within_ms, definition = wanted.definition, version = job.version + 1,
      updated_at = belfry.now()
  FROM there JOIN wanted ON wanted.name = there.name
  WHERE job.tenant_id = belfry.tenant_id() AND job.id = there.id AND there.definition <> wanted.definition
  RETURNING job.id, job.tenant_id, job.name, job.version, job.definition
), written AS (
  SELECT * FROM made UNION ALL SELECT * FROM changed
), versions AS (
  INSERT INTO belfry.job_version (job_id, version, tenant_id, definition)
  SELECT id, version, tenant_id, definition FROM written
)
SELECT name, id, version FROM written
UNION ALL
SELECT there.name, there.id, there.version FROM there
JOIN wanted ON wanted.name = there.name AND wanted.definition = there.definition`,
)

/** A schedule that runs the workflow; one is enough to refuse its deletion. */
export const findWorkflowSchedule = statement<{ name: string }, [id: string]>(
  'workflow_schedule',
  `
SELECT name FROM belfry.schedule
WHERE tenant_id = belfry.tenant_id() AND workflow_id = $1 AND deleted_at IS NULL LIMIT 1`,
)

/** Which workflows begin at the end of which; a bounded number. */
export const listTriggerEdges = statement<{ ended: string; begins: string }, [limit: number]>(
  'workflow_list_trigger_edges',
  `
SELECT t.name AS ended, w.name AS begins
FROM belfry.workflow_trigger t
JOIN belfry.workflow w ON w.tenant_id = t.tenant_id AND w.id = t.workflow_id AND w.deleted_at IS NULL
WHERE t.tenant_id = belfry.tenant_id() AND t.kind = 'workflow'
ORDER BY t.name, w.name LIMIT $1`,
)

/** What begins runs of the workflow, in its newest version; replaces what there was. */
export const setWorkflowTriggers = statement<
  unknown,
  [
    id: string,
    kinds: readonly string[],
    names: readonly string[],
    states: readonly string[],
    inputs: readonly (string | null)[],
  ]
>(
  'workflow_set_triggers',
  `
WITH before AS (
  DELETE FROM belfry.workflow_trigger
  WHERE tenant_id = belfry.tenant_id() AND workflow_id = $1 AND position >= cardinality($2::text[])
)
INSERT INTO belfry.workflow_trigger (tenant_id, workflow_id, position, kind, name, states, input)
SELECT belfry.tenant_id(), $1, given.position - 1, given.kind, given.name, given.states::text[], given.input
FROM unnest($2::text[], $3::text[], $4::text[], $5::jsonb[]) WITH ORDINALITY
  AS given (kind, name, states, input, position)
ON CONFLICT (tenant_id, workflow_id, position) DO UPDATE
SET kind = excluded.kind, name = excluded.name, states = excluded.states, input = excluded.input`,
)
