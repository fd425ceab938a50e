// The servers that a bench starts for itself, on free loopback ports and in a temporary directory, and stops
// again: one Postgres for all engines, with durability on, and Redis with an append-only file.
import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { startEmbeddedPostgres } from '../../../packages/server/src/postgres/embedded/embedded-postgres.ts'
import { migrate } from '../../../packages/server/src/postgres/migrate.ts'
import { type RedisServer, startRedisServer } from '../../support/redis-server.ts'
import { serviceNamed } from '../../support/services.ts'
import type { EngineName, Place } from './engine.ts'
import { say } from './figures.ts'

/** As the peers were measured before; the rest is what the embedded Postgres has, fsync on among it. */
const settings = {
  shared_buffers: '512MB',
  max_connections: 200,
  wal_compression: 'off',
  min_wal_size: '2GB',
  max_wal_size: '8GB',
  idle_in_transaction_session_timeout: '0',
}

export interface Servers {
  /** Of the superuser, on the maintenance database. */
  readonly sql: pg.Client
  readonly redisPort: number | null
  readonly postgresVersion: string
  readonly redisVersion: string | null
  /** A fresh database for an engine; `drop` removes it with all that is in it. */
  place(engine: EngineName): Promise<{ readonly place: Place; readonly drop: () => Promise<void> }>
  /** Does something on a connection to a database of its own. */
  on<Answer>(databaseUrl: string, work: (sql: pg.Client) => Promise<Answer>): Promise<Answer>
  stop(): Promise<void>
}

/** Says what is missing, if anything. `withRedis`: BullMQ takes part. */
export async function startServers({ withRedis }: { withRedis: boolean }): Promise<Servers> {
  const directory = mkdtempSync(join(tmpdir(), 'belfry-bench-'))
  // as root, Postgres runs as another user, who must get through
  chmodSync(directory, 0o711)
  const undo: (() => Promise<unknown>)[] = [
    () => Promise.resolve(rmSync(directory, { recursive: true, force: true })),
  ]
  const stop = onlyOnce(async () => {
    for (const each of undo.toReversed()) await each()
  })
  stopWhenInterrupted(stop)
  try {
    const postgres = await startEmbeddedPostgres({
      dataDir: join(directory, 'data'),
      log: (level, message) => level === 'info' || process.stderr.write(`[postgres] ${message}\n`),
      settings,
    })
    undo.push(postgres.stop)
    const sql = new pg.Client({ ...postgres.adminConnection, database: 'postgres' })
    await sql.connect()
    undo.push(() => sql.end())
    await makeWalFiles(sql)
    const redis = withRedis ? await startRedis(directory) : undefined
    if (redis !== undefined) undo.push(redis.kill)
    const { rows } = await sql.query<{ version: string }>(
      "SELECT current_setting('server_version') AS version",
    )
    const { host, port } = postgres.connection
    const urlOf = (user: string, database: string): string =>
      `postgres://${user}@localhost:${port}/${database}?host=${encodeURIComponent(host)}`
    return {
      sql,
      redisPort: redis?.port ?? null,
      postgresVersion: rows[0]?.version ?? '',
      redisVersion: redis?.version ?? null,
      place: (engine) => makePlace({ sql, admin: postgres.adminConnection, urlOf, redis }, engine),
      on: connected,
      stop,
    }
  } catch (error) {
    await stop()
    throw error
  }
}

/** A server that is up for a while uses its files again; else whoever comes first pays for making them. */
async function makeWalFiles(sql: pg.Client): Promise<void> {
  const megabyte = "pg_logical_emit_message(false, '', repeat(' ', 1000000))"
  await sql.query(`SELECT count(${megabyte}) FROM generate_series(1, 2000)`)
  await sql.query('CHECKPOINT')
}

async function connected<Answer>(url: string, work: (sql: pg.Client) => Promise<Answer>): Promise<Answer> {
  const sql = new pg.Client({ connectionString: url })
  await sql.connect()
  try {
    return await work(sql)
  } finally {
    await sql.end()
  }
}

interface Making {
  readonly sql: pg.Client
  readonly admin: { readonly host: string; readonly port: number; readonly user: string }
  readonly urlOf: (user: string, database: string) => string
  readonly redis: RedisServer | undefined
}

let places = 0

async function makePlace({ sql, admin, urlOf, redis }: Making, engine: EngineName) {
  const database = `bench_${++places}`
  await sql.query(`CREATE DATABASE ${database}`)
  if (engine.startsWith('belfry')) {
    await migrate({ ...admin, database }, { log: () => undefined, runtimeLogin: 'belfry' })
  }
  if (engine === 'bullmq') await redis?.say('FLUSHALL')
  const redisPort = redis?.port ?? null
  const place = { databaseUrl: urlOf('postgres', database), runtimeUrl: urlOf('belfry', database), redisPort }
  const drop = async (): Promise<void> => {
    await sql.query(`DROP DATABASE ${database} WITH (FORCE)`)
    if (engine === 'bullmq') await redis?.say('FLUSHALL')
  }
  return { place, drop }
}

async function startRedis(directory: string): Promise<RedisServer | undefined> {
  const service = serviceNamed('redis')
  const program = service.find()
  if (program === undefined) {
    const command = `apt-get install ${service.aptPackages.join(' ')}`
    say(`redis-server is missing, so BullMQ is left out. Install it: ${command}`)
    return undefined
  }
  const durable = ['--appendonly', 'yes', '--appendfsync', 'everysec', '--save', '']
  return startRedisServer(program, ['--dir', directory, ...durable])
}

function stopWhenInterrupted(stop: () => Promise<void>): void {
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => void stop().finally(() => process.exit(130)))
  }
}

function onlyOnce(action: () => Promise<void>): () => Promise<void> {
  let running: Promise<void> | undefined
  return () => (running ??= action())
}
