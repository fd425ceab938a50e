/**
 * Dead letters (migrations/0019_dead_letters.sql). Lists, counts and operations on many start from the index
 * of their state, of a job in it or of an error in it, the latest failure first, and look at no more than
 * `look` of them: the history of runs is touched only for what is shown.
 */
import { byIndex, statement } from '../statement.ts'
import { inputOfGathered } from './gatherings.ts'

/**
 * Puts failed runs on record, in the transaction that ends them. Those that are no more failed than that, or
 * are recorded already, are passed over: it may be sent again.
 */
export const recordDeadLetters = statement<
  unknown,
  [runIds: readonly string[], fingerprints: readonly string[]]
>(
  'belfry_record_dead_letters',
  `
INSERT INTO belfry.dead_letter (run_id, tenant_id, job_id, queue, error_code, fingerprint, failed_at)
SELECT ending.run_id, ending.tenant_id, asked.job_id, asked.queue, ending.error_code, ending.fingerprint,
       date_trunc('milliseconds', belfry.now())
FROM (
  SELECT failed.run_id, failed.fingerprint, past.tenant_id,
         coalesce(past.error_code, past.outcome) AS error_code
  FROM unnest($1::uuid[], $2::text[]) AS failed (run_id, fingerprint)
  CROSS JOIN LATERAL (
    SELECT tenant_id, error_code, outcome FROM belfry.attempt
    WHERE attempt.run_id = failed.run_id AND run_state = 'failed' OFFSET 0
  ) AS past
  ORDER BY failed.run_id
) AS ending
CROSS JOIN LATERAL (
  SELECT job_id, queue FROM belfry.run WHERE tenant_id = ending.tenant_id AND id = ending.run_id OFFSET 0
) AS asked
ON CONFLICT (run_id) DO NOTHING`,
  byIndex,
)

/** What is looked at: states, and behind which failure the look begins and where it ends. */
export type Look = [states: readonly string[], beforeAt: string, beforeId: string, from: string, look: number]
/** What passes of it; null: whatever it is. */
export type Pass = [
  jobId: string | null,
  fingerprint: string | null,
  queue: string | null,
  errorCode: string | null,
]

/** By which index it is looked: parameters 6 to 9 are those of `Pass`. */
const looked = (by: string) => `
WITH looked AS MATERIALIZED (
  SELECT d.* FROM unnest($1::text[]) AS wanted (state)
  CROSS JOIN LATERAL (
    SELECT * FROM belfry.dead_letter AS one
    WHERE one.tenant_id = belfry.tenant_id() AND one.state = wanted.state ${by}
      AND (one.failed_at, one.run_id) < ($2::timestamptz, $3::uuid) AND one.failed_at >= $4::timestamptz
    ORDER BY one.failed_at DESC, one.run_id DESC LIMIT $5
  ) AS d
  ORDER BY d.failed_at DESC, d.run_id DESC LIMIT $5
), passing AS MATERIALIZED (
  SELECT * FROM looked
  WHERE ($6::uuid IS NULL OR job_id = $6) AND ($7::text IS NULL OR fingerprint = $7)
    AND ($8::text IS NULL OR queue = $8) AND ($9::text IS NULL OR error_code = $9)
)`

/** The three ways of looking, by what is given. */
const ways = { all: '', job: 'AND one.job_id = $6', fingerprint: 'AND one.fingerprint = $7' } as const
export type Way = keyof typeof ways

const eachWay = <Statement>(make: (way: Way, by: string) => Statement): Readonly<Record<Way, Statement>> => ({
  all: make('all', ways.all),
  job: make('job', ways.job),
  fingerprint: make('fingerprint', ways.fingerprint),
})

export type DeadLetterRow = {
  run_id: string
  job_id: string
  job_name: string
  job_version: number
  schedule_id: string | null
  scheduled_for: Date | null
  source: string
  queue: string
  reason: string | null
  error_code: string
  error_message: string | null
  fingerprint: string
  attempts: number
  created_at: Date
  failed_at: Date
  state: string
  replayed_as: string | null
  replayed_at: Date | null
  deleted_at: Date | null
}

