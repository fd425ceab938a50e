/**
 * Zone data on record, and the batches of replans (postgres/replans.ts), as belfry_engine. Releases of zone
 * data compare as text in the collation "C": 2025b < 2026a < 2026z < 2026za. Instants travel as epoch ms in
 * float8.
 *
 * Locks are taken replan, timer, schedule. Nobody who holds one of the latter two ever waits for the first.
 */
import { byIndex, statement } from '../statement.ts'
import { replanColumns, type ReplanRow } from './replans.ts'

export interface ZoneDataRow {
  readonly zone: string
  readonly fingerprint: string | null
  readonly rules_from_ms: number
  readonly data_version: string
  readonly changed_in: string
}

/** One process at a time compares its zone data with what is on record. */
export const lockZoneData = statement<{ now_ms: number }>(
  'replanning_lock_zone_data',
  `
SELECT (extract(epoch FROM belfry.now()) * 1000)::float8 AS now_ms
FROM pg_advisory_xact_lock(hashtextextended('belfry.zone_data', 0)) AS locked`,
)

/** All that is on record. */
export const readZoneData = statement<ZoneDataRow>(
  'replanning_read_zone_data',
  `
SELECT zone, encode(fingerprint, 'hex') AS fingerprint,
       (extract(epoch FROM rules_from) * 1000)::float8 AS rules_from_ms, data_version, changed_in
FROM belfry.zone_data`,
)

/** Puts zones on record. */
export const writeZoneData = statement<
  unknown,
  [
    zones: readonly string[],
    fingerprints: readonly (string | null)[],
    rulesFromMs: readonly number[],
    dataVersions: readonly string[],
    changedIn: readonly string[],
  ]
>(
  'replanning_write_zone_data',
  `
INSERT INTO belfry.zone_data (zone, fingerprint, rules_from, data_version, changed_in)
SELECT zone, decode(fingerprint, 'hex'), to_timestamp(rules_from_ms / 1000), data_version, changed_in
FROM unnest($1::text[], $2::text[], $3::float8[], $4::text[], $5::text[])
       AS given (zone, fingerprint, rules_from_ms, data_version, changed_in)
ON CONFLICT (zone) DO UPDATE
  SET fingerprint = excluded.fingerprint, rules_from = excluded.rules_from,
      data_version = excluded.data_version, changed_in = excluded.changed_in`,
)

/** The newest release that any process came with; null where nothing is on record. */
export const newestZoneData = statement<{ data_version: string | null }>(
  'replanning_newest_zone_data',
  'SELECT max(data_version) AS data_version FROM belfry.zone_data',
)

/** Replans of zones whose rules have changed again before they were done. */
export const supersedeZoneReplans = statement<ReplanRow, [zones: readonly string[]]>(
  'replanning_supersede_zones',
  `
UPDATE belfry.replan SET state = 'superseded', ended_at = belfry.now()
WHERE kind = 'zone' AND state IN ('pending', 'running') AND subject = ANY ($1::text[])
RETURNING ${replanColumns}`,
)

/**
 * The first schedule of each zone, if there is one, whose next time was computed by older rules; none where a
 * replan of the zone is open. One step along schedule_zone a zone.
 */
export const staleZones = statement<{
  zone: string
  changed_in: string
  from_version: string
  now_ms: number
}>(
  'replanning_stale_zones',
  `
SELECT changed.zone, changed.changed_in, stale.from_version,
       (extract(epoch FROM belfry.now()) * 1000)::float8 AS now_ms
FROM belfry.zone_data AS changed
CROSS JOIN LATERAL (
  SELECT s.zone_data_version AS from_version
  FROM belfry.schedule AS s
  WHERE s.state = 'active' AND s.zone <> 'UTC' AND s.deleted_at IS NULL
    AND s.zone = changed.zone AND s.zone_data_version COLLATE "C" < changed.changed_in
  ORDER BY s.zone_data_version COLLATE "C", s.id
  LIMIT 1
) AS stale
WHERE NOT EXISTS (
  SELECT FROM belfry.replan
  WHERE replan.subject = changed.zone AND replan.kind = 'zone' AND replan.state IN ('pending', 'running'))`,
  byIndex,
)

