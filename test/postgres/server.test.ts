// A whole server in this process, on a database of its own: what it makes before it fires, that requests
// which wait for locks take nothing from leases, elections and runs, what readiness looks at, and that
// neither a failed start nor a frozen database leaves anything running.
import { Writable } from 'node:stream'
import pg from 'pg'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { makeOwnerKey } from '../../packages/server/src/compose/first-key.ts'
import type { BelfryServer } from '../../packages/server/src/compose/server.ts'
import { orStop, startServer } from '../../packages/server/src/compose/server.ts'
import { loadConfig } from '../../packages/server/src/config/load.ts'
import { createLogger } from '../../packages/server/src/telemetry/logger.ts'
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts'
import { eventually } from '../support/running.ts'

let database: TestDatabase
let lines: Record<string, unknown>[]
const servers: BelfryServer[] = []

beforeEach(async () => {
  database = await createTestDatabase()
  lines = []
})
afterEach(async () => {
  for (const server of servers.splice(0)) await server.stop()
  await database.drop()
})

const destination = new Writable({
  write(chunk: Buffer, _encoding, done) {
    for (const line of chunk.toString().trim().split('\n')) {
      lines.push(JSON.parse(line) as Record<string, unknown>)
    }
    done()
  },
})

const urlFor = (user: string) => {
  const { host, port } = database.connection
  return `postgres://${user}@${encodeURIComponent(host)}:${port}/${database.name}`
}

async function start(more: Readonly<Record<string, unknown>> = {}, user = 'belfry'): Promise<BelfryServer> {
  const ports = { port: 0, opsPort: 0, drainMs: 500 }
  const { config } = loadConfig({ flags: { databaseUrl: urlFor(user), ...ports, ...more } })
  const server = await startServer({
    config,
    logger: createLogger({ level: 'info', version: '0', destination }),
  })
  servers.push(server)
  return server
}

type Verbose = {
  readonly status: string
  readonly checks: readonly { name: string; status: string; message: string | null; facts?: object }[]
}

const connections = () =>
  database.sql<{ name: string; pid: number }>(
    `SELECT application_name AS name, pid FROM pg_stat_activity
     WHERE datname = current_database() AND application_name LIKE 'belfry%'`,
  )
const noneLeft = () =>
  eventually(async () => (await connections()).length === 0, 'all connections are closed')

async function textOf(url: string): Promise<string> {
  return (await fetch(url, { signal: AbortSignal.timeout(10_000) })).text()
}

describe('a start', () => {
  it('makes the partitions of today before it resolves, and of an outage', async () => {
    const days = await database.sql<{ name: string }>(
      `SELECT c.relname AS name FROM pg_class c JOIN pg_inherits i ON i.inhrelid = c.oid
       WHERE c.relnamespace = 'belfry'::regnamespace AND c.relkind = 'r' AND c.relname ~ '_[0-9]{8}$'`,
    )
    for (const { name } of days) await database.sql(`DROP TABLE belfry.${name}`)
    await database.sql("SELECT belfry.make_partitions((now() AT TIME ZONE 'UTC')::date - 6)")
    await start({ roles: 'scheduler' })
    const runs = await database.sql<{ name: string }>(
      `SELECT relname AS name FROM pg_class WHERE relname ~ '^run_[0-9]{8}$' AND relkind = 'r' ORDER BY 1`,
    )
    expect(runs).toHaveLength(10)
  })

  it('says in words that its login could do more than it should', async () => {
    await start({}, 'postgres')
    const warning = lines.find((line) => line['event'] === 'login_rights')
    expect(warning?.['level']).toBe('warn')
    expect(warning?.['message']).toMatch(/"postgres" .* is a superuser/)
    lines = []
    await start()
    expect(lines.find((line) => line['event'] === 'login_rights')).toBeUndefined()
  })

  it('that fails late leaves no connection open', async () => {
    const first = await start({ roles: 'api' })
    const port = Number(new URL(first.apiUrl ?? '').port)
    await expect(start({ port })).rejects.toMatchObject({ code: 'in_use' })
    await first.stop()
    await noneLeft()
  })

  it('whose key cannot be made is taken back', async () => {
    const server = await start({ roles: 'api' })
    await expect(orStop(server, makeOwnerKey(server.store.db, '', 'first'))).rejects.toThrow(
      /name of the tenant/,
    )
    await noneLeft()
  })
})

