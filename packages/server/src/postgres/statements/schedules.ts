/**
 * Schedules and their timers, as the API reads and writes them for one tenant. Locks are taken timer first,
 * schedule second, in the order of the firing transaction, so that an edit and a fire never wait for each
 * other in a circle.
 */
import { statement } from '../statement.ts'

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

const select = `
SELECT s.id, s.name, s.description, s.job_id, j.name AS job_name, s.spec, s.zone, s.zone_data_version,
       s.start_at, s.end_at, s.jitter_ms, s.catch_up, s.overlap, s.input IS NOT NULL AS has_input, s.input,
       s.state, s.paused_reason, s.paused_at, s.gen, s.version, s.created_at, s.updated_at,
       t.scheduled_for, t.due_at
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
export const lockSchedule = statement<ScheduleRow, [id: string]>(
  'schedule_lock',
  `${select} AND s.id = $1 FOR UPDATE OF s`,
)

/** Newest first, a page at a time; all, or those of a name, a state or a job. */
export const listSchedules = statement<
  ScheduleRow,
  [beforeId: string, limit: number, name: string | null, state: string | null, jobId: string | null]
>(
  'schedule_list',
  `${select} AND s.id < $1
  AND ($3::text IS NULL OR s.name = $3)
  AND ($4::text IS NULL OR s.state = $4)
  AND ($5::uuid IS NULL OR s.job_id = $5)
ORDER BY s.id DESC LIMIT $2`,
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

/** Planned times within a span and what became of them, latest first. */
export const listOccurrences = statement<
  OccurrenceRow,
  [id: string, before: string, from: string, limit: number, outcome: string | null]
>(
  'occurrence_list',
  `
SELECT schedule_id, scheduled_for, outcome, reason, missed_count, run_id, due_at, fired_at
FROM belfry.occurrence
WHERE tenant_id = belfry.tenant_id() AND schedule_id = $1 AND scheduled_for < $2 AND scheduled_for >= $3
  AND ($5::text IS NULL OR outcome = $5)
ORDER BY scheduled_for DESC LIMIT $4`,
)
