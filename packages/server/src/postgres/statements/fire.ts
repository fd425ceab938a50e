/**
 * The fire: all of DESIGN 4.4 in one statement, so there is one snapshot and one round trip. Three texts of
 * one making: the plain one for schedules that skip or allow; one for batches in which a schedule has more
 * policies (fire-policies.ts); and one that fires within a request, for one tenant and without a term.
 *
 *   held         the shards of which the caller is still the owner under the term it names; locked until
 *                commit so that no other node can take one over before this fire is done (the holder's own
 *                renewal does not wait for it)
 *   found        the timers of those shards that are as they were read, and due with all planned times that
 *                were decided with them; none where that was decided with a wrong time. Locked, in the order
 *                given. Looked up one by one in LATERAL, which FOR UPDATE keeps the planner from turning into
 *                a walk over all that is due
 *   due          those of them that were decided by the present version of their schedule, with what lives of
 *                it. (Scalar subqueries, not EXISTS: that one may be planned as a hash of the whole table.)
 *   planned      what becomes of each planned time
 *   recorded     one row a planned time, or none if it is there already
 *   started      the new ones that run: a run each, and a row in `ready` (or in `delayed`: it waits)
 *   fate         whether the timer goes on, or goes away because the schedule is completed
 *
 * Locks are taken in one order by all who take several: term, timer (by schedule id), schedule, rows of
 * `ready` (by run id), rows of `delayed` (by run id). An edit comes timer, schedule; the end of runs comes
 * ready, delayed; a release comes delayed; a cancel of a waiting run comes timer, delayed. A schedule row is
 * written here after rows of `ready` and `delayed`, but nobody can hold it who does not hold its timer. Rows
 * that are made new wait for nobody. Should there be a circle all the same (run ids that do not grow along a
 * chain, by a clock that was set back), Postgres breaks it, and the batch is tried again.
 *
 * Instants travel as epoch ms in float8, which keeps microseconds apart.
 */
import type { OccurrenceReason } from '@belfry/contract'
import { byIndex, statement } from '../statement.ts'
import {
  computedBehind,
  dueWithPolicies,
  otherRuns,
  plannedWithPolicies,
  runDeadline,
  startBy,
} from './fire-policies.ts'
import { freeSlots } from './free-slots.ts'

export interface FireRow {
  readonly now_ms: number
  readonly held: readonly number[]
  readonly moved: readonly string[]
  /** Of those that moved: completed although a next time was given, because the limit of runs is reached. */
  readonly ended: readonly string[]
  /** Refused only because the schedule has another version. */
  readonly changed: readonly string[]
  /** [scheduleId, scheduledForMs, outcome, runId, queue, dueAtMs, whether it waits, reason, missedCount] */
  readonly fired: readonly (readonly [
    string,
    number,
    'ran' | 'skipped' | 'missed',
    string | null,
    string | null,
    number,
    boolean,
    OccurrenceReason | null,
    number,
  ])[]
  /**
   * Runs that were ended, or asked to: [runId, tenantId, jobId, queue, attempt, sessionId, startedMs, ended]
   */
  readonly displaced: readonly (readonly [
    string,
    string,
    string,
    string,
    number,
    string | null,
    number | null,
    boolean,
  ])[]
  /** Runs depend on some that were ended. */
  readonly told_dependents?: boolean | null
}

/** Columns of timers, then of occurrences, one array each. Times are epoch ms. */
export type FireColumns = [
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
  details: readonly (string | null)[],
  missedCounts: readonly number[],
  runIds: readonly (string | null)[],
  tags: readonly number[],
]

/**
 * Release of the zone data that the next times were computed with. Where a schedule names a newer one, it is
 * put back to this, so that a replan finds it (replanning.ts). Null: not told.
 */
export type DataVersion = [dataVersion: string | null]

export type HeldTerms = [
  nodeId: string,
  shards: readonly number[],
  terms: readonly number[],
  assumedNowMs: number,
  toleranceMs: number,
]

export const held = `
  held AS MATERIALIZED (
    SELECT term.shard
    FROM belfry.shard_term AS term
    JOIN unnest($18::smallint[], $19::bigint[]) AS named (shard, term)
      ON named.shard = term.shard AND named.term = term.term
    WHERE term.owner_id = $17::uuid AND term.expires_at > belfry.now()
    ORDER BY term.shard
    FOR KEY SHARE OF term
  ),`

export const inTerm = `
        AND timer.due_at = to_timestamp(wanted.due_ms / 1000)
        AND timer.due_at <= belfry.now()
        AND to_timestamp(wanted.last_due_ms / 1000) <= belfry.now()
        AND abs(extract(epoch FROM belfry.now())::float8 * 1000 - $20::float8) <= $21::float8
        AND timer.shard = ANY(ARRAY(SELECT shard FROM held))`

