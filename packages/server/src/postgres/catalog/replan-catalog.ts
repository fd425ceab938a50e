/**
 * Replans as requests see them: a tenant asks for those of its calendars, the platform lists those of zones.
 * What does the work is postgres/replans.ts.
 */
import type { ReplanList, ReplanRecord, ReplanRequests } from '../../ports/replans.ts'
import type { Transaction } from '../database.ts'
import type { ReplanRow } from '../statements/replans.ts'
import { newestZoneData } from '../statements/replanning.ts'
import { insertCalendarReplan, lastCalendarReplan, listZoneReplans } from '../statements/replans.ts'
import { lastId } from './values.ts'

export function createReplanRequests(tx: Transaction): ReplanRequests {
  return {
    async requestForCalendar({ id, calendarId, fromVersion, toVersion, total }) {
      const versions = [String(fromVersion), String(toVersion)] as const
      await tx.query(insertCalendarReplan, [id, calendarId, ...versions, total])
    },
    newestZoneData: async () => (await tx.query(newestZoneData, []))[0]?.data_version ?? null,
    async lastOfCalendar(calendarId) {
      return (await tx.query(lastCalendarReplan, [calendarId])).map(replanRecord)[0]
    },
  }
}

export function createReplanList(tx: Transaction): ReplanList {
  return {
    async list({ beforeId, limit }) {
      return (await tx.query(listZoneReplans, [beforeId ?? lastId, limit])).map(replanRecord)
    },
  }
}

export function replanRecord(row: ReplanRow): ReplanRecord {
  const { id, kind, subject, state, total, done, moved, failed, error } = row
  return {
    id,
    kind,
    subject,
    tenantId: row.tenant_id,
    state,
    fromVersion: row.from_version,
    toVersion: row.to_version,
    total,
    done,
    moved,
    failed,
    error,
    requestedAtMs: row.requested_ms,
    startedAtMs: row.started_ms,
    endedAtMs: row.ended_ms,
  }
}
