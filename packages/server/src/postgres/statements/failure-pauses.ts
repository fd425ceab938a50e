/**
 * The pause of a schedule whose last runs failed (`pause_after_failures`). Most schedules have no such limit,
 * so `findFailing` looks first, without a lock; where it finds one, a transaction ends the runs:
 *
 *   1. findFailing, lockTimersOf   the timers of the schedules concerned, in the order of their ids
 *   2. the ends                    (statements/completion.ts)
 *   3. findFailed, pauseFailing    looks at the last ended runs in a snapshot that has the ends of everybody
 *                                  who held the timer before, and pauses
 *
 * The looks are statements of their own, apart from those that lock: migration run_looks says why.
 *
 * Two who end runs of one schedule at the same time wait for each other at the timer, so neither misses the
 * failure of the other. Locks are taken timer first, then `ready`, in the order of ids within each: as a fire
 * does that ends the run before it, and as an edit does that settles. So none of them waits for another in a
 * circle.
 */
import { byIndex, statement } from '../statement.ts'

/**
 * Active schedules with such a limit that started runs which have not ended yet, in the order of ids. The
 * first and the last id of the runs are given too: only the partitions between them are opened.
 */
export const findFailing = statement<
  { readonly id: string },
  [runIds: readonly string[], firstId: string, lastId: string]
>(
  'belfry_find_failing',
  `
  SELECT DISTINCT limited.id
  FROM unnest($1::uuid[]) AS failing (run_id)
  CROSS JOIN LATERAL (
    SELECT tenant_id FROM belfry.ready WHERE run_id = failing.run_id OFFSET 0
  ) AS held
  CROSS JOIN LATERAL (
    SELECT schedule_id FROM belfry.run
    WHERE tenant_id = held.tenant_id AND id = failing.run_id AND id BETWEEN $2 AND $3
      AND source = 'schedule' OFFSET 0
  ) AS started
  CROSS JOIN LATERAL (
    SELECT id FROM belfry.schedule
    WHERE id = started.schedule_id AND tenant_id = held.tenant_id AND pause_after_failures IS NOT NULL
      AND state = 'active' AND deleted_at IS NULL OFFSET 0
  ) AS limited
  ORDER BY limited.id`,
  byIndex,
)

export type PausedRow = { readonly id: string; readonly tenant_id: string; readonly failures: number }

const failed = (looked: string): string => `
  SELECT limited.id, limited.failures
  FROM unnest($1::uuid[]) AS given (id)
  CROSS JOIN LATERAL (
    SELECT id, tenant_id, pause_after_failures AS failures, coalesce(failures_since, created_at) AS since
    FROM belfry.schedule
    WHERE id = given.id AND state = 'active' AND deleted_at IS NULL AND pause_after_failures IS NOT NULL
    OFFSET 0
  ) AS limited
  CROSS JOIN LATERAL (
    SELECT count(*) AS failed
    FROM (
      SELECT looked.run_state
      FROM (${looked}
      ) AS looked
      WHERE looked.run_state IS NOT NULL
      ORDER BY looked.id DESC LIMIT limited.failures
    ) AS newest
    WHERE newest.run_state = 'failed'
  ) AS history
  WHERE history.failed = limited.failures`

/** Runs `run` of the schedule `limited` since it counts. */
const counted = `run.tenant_id = limited.tenant_id AND run.schedule_id = limited.id
          AND run.id >= belfry.uuid_floor(limited.since - interval '1 hour')
          AND run.created_at >= limited.since AND run.source = 'schedule'
        ORDER BY run.id DESC LIMIT 1200`

type Failed = { readonly id: string; readonly failures: number }

/**
 * Those of which the last ended runs, as many as the limit says, all failed. Runs that are alive are passed
 * over, the newest 1,200 runs at most: 1,000 can wait (overlap buffer_all).
 */
export const findFailed = statement<Failed, [scheduleIds: readonly string[]]>(
  'belfry_find_failed',
  failed(`
        SELECT run.id, ended.run_state
        FROM belfry.run
        LEFT JOIN LATERAL (
          SELECT run_state FROM belfry.attempt
          WHERE run_id = run.id AND run_state IS NOT NULL LIMIT 1
        ) AS ended ON true
        WHERE ${counted}`),
  byIndex,
)

/** The same of schedules that run workflows. */
export const findFailedWorkflows = statement<Failed, [scheduleIds: readonly string[]]>(
  'belfry_find_failed_workflows',
  failed(`
        SELECT run.id, run.state AS run_state FROM belfry.workflow_run AS run WHERE ${counted}`),
  byIndex,
)

/**
 * Pauses those that were found, with the limit that was found. A planned time that was due and unfired is
 * left for the resume to put on record, by `paused_from`.
 */
export const pauseFailing = statement<
  PausedRow,
  [scheduleIds: readonly string[], failures: readonly number[]]
>(
  'belfry_pause_failing',
  `
WITH paused AS (
  UPDATE belfry.schedule
  SET state = 'paused', paused_at = belfry.now(), gen = schedule.gen + 1, version = schedule.version + 1,
      updated_at = belfry.now(),
      paused_from = coalesce(timer.scheduled_for - interval '1 millisecond', belfry.now()),
      paused_reason = CASE failing.failures WHEN 1 THEN 'The last run failed.'
                      ELSE 'The last ' || failing.failures || ' runs failed.' END
  FROM unnest($1::uuid[], $2::int[]) AS failing (id, failures)
  LEFT JOIN belfry.timer ON timer.schedule_id = failing.id
  WHERE schedule.id = failing.id AND schedule.state = 'active'
  RETURNING schedule.id, schedule.tenant_id, failing.failures
), stopped AS (
  DELETE FROM belfry.timer WHERE schedule_id = ANY (ARRAY(SELECT id FROM paused))
)
SELECT id, tenant_id, failures FROM paused`,
  byIndex,
)

/** Timers, locked in the order of their ids. */
export const lockTimersOf = statement<{ readonly schedule_id: string }, [scheduleIds: readonly string[]]>(
  'belfry_lock_timers_of',
  `
SELECT locked.schedule_id
FROM (SELECT id FROM unnest($1::uuid[]) AS given (id) ORDER BY id) AS wanted
CROSS JOIN LATERAL (
  SELECT schedule_id FROM belfry.timer WHERE schedule_id = wanted.id FOR UPDATE
) AS locked`,
  byIndex,
)
