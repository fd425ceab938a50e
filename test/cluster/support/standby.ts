/**
 * A streaming standby beside the embedded Postgres of an arena: a copy of its data directory, made while it
 * serves, that follows it through a replication slot, at a port of its own. The primary can be killed without
 * being started again, what it commits can be held back before, and the standby promoted.
 *
 *   sync    a commit is answered when the standby has it on disk: a promotion loses nothing that was answered
 *   async   a commit is answered at once: what the standby did not get yet is lost
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { appendFileSync, cpSync, mkdtempSync, openSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import type { EmbeddedConnection } from '../../../packages/server/src/postgres/embedded/access.ts'
import { findBinaries } from '../../../packages/server/src/postgres/embedded/binaries.ts'
import type { EmbeddedPostgres } from '../../../packages/server/src/postgres/embedded/embedded-postgres.ts'
import { serverEnvironment } from '../../../packages/server/src/postgres/embedded/cluster.ts'
import {
  chooseRunAs,
  giveTree,
  makePrivateDirectory,
  spawnAs,
} from '../../../packages/server/src/postgres/embedded/unprivileged.ts'
import { eventually } from '../../support/running.ts'
import type { Arena, ArenaHarness } from './arena.ts'
import { freePort } from './arena.ts'

export type Replication = 'sync' | 'async'

export interface Standby {
  /** On 127.0.0.1; logins and passwords are those of the primary. */
  readonly port: number
  readonly databaseUrl: string
  /** Of the superuser, over the socket. */
  readonly adminConnection: EmbeddedConnection
  /** Both hosts in one connection string, the primary first. */
  readonly bothUrl: string
  /** One statement of the superuser on the standby. */
  rows<Row extends pg.QueryResultRow>(text: string, values?: unknown[]): Promise<Row[]>
  /** Resolves when it shows all that the primary has committed. */
  caughtUp(): Promise<void>
  /** From now on nothing that the primary commits reaches the standby. With `sync` commits then wait. */
  holdBack(): Promise<void>
  letThrough(): void
  /** kill -9 of the primary, which is not started again. */
  killPrimary(): Promise<void>
  /** Makes it the primary; the arena then looks at it, too. */
  promote(): Promise<void>
  stop(): Promise<void>
}

const slot = 'standby'