/** Everything that is shown of `d`, a row of dead_letter. */
const shown = `
  d.run_id, d.job_id, j.name AS job_name, r.job_version, r.schedule_id, r.scheduled_for, r.source, d.queue,
  ended.reason, d.error_code, ended.error_message, d.fingerprint, ended.number AS attempts, r.created_at,
  d.failed_at, d.state, d.replayed_as, d.replayed_at, d.deleted_at`
const itsRun = `
CROSS JOIN LATERAL (
  SELECT * FROM belfry.run WHERE tenant_id = belfry.tenant_id() AND id = d.run_id OFFSET 0
) r
CROSS JOIN LATERAL (SELECT name FROM belfry.job WHERE id = d.job_id OFFSET 0) j
CROSS JOIN LATERAL (
  SELECT max(number) AS number, max(reason) AS reason,
         max(error_message) FILTER (WHERE run_state IS NOT NULL) AS error_message
  FROM belfry.attempt WHERE run_id = d.run_id
) ended`

/** `looked_at` and `looked_id` are the same in every row; a page without a letter is a row without an id. */
export type ListedLetterRow = { looked_at: Date | null; looked_id: string | null } & (
  | DeadLetterRow
  | { run_id: null }
)

/** The latest failure first. */
export const listDeadLetters = eachWay((way, by) =>
  statement<ListedLetterRow, [...Look, ...Pass, limit: number]>(
    `dead_letter_list_${way}`,
    `${looked(by)}, page AS MATERIALIZED (
  SELECT * FROM passing ORDER BY failed_at DESC, run_id DESC LIMIT $10
), last AS (
  SELECT failed_at, run_id FROM looked
  WHERE (SELECT count(*) FROM looked) >= $5 ORDER BY failed_at, run_id LIMIT 1
)
SELECT last.failed_at AS looked_at, last.run_id AS looked_id, item.*
FROM (VALUES (1)) AS one LEFT JOIN last ON true LEFT JOIN (
  SELECT ${shown} FROM page AS d ${itsRun}
) AS item ON true
ORDER BY item.failed_at DESC, item.run_id DESC`,
    byIndex,
  ),
)

export type LetterTallyRow = {
  fingerprint: string | null
  error_code: string
  job_id: string
  job_name: string
  count: number
  first_at: Date
  last_at: Date
  sample_run_id: string
  sample_message: string | null
  /** Of all that pass, also those that are not in these rows. */
  total: string
  looked: number
  is_whole: boolean
}

/**
 * How many they are, by error and job, those with the most first; one row without any where there is none.
 */
export const tallyDeadLetters = eachWay((way, by) =>
  statement<LetterTallyRow, [...Look, ...Pass, limit: number]>(
    `dead_letter_tally_${way}`,
    `${looked(by)}, tally AS MATERIALIZED (
  SELECT fingerprint, min(error_code) AS error_code, job_id, count(*)::int AS count,
         min(failed_at) AS first_at, max(failed_at) AS last_at,
         (array_agg(run_id ORDER BY failed_at DESC, run_id DESC))[1] AS sample_run_id,
         sum(count(*)) OVER ()::text AS total, count(*) OVER () <= $10 AS fits
  FROM passing GROUP BY fingerprint, job_id
  ORDER BY count DESC, last_at DESC, fingerprint LIMIT $10
)
SELECT tally.fingerprint, tally.error_code, tally.job_id, tally.count, tally.first_at, tally.last_at,
       tally.sample_run_id, (SELECT name FROM belfry.job WHERE id = tally.job_id) AS job_name,
       coalesce(tally.total, '0') AS total, size.looked,
       size.looked < $5 AND coalesce(tally.fits, true) AS is_whole
FROM (SELECT count(*)::int AS looked FROM looked) AS size LEFT JOIN tally ON true
ORDER BY tally.count DESC, tally.last_at DESC, tally.fingerprint`,
    byIndex,
  ),
)

/** What the errors of these runs said. */
export const listErrorMessages = statement<
  { run_id: string; error_message: string | null },
  [runIds: readonly string[]]
>(
  'dead_letter_messages',
  `
SELECT wanted.run_id, ended.error_message
FROM unnest($1::uuid[]) AS wanted (run_id)
CROSS JOIN LATERAL (
  SELECT max(error_message) AS error_message FROM belfry.attempt
  WHERE run_id = wanted.run_id AND run_state = 'failed'
) AS ended`,
  byIndex,
)

