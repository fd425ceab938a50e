/**
 * What workers outside the servers need beyond claims and ends (sessions.ts, claim.ts, completion.ts): whose
 * a session is, the facts that the end of an attempt is judged by, progress, logs, and what waits. Every
 * write names session and epoch, as those do.
 */
import { byIndex, statement } from '../statement.ts'
import { heldRuns, unheld } from './held.ts'

export type SessionRow = {
  readonly tenant_id: string | null
  readonly api_key_id: string | null
  readonly queues: readonly string[]
  readonly functions: readonly string[] | null
}

/** Whose session this is and what it serves, for as long as it is there. */
export const findSession = statement<SessionRow, [id: string]>(
  'worker_find_session',
  'SELECT tenant_id, api_key_id, queues, functions FROM belfry.session WHERE id = $1',
)

export type HeldAttemptRow = {
  readonly run_id: string
  readonly lease_epoch: number
  readonly tenant_id: string
  readonly job_id: string
  readonly job_version: number
  readonly queue: string
  readonly attempt: number
  readonly crash_count: number
  readonly failure_count: number
  readonly claimed_at_ms: number
  readonly now_ms: number
  readonly cancel_requested: boolean
  readonly timeout_ms: number
  readonly run_deadline_ms: number | null
  /** The schedule, where a backfill made the run. */
  readonly backfill_of: string | null
}

/** What is known of attempts that the session holds under these epochs. */
export const listHeldAttempts = statement<
  HeldAttemptRow,
  [sessionId: string, runIds: readonly string[], leaseEpochs: readonly number[]]
>(
  'worker_list_held_attempts',
  `
SELECT mine.*, CASE WHEN written.source = 'backfill' THEN written.schedule_id END AS backfill_of
FROM unnest($2::uuid[], $3::bigint[]) AS asked (run_id, lease_epoch)
CROSS JOIN LATERAL (
  SELECT ready.run_id, ready.lease_epoch, ready.tenant_id, ready.job_id, ready.job_version, ready.queue,
         ready.attempt, ready.crash_count, ready.failure_count,
         (extract(epoch FROM ready.claimed_at) * 1000)::float8 AS claimed_at_ms,
         (extract(epoch FROM belfry.now()) * 1000)::float8 AS now_ms,
         ready.cancel_requested_at IS NOT NULL AS cancel_requested, ready.timeout_ms,
         (extract(epoch FROM ready.run_deadline) * 1000)::float8 AS run_deadline_ms
  FROM belfry.ready
  WHERE ready.run_id = asked.run_id AND ready.lease_epoch = asked.lease_epoch AND ready.session_id = $1
  OFFSET 0
) AS mine
LEFT JOIN LATERAL (
  SELECT run.source, run.schedule_id FROM belfry.run
  WHERE run.tenant_id = mine.tenant_id AND run.id = mine.run_id
  OFFSET 0
) AS written ON true`,
  byIndex,
)

/**
 * Which ends a worker had reported before, in a call whose answer was lost. What the rescuer wrote carries
 * the same epoch and session; it is told by its codes.
 */
export const listReportedBefore = statement<
  { readonly run_id: string; readonly run_state: string | null },
  [
    sessionId: string,
    runIds: readonly string[],
    leaseEpochs: readonly number[],
    outcomes: readonly string[],
    rescuerCodes: readonly string[],
  ]
>(
  'worker_list_reported_before',
  `
SELECT written.run_id, written.run_state
FROM unnest($2::uuid[], $3::bigint[], $4::text[]) AS asked (run_id, lease_epoch, outcome)
CROSS JOIN LATERAL (
  SELECT attempt.run_id, attempt.run_state
  FROM belfry.attempt
  WHERE attempt.run_id = asked.run_id AND attempt.lease_epoch = asked.lease_epoch
    AND attempt.session_id = $1 AND attempt.outcome = asked.outcome
    AND (attempt.error_code IS NULL OR attempt.error_code <> ALL ($5::text[]))
  OFFSET 0
) AS written`,
  byIndex,
)

/** Keeps the latest word of runs on how far they are. */
export const reportProgress = statement<
  unknown,
  [sessionId: string, runIds: readonly string[], leaseEpochs: readonly number[], progress: readonly string[]]
>(
  'worker_report_progress',
  `
WITH mine AS MATERIALIZED (
  SELECT locked.run_id, said.progress
  FROM (
    SELECT * FROM unnest($2::uuid[], $3::bigint[], $4::jsonb[]) AS said (run_id, lease_epoch, progress)
    ORDER BY run_id
  ) AS said
  CROSS JOIN LATERAL (
    SELECT ready.run_id FROM belfry.ready
    WHERE ready.run_id = said.run_id AND ready.lease_epoch = said.lease_epoch AND ready.session_id = $1
    FOR NO KEY UPDATE
  ) AS locked
)
UPDATE belfry.ready AS run
SET progress = (SELECT mine.progress FROM mine WHERE mine.run_id = run.run_id LIMIT 1)
WHERE run.run_id = ANY (ARRAY(SELECT run_id FROM mine))`,
  byIndex,
)