/** Ends with the test. */
export async function startStandby(
  harness: Pick<ArenaHarness, 'defer'>,
  arena: Arena,
  replication: Replication,
): Promise<Standby> {
  const { postgres } = arena
  const directory = mkdtempSync(join(tmpdir(), 'belfry-standby-'))
  const runAs = chooseRunAs(join(arena.dataDir, 'postgres'))
  makePrivateDirectory(directory, runAs)
  harness.defer(() => rmSync(directory, { recursive: true, force: true }))
  const data = join(directory, 'data')
  await copyWhileServing(arena, data)
  const { host, port: primaryPort } = postgres.adminConnection
  const follow = `host=${host} port=${primaryPort} user=postgres application_name=${slot}`
  appendFileSync(
    join(data, 'postgresql.conf'),
    `primary_conninfo = '${follow}'\nprimary_slot_name = '${slot}'\n`,
  )
  writeFileSync(join(data, 'standby.signal'), '')
  giveTree(data, runAs)
  const port = await freePort()
  const settings = {
    port,
    listen_addresses: '127.0.0.1',
    unix_socket_directories: directory,
    cluster_name: 'belfry_test_standby',
    wal_retrieve_retry_interval: '200ms',
  }
  const log = join(directory, 'log')
  const descriptor = openSync(log, 'a')
  const child = spawn(
    findBinaries(runAs).postgres,
    ['-D', data, ...Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])],
    { cwd: '/', env: serverEnvironment, stdio: ['ignore', descriptor, descriptor], ...spawnAs(runAs) },
  )
  const ended = once(child, 'close')
  const stop = async (): Promise<void> => {
    child.kill('SIGINT')
    await ended
  }
  harness.defer(stop)
  const adminConnection = { host: directory, port, user: 'postgres', database: 'belfry' }
  const rows: Standby['rows'] = (text, values) => rowsOf(adminConnection, text, values)
  const streams = async () =>
    (await arena.rows(`SELECT FROM pg_stat_replication WHERE state = 'streaming'`)).length > 0 &&
    (await rows('SELECT')).length === 1
  await eventually(() => streams().catch(() => false), 'the standby streams', 30_000)
  if (replication === 'sync') {
    await arena.rows(`ALTER SYSTEM SET synchronous_standby_names = '${slot}'`)
    await arena.rows('SELECT pg_reload_conf()')
    const synchronous = `SELECT FROM pg_stat_replication WHERE sync_state = 'sync'`
    await eventually(async () => (await arena.rows(synchronous)).length > 0, 'it is synchronous', 10_000)
  }
  const databaseUrl = arena.databaseUrl.replace(/:\d+\//, `:${port}/`)
  const both = { databaseUrl, bothUrl: arena.databaseUrl.replace(/:(\d+)\//, `:$1,127.0.0.1:${port}/`) }
  return { port, ...both, adminConnection, rows, stop, ...acts({ arena, postgres, adminConnection, rows }) }
}

function acts(parts: {
  readonly arena: Arena
  readonly postgres: EmbeddedPostgres
  readonly adminConnection: EmbeddedConnection
  readonly rows: Standby['rows']
}): Pick<Standby, 'caughtUp' | 'holdBack' | 'letThrough' | 'killPrimary' | 'promote'> {
  const { arena, postgres, adminConnection, rows } = parts
  let held: number | undefined
  return {
    async caughtUp() {
      const [there] = await rowsOf<{ lsn: string }>(
        postgres.adminConnection,
        'SELECT pg_current_wal_lsn()::text AS lsn',
      )
      const here = 'SELECT FROM pg_last_wal_replay_lsn() AS lsn WHERE lsn >= $1::pg_lsn'
      await eventually(
        async () => (await rows(here, [there?.lsn])).length > 0,
        'the standby caught up',
        30_000,
      )
    },
    async holdBack() {
      const [sender] = await arena.rows<{ pid: number }>('SELECT pid FROM pg_stat_replication')
      if (sender === undefined) throw new Error('nothing is sent to a standby')
      held = sender.pid
      process.kill(held, 'SIGSTOP')
    },
    letThrough() {
      if (held !== undefined) process.kill(held, 'SIGCONT')
      held = undefined
    },
    async killPrimary() {
      const { pid } = postgres
      process.kill(pid, 'SIGKILL')
      // one that is stopped would not notice that its parent has gone
      if (held !== undefined) process.kill(held, 'SIGKILL')
      held = undefined
      await postgres.stop()
    },
    async promote() {
      await rows('SELECT pg_promote(true, 30)')
      // who waits for a standby that has become the primary would wait for ever
      await rows(`ALTER SYSTEM SET synchronous_standby_names = ''`)
      await rows('SELECT pg_reload_conf()')
      arena.lookAt(adminConnection)
    },
  }
}

/** A base backup by hand: the binaries of the embedded server lack pg_basebackup. */
async function copyWhileServing({ postgres, dataDir }: Arena, to: string): Promise<void> {
  const from = join(dataDir, 'postgres')
  appendFileSync(join(from, 'pg_hba.conf'), 'local replication all trust\n')
  const client = new pg.Client(postgres.adminConnection)
  await client.connect()
  try {
    await client.query('SELECT pg_reload_conf()')
    await client.query('SELECT pg_create_physical_replication_slot($1, true)', [slot])
    await client.query(`SELECT pg_backup_start('standby', fast => true)`)
    const left = /\/(postmaster\.(pid|opts)|pg_wal\/.+|pg_replslot\/.+|pgsql_tmp.*|pg_stat_tmp\/.+)$/
    // files come and go while they are copied; what has gone is in the WAL
    cpSync(from, to, { recursive: true, filter: (source) => !left.test(source) })
    const { rows } = await client.query<{ labelfile: string }>(
      'SELECT labelfile FROM pg_backup_stop(wait_for_archive => false)',
    )
    writeFileSync(join(to, 'backup_label'), rows[0]?.labelfile ?? '')
  } finally {
    await client.end()
  }
}

async function rowsOf<Row extends pg.QueryResultRow>(
  connection: EmbeddedConnection,
  text: string,
  values: unknown[] = [],
): Promise<Row[]> {
  const client = new pg.Client({ ...connection, connectionTimeoutMillis: 10_000 })
  client.on('error', () => undefined)
  await client.connect()
  try {
    return (await client.query<Row>(text, values)).rows
  } finally {
    await client.end()
  }
}
