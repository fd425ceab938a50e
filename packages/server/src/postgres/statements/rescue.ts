/**
 * What the rescuer reads, of what is settled: runs that a session holds on paper only, past their deadline,
 * or long after their cancel was asked for. Parked runs have no session and are not lost. The filter stands
 * in SQL and the order is that of `ready_held`, so healthy runs, however many sort first, take no place in a
 * page.
 */
import { byIndex, statement } from '../statement.ts'
import { parked } from './callbacks.ts'

/**
 * A worker has this long to hear of a cancel, signal its handler, and leave it behind after its grace; a
 * target that sends heartbeats, to hear of it and to report the end.
 */
const cancelPatienceSeconds = 60

/** A target that sends heartbeats is told by the next one; to any other nobody can say it. */
const hearsOfCancel = (run: string): string => `EXISTS (
        SELECT FROM belfry.callback AS c
        WHERE c.tenant_id = ${run}.tenant_id AND c.run_id = ${run}.run_id
          AND c.lease_epoch = ${run}.lease_epoch AND c.heartbeat_ms IS NOT NULL)`

export type StuckRow = {
  readonly now_ms: number
  /** Null in the one row that an empty page answers. */
  readonly run_id: string | null
  readonly tenant_id: string
  readonly job_id: string
  readonly queue: string
  readonly session_id: string
  readonly lease_epoch: number
  readonly attempt: number
  readonly crash_count: number
  readonly failure_count: number
  readonly claimed_at_ms: number
  readonly run_deadline_ms: number | null
  readonly cause: 'session_lost' | 'deadline' | 'cancel_ignored'
  readonly report_by_ms: number | null
  readonly definition: unknown
  readonly cancel_requested: boolean
}

/** Deletes a page of claims and settles their runs. Rows are locked in the order of their ids. */
const settling = (which: string): string => `
WITH fresh AS (
  DELETE FROM belfry.claim
  WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM belfry.claim WHERE ${which}
    ORDER BY session_id, number LIMIT $1 FOR UPDATE SKIP LOCKED
  ))
  RETURNING run_ids
), settled AS (
  UPDATE belfry.ready SET settled_by = session_id
  WHERE run_id = ANY (ARRAY(SELECT unnest(run_ids) FROM fresh))
    -- not IS NULL: that would let it be read by an index of all that waits
    AND settled_by IS DISTINCT FROM session_id
)
SELECT count(*)::int AS count FROM fresh`

/**
 * Settles what is held by claims that are not over: so the index of what is held knows it, and claims need
 * not walk over it any more. Somebody else's page is passed over.
 */
export const settleClaims = statement<{ readonly count: number }, [limit: number, olderThanMs: number]>(
  'belfry_settle_claims',
  settling(`session_id >= '00000000-0000-0000-0000-000000000000'
      AND claimed_at <= belfry.now() - $2::float8 * interval '1 millisecond'`),
  byIndex,
)

/** The same for those of sessions that have ended. */
export const settleClaimsOf = statement<
  { readonly count: number },
  [limit: number, sessionIds: readonly string[]]
>('belfry_settle_claims_of', settling('session_id = ANY ($2::uuid[])'), byIndex)

/** A claim is settled long before. */
const lostAfterSeconds = 60

/**
 * Heals held rows that neither a claim nor `settled_by` tells of, and given back ones that still say who
 * held them: statements of the version before leave both. A page of all that is ready, in the order of the
 * ids, so that a sweep reads a bounded part of it. Answers where the page ends, null after the last one. To
 * settle what is held is never wrong, so nobody asks whether a claim lists it.
 */
export const healHeldRuns = statement<
  { readonly last_run_id: string | null; readonly healed: number },
  [afterRunId: string, limit: number]
>(
  'belfry_heal_held_runs',
  `
WITH page AS MATERIALIZED (
  SELECT run_id, settled_by IS DISTINCT FROM session_id AND (settled_by IS NOT NULL
    OR claimed_at <= belfry.now() - interval '${lostAfterSeconds} seconds') AS astray
  FROM belfry.ready WHERE run_id > $1 ORDER BY run_id LIMIT $2
), healed AS (
  UPDATE belfry.ready SET settled_by = session_id
  WHERE run_id = ANY (ARRAY(SELECT run_id FROM page WHERE astray))
    AND settled_by IS DISTINCT FROM session_id
  RETURNING run_id
)
SELECT (SELECT run_id FROM page OFFSET $2 - 1 LIMIT 1) AS last_run_id,
       (SELECT count(*) FROM healed)::int AS healed`,
  byIndex,
)

/** Pages start after (session, run); the nil UUID starts from the beginning. */
export const listStuckRuns = statement<StuckRow, [afterSessionId: string, afterRunId: string, limit: number]>(
  'belfry_list_stuck_runs',
  `
SELECT (extract(epoch FROM belfry.now()) * 1000)::float8 AS now_ms,
       stuck.run_id, stuck.tenant_id, stuck.job_id, stuck.queue, stuck.session_id, stuck.lease_epoch,
         stuck.attempt,
       stuck.crash_count, stuck.failure_count,
       (extract(epoch FROM stuck.claimed_at) * 1000)::float8 AS claimed_at_ms,
       (extract(epoch FROM stuck.run_deadline) * 1000)::float8 AS run_deadline_ms,
       stuck.cause, stuck.cancel_requested_at IS NOT NULL AS cancel_requested, written.definition,
       awaited.report_by_ms
FROM (VALUES (1)) AS one (row)
LEFT JOIN (
  SELECT held.*, CASE WHEN session.id IS NULL AND held.settled_by <> ${parked} THEN 'session_lost'
    WHEN held.deadline <= belfry.now() THEN 'deadline' ELSE 'cancel_ignored' END AS cause
  FROM belfry.ready AS held
  LEFT JOIN belfry.session ON session.id = held.settled_by
  WHERE held.settled_by IS NOT NULL AND held.session_id = held.settled_by
    AND (held.settled_by, held.run_id) > ($1::uuid, $2::uuid)
    AND (session.id IS NULL AND held.settled_by <> ${parked} OR held.deadline <= belfry.now()
      OR held.cancel_requested_at <= belfry.now() - interval '${cancelPatienceSeconds} seconds'
      OR held.settled_by = ${parked} AND held.cancel_requested_at IS NOT NULL
        AND NOT ${hearsOfCancel('held')})
  ORDER BY held.settled_by, held.run_id
  LIMIT $3
) AS stuck ON true
LEFT JOIN LATERAL (
  SELECT job_version.definition
  FROM belfry.job_version
  WHERE job_version.tenant_id = stuck.tenant_id AND job_version.job_id = stuck.job_id
    AND job_version.version = stuck.job_version
  OFFSET 0
) AS written ON true
LEFT JOIN LATERAL (
  SELECT (extract(epoch FROM c.report_by) * 1000)::float8 AS report_by_ms
  FROM belfry.callback AS c
  WHERE stuck.settled_by = ${parked} AND c.tenant_id = stuck.tenant_id AND c.run_id = stuck.run_id
    AND c.lease_epoch = stuck.lease_epoch
  OFFSET 0
) AS awaited ON true
ORDER BY stuck.session_id, stuck.run_id`,
  byIndex,
)
