/**
 * Runs that take the inputs of several requests (migrations/0018_dedupe.sql). Locks come in one order: the
 * row of the job and key, then the run's row in `delayed`; who releases runs takes the latter alone.
 */
import { byIndex, statement } from '../statement.ts'

/** Locks the rows of jobs and keys, made where there are none, in one order by all who lock several. */
export const lockGatherings = statement<
  unknown,
  [jobIds: readonly string[], keys: readonly string[], now: string]
>(
  'gathering_lock',
  `
INSERT INTO belfry.gathering (tenant_id, job_id, key, opened_at)
SELECT belfry.tenant_id(), job_id, key, $3
FROM (SELECT DISTINCT job_id, key FROM unnest($1::uuid[], $2::text[]) AS asked (job_id, key)) AS wanted
ORDER BY job_id, key
ON CONFLICT (tenant_id, job_id, key) DO UPDATE SET key = excluded.key`,
)

export type OpenGatheringRow = {
  job_id: string
  key: string
  run_id: string
  items: number
  bytes: number
  opened_ms: number
  due_ms: number
  gathers: string
  /** A moment in which the scheduler releases it. */
  shard: number
}

/**
 * Those of them whose run still waits and takes inputs, and that run locked, in the order of ids. (Who waited
 * here while it was released finds it gone.)
 */
export const findOpenGatherings = statement<
  OpenGatheringRow,
  [jobIds: readonly string[], keys: readonly string[]]
>(
  'gathering_find_open',
  `
SELECT open.job_id, open.key, open.run_id, open.items, open.bytes, locked.gathers, locked.shard,
       (extract(epoch FROM open.opened_at) * 1000)::float8 AS opened_ms,
       (extract(epoch FROM locked.due_at) * 1000)::float8 AS due_ms
FROM (
  SELECT g.* FROM unnest($1::uuid[], $2::text[]) AS wanted (job_id, key)
  CROSS JOIN LATERAL (
    SELECT * FROM belfry.gathering
    WHERE tenant_id = belfry.tenant_id() AND job_id = wanted.job_id AND key = wanted.key
      AND run_id IS NOT NULL OFFSET 0
  ) AS g
  ORDER BY g.run_id
) AS open
CROSS JOIN LATERAL (
  SELECT gathers, shard, due_at FROM belfry.delayed
  WHERE delayed.tenant_id = belfry.tenant_id() AND delayed.run_id = open.run_id
    AND delayed.gathers IS NOT NULL
  FOR UPDATE
) AS locked`,
  byIndex,
)

export type GatheringOfRunRow = {
  readonly gathers: string
  readonly items: number | null
  readonly opened_ms: number | null
  readonly due_ms: number
  readonly max_items: number | null
  readonly max_wait_ms: number | null
}

/**
 * What a run that takes inputs has so far, and the rule of its job; `items` null: it takes no more. (A range,
 * in order: so the planner takes the primary key, however few rows it thinks there are.)
 */
export const findGatheringOf = statement<GatheringOfRunRow, [runId: string]>(
  'gathering_find_of_run',
  `
SELECT d.gathers, g.items, (extract(epoch FROM g.opened_at) * 1000)::float8 AS opened_ms,
       (extract(epoch FROM d.due_at) * 1000)::float8 AS due_ms,
       (j.definition #>> '{collect,maxItems}')::int AS max_items,
       (j.definition #>> '{debounce,maxWaitMs}')::float8 AS max_wait_ms
FROM (
  SELECT * FROM belfry.delayed
  WHERE run_id BETWEEN $1::uuid AND $1::uuid AND tenant_id = belfry.tenant_id() AND gathers IS NOT NULL
  ORDER BY run_id OFFSET 0
) AS d
CROSS JOIN LATERAL (SELECT definition FROM belfry.job WHERE job.id = d.job_id OFFSET 0) AS j
LEFT JOIN LATERAL (
  SELECT items, opened_at FROM belfry.gathering WHERE gathering.run_id = d.run_id OFFSET 0
) AS g ON true`,
  byIndex,
)

/** Adds inputs; one at position 0 replaces what is there. */
export const addInputs = statement<
  unknown,
  [runIds: readonly string[], positions: readonly number[], inputs: readonly (string | null)[]]
>(
  'gathering_add_inputs',
  `
INSERT INTO belfry.gathered (run_id, position, tenant_id, input)
SELECT run_id, position, belfry.tenant_id(), input
FROM unnest($1::uuid[], $2::integer[], $3::jsonb[]) AS given (run_id, position, input)
ON CONFLICT (run_id, position) DO UPDATE SET input = excluded.input`,
)

/** Moves the due time of runs, which the transaction has locked, and what counts from it. */
export const moveGatherings = statement<unknown, [runIds: readonly string[], dueMs: readonly number[]]>(
  'gathering_move',
  `
UPDATE belfry.delayed
SET due_at = moved.due_at, start_by = start_by + (moved.due_at - delayed.due_at),
    run_deadline = run_deadline + (moved.due_at - delayed.due_at)
FROM (
  SELECT run_id, to_timestamp(due_ms / 1000) AS due_at
  FROM unnest($1::uuid[], $2::float8[]) AS moved (run_id, due_ms)
) AS moved
WHERE delayed.tenant_id = belfry.tenant_id() AND delayed.run_id = moved.run_id`,
  byIndex,
)