/**
 * Opens the replan of each zone to a release, or opens it again: what an older process computed since then is
 * work of the same kind. Answers those that were not open.
 */
export const openZoneReplans = statement<
  ReplanRow,
  [
    ids: readonly string[],
    zones: readonly string[],
    fromVersions: readonly string[],
    toVersions: readonly string[],
  ]
>(
  'replanning_open_zones',
  `
INSERT INTO belfry.replan (id, kind, subject, from_version, to_version)
SELECT id, 'zone', zone, from_version, to_version
FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[]) AS given (id, zone, from_version, to_version)
ON CONFLICT (subject, to_version) WHERE kind = 'zone' DO UPDATE
  SET state = 'running', ended_at = NULL, left_over = 0, resume_at = belfry.now()
  WHERE replan.state = 'done'
RETURNING ${replanColumns}`,
)

/**
 * Takes an open replan for this transaction, the one that waited longest: not one of a zone whose rules are
 * newer than this process's data, and of a calendar only the newest, or one that a newer one has superseded.
 */
export const takeReplan = statement<
  ReplanRow & { cursor: string | null; left_over: number; superseded: boolean },
  [dataVersion: string]
>(
  'replanning_take',
  `
SELECT ${replanColumns}, cursor, left_over::float8 AS left_over,
       coalesce((SELECT true FROM belfry.replan AS newer
                 WHERE replan.kind = 'calendar' AND newer.kind = 'calendar'
                   AND newer.tenant_id = replan.tenant_id AND newer.subject = replan.subject
                   AND (length(newer.to_version), newer.to_version)
                     > (length(replan.to_version), replan.to_version)
                 LIMIT 1), false) AS superseded
FROM belfry.replan
WHERE state IN ('pending', 'running') AND resume_at <= belfry.now()
  AND (kind = 'calendar' OR to_version <= $1 COLLATE "C")
ORDER BY resume_at, id
LIMIT 1
FOR UPDATE OF replan SKIP LOCKED`,
  byIndex,
)

/** In how many ms the first open replan that this process may work on goes on. */
export const nextReplan = statement<{ wait_ms: number | null }, [dataVersion: string]>(
  'replanning_next',
  `
SELECT (extract(epoch FROM min(resume_at) - belfry.now()) * 1000)::float8 AS wait_ms
FROM belfry.replan
WHERE state IN ('pending', 'running') AND (kind = 'calendar' OR to_version <= $1 COLLATE "C")`,
)

/**
 * About how many schedules there are to look at in a zone: those whose next time older rules computed.
 * Counted along the index, up to a million.
 */
export const countStale = statement<{ count: number }, [zone: string, changedIn: string]>(
  'replanning_count_stale',
  `
SELECT count(*)::float8 AS count
FROM (
  SELECT FROM belfry.schedule
  WHERE state = 'active' AND zone <> 'UTC' AND deleted_at IS NULL
    AND zone = $1 AND zone_data_version COLLATE "C" < $2 COLLATE "C"
  LIMIT 1000000
) AS stale`,
  byIndex,
)

/** The next of them after a key (release, id). */
export const pageOfZone = statement<
  { id: string; zone_data_version: string },
  [zone: string, changedIn: string, afterVersion: string, afterId: string, limit: number]
>(
  'replanning_page_of_zone',
  `
SELECT id, zone_data_version
FROM belfry.schedule
WHERE state = 'active' AND zone <> 'UTC' AND deleted_at IS NULL
  AND zone = $1 AND zone_data_version COLLATE "C" < $2 COLLATE "C"
  AND (zone_data_version COLLATE "C", id) > ($3 COLLATE "C", $4::uuid)
ORDER BY zone_data_version COLLATE "C", id
LIMIT $5`,
  byIndex,
)

/** The next schedules that use a calendar, by id. */
export const pageOfCalendar = statement<
  { id: string },
  [tenantId: string, calendarId: string, afterId: string, limit: number]
