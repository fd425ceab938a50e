/**
 * What cluster tests fight in: one real Postgres (embedded, with a port), one tenant with a key, one target,
 * and Belfry processes that are started, killed and stopped at will. Everything ends after each test, in
 * reverse order; a process that was stopped is woken first.
 */
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createClient } from '@belfry/sdk'
import type { Client } from '@belfry/sdk'
import pg from 'pg'
import { afterEach } from 'vitest'
import { createSystemIds } from '../../../packages/server/src/adapters/system/ids.ts'
import { bootstrapTenant } from '../../../packages/server/src/postgres/catalog/bootstrap.ts'
import { openDatabase } from '../../../packages/server/src/postgres/database.ts'
import type { EmbeddedConnection } from '../../../packages/server/src/postgres/embedded/access.ts'
import { startEmbeddedPostgres } from '../../../packages/server/src/postgres/embedded/embedded-postgres.ts'
import type { EmbeddedPostgres } from '../../../packages/server/src/postgres/embedded/embedded-postgres.ts'
import { migrate } from '../../../packages/server/src/postgres/migrate.ts'
import { keyMint } from '../../../packages/server/src/security/credentials.ts'
import { realClock, realRandom } from '../../support/real-clock.ts'
import { startLedger } from './ledger.ts'
import type { Ledger } from './ledger.ts'
import { spawnNode } from './node-process.ts'
import type { NodeProcess, SpawnedNode } from './node-process.ts'
import type { VersionBefore } from './version-before.ts'

type CleanUp = () => Promise<void> | void
export type Defer = (cleanUp: CleanUp) => void

/** Status and JSON of an answer of the API. */
export interface Answer {
  readonly status: number
  readonly body: Record<string, unknown>
}

export interface Arena {
  readonly dataDir: string
  readonly postgres: EmbeddedPostgres
  /** Of the login role in DATABASE_URL: must never be seen in a log. */
  readonly password: string
  readonly databaseUrl: string
  readonly ledger: Ledger
  /** What has been started and is ready, by name; a second start of a name takes the place of the first. */
  readonly nodes: ReadonlyMap<string, NodeProcess>
  /** Starts a process and does not wait for it; `under` is a command that starts it. */
  spawn(name: string, more?: Record<string, string>, under?: readonly string[]): SpawnedNode
  start(name: string, more?: Record<string, string>, under?: readonly string[]): Promise<NodeProcess>
  /** Of the process of this name, else of the first one. */
  client(name?: string): Client
  /** One request, without the retries of a client. */
  call(node: NodeProcess, method: string, path: string, body?: object, key?: string): Promise<Answer>
  /** A key with every right in a tenant of this name, which is made where it is missing. */
  keyOf(tenant: string): Promise<string>
  /** A connection of the superuser to look with. The caller ends it. */
  connect(): Promise<pg.Client>
  /** One statement of the superuser, on a connection of its own. */
  rows<Row extends pg.QueryResultRow>(text: string, values?: unknown[]): Promise<Row[]>
  stopPostgres(): Promise<void>
  startPostgres(): Promise<void>
  /** From now on `connect` and `rows` go to another server, which took the place of the first. */
  lookAt(connection: EmbeddedConnection): void
}

export interface ArenaOptions {
  readonly dataDir?: string
  /** Of all processes. */
  readonly env?: Record<string, string>
  /** Whose schema and first key it has; those of this version if left out. */
  readonly before?: Pick<VersionBefore, 'launcher' | 'migrations'>
}

export interface ArenaHarness {
  open(options?: ArenaOptions): Promise<Arena>
  /** Done after the test, before what was there already when it was asked for. */
  readonly defer: Defer
}

/** Short leases, so that a lost process is missed soon. */
const quickEnv = {
  BELFRY_LEASE_MS: '4000',
  BELFRY_HEARTBEAT_MS: '1000',
  BELFRY_TERM_MS: '4000',
  BELFRY_RESCUE_MS: '1000',
  BELFRY_DRAIN_MS: '5000',
  BELFRY_EGRESS_ALLOW: '127.0.0.0/8',
}

/** For tests that make a place of their own; call once at the top of a test file. */
export function cleanUpAfterEach(): Defer {
  const { defer, clear } = cleanUpList()
  afterEach(clear)
  return defer
}

/** Call once at the top of a test file. */
export function arenaHarness(): ArenaHarness {
  const defer = cleanUpAfterEach()
  return { defer, open: (options = {}) => openArena(options, defer) }
}

/** What has to be done in the end, in reverse order. */
export function cleanUpList(): { readonly defer: Defer; readonly clear: () => Promise<void> } {
  const cleanUps: CleanUp[] = []
  return {
    defer: (cleanUp) => void cleanUps.push(cleanUp),
    async clear() {
      const failures: unknown[] = []
      for (const cleanUp of cleanUps.splice(0).reverse()) {
        await Promise.resolve()
          .then(cleanUp)
          .catch((error: unknown) => failures.push(error))
      }
      if (failures.length > 0) throw new AggregateError(failures, 'The arena could not be cleared.')
    },
  }
}

