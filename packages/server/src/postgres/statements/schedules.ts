/**
 * Schedules and their timers, as the API reads and writes them for one tenant. Locks are taken timer first,
 * schedule second, in the order of the firing transaction, so that an edit and a fire never wait for each
 * other in a circle. What was locked is read by a later statement: a row that was waited for is seen as it is
 * now, but what is joined to it only as it was when the wait began.
 */
import type { AfterCompletion, OverlapPolicy } from '@belfry/contract'
import { byIndex, statement } from '../statement.ts'
import { calendarsOf } from './calendars.ts'

export type ScheduleRow = {
  id: string
  name: string
  description: string
  /** Either these or those of a workflow are null. */
  job_id: string | null
  job_name: string | null
  workflow_id: string | null
  workflow_name: string | null
  spec: unknown
  zone: string
  zone_data_version: string
  start_at: Date | null
  end_at: Date | null
  on_excluded: 'skip' | 'next_business_day' | 'previous_business_day'
  /** `CalendarRef`s in the order in which they are asked. */
  calendars: unknown
  jitter_ms: number
  flexible_window_ms: number
  catch_up: unknown
  overlap: OverlapPolicy
  run_limit: number | null
  run_count: number
  pause_after_failures: number | null
  after_completion: AfterCompletion
  has_input: boolean
  input: unknown
  state: 'active' | 'paused' | 'completed'
  paused_reason: string | null
  paused_at: Date | null
  paused_from: Date | null
  resumed_at: Date | null
  sleep_until: Date | null
  sleep_reason: string | null
  gen: number
  version: number
  created_at: Date
  updated_at: Date
  scheduled_for: Date | null
  due_at: Date | null
}

export type ScheduleSummaryRow = Omit<ScheduleRow, 'has_input' | 'input'>

const summaryColumns = `
       s.id, s.name, s.description, s.job_id, j.name AS job_name, s.spec,
       s.workflow_id, w.name AS workflow_name, s.zone, s.zone_data_version,
       s.start_at, s.end_at, s.jitter_ms, s.flexible_window_ms, s.catch_up, s.overlap, s.run_limit,
       s.run_count, s.pause_after_failures, s.after_completion, s.state, s.paused_reason, s.paused_at,
       s.paused_from, s.resumed_at, s.sleep_until, s.sleep_reason, s.gen, s.version, s.created_at,
       s.updated_at, s.on_excluded, ${calendarsOf('s')} AS calendars,
       t.scheduled_for, t.due_at`

const select = `
SELECT ${summaryColumns}, s.input IS NOT NULL AS has_input, s.input
FROM belfry.schedule s
LEFT JOIN belfry.job j ON j.id = s.job_id
LEFT JOIN belfry.workflow w ON w.id = s.workflow_id
LEFT JOIN belfry.timer t ON t.schedule_id = s.id
WHERE s.tenant_id = belfry.tenant_id() AND s.deleted_at IS NULL`

type Settings = [
  description: string,
  spec: string,
  zone: string,
  zoneDataVersion: string,
  startAt: string | null,
  endAt: string | null,
  jitterMs: number,
  catchUp: string,
  overlap: string,
  input: string | null,
  flexibleWindowMs: number,
  runLimit: number | null,
  pauseAfterFailures: number | null,
  afterCompletion: string,
  onExcluded: string,
]

/** A schedule and its first planned time. */
export const insertSchedule = statement<
  unknown,
  [
    id: string,
    ...Settings,
    name: string,
    jobId: string | null,
    scheduledFor: string,
    dueAt: string,
    workflowId: string | null,
  ]
>(
  'schedule_insert',
  `
WITH s AS (
  INSERT INTO belfry.schedule
    (id, tenant_id, description, spec, zone, zone_data_version, start_at, end_at, jitter_ms, catch_up,
     overlap, input, flexible_window_ms, run_limit, pause_after_failures, after_completion, on_excluded, name,
     job_id, workflow_id)
  VALUES ($1, belfry.tenant_id(), $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18,
          $21)
  RETURNING id, tenant_id, gen
)
INSERT INTO belfry.timer (schedule_id, tenant_id, scheduled_for, due_at, gen, shard)
SELECT id, tenant_id, $19, $20, gen, belfry.shard_of(id) FROM s`,
)

