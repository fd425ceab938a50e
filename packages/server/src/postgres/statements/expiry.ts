/**
 * Runs that wait past their time (domain/run-limits.ts): found along the partial indexes of 0016, in which
 * runs without limits do not stand, and ended with attempt row number 0. Who waits for one of them is let go,
 * as by every other end. A row that somebody else holds at this moment is passed over: a claim ends it by
 * itself. Rows are locked in the order of their ids, those of `ready` first (see fire.ts).
 */
import { overdueWords } from '../../domain/run-limits.ts'
import { byIndex, statement } from '../statement.ts'
import { freeSlots } from './free-slots.ts'

const found = (place: string, by: string, chained: string, more: string): string => `
  (SELECT run_id, ${chained} AS chained FROM belfry.${place}
   WHERE ${by} <= belfry.now()${more} ORDER BY ${by}, run_id LIMIT $1)`
const free = ' AND session_id IS NULL AND settled_by IS NULL'

/** The longest overdue, at most `limit` of each kind. Chained: it waits for the one before it. */
export const listOverdueRuns = statement<
  { readonly run_id: string; readonly chained: boolean },
  [limit: number]
>(
  'expiry_list',
  `
SELECT run_id, chained FROM (
  ${found('ready', 'start_by', 'false', free)}
  UNION ${found('ready', 'run_deadline', 'false', free)}
  UNION ${found('delayed', 'start_by', 'after_run_id IS NOT NULL', '')}
  UNION ${found('delayed', 'run_deadline', 'after_run_id IS NOT NULL', '')}
) AS overdue
ORDER BY run_id`,
  byIndex,
)

export type ExpiredRow = {
  readonly now_ms: number
  readonly run_id: string
  readonly tenant_id: string
  readonly job_id: string
  readonly queue: string
  readonly reason: 'expired' | 'deadline_exceeded'
  /** Shards of all runs that waited for one that has ended, null for none; the same in every row. */
  readonly timer_shards: readonly number[] | null
}

const overdue = '(start_by <= belfry.now() OR run_deadline <= belfry.now())'
const facts = `run_id, tenant_id, job_id, queue, lease_epoch, followed,
      CASE WHEN run_deadline <= belfry.now() THEN 'deadline_exceeded' ELSE 'expired' END AS reason`

const locked = (place: string, slotted: string, more: string): string => `
  SELECT mine.*
  FROM (SELECT id FROM unnest($1::uuid[]) AS given (id) ORDER BY id) AS given
  CROSS JOIN LATERAL (
    SELECT ${facts}, ${slotted} AS slotted FROM belfry.${place}
    WHERE run_id = given.id AND ${overdue} AND ${more}
    FOR UPDATE SKIP LOCKED
  ) AS mine`

const historyOf = (ended: string): string => `
  INSERT INTO belfry.attempt
    (run_id, number, tenant_id, lease_epoch, outcome, run_state, reason, started_at, error_code,
     error_message)
  SELECT run_id, 0, tenant_id, lease_epoch, 'expired', 'failed', reason, belfry.now(), reason,
         CASE reason WHEN 'expired' THEN '${overdueWords.expired}'
           ELSE '${overdueWords.deadline_exceeded}' END
  FROM ${ended}`

/** Ends those that still wait, past their time, and for no other run. */
export const endOverdueRuns = statement<ExpiredRow, [runIds: readonly string[]]>(
  'expiry_end',
  `
WITH waiting AS MATERIALIZED (${locked('ready', 'slotted', 'session_id IS NULL')}
), gone_waiting AS (
  DELETE FROM belfry.ready WHERE run_id = ANY (ARRAY(SELECT run_id FROM waiting))
), later AS MATERIALIZED (${locked('delayed', 'false', 'after_run_id IS NULL')}
), gone_later AS (
  DELETE FROM belfry.delayed WHERE run_id = ANY (ARRAY(SELECT run_id FROM later))
), ended AS MATERIALIZED (
  SELECT * FROM waiting UNION ALL SELECT * FROM later
), history AS (${historyOf('ended')}
)
SELECT (extract(epoch FROM belfry.now()) * 1000)::float8 AS now_ms,
       run_id, tenant_id, job_id, queue, reason,
       (SELECT belfry.let_followers_go(array_agg(run_id)) FROM ended WHERE followed) AS timer_shards,
       ${freeSlots('ended')}
FROM ended`,
  byIndex,
)

/**
 * Ends one that waits for another; the timer of its schedule is held since before
 * (`lockTimerOfAnyChain` in followers.ts), and its chain is closed after it.
 */
export const endOverdueInChain = statement<
  ExpiredRow & { readonly after_run_id: string; readonly schedule_id: string },
  [runId: string]
>(
  'expiry_end_in_chain',
  `
WITH gone AS (
  DELETE FROM belfry.delayed
  WHERE run_id = $1 AND ${overdue} AND after_run_id IS NOT NULL
  RETURNING ${facts}, after_run_id, schedule_id
), history AS (${historyOf('gone')}
)
SELECT (extract(epoch FROM belfry.now()) * 1000)::float8 AS now_ms,
       run_id, tenant_id, job_id, queue, reason, after_run_id, schedule_id,
       (SELECT CASE WHEN belfry.tell_dependents(array_agg(run_id)) THEN '{-2}'::smallint[] END FROM gone
        WHERE followed) AS timer_shards
FROM gone`,
  byIndex,
)
