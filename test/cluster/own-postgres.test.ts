/**
 * docs/how-to/own-postgres.md as somebody would follow it, with the real command and real processes: on the
 * system's Postgres and on an 18, with each kind of login that may migrate, a runtime login that owns
 * nothing, and passwords. What Belfry sends is listened to on the wire.
 */
import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import type { NetConnectOpts } from 'node:net'
import { text } from 'node:stream/consumers'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { createClient } from '@belfry/sdk'
import pg from 'pg'
import { afterEach, describe, expect, it } from 'vitest'
import { startEmbeddedPostgres } from '../../packages/server/src/postgres/embedded/embedded-postgres.ts'
import { describeNeeding } from '../support/needs.ts'
import { startSystemPostgres } from '../support/postgres.ts'
import { eventually } from '../support/running.ts'
import { startLedger } from './support/ledger.ts'
import type { Ledger } from './support/ledger.ts'
import { spawnNode } from './support/node-process.ts'
import type { NodeProcess } from './support/node-process.ts'
import { startWireTap } from './support/wire-tap.ts'
import type { WireTap } from './support/wire-tap.ts'

const launcher = fileURLToPath(new URL('../../packages/cli/bin/belfry.js', import.meta.url))
const ownerPassword = 'own%er pass'
const runtimePassword = randomBytes(12).toString('base64url')

const cleanUps: (() => Promise<void> | void)[] = []
afterEach(async () => {
  const failures: unknown[] = []
  for (const cleanUp of cleanUps.splice(0).reverse()) {
    await Promise.resolve()
      .then(cleanUp)
      .catch((error: unknown) => failures.push(error))
  }
  if (failures.length > 0) throw new AggregateError(failures, 'The place could not be cleared.')
})

/** A Postgres that asks everybody but the test's own superuser for a password. */
interface Place {
  readonly sql: pg.Client
  readonly target: NetConnectOpts
  /** Without a pooler or a tap. */
  readonly urlOf: (user: string, password: string) => string
}

interface Finished {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

/** `belfry …` to its end. */
async function belfry(args: readonly string[], databaseUrl: string): Promise<Finished> {
  const env = { ...process.env, DATABASE_URL: databaseUrl }
  const child = spawn(process.execPath, [launcher, ...args], { env, stdio: ['ignore', 'pipe', 'pipe'] })
  const ended = new Promise<number | null>((resolve) => child.once('close', resolve))
  cleanUps.push(async () => {
    child.kill('SIGKILL')
    await ended
  })
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr)])
  return { code: await ended, stdout, stderr }
}

async function start(url: string, more: Record<string, string> = {}): Promise<NodeProcess> {
  const node = spawnNode('own', { DATABASE_URL: url, BELFRY_EGRESS_ALLOW: '127.0.0.0/8', ...more })
  cleanUps.push(async () => {
    node.signal('SIGKILL')
    await node.ended
  })
  return node.ready
}

async function connectAdmin(connection: pg.ClientConfig): Promise<pg.Client> {
  const sql = new pg.Client(connection)
  sql.on('error', () => undefined)
  await sql.connect()
  cleanUps.push(() => sql.end())
  return sql
}

const encode = encodeURIComponent

async function systemPlace(binDir: string): Promise<Place> {
  const server = await startSystemPostgres(binDir)
  cleanUps.push(server.stop)
  const { host, port } = server.adminConnection
  const sql = await connectAdmin(server.adminConnection)
  const { rows } = await sql.query<{ hba_file: string }>('SHOW hba_file')
  writeFileSync(String(rows[0]?.hba_file), 'local all postgres trust\nlocal all all scram-sha-256\n')
  await sql.query('SELECT pg_reload_conf()')
  return {
    sql,
    target: { path: `${host}/.s.PGSQL.${port}` },
    urlOf: (user, password) => `postgres://${user}:${encode(password)}@${encode(host)}/belfry`,
  }
}

async function embeddedPlace(): Promise<Place> {
  const dataDir = mkdtempSync(join(tmpdir(), 'belfry-own-'))
  cleanUps.push(() => rmSync(dataDir, { recursive: true, force: true }))
  const port = await freePort()
  const server = await startEmbeddedPostgres({ dataDir, port, log: () => undefined })
  cleanUps.push(server.stop)
  return {
    sql: await connectAdmin(server.adminConnection),
    target: { host: '127.0.0.1', port },
    urlOf: (user, password) => `postgres://${user}:${encode(password)}@127.0.0.1:${port}/belfry`,
  }
}

async function freePort(): Promise<number> {
  const tap = await startWireTap({ host: '127.0.0.1', port: 1 })
  await tap.close()
  return tap.port
}