/** A schedule that was not deleted, with its next planned time. */
export const findSchedule = statement<ScheduleRow, [id: string]>('schedule_find', `${select} AND s.id = $1`)

/** Holds the timer against a fire until the end of the transaction. */
export const lockTimer = statement<unknown, [id: string]>(
  'schedule_lock_timer',
  'SELECT 1 FROM belfry.timer WHERE tenant_id = belfry.tenant_id() AND schedule_id = $1 FOR UPDATE',
)

/** The schedule, held against other edits. The timer is locked before it. */
export const lockSchedule = statement<unknown, [id: string]>(
  'schedule_lock',
  `
SELECT 1 FROM belfry.schedule
WHERE tenant_id = belfry.tenant_id() AND id = $1 AND deleted_at IS NULL FOR UPDATE`,
)

/** Holds a timer that was made while the schedule was waited for; never waits, as it is out of order. */
export const lockNewTimer = statement<unknown, [id: string]>(
  'schedule_lock_new_timer',
  `
SELECT 1 FROM belfry.timer
WHERE tenant_id = belfry.tenant_id() AND schedule_id = $1 FOR UPDATE SKIP LOCKED`,
)

/** `looked_to` is the same in every row; a page without a schedule is one row without an id. */
export type ListedScheduleRow = { looked_to: string | null } & (ScheduleSummaryRow | { id: null })

const listed = (looked: string) => `
WITH looked AS MATERIALIZED (
  SELECT s.id, s.state, s.job_id, s.workflow_id FROM belfry.schedule s
  WHERE s.tenant_id = belfry.tenant_id() AND s.deleted_at IS NULL AND s.id < $1 ${looked}
), page AS MATERIALIZED (
  SELECT id FROM looked
  WHERE ($3::text IS NULL OR state = $3) AND ($4::uuid IS NULL OR job_id = $4 OR workflow_id = $4)
  ORDER BY id DESC LIMIT $2
)
SELECT (SELECT (array_agg(id ORDER BY id))[1] FROM looked HAVING count(*) >= $5::integer) AS looked_to, item.*
FROM (VALUES (1)) AS one LEFT JOIN (
  SELECT ${summaryColumns}
  FROM page
  CROSS JOIN LATERAL (SELECT * FROM belfry.schedule WHERE id = page.id OFFSET 0) s
  LEFT JOIN LATERAL (SELECT name FROM belfry.job WHERE id = s.job_id OFFSET 0) j ON true
  LEFT JOIN LATERAL (SELECT name FROM belfry.workflow WHERE id = s.workflow_id OFFSET 0) w ON true
  LEFT JOIN LATERAL (SELECT * FROM belfry.timer WHERE schedule_id = page.id OFFSET 0) t ON true
) AS item ON true
ORDER BY item.id DESC`

type ScheduleFilter = readonly [
  beforeId: string,
  limit: number,
  state: string | null,
  targetId: string | null,
  look: number,
]

/** Newest first, a page at a time; all, or those of a state, a job or a workflow among the next `look`. */
export const listSchedules = statement<ListedScheduleRow, ScheduleFilter>(
  'schedule_list',
  listed('ORDER BY s.id DESC LIMIT $5'),
  byIndex,
)

/** The one of a name. */
export const listSchedulesNamed = statement<ListedScheduleRow, readonly [...ScheduleFilter, name: string]>(
  'schedule_list_named',
  listed('AND s.name = $6'),
  byIndex,
)

type Standing = [
  state: string,
  pausedReason: string | null,
  pausedFrom: string | null,
  sleepUntil: string | null,
  sleepReason: string | null,
  runCount: number,
  forgivesFailures: boolean,
  replacesCalendars: boolean,
]

/**
 * Writes the settings and how it stands, in a new generation: a fire that was decided before and waits for
 * the timer is refused, whatever the change was.
 */
