/**
 * Many runs in one statement, each with its place: in `ready` where it has a tag, else in `delayed`. What
 * runs of one kind share (job, queue, route, …) is sent once a kind; a run names the kind by its number.
 */
import { byIndex, statement } from '../statement.ts'

/**
 * Columns of kinds, then of runs, one array each, those of runs as the text of an SQL array. Times are
 * epoch ms.
 */
export type RunBatchColumns = [
  jobIds: readonly string[],
  jobVersions: readonly number[],
  queues: readonly string[],
  routes: readonly string[],
  timeoutsMs: readonly number[],
  gathers: readonly (string | null)[],
  scheduleIds: readonly (string | null)[],
  sources: readonly string[],
  runIds: string,
  kinds: string,
  priorities: string,
  inputs: string,
  dueMs: string,
  scheduledForMs: string,
  startByMs: string,
  runDeadlineMs: string,
  tags: string,
]

/** What runs share that differ in nothing but id, tag and input, then these, a list each. */
export type AlikeRunColumns = [
  tenantId: string,
  jobId: string,
  jobVersion: number,
  source: string,
  queue: string,
  priority: number,
  route: string,
  timeoutMs: number,
  /** Null: now. */
  dueAt: string | null,
  /** From `dueAt` on; null: no limit. */
  startWithinMs: number | null,
  runDeadlineMs: number | null,
  /** The text of SQL arrays. */
  runIds: string,
  tags: string,
  /** The text of a JSON array; null: no run has an input. */
  inputs: string | null,
  /** Store nothing unless this is the present version of the job. */
  ifPresent: boolean,
]

export type AlikeRunsRow = { readonly due_ms: number; readonly limited: boolean }

/**
 * Runs of one job that may start at once. Nearly every batch is so, and `insertRuns` pays for 17 lists and a
 * join: 7 µs of 18 a run. Answers one row, and none where nothing was stored.
 */
export const insertAlikeRuns = statement<AlikeRunsRow, AlikeRunColumns>(
  'run_insert_alike',
  `
WITH job AS MATERIALIZED (
  SELECT due.at, due.at + $10::float8 * interval '1 millisecond' AS start_by,
         due.at + $11::float8 * interval '1 millisecond' AS run_deadline, j.limited
  FROM belfry.job AS j
  CROSS JOIN (SELECT coalesce($9::timestamptz, date_trunc('milliseconds', belfry.now())) AS at) AS due
  WHERE j.id = $2::uuid AND (NOT $15::boolean OR (j.version = $3::integer AND j.deleted_at IS NULL))
), given AS MATERIALIZED (
  -- side by side; where the list of inputs is null, so is each input
  SELECT unnest($12::uuid[]) AS id, unnest($13::float8[]) AS tag, jsonb_array_elements($14::jsonb) AS input
  FROM job
), new_run AS (
  INSERT INTO belfry.run (id, tenant_id, job_id, job_version, source, queue, priority, input, due_at)
  SELECT id, $1::uuid, $2::uuid, $3::integer, $4::text, $5::text, $6::smallint, input, (SELECT at FROM job)
  FROM given
), new_ready AS (
  INSERT INTO belfry.ready
    (run_id, tenant_id, job_id, job_version, queue, priority, available_at, handler, timeout_ms, start_by,
     run_deadline, tag, detailed, gate)
  SELECT id, $1::uuid, $2::uuid, $3::integer, $5::text, $6::smallint, (SELECT at FROM job), $7::text,
         $8::integer, (SELECT start_by FROM job), (SELECT run_deadline FROM job), tag, input IS NOT NULL,
         CASE WHEN (SELECT limited FROM job) THEN belfry.gate_of($2::uuid, $5::text, input) END
  FROM given
)
SELECT date_part('epoch', at) * 1000 AS due_ms, limited FROM job`,
  // for the one plan of all calls: each of its own takes 1 ms, 1 µs a run
  byIndex,
)

/** Answers the shards in which something waits for its time. */
export const insertRuns = statement<{ shard: number }, RunBatchColumns>(
  'run_insert_many',
  `
WITH kind AS MATERIALIZED (
  SELECT kind.*, (SELECT j.limited FROM belfry.job AS j WHERE j.id = kind.job_id) AS limited
  FROM unnest($1::uuid[], $2::integer[], $3::text[], $4::text[], $5::integer[], $6::text[], $7::uuid[],
              $8::text[]) WITH ORDINALITY
    AS kind (job_id, job_version, queue, handler, timeout_ms, gathers, schedule_id, source, number)
), given AS MATERIALIZED (
  SELECT given.id, given.priority, given.input, given.tag, kind.*,
         to_timestamp(given.due_ms / 1000) AS due_at,
         to_timestamp(given.scheduled_ms / 1000) AS scheduled_for,
         to_timestamp(given.start_by_ms / 1000) AS start_by,
         to_timestamp(given.deadline_ms / 1000) AS run_deadline
  FROM unnest($9::uuid[], $10::integer[], $11::smallint[], $12::jsonb[], $13::float8[], $14::float8[],
              $15::float8[], $16::float8[], $17::float8[])
    AS given (id, kind, priority, input, due_ms, scheduled_ms, start_by_ms, deadline_ms, tag)
  JOIN kind ON kind.number = given.kind
), new_run AS (
  INSERT INTO belfry.run
    (id, tenant_id, job_id, job_version, schedule_id, source, queue, priority, input, due_at, scheduled_for)
  SELECT id, belfry.tenant_id(), job_id, job_version, schedule_id, source, queue, priority, input, due_at,
         scheduled_for
  FROM given
), new_ready AS (
  INSERT INTO belfry.ready
    (run_id, tenant_id, job_id, job_version, queue, priority, available_at, handler, timeout_ms, start_by,
     run_deadline, tag, detailed, gate)
  SELECT id, belfry.tenant_id(), job_id, job_version, queue, priority, due_at, handler, timeout_ms, start_by,
         run_deadline, tag, input IS NOT NULL OR scheduled_for IS NOT NULL,
         CASE WHEN limited THEN belfry.gate_of(job_id, queue, input) END
  FROM given WHERE tag IS NOT NULL
), new_delayed AS (
  INSERT INTO belfry.delayed
    (run_id, tenant_id, job_id, job_version, queue, priority, due_at, shard, handler, timeout_ms,
     start_by, run_deadline, lease_epoch, attempt, crash_count, failure_count, gathers)
  SELECT id, belfry.tenant_id(), job_id, job_version, queue, priority, due_at, belfry.shard_of(id), handler,
         timeout_ms, start_by, run_deadline, 0, 0, 0, 0, gathers
  FROM given WHERE tag IS NULL
  RETURNING shard
)
SELECT DISTINCT shard FROM new_delayed`,
)