export const found = (guard: string): string => `
  found AS MATERIALIZED (
    SELECT locked.schedule_id, locked.tenant_id, locked.last_run_id, wanted.version,
           to_timestamp(wanted.next_scheduled_ms / 1000) AS next_scheduled_for,
           to_timestamp(wanted.next_due_ms / 1000) AS next_due_at
    FROM unnest($1::uuid[], $2::bigint[], $3::int[], $4::float8[], $5::float8[], $6::float8[], $7::float8[])
           AS wanted (schedule_id, gen, version, due_ms, last_due_ms, next_scheduled_ms, next_due_ms)
    CROSS JOIN LATERAL (
      SELECT timer.schedule_id, timer.tenant_id, timer.last_run_id
      FROM belfry.timer
      WHERE timer.schedule_id = wanted.schedule_id
        AND timer.gen = wanted.gen${guard}
      FOR UPDATE
    ) AS locked
  ),`

const duePlain = `
  due AS MATERIALIZED (
    SELECT found.schedule_id, found.tenant_id, found.next_scheduled_for, found.next_due_at,
           s.job_id, s.input, j.version AS job_version, j.queue, j.handler, j.priority, j.attempt_timeout_ms,
           j.start_within_ms, j.run_deadline_ms, j.limited, ${computedBehind('$22')} AS behind,
           s.overlap = 'skip' AND coalesce(
             (SELECT true FROM belfry.ready WHERE ready.run_id = found.last_run_id),
             (SELECT true FROM belfry.delayed WHERE delayed.run_id = found.last_run_id),
             false) AS blocked
    FROM found
    JOIN belfry.schedule AS s
      ON s.id = found.schedule_id AND s.tenant_id = found.tenant_id AND s.version = found.version
    JOIN belfry.job AS j ON j.id = s.job_id AND j.tenant_id = s.tenant_id
  ),`

/** The planned times as given; `due_at` may be ahead only where a request fires early. */
export const given = `
    unnest($8::uuid[], $9::float8[], $10::float8[], $11::text[], $12::text[], $13::text[], $14::bigint[],
           $15::uuid[], $16::float8[])
      AS o (schedule_id, scheduled_ms, due_ms, outcome, reason, detail, missed_count, run_id, tag)`

const plannedPlain = `
  planned AS MATERIALIZED (
    SELECT due.*,
           to_timestamp(o.scheduled_ms / 1000) AS scheduled_for,
           to_timestamp(o.due_ms / 1000) AS due_at,
           CASE WHEN o.outcome = 'ran' AND due.blocked THEN 'skipped' ELSE o.outcome END AS outcome,
           CASE WHEN o.outcome = 'ran' AND due.blocked THEN 'overlap' ELSE o.reason END AS reason,
           CASE WHEN due.blocked THEN NULL ELSE o.run_id END AS run_id,
           o.detail, o.missed_count, o.tag
    FROM ${given}
    JOIN due ON due.schedule_id = o.schedule_id
  ),`

const written = `
  recorded AS MATERIALIZED (
    INSERT INTO belfry.occurrence
      (schedule_id, scheduled_for, tenant_id, outcome, reason, detail, missed_count, run_id, due_at)
    SELECT schedule_id, scheduled_for, tenant_id, outcome, reason, detail, missed_count, run_id, due_at
    FROM planned
    ON CONFLICT (schedule_id, scheduled_for) DO NOTHING
    RETURNING schedule_id, scheduled_for, outcome, run_id, due_at, reason, missed_count
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
  last_started AS (
    SELECT DISTINCT ON (schedule_id) schedule_id, run_id
    FROM started
    ORDER BY schedule_id, scheduled_for DESC
  ),`

const newReady = (from: string, followed: string): string => `
  new_ready AS (
    INSERT INTO belfry.ready
      (run_id, tenant_id, job_id, job_version, queue, handler, tag, priority, available_at, timeout_ms,
       followed, start_by, run_deadline, gate)
    SELECT run_id, tenant_id, job_id, job_version, queue, handler, tag, priority, belfry.now(),
           attempt_timeout_ms, ${followed}, ${startBy}, ${runDeadline},
           CASE WHEN limited THEN belfry.gate_of(job_id, queue, input) END
    FROM ${from}
  ),`

const fatePlain = `
  fate AS MATERIALIZED (
    SELECT due.schedule_id, due.next_scheduled_for, due.next_due_at, due.behind,
           due.next_due_at IS NULL AS ends, 0 AS counted, last_started.run_id
    FROM due
    LEFT JOIN last_started ON last_started.schedule_id = due.schedule_id
  ),`

export const fateWithPolicies = `
  fate AS MATERIALIZED (
    SELECT due.schedule_id, due.next_scheduled_for, due.next_due_at, due.behind,
           due.next_due_at IS NULL OR coalesce(coalesce(tally.runs, 0) >= due.runs_left, false) AS ends,
           CASE WHEN due.runs_left IS NULL THEN 0 ELSE coalesce(tally.runs, 0) END AS counted,
           last_started.run_id
    FROM due
    LEFT JOIN last_started ON last_started.schedule_id = due.schedule_id
    LEFT JOIN (SELECT schedule_id, count(*)::int AS runs FROM started GROUP BY schedule_id) AS tally
      ON tally.schedule_id = due.schedule_id
  ),`