export const updateSchedule = statement<unknown, [id: string, ...Settings, ...Standing]>(
  'schedule_update',
  `
UPDATE belfry.schedule
SET description = $2, spec = $3, zone = $4, zone_data_version = $5, start_at = $6, end_at = $7,
    jitter_ms = $8, catch_up = $9, overlap = $10, input = $11, flexible_window_ms = $12, run_limit = $13,
    pause_after_failures = $14, after_completion = $15, on_excluded = $16::text, state = $17::text,
    paused_reason = $18, paused_from = $19, sleep_until = $20, sleep_reason = $21, run_count = $22,
    paused_at = CASE WHEN $17::text = 'paused' THEN coalesce(paused_at, belfry.now()) END,
    resumed_at = CASE WHEN state = 'paused' AND $17::text <> 'paused' THEN belfry.now() ELSE resumed_at END,
    failures_since = CASE WHEN $23 THEN belfry.now() ELSE failures_since END,
    timing_since = CASE WHEN $24 OR (spec, zone, start_at, end_at, on_excluded) IS DISTINCT FROM
                                    ($3::jsonb, $4::text, $6::timestamptz, $7::timestamptz, $16::text)
                        THEN belfry.now() ELSE timing_since END,
    gen = gen + 1, version = version + 1, updated_at = belfry.now()
WHERE tenant_id = belfry.tenant_id() AND id = $1`,
)

/** Planned times that were passed over; what is on record stays as it is. */
export const recordSkipped = statement<
  unknown,
  [
    id: string,
    scheduledFor: readonly string[],
    reasons: readonly string[],
    details: readonly (string | null)[],
    missedCounts: readonly number[],
  ]
>(
  'occurrence_record_skipped',
  `
INSERT INTO belfry.occurrence
  (schedule_id, scheduled_for, tenant_id, outcome, reason, detail, missed_count, due_at)
SELECT $1, o.scheduled_for, belfry.tenant_id(), 'skipped', o.reason, o.detail, o.missed_count, o.scheduled_for
FROM unnest($2::timestamptz[], $3::text[], $4::text[], $5::bigint[])
  AS o (scheduled_for, reason, detail, missed_count)
ON CONFLICT (schedule_id, scheduled_for) DO NOTHING`,
)

/** Times on record after an instant and up to another: how many, and the first of them, in order. */
export const recordedTimes = statement<
  { count: number; times_ms: number[] },
  [id: string, after: string, until: string, limit: number]
>(
  'occurrence_recorded_times',
  `
SELECT (SELECT count(*)::float8 FROM belfry.occurrence
        WHERE tenant_id = belfry.tenant_id() AND schedule_id = $1 AND scheduled_for > $2
          AND scheduled_for <= $3) AS count,
       ARRAY(SELECT (extract(epoch FROM scheduled_for) * 1000)::float8 FROM belfry.occurrence
             WHERE tenant_id = belfry.tenant_id() AND schedule_id = $1 AND scheduled_for > $2
               AND scheduled_for <= $3
             ORDER BY scheduled_for LIMIT $4) AS times_ms`,
  byIndex,
)

/** Whether a schedule of this name, deleted at or after a planned time, ran then. */
export const ranUnderDeleted = statement<unknown, [name: string, scheduledFor: string]>(
  'schedule_ran_under_deleted',
  `
SELECT 1 FROM belfry.schedule s
CROSS JOIN LATERAL (
  SELECT 1 FROM belfry.occurrence
  WHERE schedule_id = s.id AND scheduled_for = $2 AND outcome = 'ran' OFFSET 0
) AS ran
WHERE s.tenant_id = belfry.tenant_id() AND s.name = $1 AND s.deleted_at IS NOT NULL AND s.deleted_at >= $2
LIMIT 1`,
  byIndex,
)

/**
 * Moves the timer, or makes it. A new one learns which run the overlap rule has to look at: the last that
 * waits for another, else the newest one alive among those that history tells of; as many may have been
 * canceled while they waited. Not one of a backfill, which has put it on record: that minds no overlap.
 */
export const setTimer = statement<unknown, [id: string, scheduledFor: string, dueAt: string]>(
  'schedule_set_timer',
  `
INSERT INTO belfry.timer (schedule_id, tenant_id, scheduled_for, due_at, gen, shard, last_run_id)
SELECT s.id, s.tenant_id, $2, $3, s.gen, belfry.shard_of(s.id),
       coalesce(
         (SELECT d.run_id
          FROM (SELECT run_id, after_run_id FROM belfry.delayed WHERE schedule_id = s.id OFFSET 0) d
          WHERE d.after_run_id IS NOT NULL ORDER BY d.run_id DESC LIMIT 1),
         (SELECT o.run_id
          FROM (
            SELECT o.run_id, o.scheduled_for FROM belfry.occurrence o
            WHERE o.schedule_id = s.id AND o.outcome = 'ran' ORDER BY o.scheduled_for DESC LIMIT 1001
          ) o
          WHERE CASE
            WHEN (SELECT true FROM belfry.ready r WHERE r.run_id = o.run_id)
              OR (SELECT true FROM belfry.delayed d WHERE d.run_id = o.run_id)
              THEN coalesce((SELECT run.source <> 'backfill' FROM belfry.run WHERE run.id = o.run_id), true)
          END
          ORDER BY o.scheduled_for DESC LIMIT 1))
FROM belfry.schedule s WHERE s.tenant_id = belfry.tenant_id() AND s.id = $1
ON CONFLICT (schedule_id) DO UPDATE
  SET scheduled_for = excluded.scheduled_for, due_at = excluded.due_at, gen = excluded.gen`,
)

