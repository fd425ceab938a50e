/**
 * Calendars as the API reads and writes them for one tenant, and their definitions for whoever computes
 * planned times. A change locks the calendar first and the schedules that use it afterwards, in the order of
 * their ids; whoever names a calendar in a schedule holds the calendar first.
 */
import { byIndex, statement } from '../statement.ts'

export type CalendarRow = {
  id: string
  name: string
  description: string
  version: number
  definition: unknown
  created_at: Date
  updated_at: Date
}

const columns = `
       c.id, c.name, c.description, c.version, c.definition, c.created_at, c.updated_at`

type Definition = [description: string, definition: string, digest: Buffer]

/** A calendar. */
export const insertCalendar = statement<CalendarRow, [id: string, name: string, ...Definition]>(
  'calendar_insert',
  `
INSERT INTO belfry.calendar AS c (id, tenant_id, name, description, definition, digest)
VALUES ($1, belfry.tenant_id(), $2, $3, $4, $5)
RETURNING ${columns}`,
)

/** The next version of a calendar. */
export const updateCalendar = statement<CalendarRow, [id: string, ...Definition]>(
  'calendar_update',
  `
UPDATE belfry.calendar AS c
SET description = $2, definition = $3, digest = $4, version = version + 1, updated_at = belfry.now(),
    defined_at = CASE WHEN digest = $4 THEN defined_at ELSE belfry.now() END
WHERE tenant_id = belfry.tenant_id() AND id = $1 AND deleted_at IS NULL
RETURNING ${columns}`,
)

const one = `
SELECT ${columns} FROM belfry.calendar c
WHERE c.tenant_id = belfry.tenant_id() AND c.id = $1 AND c.deleted_at IS NULL`

/** A calendar that was not deleted. */
export const findCalendar = statement<CalendarRow, [id: string]>('calendar_find', one)

/** FOR UPDATE, so that it also waits for those who hold the calendar (FOR KEY SHARE). */
export const lockCalendar = statement<CalendarRow, [id: string]>('calendar_lock', `${one} FOR UPDATE`)

type NamedRow = { id: string; name: string; digest: string }

const named = `
SELECT c.id, c.name, encode(c.digest, 'hex') AS digest
FROM belfry.calendar c
WHERE c.tenant_id = belfry.tenant_id() AND c.name = ANY ($1::text[]) AND c.deleted_at IS NULL
ORDER BY c.id`

/** By name, to look. */
export const findCalendarsByName = statement<NamedRow, [names: readonly string[]]>(
  'calendar_find_by_name',
  named,
)

/** The same, held against change and deletion until the end of the transaction. */
export const holdCalendarsByName = statement<NamedRow, [names: readonly string[]]>(
  'calendar_hold_by_name',
  `${named} FOR KEY SHARE`,
)

/** Names to suggest when one is not found. */
export const listCalendarNames = statement<{ name: string }, [limit: number]>(
  'calendar_names',
  `
SELECT name FROM belfry.calendar
WHERE tenant_id = belfry.tenant_id() AND deleted_at IS NULL ORDER BY id DESC LIMIT $1`,
)

const listed = (name: string) => `
SELECT c.id, c.name, c.description, c.version, c.created_at, c.updated_at,
       CASE WHEN c.definition ? 'ics' THEN jsonb_set(c.definition, '{ics}', 'true') ELSE c.definition END
         AS definition
FROM belfry.calendar c
WHERE c.tenant_id = belfry.tenant_id() AND c.id < $1 AND c.deleted_at IS NULL ${name}
ORDER BY c.id DESC LIMIT $2`

/** Newest first, a page at a time, without the text of files. */
export const listCalendars = statement<CalendarRow, [beforeId: string, limit: number]>(
  'calendar_list',
  listed(''),
)

/** The one of a name. */
export const listCalendarsNamed = statement<CalendarRow, [beforeId: string, limit: number, name: string]>(
  'calendar_list_named',
  listed('AND c.name = $3'),
)

/** Deletes in name only. */
export const removeCalendar = statement<unknown, [id: string]>(
  'calendar_remove',
  `
UPDATE belfry.calendar SET deleted_at = belfry.now(), updated_at = belfry.now(), version = version + 1
WHERE tenant_id = belfry.tenant_id() AND id = $1`,
)