/** Who migrates, and what an administrator does for that login beforehand. */
const owners = {
  'a superuser': ['CREATE ROLE belfry_owner LOGIN SUPERUSER'],
  'an owner with CREATEROLE': [
    'CREATE ROLE belfry_owner LOGIN CREATEROLE',
    'ALTER DATABASE belfry OWNER TO belfry_owner',
  ],
  'an owner whose roles somebody made': [
    'CREATE ROLE belfry_owner LOGIN',
    'ALTER DATABASE belfry OWNER TO belfry_owner',
    'CREATE ROLE belfry_app; CREATE ROLE belfry_engine; CREATE ROLE belfry_platform',
    'GRANT belfry_app, belfry_engine, belfry_platform TO belfry_owner',
  ],
} as const
type Owner = keyof typeof owners
const ownerKinds = Object.keys(owners) as Owner[]

/** Before anything of Belfry is there: nothing starts, and what to do is said. */
async function refusesAnEmptyDatabase(url: string): Promise<void> {
  for (const args of [
    ['server', 'start'],
    ['server', 'init', 'main'],
  ]) {
    const refused = await belfry(args, url)
    expect(refused.code, refused.stderr).toBe(1)
    expect(refused.stderr).toMatch(
      /older than this Belfry \(lacks 0001_\w+, .*\)\. Run: belfry server migrate/,
    )
    expect(refused.stderr).not.toMatch(/\n\s+at /)
    expect(refused.stdout + refused.stderr).not.toContain(runtimePassword)
  }
}

async function migrates(url: string): Promise<void> {
  const first = await belfry(['server', 'migrate'], url)
  expect(first.code, first.stderr).toBe(0)
  expect(first.stderr).toMatch(/Applied 0001_\w+, .*\. The schema is up to date\.\n$/)
  const again = await belfry(['server', 'migrate'], url)
  expect(again).toEqual({ code: 0, stdout: '', stderr: 'The schema is up to date.\n' })
}

/** Makes a key, which is shown once and stored nowhere; answers it. */
async function initializes(url: string, sql: pg.Client, first: boolean): Promise<string> {
  const made = await belfry(['server', 'init', 'main'], url)
  expect(made.code, made.stderr).toBe(0)
  expect(made.stderr).toMatch(first ? /^Made the tenant main and an API key/ : /^The tenant main was there/)
  const [key = '', ...others] = made.stdout.match(/^\S{20,}$/gm) ?? []
  expect(others).toEqual([])
  expect(made.stdout.split(key)).toHaveLength(2)
  expect(made.stderr).not.toContain(key)
  const stored = await sql.query<{ text: string }>('SELECT k::text AS text FROM belfry.api_key AS k')
  expect(stored.rows.filter((row) => row.text.includes(key))).toEqual([])
  return key
}

/** A schedule a second ahead fires, and its run is done at the target. */
async function fires(node: NodeProcess, apiKey: string, ledger: Ledger, name: string): Promise<void> {
  const client = createClient({ url: node.apiUrl, apiKey })
  await client.jobs.create({ name, handler: { kind: 'http', url: `${ledger.url}/work` } })
  const at = new Date(Date.now() + 1_000).toISOString()
  const schedule = await client.schedules.create({ name, job: name, at })
  const fired = async () => (await client.schedules.occurrences(schedule.id).take(1))[0]?.runId ?? undefined
  const runId = await eventually(fired, `${name} fires`, 30_000)
  const run = await client.waitForRun(runId, { timeoutMs: 30_000 })
  expect(run.state, node.log.join('\n')).toBe('succeeded')
  expect(ledger.calls.filter((call) => call.runId === runId)).toHaveLength(1)
}

async function stops(node: NodeProcess): Promise<void> {
  node.signal('SIGTERM')
  expect(await node.ended, node.log.join('\n')).toBe(0)
}

/**
 * Under an owner that is no superuser row-level security holds for the owner too, who moves rows and drops
 * days.
 */
async function keepsPartitions(sql: pg.Client): Promise<void> {
  const day = `(now() AT TIME ZONE 'UTC')::date + 40`
  await sql.query(
    `INSERT INTO belfry.occurrence (schedule_id, scheduled_for, tenant_id, outcome, run_id, due_at)
     SELECT gen_random_uuid(), t.at, gen_random_uuid(), 'ran', gen_random_uuid(), t.at
     FROM (SELECT (${day})::timestamp AT TIME ZONE 'UTC' + interval '1 hour' AS at) AS t`,
  )
  const count = async (table: string) =>
    (await sql.query<{ n: number }>(`SELECT count(*)::int AS n FROM ONLY belfry.${table}`)).rows[0]?.n
  expect(await count('occurrence_default')).toBe(1)
  await sql.query('SET ROLE belfry_engine')
  const made = await sql.query<{ name: string }>(
    `SELECT name FROM belfry.make_partitions(${day}) AS made (name)`,
  )
  await sql.query('RESET ROLE')
  const names = made.rows.map((row) => row.name)
  const kinds = names.map((name) => name.replace(/_\d+$/, '')).sort()
  expect(kinds).toEqual(['attempt', 'occurrence', 'run', 'run_log', 'workflow_run'])
  expect(await count('occurrence_default')).toBe(0)
  expect(await count(names.find((name) => name.startsWith('occurrence')) ?? '')).toBe(1)
  await sql.query('SET ROLE belfry_engine')
  const dropped = await sql.query<{ name: string }>(
    `SELECT name FROM belfry.drop_partitions(${day}) AS dropped (name)`,
  )
  await sql.query('RESET ROLE')
  expect(dropped.rows.map((row) => row.name)).toEqual(expect.arrayContaining(names))
}