/** The timer stays where it is, in the generation that the schedule has now. */
export const renewTimer = statement<unknown, [id: string]>(
  'schedule_renew_timer',
  `
UPDATE belfry.timer SET gen = s.gen
FROM belfry.schedule s
WHERE s.tenant_id = belfry.tenant_id() AND s.id = $1 AND timer.schedule_id = s.id`,
)

/** Takes the timer away: of a schedule that is paused, completed or deleted. */
export const dropTimer = statement<unknown, [id: string]>(
  'schedule_drop_timer',
  'DELETE FROM belfry.timer WHERE tenant_id = belfry.tenant_id() AND schedule_id = $1',
)

/** Deletes in name only: its occurrences stay, and a fire that read it before is refused by `gen`. */
export const removeSchedule = statement<unknown, [id: string]>(
  'schedule_remove',
  `
UPDATE belfry.schedule
SET deleted_at = belfry.now(), updated_at = belfry.now(), gen = gen + 1, version = version + 1
WHERE tenant_id = belfry.tenant_id() AND id = $1`,
)

/** Also one that was deleted. */
export const scheduleEverExisted = statement<unknown, [id: string]>(
  'schedule_ever_existed',
  'SELECT 1 FROM belfry.schedule WHERE tenant_id = belfry.tenant_id() AND id = $1',
)

/** `looked_to` is the same in every row; a page without an occurrence is one row without its key. */
export type ListedOccurrenceRow = { looked_to: Date | null } & (OccurrenceRow | { schedule_id: null })

export type OccurrenceRow = {
  schedule_id: string
  of_workflow: boolean
  scheduled_for: Date
  outcome: 'ran' | 'skipped' | 'missed'
  reason: string | null
  detail: string | null
  missed_count: number
  run_id: string | null
  due_at: Date
  fired_at: Date
  /** Newest first: runs for this time that the schedule did not start, at most ten. */
  later_run_ids: string[]
}

/** Planned times within a span and what became of them, latest first; a filter among the next `look`. */
export const listOccurrences = statement<
  ListedOccurrenceRow,
  [
    id: string,
    before: string,
    from: string,
    limit: number,
    outcome: string | null,
    look: number,
    reason: string | null,
  ]
>(
  'occurrence_list',
  `
WITH looked AS MATERIALIZED (
  SELECT schedule_id, scheduled_for, outcome, reason, detail, missed_count, run_id, due_at, fired_at
  FROM belfry.occurrence
  WHERE tenant_id = belfry.tenant_id() AND schedule_id = $1 AND scheduled_for < $2 AND scheduled_for >= $3
  ORDER BY scheduled_for DESC LIMIT $6
)
SELECT (SELECT min(scheduled_for) FROM looked HAVING count(*) >= $6) AS looked_to, item.*,
       coalesce((SELECT workflow_id IS NOT NULL FROM belfry.schedule WHERE id = $1), false) AS of_workflow
FROM (VALUES (1)) AS one LEFT JOIN (
  SELECT page.*, ARRAY(
    SELECT later.run_id FROM belfry.extra_run AS later
    WHERE later.schedule_id = page.schedule_id AND later.scheduled_for = page.scheduled_for
      AND later.run_id IS DISTINCT FROM page.run_id
    ORDER BY later.run_id DESC LIMIT 10) AS later_run_ids
  FROM (
    SELECT * FROM looked
    WHERE ($5::text IS NULL OR outcome = $5) AND ($7::text IS NULL OR reason = $7)
    ORDER BY scheduled_for DESC LIMIT $4
  ) AS page
) AS item ON true
ORDER BY item.scheduled_for DESC`,
  byIndex,
)