/** One, whatever its state. */
export const findDeadLetter = statement<DeadLetterRow, [runId: string]>(
  'dead_letter_find',
  `
SELECT ${shown} FROM belfry.dead_letter AS d ${itsRun}
WHERE d.tenant_id = belfry.tenant_id() AND d.run_id = $1`,
  byIndex,
)

export type LockedLetterRow = {
  run_id: string
  job_id: string
  schedule_id: string | null
  scheduled_for: Date | null
  has_input: boolean
  input: unknown
  own_queue: string | null
  own_priority: number | null
  state: string
  replayed_as: string | null
  workflow_run_id: string | null
}

/**
 * Holds dead letters, in the order of their ids, with what a replay takes over from the run. Queue and
 * priority only where they were not those of its job. One that expired while it gathered has the inputs that
 * it took.
 */
export const lockDeadLetters = statement<LockedLetterRow, [runIds: readonly string[]]>(
  'dead_letter_lock',
  `
WITH held AS MATERIALIZED (
  SELECT mine.*
  FROM (SELECT DISTINCT run_id FROM unnest($1::uuid[]) AS wanted (run_id) ORDER BY run_id) AS wanted
  CROSS JOIN LATERAL (
    SELECT * FROM belfry.dead_letter
    WHERE tenant_id = belfry.tenant_id() AND dead_letter.run_id = wanted.run_id FOR UPDATE
  ) AS mine
)
SELECT held.run_id, held.job_id, held.state, held.replayed_as, r.workflow_run_id, r.schedule_id,
       r.scheduled_for,
       whole.input IS NOT NULL AS has_input, whole.input,
       nullif(r.queue, v.definition ->> 'queue') AS own_queue,
       nullif(r.priority, (v.definition ->> 'priority')::smallint) AS own_priority
FROM held
CROSS JOIN LATERAL belfry.run_of(belfry.tenant_id(), held.run_id) AS r
CROSS JOIN LATERAL (SELECT coalesce(r.input, ${inputOfGathered('r.id')}) AS input OFFSET 0) whole
CROSS JOIN LATERAL (
  SELECT definition FROM belfry.job_version
  WHERE tenant_id = belfry.tenant_id() AND job_id = r.job_id AND version = r.job_version OFFSET 0
) v
ORDER BY held.run_id`,
  byIndex,
)

/** Marks held, open dead letters as replayed. */
export const markReplayed = statement<unknown, [runIds: readonly string[], replayIds: readonly string[]]>(
  'dead_letter_mark_replayed',
  `
UPDATE belfry.dead_letter SET state = 'replayed', replayed_as = replay.id, replayed_at = belfry.now()
FROM unnest($1::uuid[], $2::uuid[]) AS replay (run_id, id)
WHERE tenant_id = belfry.tenant_id() AND dead_letter.run_id = replay.run_id AND state = 'open'`,
  byIndex,
)

/** Deletes held dead letters; one that was deleted before keeps its time. */
export const markDeleted = statement<{ run_id: string }, [runIds: readonly string[]]>(
  'dead_letter_mark_deleted',
  `
UPDATE belfry.dead_letter SET state = 'deleted', deleted_at = belfry.now()
WHERE tenant_id = belfry.tenant_id() AND run_id = ANY ($1::uuid[]) AND state <> 'deleted'
RETURNING run_id`,
  byIndex,
)

/** Deletes those of runs that are older than the retention, at most `limit` at once. */
export const deleteOldDeadLetters = statement<
  { readonly count: number },
  [retentionDays: number, limit: number]
>(
  'belfry_delete_old_dead_letters',
  `
WITH deleted AS (
  DELETE FROM belfry.dead_letter WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM belfry.dead_letter
    WHERE run_id < belfry.uuid_floor(
      (((belfry.now() AT TIME ZONE 'UTC')::date - $1::int)::timestamp) AT TIME ZONE 'UTC')
    ORDER BY run_id LIMIT $2)) RETURNING 1
)
SELECT count(*)::int AS count FROM deleted`,
  byIndex,
)