export const settled = (dataVersion: string): string => `
  moved AS (
    UPDATE belfry.timer
    SET due_at = fate.next_due_at,
        scheduled_for = fate.next_scheduled_for,
        last_run_id = coalesce(fate.run_id, timer.last_run_id)
    FROM fate
    WHERE timer.schedule_id = fate.schedule_id AND NOT fate.ends
  ),
  ended AS (
    DELETE FROM belfry.timer
    USING fate
    WHERE timer.schedule_id = fate.schedule_id AND fate.ends
  ),
  completed AS (
    UPDATE belfry.schedule
    SET run_count = run_count + fate.counted,
        state = CASE WHEN fate.ends THEN 'completed' ELSE state END,
        gen = gen + fate.ends::int,
        version = version + fate.ends::int,
        updated_at = CASE WHEN fate.ends THEN belfry.now() ELSE updated_at END,
        deleted_at = CASE WHEN fate.ends AND after_completion = 'delete' THEN belfry.now()
                          ELSE deleted_at END,
        zone_data_version = CASE WHEN fate.behind THEN ${dataVersion}::text ELSE zone_data_version END
    FROM fate
    WHERE schedule.id = fate.schedule_id AND schedule.state = 'active'
      AND (fate.ends OR fate.counted > 0 OR fate.behind)
  )`

interface Answered {
  readonly heldShards: string
  readonly waits: string
  readonly places: string
  readonly displaced: string
}

export const answer = ({ heldShards, waits, places, displaced }: Answered): string => `
  SELECT (extract(epoch FROM belfry.now()) * 1000)::float8 AS now_ms,
         ${heldShards} AS held,
         (SELECT coalesce(json_agg(schedule_id), '[]') FROM due) AS moved,
         (SELECT coalesce(json_agg(schedule_id), '[]') FROM fate
          WHERE fate.ends AND fate.next_due_at IS NOT NULL) AS ended,
         (SELECT coalesce(json_agg(schedule_id), '[]') FROM found
          WHERE schedule_id NOT IN (SELECT schedule_id FROM due)
            AND (SELECT true FROM belfry.schedule AS s
                 WHERE s.id = found.schedule_id AND s.tenant_id = found.tenant_id)) AS changed,
         (SELECT coalesce(json_agg(json_build_array(
            recorded.schedule_id, extract(epoch FROM recorded.scheduled_for) * 1000, recorded.outcome,
            recorded.run_id, due.queue, extract(epoch FROM recorded.due_at) * 1000, ${waits},
            recorded.reason, recorded.missed_count)), '[]')
          FROM recorded JOIN due ON due.schedule_id = recorded.schedule_id ${places}) AS fired,
         ${displaced}
`

export const heldShards = 'ARRAY(SELECT shard FROM held)'

/** Fires timers of schedules that skip or allow and have no limit of runs. */
export const fireTimers = statement<FireRow, [...FireColumns, ...HeldTerms, ...DataVersion]>(
  'firing_fire',
  `
  WITH ${held}${found(inTerm)}${duePlain}${plannedPlain}${written}${newReady('started', 'false')}${fatePlain}
  ${settled('$22')}
  ${answer({ heldShards, waits: 'false', places: '', displaced: `'[]'::json AS displaced` })}`,
  byIndex,
)

const withPolicies = (dataVersion: string): string =>
  [
    dueWithPolicies(dataVersion),
    plannedWithPolicies(given),
    written,
    otherRuns,
    newReady('placed WHERE after_run_id IS NULL', 'followed'),
    fateWithPolicies,
    settled(dataVersion),
  ].join('')

const withOthers = {
  waits: 'placed.after_run_id IS NOT NULL',
  places: 'LEFT JOIN placed ON placed.run_id = recorded.run_id',
  displaced: `
         (SELECT coalesce(json_agg(json_build_array(
            displaced.run_id, displaced.tenant_id, displaced.job_id, displaced.queue, displaced.attempt,
            displaced.session_id, extract(epoch FROM displaced.claimed_at) * 1000, displaced.ends)), '[]')
          FROM displaced) AS displaced,
         (SELECT belfry.tell_dependents(array_agg(run_id)) FROM displaced
          WHERE ends AND followed) AS told_dependents,
         ${freeSlots('(SELECT * FROM displaced WHERE ends) AS gone')}`,
}

/** Fires timers of schedules with any policies. */
export const fireTimersWithPolicies = statement<FireRow, [...FireColumns, ...HeldTerms, ...DataVersion]>(
  'firing_fire_with_policies',
  `
  WITH ${held}${found(inTerm)}${withPolicies('$22')}
  ${answer({ heldShards, ...withOthers })}`,
  byIndex,
)

/** The transaction holds the timer since before it was read. */
export const inHand = `
        AND timer.tenant_id = belfry.tenant_id()`

/** Fires a timer for its tenant, also before its due instant where a delay puts that off. */
export const settleTimer = statement<FireRow, [...FireColumns, ...DataVersion]>(
  'firing_settle',
  `
  WITH ${found(inHand)}${withPolicies('$17')}
  ${answer({ heldShards: `'{}'::smallint[]`, ...withOthers })}`,
  byIndex,
)
