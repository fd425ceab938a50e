/**
 * How a database is, for `/readyz?verbose` and `belfry doctor`. Every function throws as the Database does
 * and changes nothing.
 */
import type { ReplanRecord } from '../ports/replans.ts'
import { replanRecord } from './catalog/replan-catalog.ts'
import { only } from './catalog/values.ts'
import type { Database } from './database.ts'
import { isForbidden } from './database-error.ts'
import * as statements from './statements/health.ts'
import { findLedger } from './statements/migrate.ts'

const mostReplans = 20

export interface DatabaseFacts {
  /** For people, such as `15.8 (Debian 15.8-1)`. */
  readonly version: string
  readonly major: number
  readonly readOnly: boolean
  readonly nowMs: number
}

export async function readDatabaseFacts(db: Database): Promise<DatabaseFacts> {
  const row = only(await db.asLogin(statements.serverFacts, []))
  const { version, version_num: number, now_ms: nowMs, read_only: readOnly } = row
  return { version, major: Math.floor(number / 10_000), nowMs, readOnly }
}

/**
 * Names this installation among others, in what Belfry keeps beside Postgres. Twelve letters and digits.
 */
export async function readInstallationId(db: Database): Promise<string> {
  try {
    return only(await db.asLogin(statements.installationId, [])).id
  } catch (error) {
    if (!isForbidden(error)) throw error
    return only(await db.asLogin(statements.installationIdByLedger, [])).id
  }
}

/** The last migration that was applied; null on an empty database. */
export async function readSchemaVersion(db: Database): Promise<string | null> {
  const [ledger] = await db.asLogin(findLedger, [])
  if (ledger?.found !== true) return null
  return (await db.asLogin(statements.lastMigration, []))[0]?.name ?? null
}

/** Replans that are under way or wait, at most twenty of them, and how many there are. */
export async function readOpenReplans(
  db: Database,
): Promise<{ readonly count: number; readonly replans: readonly ReplanRecord[] }> {
  const scope = { role: 'belfry_engine', readOnly: true } as const
  const rows = await db.run(scope, statements.openReplans, [mostReplans])
  return { count: rows[0]?.in_all ?? 0, replans: rows.map(replanRecord) }
}