export async function openArena(options: ArenaOptions, defer: Defer): Promise<Arena> {
  const dataDir = options.dataDir ?? mkdtempSync(join(tmpdir(), 'belfry-cluster-'))
  defer(() => rmSync(dataDir, { recursive: true, force: true }))
  const server = await openServer(dataDir)
  defer(server.stopPostgres)
  const { before } = options
  await migrate(server.postgres().adminConnection, {
    log: () => undefined,
    runtimeLogin: 'belfry',
    directory: before?.migrations,
  })
  const keyOf = (tenant: string): Promise<string> => makeKey(server.postgres(), tenant)
  const apiKey =
    before === undefined ? await keyOf('chaos') : keyOfBefore(before.launcher, server.databaseUrl, 'chaos')
  const ledger = await startLedger()
  defer(ledger.close)
  const { postgres, databaseUrl, ...rest } = server
  const env = { DATABASE_URL: databaseUrl, ...quickEnv, ...options.env }
  const nodes = new Map<string, NodeProcess>()
  const spawn: Arena['spawn'] = (name, more = {}, under = []) => {
    const node = spawnNode(name, { ...env, ...more }, under)
    defer(async () => {
      node.signal('SIGCONT')
      node.signal('SIGKILL')
      await node.ended
    })
    return node
  }
  return {
    ...rest,
    databaseUrl,
    dataDir,
    keyOf,
    get postgres() {
      return postgres()
    },
    ledger,
    nodes,
    spawn,
    async start(name, more, under) {
      const node = await spawn(name, more, under).ready
      nodes.set(name, node)
      return node
    },
    client(name) {
      const [first] = nodes.values()
      const node = name === undefined ? first : nodes.get(name)
      if (node === undefined) throw new Error(`no node ${name ?? ''} is up`)
      return createClient({ url: node.apiUrl, apiKey })
    },
    call: (node, method, path, body, key) => call(`${node.apiUrl}${path}`, method, apiKey, body, key),
  }
}

/** One Postgres on a data directory, which can be stopped and started again at the same port. */
async function openServer(dataDir: string) {
  const port = await freePort()
  const start = (): Promise<EmbeddedPostgres> =>
    startEmbeddedPostgres({ dataDir, port, log: () => undefined })
  let postgres = await start()
  let looked: EmbeddedConnection | undefined
  const { tcp } = postgres
  if (tcp === undefined) throw new Error('the embedded Postgres has no port')
  const password = readFileSync(tcp.passwordFile, 'utf8').trim()

  const connect = async (): Promise<pg.Client> => {
    const sql = new pg.Client({ ...(looked ?? postgres.adminConnection), connectionTimeoutMillis: 10_000 })
    sql.on('error', () => undefined)
    await sql.connect()
    return sql
  }
  return {
    postgres: () => postgres,
    password,
    databaseUrl: `postgres://belfry:${encodeURIComponent(password)}@${tcp.host}:${port}/belfry`,
    connect,
    async rows<Row extends pg.QueryResultRow>(text: string, values: unknown[] = []): Promise<Row[]> {
      const sql = await connect()
      try {
        return (await sql.query<Row>(text, values)).rows
      } finally {
        await sql.end()
      }
    },
    lookAt(connection: EmbeddedConnection) {
      looked = connection
    },
    stopPostgres: () => postgres.stop(),
    async startPostgres() {
      postgres = await start()
    },
  }
}

async function makeKey(postgres: EmbeddedPostgres, tenant: string): Promise<string> {
  const db = openDatabase({ connection: postgres.connection, clock: realClock, random: realRandom })
  const parts = { db, ids: createSystemIds(), mint: keyMint }
  const { key } = await bootstrapTenant(parts, { tenant, keyName: tenant, scopes: ['admin'] })
  await db.close()
  return key
}

/** As the version before makes it, which takes no key of a newer form. */
function keyOfBefore(launcher: string, databaseUrl: string, tenant: string): string {
  const { stdout, stderr } = spawnSync(process.execPath, [launcher, 'server', 'init', tenant, '-o', 'json'], {
    env: { ...process.env, DATABASE_URL: databaseUrl },
    encoding: 'utf8',
  })
  const key = /"apiKey": *"(bfy_[^"]+)"/.exec(stdout)?.[1]
  if (key === undefined) throw new Error(`the version before made no key: ${stderr}`)
  return key
}

async function call(
  url: string,
  method: string,
  apiKey: string,
  body: object | undefined,
  key: string | undefined,
): Promise<Answer> {
  const response = await fetch(url, {
    method,
    headers: {
      authorization: `Bearer ${apiKey}`,
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...(key === undefined ? {} : { 'idempotency-key': key }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    signal: AbortSignal.timeout(60_000),
  })
  const text = await response.text()
  return { status: response.status, body: text === '' ? {} : (JSON.parse(text) as Record<string, unknown>) }
}

export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  const { port } = server.address() as AddressInfo
  await new Promise((resolve) => server.close(resolve))
  return port
}