describe('connections', () => {
  it('are no more than the setting says, by name', async () => {
    const server = await start({ databasePoolSize: 6 })
    await Promise.all(Array.from({ length: 20 }, () => textOf(`${server.opsUrl}/readyz`)))
    const names = (await connections()).map(({ name }) => name)
    expect(names.length).toBeLessThanOrEqual(6)
    expect(new Set(names)).toEqual(new Set(['belfry-leases', 'belfry-engine', 'belfry-hints']))
  })

  it('of requests that wait for a lock are not those of leases, elections and runs', async () => {
    const server = await start({ databasePoolSize: 8, termMs: 3_000, leaseMs: 3_000, heartbeatMs: 300 })
    const { key } = await makeOwnerKey(server.store.db, 'main', 'test')
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
    const post = (path: string, body: unknown) =>
      fetch(`${server.apiUrl}${path}`, { method: 'POST', headers, body: JSON.stringify(body) })
    const handler = { kind: 'http', url: 'https://example.com/' }
    expect((await post('/v1/jobs', { name: 'j', handler })).status).toBe(201)

    const blocker = new pg.Client(database.adminConnection)
    await blocker.connect()
    try {
      await blocker.query('BEGIN; LOCK TABLE belfry.job IN ACCESS EXCLUSIVE MODE')
      const waiting = Array.from({ length: 12 }, () => post('/v1/jobs', { name: 'k', handler }))
      const locked = () =>
        database.sql(
          `SELECT 1 FROM pg_stat_activity WHERE application_name = 'belfry-api' AND wait_event_type = 'Lock'`,
        )
      await eventually(async () => (await locked()).length >= 2, 'the requests hold all they can get')
      expect(await textOf(`${server.opsUrl}/readyz`)).toBe('ok\n')
      const expiry = async () => {
        const [row] = await database.sql<{ lease: Date; term: Date }>(
          `SELECT (SELECT min(expires_at) FROM belfry.session) AS lease,
                  (SELECT min(expires_at) FROM belfry.shard_term) AS term`,
        )
        return [row?.lease.getTime() ?? 0, row?.term.getTime() ?? 0] as const
      }
      const [lease, term] = await expiry()
      await eventually(async () => {
        const now = await expiry()
        return now[0] > lease && now[1] > term
      }, 'heartbeat and election go on')
      await blocker.query('ROLLBACK')
      await Promise.all(waiting)
    } finally {
      await blocker.end()
    }
    expect(lines.filter((line) => line['event'] === 'role_failed')).toEqual([])
  })
})

it('tells of workflow runs that nobody moves on', async () => {
  const server = await start({ roles: 'api' })
  const finding = async () =>
    (JSON.parse(await textOf(`${server.opsUrl}/readyz?verbose`)) as Verbose).checks.find(
      ({ name }) => name === 'workflows',
    )
  expect(await finding()).toMatchObject({
    status: 'ok',
    facts: { alive: 0, eventsWaiting: 0, oldestWaitsMs: 0 },
  })
  await database.sql(
    `INSERT INTO belfry.workflow_event (at, workflow_run_id, tenant_id, kind)
     SELECT clock_timestamp() - interval '2 minutes', gen_random_uuid(), gen_random_uuid(), 'begin'`,
  )
  const message = expect.stringMatching(/oldest for 12\d s; .* role resolver or scheduler/) as string
  expect(await finding()).toMatchObject({ status: 'warn', message, facts: { eventsWaiting: 1 } })
  await database.sql('DELETE FROM belfry.workflow_event')
})

it('readiness names the database and the schema, which may be newer but not older', async () => {
  const server = await start({ roles: 'api' })
  const readyz = () => textOf(`${server.opsUrl}/readyz`)
  const verbose = async () => JSON.parse(await textOf(`${server.opsUrl}/readyz?verbose`)) as Verbose
  const named = async (name: string) => (await verbose()).checks.find((check) => check.name === name)
  const names = ['not_draining', 'database', 'database_takes_writes', 'schema']
  const { status, checks } = await verbose()
  expect(status).toBe('ready')
  expect(checks.slice(0, names.length)).toMatchObject(names.map((name) => ({ name, status: 'ok' })))
  await database.sql("INSERT INTO belfry.migration (id, name, checksum) VALUES (99, '0099_newer', 'x')")
  expect(await named('schema')).toMatchObject({ status: 'ok' })
  expect(await named('schema_version')).toMatchObject({ facts: { version: '0099_newer' } })
  await database.sql('DELETE FROM belfry.migration WHERE id > 5')
  expect(await readyz()).toMatch(/\[-\] schema: .* older than this Belfry \(lacks 0006_.*not ready/s)
  const message = expect.stringContaining('lacks 0006_') as string
  expect(await named('schema')).toMatchObject({ status: 'fail', message })
})

describe('a stop', () => {
  it('ends, within the drain and a margin, while the database is frozen', async () => {
    const server = await start({ drainMs: 0 })
    await eventually(async () => (await connections()).length >= 3, 'connections are open')
    const frozen = await connections()
    for (const { pid } of frozen) process.kill(pid, 'SIGSTOP')
    try {
      const startedMs = performance.now()
      await server.stop()
      expect(performance.now() - startedMs).toBeLessThan(30_000)
    } finally {
      for (const { pid } of frozen) process.kill(pid, 'SIGCONT')
    }
    await noneLeft()
  })
})