const ownersOfThings = `
SELECT DISTINCT r.rolname AS name FROM pg_shdepend d JOIN pg_roles r ON r.oid = d.refobjid
WHERE d.deptype = 'o' AND r.rolname LIKE 'belfry%'`

async function prepare(place: Place, owner: Owner): Promise<void> {
  for (const line of owners[owner]) await place.sql.query(line)
  await place.sql.query(`ALTER ROLE belfry_owner PASSWORD ${pg.escapeLiteral(ownerPassword)}`)
  await place.sql.query(
    `CREATE ROLE belfry_runtime LOGIN NOINHERIT PASSWORD ${pg.escapeLiteral(runtimePassword)}`,
  )
}

/** The whole how-to. */
async function follow(place: Place, owner: Owner): Promise<void> {
  const { sql } = place
  await prepare(place, owner)
  const ownerUrl = place.urlOf('belfry_owner', ownerPassword)
  const runtimeUrl = place.urlOf('belfry_runtime', runtimePassword)
  await refusesAnEmptyDatabase(runtimeUrl)
  await migrates(ownerUrl)
  await initializes(ownerUrl, sql, true)
  await grantRuntime(place, owner, ownerUrl)
  const key = await initializes(runtimeUrl, sql, false)
  const ledger = await startLedger()
  cleanUps.push(ledger.close)
  const tap = await startWireTap(place.target)
  cleanUps.push(tap.close)
  const tapUrl = `postgres://belfry_runtime:${runtimePassword}@127.0.0.1:${tap.port}/belfry`

  const node = await start(tapUrl)
  await fires(node, key, ledger, 'prepared')
  await stops(node)
  expect(tap.prepared.filter((name) => name !== '').length).toBeGreaterThan(10)
  expect(tap.queries).toContain('LISTEN belfry_hint')

  await firesBehindAPooler(tap, tapUrl, key, ledger)
  await keepsPartitions(sql)
}

/** By the owner itself, where it made the roles. */
async function grantRuntime(place: Place, owner: Owner, ownerUrl: string): Promise<void> {
  const grant = 'GRANT belfry_app, belfry_engine, belfry_platform TO belfry_runtime'
  if (owner === 'an owner whose roles somebody made') {
    await place.sql.query(grant)
    return
  }
  const client = new pg.Client(ownerUrl)
  await client.connect()
  await client.query(grant)
  await client.end()
}

/** What PgBouncer in transaction mode cannot do is not asked for: nothing outlives a transaction. */
async function firesBehindAPooler(tap: WireTap, url: string, key: string, ledger: Ledger): Promise<void> {
  tap.prepared.length = 0
  tap.queries.length = 0
  const node = await start(url, {
    BELFRY_DATABASE_PREPARED_STATEMENTS: 'false',
    BELFRY_DATABASE_HINTS: 'local',
  })
  await fires(node, key, ledger, 'unprepared')
  await stops(node)
  expect(tap.prepared.length).toBeGreaterThan(10)
  expect(tap.prepared.filter((name) => name !== '')).toEqual([])
  expect(tap.queries).toContain('BEGIN')
  expect(tap.queries.filter((query) => /^\s*(?:LISTEN|PREPARE|DECLARE|SET)\b/i.test(query))).toEqual([])
}

describeNeeding('system-postgres', 'on the Postgres of the system', (binDir) => {
  it.each(ownerKinds)('%s migrates, and a login that owns nothing serves', async (owner) => {
    const place = await systemPlace(binDir)
    await follow(place, owner)
    expect((await place.sql.query(ownersOfThings)).rows).toEqual([{ name: 'belfry_owner' }])
  })
})

describe('on Postgres 18', () => {
  // From 16 on, who makes a role may not become it without a further grant.
  it('an owner with CREATEROLE migrates, and a login that owns nothing serves', async () => {
    const place = await embeddedPlace()
    await follow(place, 'an owner with CREATEROLE')
    expect((await place.sql.query(ownersOfThings)).rows).toEqual([{ name: 'belfry_owner' }])
  })

  it('says which login may not become which role, and the fix', async () => {
    const place = await embeddedPlace()
    await prepare(place, 'an owner with CREATEROLE')
    await migrates(place.urlOf('belfry_owner', ownerPassword))
    const refused = await belfry(['server', 'start'], place.urlOf('belfry_runtime', runtimePassword))
    expect(refused.code).toBe(1)
    expect(refused.stderr).toMatch(
      /login "belfry_runtime" .* run: GRANT belfry_app, belfry_engine, belfry_platform TO "belfry_runtime"/,
    )
  })
})