/** Which run takes the next input of a job and key, and what it has. */
export const noteGatherings = statement<
  unknown,
  [
    jobIds: readonly string[],
    keys: readonly string[],
    runIds: readonly string[],
    items: readonly number[],
    bytes: readonly number[],
    openedMs: readonly number[],
  ]
>(
  'gathering_note',
  `
UPDATE belfry.gathering
SET run_id = noted.run_id, items = noted.items, bytes = noted.bytes,
    opened_at = to_timestamp(noted.opened_ms / 1000)
FROM unnest($1::uuid[], $2::text[], $3::uuid[], $4::integer[], $5::integer[], $6::float8[])
  AS noted (job_id, key, run_id, items, bytes, opened_ms)
WHERE gathering.tenant_id = belfry.tenant_id() AND gathering.job_id = noted.job_id
  AND gathering.key = noted.key`,
  byIndex,
)

/** Locks those of these runs that gather and are due, in the order of ids. */
export const lockDueGatherings = statement<{ run_id: string }, [runIds: readonly string[]]>(
  'gathering_lock_due',
  `
SELECT locked.run_id
FROM (SELECT run_id FROM unnest($1::uuid[]) AS wanted (run_id) ORDER BY run_id) AS wanted
CROSS JOIN LATERAL (
  SELECT run_id FROM belfry.delayed
  WHERE delayed.run_id = wanted.run_id AND delayed.gathers IS NOT NULL AND delayed.due_at <= belfry.now()
  FOR UPDATE
) AS locked`,
  byIndex,
)

/** What a run that gathers has so far, as its input: the newest, or the list. NULL: nothing. */
export const inputOfGathered = (runId: string): string => `
  (SELECT CASE WHEN min(part.position) = 0 THEN (array_agg(part.input))[1]
               ELSE jsonb_agg(part.input ORDER BY part.position) END
   FROM belfry.gathered AS part WHERE part.run_id = ${runId})`

/**
 * Makes the inputs of runs, which the transaction has locked by a statement before this one, their input:
 * from then on they take no more, and are delayed runs like any other.
 */
export const sealGatherings = statement<{ run_id: string }, [runIds: readonly string[]]>(
  'gathering_seal',
  `
WITH sealed AS (
  UPDATE belfry.delayed SET gathers = NULL WHERE run_id = ANY($1::uuid[])
  RETURNING run_id, tenant_id, due_at
), whole AS (
  UPDATE belfry.run SET input = ${inputOfGathered('sealed.run_id')}, due_at = sealed.due_at
  FROM sealed WHERE run.tenant_id = sealed.tenant_id AND run.id = sealed.run_id
), gone AS (
  DELETE FROM belfry.gathered WHERE run_id = ANY($1::uuid[])
)
SELECT run_id FROM sealed`,
  byIndex,
)

/** Deletes what no run needs any more: rows of keys, at most `limit`. Skips those in use. */
export const deleteIdleGatherings = statement<{ readonly count: number }, [limit: number]>(
  'belfry_delete_idle_gatherings',
  `
WITH idle AS (
  SELECT tenant_id, job_id, key FROM belfry.gathering
  WHERE opened_at < belfry.now() - interval '1 minute'
    AND NOT EXISTS (
      SELECT FROM belfry.delayed WHERE delayed.run_id = gathering.run_id AND delayed.gathers IS NOT NULL)
  ORDER BY opened_at LIMIT $1 FOR UPDATE SKIP LOCKED
), gone AS (
  DELETE FROM belfry.gathering USING idle
  WHERE gathering.tenant_id = idle.tenant_id AND gathering.job_id = idle.job_id AND gathering.key = idle.key
  RETURNING 1
)
SELECT count(*)::int AS count FROM gone`,
  byIndex,
)

/** Deletes inputs of runs that were canceled while they gathered, once these are older than the retention. */
export const deleteOldGathered = statement<
  { readonly count: number },
  [retentionDays: number, limit: number]
>(
  'belfry_delete_old_gathered',
  `
WITH gone AS (
  DELETE FROM belfry.gathered WHERE ctid = ANY (ARRAY(
    SELECT old.ctid FROM belfry.gathered AS old
    WHERE old.run_id < belfry.uuid_floor(
        (((belfry.now() AT TIME ZONE 'UTC')::date - $1::int)::timestamp) AT TIME ZONE 'UTC')
      AND NOT EXISTS (SELECT FROM belfry.delayed WHERE delayed.run_id = old.run_id)
    ORDER BY old.run_id LIMIT $2)) RETURNING 1
)
SELECT count(*)::int AS count FROM gone`,
  byIndex,
)
