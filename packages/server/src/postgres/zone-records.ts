/**
 * Zone data on record, on Postgres, and the replans that follow from it. One process at a time compares its
 * data with what is there.
 */
import type { ZoneDataRecord } from '../domain/zone/zone-data.ts'
import type { ReplanStore } from '../ports/replans.ts'
import { replanRecord } from './catalog/replan-catalog.ts'
import { only } from './catalog/values.ts'
import type { Database } from './database.ts'
import * as statements from './statements/replanning.ts'

const engine = { role: 'belfry_engine' } as const

export function createZoneRecords(db: Database): Pick<ReplanStore, 'recordZoneData' | 'requestForZones'> {
  return {
    recordZoneData: (judge) =>
      db.transaction(engine, async (tx) => {
        const { now_ms: nowMs } = only(await tx.query(statements.lockZoneData, []))
        const verdict = judge((await tx.query(statements.readZoneData, [])).map(zoneRecord), nowMs)
        if ('records' in verdict) {
          const { records } = verdict
          await tx.query(statements.writeZoneData, [
            records.map(({ zone }) => zone),
            records.map(({ fingerprint }) => fingerprint),
            records.map(({ rulesFromMs }) => rulesFromMs),
            records.map(({ dataVersion }) => dataVersion),
            records.map(({ changedIn }) => changedIn),
          ])
        }
        const superseded =
          verdict.kind === 'newer' ? await tx.query(statements.supersedeZoneReplans, [verdict.changed]) : []
        return { verdict, superseded: superseded.map(replanRecord) }
      }),
    async requestForZones(makeId) {
      const stale = await db.run({ ...engine, readOnly: true }, statements.staleZones, [])
      if (stale.length === 0) return []
      const opened = await db.run(engine, statements.openZoneReplans, [
        stale.map((row) => makeId(row.now_ms)),
        stale.map((row) => row.zone),
        stale.map((row) => row.from_version),
        stale.map((row) => row.changed_in),
      ])
      return opened.map(replanRecord)
    },
  }
}

/** The newest release of the zone data that any process came with; null where none did. */
export async function readNewestZoneData(db: Database): Promise<string | null> {
  const [row] = await db.run({ ...engine, readOnly: true }, statements.newestZoneData, [])
  return row?.data_version ?? null
}

function zoneRecord(row: statements.ZoneDataRow): ZoneDataRecord {
  return {
    zone: row.zone,
    fingerprint: row.fingerprint,
    rulesFromMs: row.rules_from_ms,
    dataVersion: row.data_version,
    changedIn: row.changed_in,
  }
}
