/**
 * Schedules and their timers, as the API reads and writes them for one tenant. Locks are taken timer first,
 * schedule second, in the order of the firing transaction, so that an edit and a fire never wait for each
 * other in a circle. What was locked is read by a later statement: a row that was waited for is seen as it is
 * now, but what is joined to it only as it was when the wait began.
 */
import { byIndex, statement } from '../statement.ts'

export type ScheduleRow = {
  id: string
  name: string
  description: string
  job_id: string
  job_name: string
  spec: unknown
  zone: string
  zone_data_version: string
  start_at: Date | null
  end_at: Date | null
  jitter_ms: number
  catch_up: unknown
  overlap: 'skip' | 'allow'
  has_input: boolean
  input: unknown
  state: 'active' | 'paused' | 'completed'
  paused_reason: string | null
  paused_at: Date | null
  gen: number
  version: number
  created_at: Date
  updated_at: Date
  scheduled_for: Date | null
  due_at: Date | null
}

export type ScheduleSummaryRow = Omit<ScheduleRow, 'has_input' | 'input'>

const summaryColumns = `
       s.id, s.name, s.description, s.job_id, j.name AS job_name, s.spec, s.zone, s.zone_data_version,
       s.start_at, s.end_at, s.jitter_ms, s.catch_up, s.overlap,
       s.state, s.paused_reason, s.paused_at, s.gen, s.version, s.created_at, s.updated_at,
       t.scheduled_for, t.due_at`

const select = `
SELECT ${summaryColumns}, s.input IS NOT NULL AS has_input, s.input
FROM belfry.schedule s
JOIN belfry.job j ON j.id = s.job_id
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
]

/** A schedule and its first planned time. */
export const insertSchedule = statement<
  unknown,
  [id: string, ...Settings, name: string, jobId: string, scheduledFor: string, dueAt: string]
>(
  'schedule_insert',
  `
WITH s AS (
  INSERT INTO belfry.schedule
    (id, tenant_id, description, spec, zone, zone_data_version, start_at, end_at, jitter_ms, catch_up,
     overlap, input, name, job_id)
  VALUES ($1, belfry.tenant_id(), $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
  RETURNING id, tenant_id, gen
)
INSERT INTO belfry.timer (schedule_id, tenant_id, scheduled_for, due_at, gen, shard)
SELECT id, tenant_id, $14, $15, gen, belfry.shard_of(id) FROM s`,
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
  SELECT s.id, s.state, s.job_id FROM belfry.schedule s
  WHERE s.tenant_id = belfry.tenant_id() AND s.deleted_at IS NULL AND s.id < $1 ${looked}
), page AS MATERIALIZED (
  SELECT id FROM looked
  WHERE ($3::text IS NULL OR state = $3) AND ($4::uuid IS NULL OR job_id = $4)
  ORDER BY id DESC LIMIT $2
)
SELECT (SELECT (array_agg(id ORDER BY id))[1] FROM looked HAVING count(*) >= $5::integer) AS looked_to, item.*
FROM (VALUES (1)) AS one LEFT JOIN (
  SELECT ${summaryColumns}
  FROM page
  CROSS JOIN LATERAL (SELECT * FROM belfry.schedule WHERE id = page.id OFFSET 0) s
  CROSS JOIN LATERAL (SELECT name FROM belfry.job WHERE id = s.job_id OFFSET 0) j
  LEFT JOIN LATERAL (SELECT * FROM belfry.timer WHERE schedule_id = page.id OFFSET 0) t ON true
) AS item ON true
ORDER BY item.id DESC`

type ScheduleFilter = readonly [
  beforeId: string,
  limit: number,
  state: string | null,
  jobId: string | null,
  look: number,
]

/** Newest first, a page at a time; all, or those of a state or a job among the next `look`. */
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

/** Writes the settings and the state; `genStep` is 1 where the timer changes, else 0. */
export const updateSchedule = statement<
  unknown,
  [id: string, ...Settings, state: string, pausedReason: string | null, genStep: number]
>(
  'schedule_update',
  `
UPDATE belfry.schedule
SET description = $2, spec = $3, zone = $4, zone_data_version = $5, start_at = $6, end_at = $7,
    jitter_ms = $8, catch_up = $9, overlap = $10, input = $11, state = $12::text, paused_reason = $13,
    paused_at = CASE WHEN $12::text = 'paused' THEN coalesce(paused_at, belfry.now()) END,
    gen = gen + $14, version = version + 1, updated_at = belfry.now()
WHERE tenant_id = belfry.tenant_id() AND id = $1`,
)

/** Moves the timer, or makes it; a new one learns from history which run the overlap rule has to look at. */
export const setTimer = statement<unknown, [id: string, scheduledFor: string, dueAt: string]>(
  'schedule_set_timer',
  `
INSERT INTO belfry.timer (schedule_id, tenant_id, scheduled_for, due_at, gen, shard, last_run_id)
SELECT s.id, s.tenant_id, $2, $3, s.gen, belfry.shard_of(s.id),
       (SELECT o.run_id FROM belfry.occurrence o
        WHERE o.schedule_id = s.id AND o.outcome = 'ran' ORDER BY o.scheduled_for DESC LIMIT 1)
FROM belfry.schedule s WHERE s.tenant_id = belfry.tenant_id() AND s.id = $1
ON CONFLICT (schedule_id) DO UPDATE
  SET scheduled_for = excluded.scheduled_for, due_at = excluded.due_at, gen = excluded.gen`,
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
  scheduled_for: Date
  outcome: 'ran' | 'skipped' | 'missed'
  reason: string | null
  missed_count: number
  run_id: string | null
  due_at: Date
  fired_at: Date
}

/** Planned times within a span and what became of them, latest first; an outcome among the next `look`. */
export const listOccurrences = statement<
  ListedOccurrenceRow,
  [id: string, before: string, from: string, limit: number, outcome: string | null, look: number]
>(
  'occurrence_list',
  `
WITH looked AS MATERIALIZED (
  SELECT schedule_id, scheduled_for, outcome, reason, missed_count, run_id, due_at, fired_at
  FROM belfry.occurrence
  WHERE tenant_id = belfry.tenant_id() AND schedule_id = $1 AND scheduled_for < $2 AND scheduled_for >= $3
  ORDER BY scheduled_for DESC LIMIT $6
)
SELECT (SELECT min(scheduled_for) FROM looked HAVING count(*) >= $6) AS looked_to, item.*
FROM (VALUES (1)) AS one LEFT JOIN (
  SELECT * FROM looked WHERE $5::text IS NULL OR outcome = $5 ORDER BY scheduled_for DESC LIMIT $4
) AS item ON true
ORDER BY item.scheduled_for DESC`,
  byIndex,
)
