/**
 * The firing transaction (postgres/firing.ts): what must be known to fire, the fire itself, and the release
 * of delayed runs. Instants travel as epoch ms in float8, which keeps microseconds apart.
 */
import { byIndex, statement } from '../statement.ts'

export interface PlanRow {
  readonly id: string
  readonly tenant_id: string
  readonly gen: number
  readonly version: number
  readonly spec: unknown
  readonly zone: string
  readonly start_ms: number | null
  readonly end_ms: number | null
  readonly jitter_ms: number
  readonly catch_up: { policy: 'latest' | 'all' | 'none'; windowMs: number; maxRuns: number }
  readonly overlap: 'skip' | 'allow'
  readonly queue: string
  readonly handler: string
  readonly priority: number
  readonly weight: number
}

/** What must be known of schedules to fire them. */
export const schedulePlans = statement<PlanRow, [scheduleIds: readonly string[]]>(
  'firing_plans',
  `
  SELECT s.id, s.tenant_id, s.gen::float8 AS gen, s.version, s.spec, s.zone,
         (extract(epoch FROM s.start_at) * 1000)::float8 AS start_ms,
         (extract(epoch FROM s.end_at) * 1000)::float8 AS end_ms,
         s.jitter_ms, s.catch_up, s.overlap, j.queue, j.handler, j.priority, t.weight
  FROM belfry.schedule AS s
  JOIN belfry.job AS j ON j.id = s.job_id AND j.tenant_id = s.tenant_id
  JOIN belfry.tenant AS t ON t.id = s.tenant_id
  WHERE s.id = ANY($1::uuid[]) AND s.deleted_at IS NULL
  `,
)

export interface FireRow {
  readonly now_ms: number
  readonly held: readonly number[]
  readonly moved: readonly string[]
  /** Refused only because the schedule has another version. */
  readonly changed: readonly string[]
  /** [scheduleId, scheduledForMs, outcome, runId, queue, dueAtMs] */
  readonly fired: readonly (readonly [
    string,
    number,
    'ran' | 'skipped' | 'missed',
    string | null,
    string,
    number,
  ])[]
}

/**
 * Fires timers: all of DESIGN 4.4 in one statement, so there is one snapshot and one round trip.
 *
 *   held         the shards of which the caller is still the owner under the term it names; locked until
 *                commit so that no other node can take one over before this fire is done (the holder's own
 *                renewal does not wait for it)
 *   found        the timers of those shards that are as they were read, and due with all planned times that
 *                were decided with them; none where that was decided with a wrong time. Locked, in the order
 *                given. Looked up one by one in LATERAL, which FOR UPDATE keeps the planner from turning into
 *                a walk over all that is due
 *   due          those of them that were decided by the present version of their schedule. With the overlap
 *                rule decided: `blocked` when the last run of the schedule is still ready, running or
 *                delayed. (Scalar subqueries, not EXISTS: that one may be planned as a hash of the whole
 *                table.)
 *   occurrence   one row a planned time, or none if it is there already
 *   run, ready   for the new ones that run
 *   moved, ended the timer goes on, or goes away and the schedule is completed (locks are taken timer first,
 *                schedule second, as an edit does)
 */
export const fireTimers = statement<
  FireRow,
  [
    nodeId: string,
    shards: readonly number[],
    terms: readonly number[],
    assumedNowMs: number,
    toleranceMs: number,
    timerScheduleIds: readonly string[],
    timerGens: readonly number[],
    timerVersions: readonly number[],
    timerDueMs: readonly number[],
    timerLastDueMs: readonly number[],
    timerNextScheduledMs: readonly (number | null)[],
    timerNextDueMs: readonly (number | null)[],
    scheduleIds: readonly string[],
    scheduledForMs: readonly number[],
    dueMs: readonly number[],
    outcomes: readonly string[],
    reasons: readonly (string | null)[],
    missedCounts: readonly number[],
    runIds: readonly (string | null)[],
    tags: readonly number[],
  ]
