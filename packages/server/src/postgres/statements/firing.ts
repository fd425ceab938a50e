/**
 * Around the fire (fire.ts): what must be known of schedules to fire them, and the release of delayed runs.
 * Instants travel as epoch ms in float8, which keeps microseconds apart.
 */
import type { OverlapPolicy } from '@belfry/contract'
import { byIndex, statement } from '../statement.ts'
import { calendarsOf } from './calendars.ts'

export interface PlanRow {
  readonly id: string
  readonly tenant_id: string
  readonly gen: number
  readonly version: number
  readonly spec: unknown
  readonly zone: string
  readonly start_ms: number | null
  readonly end_ms: number | null
  readonly on_excluded: 'skip' | 'next_business_day' | 'previous_business_day'
  /** `CalendarRef`s in the order in which they are asked. */
  readonly calendars: unknown
  readonly jitter_ms: number
  readonly catch_up: { policy: 'latest' | 'all' | 'none'; windowMs: number; maxRuns: number }
  readonly flexible_window_ms: number
  readonly overlap: OverlapPolicy
  readonly run_limit: number | null
  readonly sleep_until_ms: number | null
  readonly sleep_reason: string | null
  /** Null of a schedule that runs a workflow. */
  readonly queue: string | null
  readonly handler: string | null
  readonly priority: number | null
  readonly weight: number
}

/** What must be known of schedules to fire them. */
export const schedulePlans = statement<PlanRow, [scheduleIds: readonly string[]]>(
  'firing_plans',
  `
  SELECT s.id, s.tenant_id, s.gen::float8 AS gen, s.version, s.spec, s.zone,
         (extract(epoch FROM s.start_at) * 1000)::float8 AS start_ms,
         (extract(epoch FROM s.end_at) * 1000)::float8 AS end_ms,
         s.jitter_ms, s.flexible_window_ms, s.catch_up, s.overlap, s.run_limit, s.sleep_reason,
         (extract(epoch FROM s.sleep_until) * 1000)::float8 AS sleep_until_ms,
         j.queue, j.handler, j.priority, t.weight, s.on_excluded, ${calendarsOf('s')} AS calendars
  FROM belfry.schedule AS s
  LEFT JOIN belfry.job AS j ON j.id = s.job_id AND j.tenant_id = s.tenant_id
  JOIN belfry.tenant AS t ON t.id = s.tenant_id
  WHERE s.id = ANY($1::uuid[]) AND s.deleted_at IS NULL
  `,
)

/** What is told of a run that was ended to make room. */
export const displacedMessage = 'Ended because the next planned time of its schedule came due.'

/** How long a run waits for the one before it until the scheduler looks whether that is still alive. */
export const recheckMs = 20_000
/** The same further back in a chain: the run before it has yet to start, so nobody can have let it go. */
const farRecheckMs = 300_000

/**
 * Moves delayed runs that are due to `ready`, each with the tag that was given to it. They are locked one by
 * one, in the order given; one that another node released meanwhile is gone. One that waits for a run that is
 * still alive is put off instead: whoever ends that run lets it go, and should that have been lost, it is
 * looked at again. (That run is told that it is followed, in case it moved while the other lined up; without
 * waiting for a lock, as this is against the order of locks.)
 *
 * One that went into its retry delay while a fire was to put another run in its place was not seen by that
 * fire, which let the new run wait (`unsure`, fire-policies.ts). It is ended here.
 *
 * One that gathers inputs is left alone: it is sealed first (gatherings.ts).
 */
export const releaseDelayed = statement<
  {
    now_ms: number
    released: readonly string[]
    put_off: readonly string[]
    queues: readonly string[]
    /** Runs that gather: due, and to be sealed first; or due later than they were. */
    gathering: readonly (readonly [runId: string, dueMs: number])[]
  },
  [runIds: readonly string[], tags: readonly number[]]
