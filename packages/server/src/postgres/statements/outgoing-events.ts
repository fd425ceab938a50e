/**
 * What has ended, for those who are told of it (migration 0029): read in the order of the numbers of
 * transactions, up to the oldest that is still open. Rows are found by an index over stretches of pages. A
 * look asks for a stretch of numbers, so its cost does not grow with what waits. It does grow with the
 * history: the whole of that index is read, some 1.6 MB for each GB of attempts (decision 0022).
 */
import { statement } from '../statement.ts'

/** What is lower has been committed or rolled back. */
const settled = `(pg_snapshot_xmin(pg_current_snapshot())::text)::bigint`

/** Of another server, and of this one when it was started again, it is another. */
const server = `extract(epoch FROM pg_postmaster_start_time())::text`

export type EndedRow = {
  readonly number: string
  readonly key: string
  readonly kind: 'run' | 'workflow_run'
  readonly tenant_id: string
  readonly id: string
  /** As the contract has it, without what stands beside. */
  readonly data: Record<string, unknown>
  readonly started_ms: number
  readonly ended_ms: number
  readonly scheduled_ms: number | null
  readonly retry_ms: number | null
  /** False where only the attempt is left of a run: there is nothing to tell. */
  readonly known: boolean
}

const ms = (column: string): string => `(extract(epoch FROM ${column}) * 1000)::float8`

/** A page of the stretch from one number to another, behind a key among those of the first. */
export const listEnded = statement<EndedRow, [from: number, key: string, to: number, limit: number]>(
  'outgoing_list_ended',
  `
SELECT number::text, key, kind, ended.tenant_id, ended.id, data, started_ms, ended_ms, scheduled_ms, retry_ms,
  known
FROM (
  (SELECT past.ended_in AS number, past.key, 'run' AS kind,
     past.tenant_id, past.run_id AS id,
     jsonb_build_object('jobId', run.job_id, 'queue', run.queue, 'source', run.source,
       'scheduleId', run.schedule_id, 'workflowRunId', run.workflow_run_id, 'attempt', past.number,
       'outcome', past.outcome, 'state', past.run_state, 'reason', past.reason,
       'errorCode', past.error_code) AS data,
     ${ms('past.started_at')} AS started_ms, ${ms('past.ended_at')} AS ended_ms,
     ${ms('run.scheduled_for')} AS scheduled_ms, ${ms('past.retry_at')} AS retry_ms,
     run.job_id IS NOT NULL AS known
   FROM (
     SELECT *, (run_id::text || '.' || number) COLLATE "C" AS key FROM belfry.attempt
     WHERE ended_in >= $1 AND ended_in < $3
       AND (ended_in > $1 OR (run_id::text || '.' || number) COLLATE "C" > $2)
     ORDER BY ended_in, key LIMIT $4
   ) AS past
   LEFT JOIN LATERAL (
     SELECT job_id, queue, source, schedule_id, scheduled_for, workflow_run_id FROM belfry.run
     WHERE run.tenant_id = past.tenant_id AND run.id = past.run_id OFFSET 0
   ) AS run ON true)
  UNION ALL
  (SELECT ended_in, id::text COLLATE "C", 'workflow_run', tenant_id, id,
     jsonb_build_object('workflowId', workflow_id, 'version', version, 'source', source,
       'scheduleId', schedule_id, 'state', state),
     ${ms('created_at')}, ${ms('ended_at')}, ${ms('scheduled_for')}, NULL, true
   FROM belfry.workflow_run
   WHERE ended_in >= $1 AND ended_in < $3 AND state IS NOT NULL
     AND (ended_in > $1 OR id::text COLLATE "C" > $2)
   ORDER BY 1, 2 LIMIT $4)
) AS ended
ORDER BY ended.number, key LIMIT $4`,
)

/**
 * Before it, in its transaction: without statistics the planner takes the index for useless, and would read
 * the whole history at each look.
 */
export const walkStretches = statement<unknown>(
  'outgoing_walk_stretches',
  `
SELECT WHERE set_config('enable_seqscan', 'off', true) IS NULL`,
)

export type SettledRow = {
  readonly number: string
  readonly latest: string
  readonly server: string
  readonly now_ms: number
}

/**
 * The number up to which all is settled, that behind the last which has ended, of which server, and the
 * time.
 */
export const readSettled = statement<SettledRow>(
  'outgoing_settled',
  `SELECT ${settled}::text AS number, pg_snapshot_xmax(pg_current_snapshot())::text AS latest,
  ${server} AS server, ${ms('belfry.now()')} AS now_ms`,
)

export type OutgoingPlaceRow = {
  readonly number: string
  readonly key: string
  readonly server: string
  readonly noted_ms: number
}

/** Where to go on; begins now where nobody was, or where the number is of another database. */
export const beginOutgoing = statement<OutgoingPlaceRow, [name: string]>(
  'outgoing_begin',
  `
INSERT INTO belfry.outgoing_position AS place (name, number) VALUES ($1, ${settled})
ON CONFLICT (name) DO UPDATE
SET number = least(place.number, ${settled}),
    key = CASE WHEN place.number > ${settled} THEN '' ELSE place.key END
RETURNING number::text, key, ${server} AS server,
  ${ms('clock_timestamp() - noted_at')} AS noted_ms`,
)

/** Notes how far it has come, on the server where it has come so far. */
export const noteOutgoing = statement<never, [name: string, number: number, key: string, server: string]>(
  'outgoing_note',
  `
UPDATE belfry.outgoing_position SET number = $2, key = $3, noted_at = clock_timestamp()
WHERE name = $1 AND (number, key COLLATE "C") < ($2::bigint, $3 COLLATE "C")
  AND ${server} = $4 AND $2::bigint <= ${settled}`,
)
