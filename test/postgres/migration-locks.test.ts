// Migrations run beneath processes that work: while one keeps others from a table that may be large, it must
// not read that table. What may: tables with few rows, which are named here.
import { cpSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { migrate, readMigrations } from '../../packages/server/src/postgres/migrate.ts'
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts'

const folder = new URL('../../packages/server/src/postgres/migrations/', import.meta.url).pathname
/** Up to this one they are released and stay as they are. */
const lastReleased = 34
/** One row for each tenant or key: read in an instant. */
const small = ['api_key', 'tenant']

let database: TestDatabase
let released: string

beforeAll(async () => {
  database = await createTestDatabase({ empty: true })
  released = mkdtempSync(join(tmpdir(), 'belfry-released-'))
  for (const { id, name } of readMigrations(folder))
    if (id <= lastReleased) cpSync(join(folder, `${name}.sql`), join(released, `${name}.sql`))
  await migrate(database.adminConnection, { log: () => undefined, directory: released })
})
afterAll(async () => {
  await database.drop()
  rmSync(released, { recursive: true, force: true })
})

/** Tables that were there before, are locked against writes at the end of its transaction, and were read. */
const readUnderLock = `
SELECT DISTINCT s.relname AS name FROM pg_stat_xact_user_tables AS s
JOIN pg_locks AS l ON l.relation = s.relid AND l.pid = pg_backend_pid()
WHERE s.relid = ANY($1) AND s.seq_scan > 0
  AND l.mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')`

test('no migration reads a large table while it keeps writers from it', async () => {
  const client = new pg.Client(database.adminConnection)
  await client.connect()
  const found: string[] = []
  const look = async (name: string, text: string): Promise<void> => {
    const tables = `SELECT oid FROM pg_class WHERE relnamespace = 'belfry'::regnamespace AND relkind = 'r'`
    const before = (await client.query<{ oid: number }>(tables)).rows.map(({ oid }) => oid)
    await client.query('BEGIN')
    await client.query(text)
    const { rows } = await client.query<{ name: string }>(readUnderLock, [before])
    await client.query('COMMIT')
    found.push(...rows.filter((row) => !small.includes(row.name)).map((row) => `${name}: ${row.name}`))
  }
  try {
    for (const { id, name, text, inTransaction } of readMigrations(folder)) {
      if (id <= lastReleased) continue
      if (inTransaction) await look(name, text)
      else for (const part of text.split(/^-- next$/m)) await client.query(part)
    }
    expect(found).toEqual([])
    await look('a check', 'ALTER TABLE belfry.job ADD CONSTRAINT looked CHECK (priority < 1000)')
    await look('a rewrite', 'ALTER TABLE belfry.schedule ADD COLUMN looked uuid DEFAULT gen_random_uuid()')
    await look('an index', 'CREATE INDEX looked ON belfry.job (priority)')
    expect(found).toEqual(['a check: job', 'a rewrite: schedule', 'an index: job'])
    const unheld = await client.query('SELECT conname FROM pg_constraint WHERE NOT convalidated')
    expect(unheld.rows).toEqual([])
  } finally {
    await client.end()
  }
})
