// The migration runner: concurrent migrators, drift, older and newer schemas, files outside a transaction;
// on the embedded Postgres 18 and on the system's own version.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { openDatabase } from '../../packages/server/src/postgres/database.ts'
import {
  checkSchema,
  migrate,
  readMigrations,
  schemaMismatch,
} from '../../packages/server/src/postgres/migrate.ts'
import { describeNeeding } from '../support/needs.ts'
import type { SystemPostgres, TestDatabase } from '../support/postgres.ts'
import { createTestDatabase, startSystemPostgres } from '../support/postgres.ts'
import { realClock, realRandom } from '../support/real-clock.ts'

const quiet = () => undefined

describe('migrate', () => {
  let database: TestDatabase
  let directory: string

  const write = (name: string, text: string) => writeFileSync(join(directory, name), text)
  const run = (more: { lockTimeoutMs?: number } = {}) =>
    migrate(database.adminConnection, { log: quiet, directory, ...more })
  const ledger = async () => {
    const rows = await database.sql<{ name: string }>('SELECT name FROM belfry.migration ORDER BY id')
    return rows.map((row) => row.name)
  }

  beforeEach(async () => {
    database = await createTestDatabase({ empty: true })
    directory = mkdtempSync(join(tmpdir(), 'belfry-migrations-'))
    write('0001_first.sql', 'CREATE TABLE belfry.one (n int); INSERT INTO belfry.one VALUES (1);')
    write('0002_second.sql', 'INSERT INTO belfry.one VALUES (2);')
  })
  afterEach(async () => {
    await database.drop()
    rmSync(directory, { recursive: true, force: true })
  })

  it('applies what is missing, once', async () => {
    expect(await run()).toEqual(['0001_first', '0002_second'])
    expect(await run()).toEqual([])
    write('0003_third.sql', 'INSERT INTO belfry.one VALUES (3);')
    expect(await run()).toEqual(['0003_third'])
    expect(await database.sql('SELECT n FROM belfry.one ORDER BY n')).toEqual([{ n: 1 }, { n: 2 }, { n: 3 }])
  })

  it('applies each file once when five migrators start together', async () => {
    const applied = await Promise.all([run(), run(), run(), run(), run()])
    expect(applied.flat()).toEqual(['0001_first', '0002_second'])
    expect(await database.sql('SELECT n FROM belfry.one ORDER BY n')).toEqual([{ n: 1 }, { n: 2 }])
  })

  it('gives up waiting for another migrator after its limit', async () => {
    const { tryMigratorLock } = await import('../../packages/server/src/postgres/statements/migrate.ts')
    const other = new pg.Client(database.adminConnection)
    await other.connect()
    await other.query('BEGIN')
    expect((await other.query(tryMigratorLock)).rows).toEqual([{ locked: true }])
    await expect(run({ lockTimeoutMs: 100 })).rejects.toMatchObject({ code: 'database_timeout' })
    await other.query('ROLLBACK')
    await other.end()
    expect(await run()).toHaveLength(2)
  })

  it('gives way while a long query reads a table that it changes, and goes on after it', async () => {
    write('0003_third.sql', 'CREATE TABLE belfry.two (n int);')
    await run()
    write('0004_fourth.sql', 'ALTER TABLE belfry.two ADD m int; ALTER TABLE belfry.one ADD m int;')
    const [report, other] = [new pg.Client(database.adminConnection), new pg.Client(database.adminConnection)]
    await Promise.all([report.connect(), other.connect()])
    await report.query('BEGIN')
    await report.query('SELECT FROM belfry.one')
    const told = Promise.withResolvers<void>()
    const log = (_: string, words: string): void => {
      if (words.includes('in use by a long query')) told.resolve()
    }
    const migrated = migrate(database.adminConnection, { log, directory })
    await told.promise
    // it has let go of the table that it had already changed
    await other.query("SET lock_timeout = '1900ms'")
    await other.query('SELECT FROM belfry.two')
    await report.query('COMMIT')
    expect(await migrated).toEqual(['0004_fourth'])
    await Promise.all([report.end(), other.end()])
  })

  it('leaves nothing of a file that fails, and can go on after it is mended', async () => {
    write('0003_third.sql', 'INSERT INTO belfry.one VALUES (3); SELECT 1/0;')
    await expect(run()).rejects.toThrow(/0003_third failed \(nothing of it was applied\): division by zero/)
    expect(await ledger()).toEqual(['0001_first', '0002_second'])
    expect(await database.sql('SELECT n FROM belfry.one ORDER BY n')).toEqual([{ n: 1 }, { n: 2 }])
    write('0003_third.sql', 'INSERT INTO belfry.one VALUES (3);')
    expect(await run()).toEqual(['0003_third'])
  })

  it('runs a file outside a transaction when its header says so', async () => {
    const index = 'CREATE INDEX CONCURRENTLY IF NOT EXISTS one_n ON belfry.one (n)'
    write('0003_index.sql', `-- transaction: none\n\n${index}\n-- next\nVACUUM belfry.one\n`)
    expect(await run()).toContain('0003_index')
    expect(
      await database.sql(
        "SELECT indexname FROM pg_indexes WHERE schemaname = 'belfry' AND tablename = 'one'",
      ),
    ).toEqual([{ indexname: 'one_n' }])
  })

  it('refuses when an applied file was changed, and names it', async () => {
    await run()
    write('0001_first.sql', 'CREATE TABLE belfry.one (n bigint);')
    write('0003_third.sql', 'INSERT INTO belfry.one VALUES (3);')
    await expect(run()).rejects.toMatchObject({ code: 'schema_mismatch' })
    await expect(run()).rejects.toThrow(/0001_first was applied .* from another text/)
    expect(await ledger()).toEqual(['0001_first', '0002_second'])
    expect(await checkSchema(database.open(), directory)).toEqual({ changed: '0001_first' })
  })

  it('does not take another line ending for a change', async () => {
    write('0002_second.sql', 'INSERT INTO belfry.one\nVALUES (2);\n')
    await run()
    write('0002_second.sql', 'INSERT INTO belfry.one\r\nVALUES (2);\r\n')
    expect(await checkSchema(database.open(), directory)).toBe('current')
  })

  it('tells behind, current and ahead apart, as the runtime login', async () => {
    const db = database.open()
    expect(await checkSchema(db, directory)).toEqual({ behind: ['0001_first', '0002_second'] })
    await run()
    expect(await checkSchema(db, directory)).toBe('current')
    rmSync(join(directory, '0002_second.sql'))
    expect(await checkSchema(db, directory)).toEqual({ ahead: ['0002_second'] })
    await expect(run()).rejects.toThrow(/newer than this Belfry \(it has 0002_second\)/)
  })

  it('says what to do about each mismatch', () => {
    expect(schemaMismatch('current')).toBeUndefined()
    expect(schemaMismatch({ behind: ['0002_x'] })?.message).toMatch(
      /lacks 0002_x\)\. Run: belfry server migrate/,
    )
    expect(schemaMismatch({ ahead: ['0009_x'] })?.message).toMatch(/Upgrade Belfry/)
    expect(schemaMismatch({ changed: '0001_x' })?.code).toBe('schema_mismatch')
  })

  it('refuses files with a gap or a foreign name', () => {
    const bad = join(directory, 'bad')
    mkdirSync(bad)
    writeFileSync(join(bad, '0002_late.sql'), 'SELECT 1')
    expect(() => readMigrations(bad)).toThrow(/0002_late.sql .* is not migration number 1/)
  })
})