>(
  'firing_fire',
  `
  WITH held AS MATERIALIZED (
    SELECT term.shard
    FROM belfry.shard_term AS term
    JOIN unnest($2::smallint[], $3::bigint[]) AS named (shard, term)
      ON named.shard = term.shard AND named.term = term.term
    WHERE term.owner_id = $1::uuid AND term.expires_at > belfry.now()
    ORDER BY term.shard
    FOR KEY SHARE OF term
  ),
  found AS MATERIALIZED (
    SELECT locked.schedule_id, locked.tenant_id, locked.last_run_id, wanted.version,
           to_timestamp(wanted.next_scheduled_ms / 1000) AS next_scheduled_for,
           to_timestamp(wanted.next_due_ms / 1000) AS next_due_at
    FROM unnest($6::uuid[], $7::bigint[], $8::int[], $9::float8[], $10::float8[], $11::float8[],
                $12::float8[])
           AS wanted (schedule_id, gen, version, due_ms, last_due_ms, next_scheduled_ms, next_due_ms)
    CROSS JOIN LATERAL (
      SELECT timer.schedule_id, timer.tenant_id, timer.last_run_id
      FROM belfry.timer
      WHERE timer.schedule_id = wanted.schedule_id
        AND timer.due_at = to_timestamp(wanted.due_ms / 1000)
        AND timer.gen = wanted.gen
        AND timer.due_at <= belfry.now()
        AND to_timestamp(wanted.last_due_ms / 1000) <= belfry.now()
        AND abs(extract(epoch FROM belfry.now())::float8 * 1000 - $4::float8) <= $5::float8
        AND timer.shard = ANY(ARRAY(SELECT shard FROM held))
      FOR UPDATE
    ) AS locked
  ),
  due AS MATERIALIZED (
    SELECT found.schedule_id, found.tenant_id, found.next_scheduled_for, found.next_due_at,
           s.job_id, s.input, j.version AS job_version, j.queue, j.handler, j.priority, j.attempt_timeout_ms,
           s.overlap = 'skip' AND coalesce(
             (SELECT true FROM belfry.ready WHERE ready.run_id = found.last_run_id),
             (SELECT true FROM belfry.delayed WHERE delayed.run_id = found.last_run_id),
             false) AS blocked
    FROM found
    JOIN belfry.schedule AS s
      ON s.id = found.schedule_id AND s.tenant_id = found.tenant_id AND s.version = found.version
    JOIN belfry.job AS j ON j.id = s.job_id AND j.tenant_id = s.tenant_id
  ),
  planned AS MATERIALIZED (
    SELECT due.*,
           to_timestamp(o.scheduled_ms / 1000) AS scheduled_for,
           to_timestamp(o.due_ms / 1000) AS due_at,
           CASE WHEN o.outcome = 'ran' AND due.blocked THEN 'skipped' ELSE o.outcome END AS outcome,
           CASE WHEN o.outcome = 'ran' AND due.blocked THEN 'overlap' ELSE o.reason END AS reason,
           CASE WHEN due.blocked THEN NULL ELSE o.run_id END AS run_id,
           o.missed_count, o.tag
    FROM unnest($13::uuid[], $14::float8[], $15::float8[], $16::text[], $17::text[], $18::bigint[],
                $19::uuid[], $20::float8[])
           AS o (schedule_id, scheduled_ms, due_ms, outcome, reason, missed_count, run_id, tag)
    JOIN due ON due.schedule_id = o.schedule_id
  ),
  recorded AS (
    INSERT INTO belfry.occurrence
      (schedule_id, scheduled_for, tenant_id, outcome, reason, missed_count, run_id, due_at)
    SELECT schedule_id, scheduled_for, tenant_id, outcome, reason, missed_count, run_id, due_at
    FROM planned
    ON CONFLICT (schedule_id, scheduled_for) DO NOTHING
    RETURNING schedule_id, scheduled_for, outcome, run_id, due_at
  ),
  started AS MATERIALIZED (
    SELECT planned.*
    FROM recorded
    JOIN planned ON planned.run_id = recorded.run_id
    WHERE recorded.outcome = 'ran'
  ),
  new_run AS (
    INSERT INTO belfry.run
      (id, tenant_id, job_id, job_version, schedule_id, scheduled_for, source, queue, priority, input, due_at)
    SELECT run_id, tenant_id, job_id, job_version, schedule_id, scheduled_for, 'schedule', queue, priority,
           input, due_at
    FROM started
  ),
  new_ready AS (
    INSERT INTO belfry.ready
      (run_id, tenant_id, job_id, job_version, queue, handler, tag, priority, available_at, timeout_ms)
    SELECT run_id, tenant_id, job_id, job_version, queue, handler, tag, priority, belfry.now(),
           attempt_timeout_ms
    FROM started
  ),
  last_started AS (
    SELECT DISTINCT ON (schedule_id) schedule_id, run_id
    FROM started
    ORDER BY schedule_id, scheduled_for DESC
  ),
  moved AS (
    UPDATE belfry.timer
    SET due_at = due.next_due_at,
        scheduled_for = due.next_scheduled_for,
        last_run_id = coalesce(last_started.run_id, timer.last_run_id)
    FROM due
    LEFT JOIN last_started ON last_started.schedule_id = due.schedule_id
    WHERE timer.schedule_id = due.schedule_id AND due.next_due_at IS NOT NULL
  ),
  ended AS (
    DELETE FROM belfry.timer
    USING due
    WHERE timer.schedule_id = due.schedule_id AND due.next_due_at IS NULL
  ),
  completed AS (
    UPDATE belfry.schedule
    SET state = 'completed', gen = gen + 1, version = version + 1, updated_at = belfry.now()
    FROM due
    WHERE schedule.id = due.schedule_id AND due.next_due_at IS NULL AND schedule.state = 'active'
  )
  SELECT (extract(epoch FROM belfry.now()) * 1000)::float8 AS now_ms,
         ARRAY(SELECT shard FROM held) AS held,
         (SELECT coalesce(json_agg(schedule_id), '[]') FROM due) AS moved,
         (SELECT coalesce(json_agg(schedule_id), '[]') FROM found
          WHERE schedule_id NOT IN (SELECT schedule_id FROM due)
            AND (SELECT true FROM belfry.schedule AS s
                 WHERE s.id = found.schedule_id AND s.tenant_id = found.tenant_id)) AS changed,
         (SELECT coalesce(json_agg(json_build_array(
            recorded.schedule_id, extract(epoch FROM recorded.scheduled_for) * 1000, recorded.outcome,
            recorded.run_id, due.queue, extract(epoch FROM recorded.due_at) * 1000)), '[]')
          FROM recorded JOIN due ON due.schedule_id = recorded.schedule_id) AS fired
  `,
  byIndex,
)

