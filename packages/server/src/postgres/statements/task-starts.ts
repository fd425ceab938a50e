/**
 * Runs of tasks, as the resolver starts them: `run`, `task_run` and `ready` in one statement. What runs of
 * one kind share is sent once a kind; a run names the kind by its number.
 */
import { byHash, statement } from '../statement.ts'

/** Columns of kinds, then of runs, one array each, those of runs as the text of an SQL array. */
export type TaskStartColumns = [
  tenantIds: readonly string[],
  jobIds: readonly string[],
  jobVersions: readonly number[],
  queues: readonly string[],
  routes: readonly string[],
  priorities: readonly number[],
  timeoutsMs: readonly number[],
  startWithinMs: readonly (number | null)[],
  runDeadlineMs: readonly (number | null)[],
  kinds: string,
  ids: string,
  workflowRunIds: string,
  tasks: string,
  /** Null: none of them has one. */
  items: string | null,
  inputs: string | null,
  tags: string,
]

/**
 * Ready at once, behind the gate where their job has limits. They are followed: whoever ends one tells of it
 * (let_followers_go).
 */
export const startTaskRuns = statement<unknown, TaskStartColumns>(
  'workflow_start_runs',
  `
WITH kind AS MATERIALIZED (
  SELECT kind.*, (SELECT j.limited FROM belfry.job AS j WHERE j.id = kind.job_id) AS limited,
         belfry.now() + start_within_ms * interval '1 millisecond' AS start_by,
         belfry.now() + run_deadline_ms * interval '1 millisecond' AS run_deadline
  FROM unnest($1::uuid[], $2::uuid[], $3::integer[], $4::text[], $5::text[], $6::smallint[], $7::integer[],
              $8::float8[], $9::float8[]) WITH ORDINALITY
    AS kind (tenant_id, job_id, job_version, queue, handler, priority, timeout_ms, start_within_ms,
             run_deadline_ms, number)
), given AS MATERIALIZED (
  SELECT given.id, given.workflow_run_id, given.task, given.item, given.input, given.tag, kind.*
  FROM unnest($10::integer[], $11::uuid[], $12::uuid[], $13::integer[], $14::integer[], $15::jsonb[],
              $16::float8[]) AS given (kind, id, workflow_run_id, task, item, input, tag)
  JOIN kind ON kind.number = given.kind
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
       start_by, run_deadline, input IS NOT NULL,
       CASE WHEN limited THEN belfry.gate_of(job_id, queue, input) END
FROM given`,
  byHash,
)