>(
  'replanning_page_of_calendar',
  `
SELECT DISTINCT schedule_id AS id
FROM belfry.schedule_calendar
WHERE tenant_id = $1 AND calendar_id = $2 AND schedule_id > $3
ORDER BY schedule_id
LIMIT $4`,
)

/** Which of these have a timer, locked or not. */
export const timersThere = statement<{ id: string }, [ids: readonly string[]]>(
  'replanning_timers_there',
  'SELECT schedule_id AS id FROM belfry.timer WHERE schedule_id = ANY ($1::uuid[])',
  byIndex,
)

export interface LockedTimerRow {
  readonly id: string
  readonly scheduled_ms: number
  readonly due_ms: number
}

const lockTimers = (wait: string) => `
SELECT locked.*
FROM unnest($1::uuid[]) AS wanted (id)
CROSS JOIN LATERAL (
  SELECT schedule_id AS id, (extract(epoch FROM scheduled_for) * 1000)::float8 AS scheduled_ms,
         (extract(epoch FROM due_at) * 1000)::float8 AS due_ms
  FROM belfry.timer
  WHERE schedule_id = wanted.id
  FOR UPDATE ${wait}
) AS locked`

/** Locks timers in the order given, except those that somebody fires or edits at this moment. */
export const lockFreeTimers = statement<LockedTimerRow, [ids: readonly string[]]>(
  'replanning_lock_free_timers',
  lockTimers('SKIP LOCKED'),
  byIndex,
)

/** Locks timers, waiting for whoever holds them. */
export const lockTimersWaiting = statement<LockedTimerRow, [ids: readonly string[]]>(
  'replanning_lock_timers',
  lockTimers(''),
  byIndex,
)

const lockSchedules = (wait: string) => `
SELECT locked.*
FROM unnest($1::uuid[]) AS wanted (id)
CROSS JOIN LATERAL (
  SELECT id, (extract(epoch FROM greatest(timing_since, resumed_at)) * 1000)::float8 AS since_ms
  FROM belfry.schedule
  WHERE id = wanted.id
  FOR NO KEY UPDATE ${wait}
) AS locked`

/** Locks schedules whose timers are locked, except those that somebody changes at this moment. */
export const lockFreeSchedules = statement<{ id: string; since_ms: number }, [ids: readonly string[]]>(
  'replanning_lock_free_schedules',
  lockSchedules('SKIP LOCKED'),
  byIndex,
)

/** Locks schedules, waiting for whoever holds them. */
export const lockSchedulesWaiting = statement<{ id: string; since_ms: number }, [ids: readonly string[]]>(
  'replanning_lock_schedules',
  lockSchedules(''),
  byIndex,
)

/** Locks active schedules that have no timer, except those that somebody changes at this moment. */
export const lockFreeTimerless = statement<{ id: string }, [ids: readonly string[]]>(
  'replanning_lock_free_timerless',
  `
SELECT locked.id
FROM unnest($1::uuid[]) AS wanted (id)
CROSS JOIN LATERAL (
  SELECT id FROM belfry.schedule
  WHERE id = wanted.id AND state = 'active' AND deleted_at IS NULL
  FOR NO KEY UPDATE SKIP LOCKED
) AS locked
WHERE NOT EXISTS (SELECT FROM belfry.timer WHERE timer.schedule_id = locked.id)`,
  byIndex,
)

/** Database time of the transaction. */
export const replanNow = statement<{ now_ms: number }>(
  'replanning_now',
  'SELECT (extract(epoch FROM belfry.now()) * 1000)::float8 AS now_ms',
)

/** Which schedules have a planned time on record from an instant of their own until now. */
export const onRecord = statement<{ id: string }, [ids: readonly string[], fromMs: readonly number[]]>(
  'replanning_on_record',
  `
SELECT asked.id
FROM unnest($1::uuid[], $2::float8[]) AS asked (id, from_ms)
CROSS JOIN LATERAL (
  SELECT FROM belfry.occurrence
  WHERE schedule_id = asked.id
    AND scheduled_for >= to_timestamp(asked.from_ms / 1000) AND scheduled_for <= belfry.now()
  LIMIT 1
) AS found`,
  byIndex,
)

