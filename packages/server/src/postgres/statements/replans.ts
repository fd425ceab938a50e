/**
 * Replans as the catalog sees them (postgres/catalog/replan-catalog.ts); what works them off is in
 * replanning.ts. Instants travel as epoch ms in float8.
 */
import { byIndex, statement } from '../statement.ts'

export interface ReplanRow {
  readonly id: string
  readonly kind: 'zone' | 'calendar'
  readonly subject: string
  readonly tenant_id: string | null
  readonly state: 'pending' | 'running' | 'done' | 'superseded'
  readonly from_version: string | null
  readonly to_version: string
  readonly total: number | null
  readonly done: number
  readonly moved: number
  readonly failed: number
  readonly error: string | null
  readonly requested_ms: number
  readonly started_ms: number | null
  readonly ended_ms: number | null
}

/** For a SELECT from belfry.replan or a RETURNING. */
export const replanColumns = `
       replan.id, replan.kind, replan.subject, replan.tenant_id, replan.state, replan.from_version,
       replan.to_version, replan.total::float8 AS total, replan.done::float8 AS done,
       replan.moved::float8 AS moved, replan.failed::float8 AS failed, replan.error,
       (extract(epoch FROM replan.requested_at) * 1000)::float8 AS requested_ms,
       (extract(epoch FROM replan.started_at) * 1000)::float8 AS started_ms,
       (extract(epoch FROM replan.ended_at) * 1000)::float8 AS ended_ms`

/** Asks for a replan of a calendar, as its tenant. */
export const insertCalendarReplan = statement<
  unknown,
  [id: string, calendarId: string, fromVersion: string, toVersion: string, total: number]
>(
  'replan_insert_calendar',
  `
INSERT INTO belfry.replan (id, kind, subject, tenant_id, from_version, to_version, total)
VALUES ($1, 'calendar', $2, belfry.tenant_id(), $3, $4, $5)`,
)

/** The last replan of a calendar. */
export const lastCalendarReplan = statement<ReplanRow, [calendarId: string]>(
  'replan_last_of_calendar',
  `
SELECT ${replanColumns} FROM belfry.replan
WHERE tenant_id = belfry.tenant_id() AND kind = 'calendar' AND subject = $1
ORDER BY id DESC LIMIT 1`,
  byIndex,
)

/** Replans of zones, newest first. */
export const listZoneReplans = statement<ReplanRow, [beforeId: string, limit: number]>(
  'replan_list_zones',
  `
SELECT ${replanColumns} FROM belfry.replan
WHERE kind = 'zone' AND tenant_id IS NULL AND id < $1
ORDER BY id DESC LIMIT $2`,
  byIndex,
)