/** How many schedules use a calendar, and the names of some. */
export const calendarUsers = statement<{ count: number; names: string[] }, [id: string, names: number]>(
  'calendar_users',
  `
WITH used AS MATERIALIZED (
  SELECT DISTINCT sc.schedule_id FROM belfry.schedule_calendar sc
  WHERE sc.tenant_id = belfry.tenant_id() AND sc.calendar_id = $1
), there AS MATERIALIZED (
  SELECT s.id, s.name FROM used
  CROSS JOIN LATERAL (
    SELECT id, name FROM belfry.schedule
    WHERE tenant_id = belfry.tenant_id() AND id = used.schedule_id AND deleted_at IS NULL OFFSET 0
  ) s
)
SELECT (SELECT count(*)::int FROM there) AS count,
       ARRAY(SELECT name FROM there ORDER BY id LIMIT $2) AS names`,
  byIndex,
)

/** Counts the version of schedules that use a calendar, so that a fire that was decided before is refused. */
export const touchCalendarUsers = statement<unknown, [id: string, limit: number]>(
  'calendar_touch_users',
  `
WITH used AS MATERIALIZED (
  SELECT DISTINCT sc.schedule_id FROM belfry.schedule_calendar sc
  WHERE sc.tenant_id = belfry.tenant_id() AND sc.calendar_id = $1
  ORDER BY sc.schedule_id LIMIT $2
), held AS MATERIALIZED (
  SELECT s.id FROM (SELECT schedule_id FROM used ORDER BY schedule_id) AS used
  CROSS JOIN LATERAL (
    SELECT id FROM belfry.schedule
    WHERE tenant_id = belfry.tenant_id() AND id = used.schedule_id AND deleted_at IS NULL
    FOR NO KEY UPDATE
  ) s
)
UPDATE belfry.schedule SET version = version + 1
WHERE id = ANY (ARRAY(SELECT id FROM held))`,
  byIndex,
)

/** Definitions as they are now; as the app role those of its tenant only. Of a deleted one too. */
export const calendarDefinitions = statement<
  { id: string; digest: string; definition: unknown },
  [ids: readonly string[]]
>(
  'calendar_definitions',
  `
SELECT id, encode(digest, 'hex') AS digest, definition
FROM belfry.calendar WHERE id = ANY ($1::uuid[])`,
)

/** Calendars of a schedule, as a list in the order in which they are asked; `s` is the schedule. */
export const calendarsOf = (s: string): string => `
  (SELECT coalesce(json_agg(json_build_object(
            'id', c.id, 'name', c.name, 'use', sc.use, 'digest', encode(c.digest, 'hex'))
            ORDER BY sc.use, sc.position), '[]')
   FROM belfry.schedule_calendar sc
   JOIN belfry.calendar c ON c.tenant_id = sc.tenant_id AND c.id = sc.calendar_id
   WHERE sc.tenant_id = ${s}.tenant_id AND sc.schedule_id = ${s}.id)`

type ScheduleCalendars = readonly [
  scheduleId: string,
  calendarIds: readonly string[],
  uses: readonly string[],
  positions: readonly number[],
]

const given = 'unnest($2::uuid[], $3::text[], $4::smallint[]) AS given (calendar_id, use, position)'

/** Takes the calendars of a schedule away, except those that are to stay in their places. */
export const dropScheduleCalendars = statement<unknown, ScheduleCalendars>(
  'schedule_calendars_drop',
  `
DELETE FROM belfry.schedule_calendar
WHERE tenant_id = belfry.tenant_id() AND schedule_id = $1
  AND (calendar_id, use, position) NOT IN (
    SELECT given.calendar_id, given.use, given.position FROM ${given})`,
)

/**
 * Calendars of a schedule that are not in their places yet. Only those: the reference of a new row locks its
 * calendar, which whoever names it holds already; the others nobody holds.
 */
export const insertScheduleCalendars = statement<unknown, ScheduleCalendars>(
  'schedule_calendars_insert',
  `
INSERT INTO belfry.schedule_calendar (tenant_id, schedule_id, calendar_id, use, position)
SELECT belfry.tenant_id(), $1, given.calendar_id, given.use, given.position
FROM ${given}
WHERE NOT EXISTS (
  SELECT FROM belfry.schedule_calendar AS there
  WHERE there.tenant_id = belfry.tenant_id() AND there.schedule_id = $1
    AND there.use = given.use AND there.position = given.position)`,
)