/**
 * Adds chunks to logs, each where the session still holds the run and the log has room: the cap counts what
 * came before, so the chunk that crosses it is the last. Answers those that are kept, now or by an earlier
 * call; several of one attempt in one call must follow each other, which the caller sees to.
 */
export const appendLogs = statement<
  { readonly place: number; readonly full_after: boolean },
  [
    sessionId: string,
    runIds: readonly string[],
    leaseEpochs: readonly number[],
    firstLines: readonly number[],
    lastLines: readonly number[],
    lines: readonly string[],
    bytes: readonly number[],
    capBytes: number,
  ]
>(
  'worker_append_logs',
  `
WITH said AS MATERIALIZED (
  SELECT said.*, held.tenant_id, held.attempt, coalesce(before.total_bytes, 0) + said.bytes AS total_bytes
  FROM unnest($2::uuid[], $3::bigint[], $4::int[], $5::int[], $6::jsonb[], $7::int[]) WITH ORDINALITY
    AS said (run_id, lease_epoch, first_line, last_line, lines, bytes, place)
  CROSS JOIN LATERAL (
    SELECT ready.tenant_id, ready.attempt FROM belfry.ready
    WHERE ready.run_id = said.run_id AND ready.lease_epoch = said.lease_epoch AND ready.session_id = $1
    OFFSET 0
  ) AS held
  LEFT JOIN LATERAL (
    SELECT run_log.total_bytes FROM belfry.run_log
    WHERE run_log.run_id = said.run_id AND run_log.number = held.attempt
      AND run_log.first_line < said.first_line
    ORDER BY run_log.first_line DESC LIMIT 1
  ) AS before ON true
), added AS (
  INSERT INTO belfry.run_log
    (run_id, number, first_line, last_line, tenant_id, lines, total_bytes, full_after)
  SELECT run_id, attempt, first_line, last_line, tenant_id, lines, total_bytes, total_bytes >= $8
  FROM said WHERE total_bytes - bytes < $8
  ON CONFLICT (run_id, number, first_line) DO NOTHING
)
SELECT (place - 1)::int AS place, total_bytes >= $8 AS full_after FROM said WHERE total_bytes - bytes < $8`,
  byIndex,
)

/**
 * How many runs wait for each route in a queue, up to a limit: what wakes the workers that wait for some. One
 * short walk along the claim index for each.
 */
export const countSupply = statement<
  { readonly place: number; readonly count: number },
  [queues: readonly string[], routes: readonly string[], limit: number]
>(
  'worker_count_supply',
  `
SELECT (asked.place - 1)::int AS place, waiting.count::int AS count
FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS asked (queue, route, place)
CROSS JOIN LATERAL (
  SELECT count(*) AS count FROM (
    SELECT FROM belfry.ready AS free
    WHERE free.queue = asked.queue AND free.handler = asked.route AND ${unheld('free')}
      AND free.gate IS NULL
    ORDER BY free.tag, free.run_id
    LIMIT $3::int
  ) AS next
) AS waiting
WHERE waiting.count > 0`,
  byIndex,
)

export type WorkerRow = {
  readonly id: string
  readonly host: string
  readonly version: string
  readonly queues: string[]
  readonly functions: string[]
  readonly slots: number
  readonly held: number
  readonly started_at: Date
  readonly heartbeat_at: Date
  readonly expires_at: Date
}

/** Workers of the tenant that are alive, newest first. */
export const listWorkers = statement<WorkerRow, [beforeId: string, limit: number]>(
  'worker_list',
  `
SELECT s.id, s.host, s.version, s.queues, s.functions, s.slots, s.started_at, s.heartbeat_at, s.expires_at,
       (SELECT count(*) FROM ${heldRuns('run_id, tenant_id', 's.id')} AS its
        WHERE its.tenant_id = belfry.tenant_id())::int AS held
FROM belfry.session s
WHERE s.tenant_id = belfry.tenant_id() AND s.id < $1 AND s.expires_at > belfry.now()
ORDER BY s.id DESC LIMIT $2`,
)

export type LogChunkRow = {
  readonly number: number
  readonly first_line: number
  readonly last_line: number
  readonly lines: unknown
  readonly full_after: boolean
}

/**
 * Chunks of the log of an attempt (the newest that logged anything, where none is named) that hold lines
 * after a given one.
 */
export const listLogChunks = statement<
  LogChunkRow,
  [runId: string, number: number | null, afterLine: number, limit: number]
>(
  'worker_list_log_chunks',
  `
SELECT chunk.number, chunk.first_line, chunk.last_line, chunk.lines, chunk.full_after
FROM belfry.run_log AS chunk
WHERE chunk.tenant_id = belfry.tenant_id() AND chunk.run_id = $1
  AND chunk.number = coalesce($2, (SELECT max(number) FROM belfry.run_log WHERE run_id = $1))
  AND chunk.last_line > $3
ORDER BY chunk.first_line LIMIT $4`,
)