/**
 * Writes what became of schedules whose timers and rows are locked. A new next time is a new generation, so a
 * fire that read the old one is refused; `same` only notes what it was computed with;
 * `touched` counts the version besides, so that what was decided before is decided anew.
 */
export const writeReplanned = statement<
  unknown,
  [
    dataVersion: string,
    ids: readonly string[],
    kinds: readonly ('same' | 'touched' | 'moved' | 'ended')[],
    nextScheduledMs: readonly (number | null)[],
    nextDueMs: readonly (number | null)[],
  ]
>(
  'replanning_write',
  `
WITH given AS MATERIALIZED (
  SELECT * FROM unnest($2::uuid[], $3::text[], $4::float8[], $5::float8[])
                  AS given (id, kind, next_scheduled_ms, next_due_ms)
), moved AS (
  UPDATE belfry.timer
  SET scheduled_for = to_timestamp(given.next_scheduled_ms / 1000),
      due_at = to_timestamp(given.next_due_ms / 1000), gen = timer.gen + 1
  FROM given
  WHERE timer.schedule_id = given.id AND given.kind = 'moved'
), ended AS (
  DELETE FROM belfry.timer
  USING given
  WHERE timer.schedule_id = given.id AND given.kind = 'ended'
)
UPDATE belfry.schedule AS s
SET zone_data_version = $1,
    -- what was planned before, by the rules as they were, cannot be computed any more
    timing_since = CASE given.kind WHEN 'same' THEN s.timing_since ELSE belfry.now() END,
    gen = s.gen + changed.step,
    version = s.version + CASE given.kind WHEN 'same' THEN 0 ELSE 1 END,
    updated_at = CASE changed.step WHEN 1 THEN belfry.now() ELSE s.updated_at END,
    state = CASE given.kind WHEN 'ended' THEN 'completed' ELSE s.state END,
    deleted_at = CASE WHEN given.kind = 'ended' AND s.after_completion = 'delete' THEN belfry.now()
                      ELSE s.deleted_at END
FROM given
CROSS JOIN LATERAL (SELECT CASE WHEN given.kind IN ('same', 'touched') THEN 0 ELSE 1 END AS step) AS changed
WHERE s.id = given.id`,
  byIndex,
)

/** Notes how far a replan came. */
export const advanceReplan = statement<
  ReplanRow,
  [
    id: string,
    cursor: string | null,
    total: number | null,
    looked: number,
    moved: number,
    failed: number,
    error: string | null,
    leftOver: number,
    waitMs: number,
  ]
>(
  'replanning_advance',
  `
UPDATE belfry.replan
SET state = 'running', started_at = coalesce(started_at, belfry.now()),
    cursor = $2, total = coalesce($3, total), done = done + $4, moved = moved + $5, failed = failed + $6,
    error = coalesce(error, $7), left_over = $8,
    resume_at = belfry.now() + $9::float8 * interval '1 millisecond'
WHERE id = $1
RETURNING ${replanColumns}`,
)

/** Puts off a replan of which a batch failed, so that it does not hold up the others. */
export const putOffReplan = statement<unknown, [id: string, waitMs: number]>(
  'replanning_put_off',
  `
UPDATE belfry.replan SET resume_at = belfry.now() + $2::float8 * interval '1 millisecond'
WHERE id = $1 AND state IN ('pending', 'running')`,
)

/** Ends a replan. */
export const endReplan = statement<
  ReplanRow,
  [id: string, state: 'done' | 'superseded', total: number | null]
>(
  'replanning_end',
  `
UPDATE belfry.replan
SET state = $2, started_at = coalesce(started_at, belfry.now()), ended_at = belfry.now(),
    total = greatest(coalesce($3, total), done), cursor = NULL
WHERE id = $1
RETURNING ${replanColumns}`,
)