/**
 * Moves delayed runs that are due to `ready`, each with the tag that was given to it. They are locked one by
 * one, in the order given; one that another node released meanwhile is gone.
 */
export const releaseDelayed = statement<
  { now_ms: number; released: readonly string[]; queues: readonly string[] },
  [runIds: readonly string[], tags: readonly number[]]
>(
  'firing_release',
  `
  WITH due AS MATERIALIZED (
    SELECT locked.run_id, wanted.tag
    FROM unnest($1::uuid[], $2::float8[]) AS wanted (run_id, tag)
    CROSS JOIN LATERAL (
      SELECT delayed.run_id
      FROM belfry.delayed
      WHERE delayed.run_id = wanted.run_id AND delayed.due_at <= belfry.now()
      FOR UPDATE
    ) AS locked
  ),
  released AS (
    DELETE FROM belfry.delayed
    USING due
    WHERE delayed.run_id = due.run_id
    RETURNING delayed.*, due.tag
  ),
  new_ready AS (
    INSERT INTO belfry.ready
      (run_id, tenant_id, job_id, job_version, queue, handler, tag, priority, available_at, timeout_ms,
       lease_epoch, attempt, crash_count, failure_count)
    SELECT run_id, tenant_id, job_id, job_version, queue, handler, tag, priority, belfry.now(), timeout_ms,
           lease_epoch, attempt, crash_count, failure_count
    FROM released
  )
  SELECT (extract(epoch FROM belfry.now()) * 1000)::float8 AS now_ms,
         (SELECT coalesce(json_agg(run_id), '[]') FROM released) AS released,
         (SELECT coalesce(json_agg(DISTINCT queue), '[]') FROM released) AS queues
  `,
  byIndex,
)
