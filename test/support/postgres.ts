// Databases for tests. `createTestDatabase()` clones the migrated template on the server that
// global-postgres.ts started (about 30 ms) and drops the clone afterwards; `startSystemPostgres()` runs a
// cluster of the system's own Postgres.
import { spawn, spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { chmodSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import pg from 'pg'
import { inject } from 'vitest'
import type { Database, DatabaseOptions } from '../../packages/server/src/postgres/database.ts'
import { openDatabase } from '../../packages/server/src/postgres/database.ts'
import { giveTree, spawnAs } from '../../packages/server/src/postgres/embedded/unprivileged.ts'
import { chooseRunAs } from '../../packages/server/src/postgres/embedded/unprivileged.ts'
import type { SharedServer } from './global-postgres.ts'
import { realClock, realRandom } from './real-clock.ts'
import { makeFastDirectory } from './temporary-directory.ts'

export type TestConnection = {
  readonly host: string
  readonly port: number
  readonly user: string
  readonly database: string
}

export type TestDatabase = {
  readonly name: string
  /** As the runtime login `belfry`. */
  readonly connection: TestConnection
  /** As the superuser. */
  readonly adminConnection: TestConnection
  /** A `Database` as the runtime login; closed by `drop`. */
  readonly open: (options?: Partial<DatabaseOptions>) => Database
  /** Free SQL as the superuser, to arrange and to look. */
  readonly sql: <Row extends pg.QueryResultRow>(text: string, params?: readonly unknown[]) => Promise<Row[]>
  /** A connection of the superuser that holds the locks of a statement between `take` and `release`. */
  readonly hold: (text: string) => Promise<HeldLock>
  /** How many connections wait for a lock. */
  readonly waiting: () => Promise<number>
  /** Makes `belfry.now()` of this database settable; it stands still from then on. */
  readonly useVirtualNow: (instant: Date) => Promise<void>
  readonly setNow: (instant: Date) => Promise<void>
  /** Closes what `open` and `sql` opened, and drops the database. */
  readonly drop: () => Promise<void>
}

export type HeldLock = {
  readonly take: () => Promise<void>
  /** May be called twice. */
  readonly release: () => Promise<void>
}

/**
 * Clones the migrated template; call `drop` in `afterAll`. With `{ empty: true }` the database has no
 * schema.
 */
export async function createTestDatabase(options: { readonly empty?: boolean } = {}): Promise<TestDatabase> {
  const server = inject('postgres')
  const name = `test_${randomBytes(6).toString('hex')}`
  const source = options.empty === true ? 'template0' : server.template
  await onServer(server, `CREATE DATABASE ${name} TEMPLATE ${source} STRATEGY FILE_COPY`)
  const connection = { host: server.host, port: server.port, user: 'belfry', database: name }
  const adminConnection = { ...connection, user: 'postgres' }
  const admin = new pg.Pool({ ...adminConnection, max: 4 })
  admin.on('error', () => undefined)
  const opened: Database[] = []

  const sql = async <Row extends pg.QueryResultRow>(text: string, params: readonly unknown[] = []) => {
    const { rows } = await admin.query<Row>(text, [...params])
    return rows
  }
  const setNow = async (instant: Date) => {
    await sql('UPDATE belfry_test.virtual_now SET instant = $1', [instant])
  }
  return {
    name,
    connection,
    adminConnection,
    sql,
    hold: async (text) => {
      const client = await admin.connect()
      let held = true
      return {
        take: async () => {
          await client.query('BEGIN')
          await client.query(text)
        },
        release: async () => {
          if (!held) return
          held = false
          await client.query('ROLLBACK')
          client.release()
        },
      }
    },
    waiting: async () => {
      const [row] = await sql<{ count: number }>(
        "SELECT count(*)::int FROM pg_stat_activity WHERE datname = $1 AND wait_event_type = 'Lock'",
        [name],
      )
      return row?.count ?? 0
    },
    setNow,
    open: (more = {}) => {
      const db = openDatabase({
        connection,
        clock: realClock,
        random: realRandom,
        maxConnections: 5,
        ...more,
      })
      opened.push(db)
      return db
    },
    useVirtualNow: async (instant) => {
      for (const text of virtualNow) await sql(text)
      await setNow(instant)
    },
    drop: async () => {
      await Promise.all([...opened.map((db) => db.close()), admin.end()])
      await onServer(server, `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`)
    },
  }
}

const virtualNow = [
  'CREATE SCHEMA IF NOT EXISTS belfry_test',
  'CREATE TABLE IF NOT EXISTS belfry_test.virtual_now (instant timestamptz NOT NULL)',
  'INSERT INTO belfry_test.virtual_now SELECT now() WHERE NOT EXISTS (SELECT FROM belfry_test.virtual_now)',
  'GRANT USAGE ON SCHEMA belfry_test TO PUBLIC',
  'GRANT SELECT ON belfry_test.virtual_now TO PUBLIC',
  `CREATE OR REPLACE FUNCTION belfry.now() RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE
     RETURN (SELECT instant FROM belfry_test.virtual_now)`,
]

async function onServer(server: SharedServer, text: string): Promise<void> {
  const client = new pg.Client({
    host: server.host,
    port: server.port,
    user: 'postgres',
    database: 'postgres',
  })
  await client.connect()
  try {
    await client.query(text)
  } finally {
    await client.end()
  }
}

export type SystemPostgres = {
  readonly adminConnection: TestConnection
  /** For example 15. */
  readonly major: number
  readonly stop: () => Promise<void>
}

/**
 * Starts a throw-away cluster with the binaries in `binDir` (see test/support/services.ts), database
 * `belfry`.
 */
export async function startSystemPostgres(binDir: string): Promise<SystemPostgres> {
  const directory = makeFastDirectory('belfry-pg')
  const runAs = chooseRunAs(directory)
  chmodSync(directory, 0o700)
  giveTree(directory, runAs)
  const data = join(directory, 'data')
  const common = { cwd: '/', env: { PATH: '/usr/bin:/bin', LC_ALL: 'C' }, ...spawnAs(runAs) }
  const made = spawnSync(
    join(binDir, 'initdb'),
    ['-D', data, '-U', 'postgres', '-A', 'trust', '-E', 'UTF8', '-N'],
    {
      ...common,
      encoding: 'utf8',
    },
  )
  if (made.status !== 0) throw new Error(`initdb of ${binDir} failed: ${made.stderr}`)
  const settings = [
    '-c',
    'listen_addresses=',
    '-c',
    'fsync=off',
    '-c',
    `unix_socket_directories=${directory}`,
  ]
  const child = spawn(join(binDir, 'postgres'), ['-D', data, ...settings], { ...common, stdio: 'ignore' })
  const exited = new Promise((resolve) => child.once('exit', resolve))
  const stop = async () => {
    child.kill('SIGINT')
    await exited
    rmSync(directory, { recursive: true, force: true })
  }
  const adminConnection = { host: directory, port: 5432, user: 'postgres', database: 'belfry' }
  try {
    const major = await createWhenReady({ ...adminConnection, database: 'postgres' })
    return { adminConnection, major, stop }
  } catch (error) {
    await stop()
    throw error
  }
}

async function createWhenReady(connection: TestConnection): Promise<number> {
  const deadline = performance.now() + 30_000
  for (;;) {
    const client = new pg.Client(connection)
    try {
      await client.connect()
      await client.query('CREATE DATABASE belfry')
      const { rows } = await client.query<{ major: number }>(
        "SELECT current_setting('server_version_num')::int / 10000 AS major",
      )
      return rows[0]?.major ?? 0
    } catch (error) {
      if (performance.now() > deadline) throw error
      await wait(50)
    } finally {
      await client.end().catch(() => undefined)
    }
  }
}