>(
  'firing_release',
  `
  WITH looked AS MATERIALIZED (
    SELECT locked.run_id, wanted.tag, locked.after_run_id,
           coalesce(
             (SELECT s.overlap IN ('cancel_other', 'terminate_other') FROM belfry.schedule AS s
              WHERE s.id = locked.schedule_id),
             false) AS displaces,
           locked.after_run_id IS NOT NULL AND coalesce(
             (SELECT true FROM belfry.ready WHERE ready.run_id = locked.after_run_id),
             (SELECT true FROM belfry.delayed AS before WHERE before.run_id = locked.after_run_id),
             false) AS waits,
           coalesce(
             (SELECT before.after_run_id IS NOT NULL FROM belfry.delayed AS before
              WHERE before.run_id = locked.after_run_id),
             false) AS far
    FROM unnest($1::uuid[], $2::float8[]) AS wanted (run_id, tag)
    CROSS JOIN LATERAL (
      SELECT delayed.run_id, delayed.after_run_id, delayed.schedule_id
      FROM belfry.delayed
      WHERE delayed.run_id = wanted.run_id AND delayed.due_at <= belfry.now() AND delayed.gathers IS NULL
      FOR UPDATE
    ) AS locked
  ),
  displaced AS MATERIALIZED (
    SELECT retrying.*
    FROM (SELECT DISTINCT after_run_id FROM looked WHERE waits AND displaces) AS wanted
    CROSS JOIN LATERAL (
      SELECT delayed.run_id, delayed.tenant_id, delayed.lease_epoch, delayed.followed
      FROM belfry.delayed
      WHERE delayed.run_id = wanted.after_run_id AND delayed.after_run_id IS NULL AND delayed.attempt > 0
      FOR UPDATE SKIP LOCKED
    ) AS retrying
    WHERE retrying.run_id NOT IN (SELECT run_id FROM looked)
  ),
  gone AS (
    DELETE FROM belfry.delayed WHERE run_id = ANY (ARRAY(SELECT run_id FROM displaced))
  ),
  history AS (
    INSERT INTO belfry.attempt
      (run_id, number, tenant_id, lease_epoch, session_id, outcome, run_state, reason, started_at, error_code,
       error_message)
    SELECT run_id, 0, tenant_id, lease_epoch, NULL, 'canceled', 'canceled', 'overlap', belfry.now(),
           'canceled', '${displacedMessage}'
    FROM displaced
  ),
  due AS MATERIALIZED (
    SELECT run_id, tag, after_run_id, far,
           waits AND after_run_id NOT IN (SELECT run_id FROM displaced) AS waits
    FROM looked
  ),
  put_off AS (
    UPDATE belfry.delayed
    SET due_at = belfry.now() + CASE WHEN run_id = ANY (ARRAY(SELECT run_id FROM due WHERE far))
          THEN interval '${farRecheckMs} milliseconds' ELSE interval '${recheckMs} milliseconds' END
    WHERE run_id = ANY (ARRAY(SELECT run_id FROM due WHERE waits))
  ),
  followed AS (
    UPDATE belfry.ready SET followed = true
    WHERE run_id = ANY (ARRAY(
      SELECT before.run_id
      FROM due
      CROSS JOIN LATERAL (
        SELECT ready.run_id FROM belfry.ready
        WHERE ready.run_id = due.after_run_id AND NOT ready.followed
        FOR UPDATE SKIP LOCKED
      ) AS before
      WHERE due.waits
    ))
  ),
  followed_later AS (
    UPDATE belfry.delayed SET followed = true
    WHERE run_id = ANY (ARRAY(
      SELECT before.run_id
      FROM due
      CROSS JOIN LATERAL (
        SELECT delayed.run_id FROM belfry.delayed
        WHERE delayed.run_id = due.after_run_id AND NOT delayed.followed
        FOR UPDATE SKIP LOCKED
      ) AS before
      WHERE due.waits AND due.after_run_id NOT IN (SELECT run_id FROM due)
    ))
  ),
  released AS (
    DELETE FROM belfry.delayed
    USING due
    WHERE delayed.run_id = due.run_id AND NOT due.waits
    RETURNING delayed.*, due.tag
  ),
  new_ready AS (
    INSERT INTO belfry.ready
      (run_id, tenant_id, job_id, job_version, queue, handler, tag, priority, available_at, timeout_ms,
       lease_epoch, attempt, crash_count, failure_count, followed, start_by, run_deadline, gate)
    SELECT run_id, tenant_id, job_id, job_version, queue, handler, tag, priority, belfry.now(), timeout_ms,
           lease_epoch, attempt, crash_count, failure_count, followed, start_by, run_deadline,
           CASE WHEN (SELECT j.limited FROM belfry.job AS j WHERE j.id = released.job_id)
             THEN belfry.gate_of(job_id, queue, belfry.input_of(tenant_id, run_id)) END
    FROM released
  )
  SELECT (extract(epoch FROM belfry.now()) * 1000)::float8 AS now_ms,
         (SELECT coalesce(json_agg(run_id), '[]') FROM released) AS released,
         (SELECT belfry.tell_dependents(array_agg(run_id)) FROM displaced WHERE followed) AS told_dependents,
         (SELECT coalesce(json_agg(run_id), '[]') FROM due WHERE waits AND NOT far) AS put_off,
         (SELECT coalesce(json_agg(DISTINCT queue), '[]') FROM released) AS queues,
         (SELECT coalesce(
            json_agg(json_build_array(later.run_id, extract(epoch FROM later.due_at) * 1000)), '[]')
          FROM unnest($1::uuid[]) AS wanted (run_id)
          CROSS JOIN LATERAL (
            SELECT delayed.run_id, delayed.due_at FROM belfry.delayed
            WHERE delayed.run_id = wanted.run_id AND delayed.gathers IS NOT NULL OFFSET 0
          ) AS later) AS gathering
  `,
  byIndex,
)