describeNeeding('system-postgres', 'migrations on the Postgres of the system', (binDir) => {
  let server: SystemPostgres

  beforeAll(async () => {
    server = await startSystemPostgres(binDir)
  })
  afterAll(async () => {
    await server?.stop()
  })

  it('apply completely, twice at the same time, and let a runtime login in', async () => {
    const admin = new pg.Client(server.adminConnection)
    await admin.connect()
    await admin.query('CREATE ROLE belfry LOGIN NOINHERIT')
    await admin.end()
    const options = { log: quiet, runtimeLogin: 'belfry' }
    const applied = await Promise.all([
      migrate(server.adminConnection, options),
      migrate(server.adminConnection, options),
    ])
    expect(applied.flat().length).toBeGreaterThan(0)
    expect(new Set(applied.flat()).size).toBe(applied.flat().length)
    const db = openDatabase({
      connection: { ...server.adminConnection, user: 'belfry' },
      clock: realClock,
      random: realRandom,
    })
    try {
      expect(await checkSchema(db)).toBe('current')
      for (const role of ['belfry_app', 'belfry_engine', 'belfry_platform'] as const) {
        const rows = await db.run({ role }, { name: 'who', text: 'SELECT current_user::text AS who' }, [])
        expect(rows).toEqual([{ who: role }])
      }
    } finally {
      await db.close()
    }
    expect(server.major).toBeGreaterThanOrEqual(15)
  })
})
