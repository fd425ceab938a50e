// Everything through a real PgBouncer in transaction mode: migrations and first key, two servers, a remote
// worker, the embedded library with its lease thread, runs asked for inside the caller's own transaction; one
// server is killed meanwhile. The settings are those of docs/how-to/own-postgres.md. Nothing is lost, and
// Postgres sees only the few connections of the pooler.
import { spawn } from 'node:child_process'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { createBelfry } from 'belfry'
import pg from 'pg'
import { expect, test } from 'vitest'
import { describeNeeding } from '../support/needs.ts'
import { eventually } from '../support/running.ts'
import type { Arena } from './support/arena.ts'
import { arenaHarness } from './support/arena.ts'
import { findFaults } from './support/checker.ts'
import { taskJob } from './support/function-worker.ts'
import type { PgBouncer } from './support/pgbouncer.ts'
import { startPgBouncer } from './support/pgbouncer.ts'
import { nextSecond, planEachSecond, untilQuiet } from './support/quiet.ts'
import { begun, enqueueMany, openWorkerRig } from './support/worker-rig.ts'

const harness = arenaHarness()
const launcher = fileURLToPath(new URL('../../packages/cli/bin/belfry.js', import.meta.url))
const owner = { name: 'pooled_owner', password: 'owner pass' }
const poolSize = 6
const settings = { databaseHints: 'local', databasePreparedStatements: false } as const
const env = { BELFRY_DATABASE_HINTS: 'local', BELFRY_DATABASE_PREPARED_STATEMENTS: 'false' }

async function startPooler(arena: Arena, executable: string): Promise<PgBouncer> {
  const { port } = new URL(arena.databaseUrl)
  const logins = { belfry: arena.password, [owner.name]: owner.password }
  const { dataDir } = arena
  const pooler = await startPgBouncer({ executable, dataDir, port: Number(port), logins, poolSize })
  harness.defer(pooler.stop)
  return pooler
}

const through = (url: string, { port }: PgBouncer): string => url.replace(/:\d+\//, `:${port}/`)

async function belfry(args: readonly string[], databaseUrl: string) {
  const child = spawn(process.execPath, [launcher, ...args], {
    env: { ...process.env, ...env, DATABASE_URL: databaseUrl },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const ended = new Promise<number | null>((resolve) => child.once('close', resolve))
  harness.defer(async () => {
    child.kill('SIGKILL')
    await ended
  })
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr)])
  return { code: await ended, stdout, stderr }
}

/** A run and a row of the caller, in one transaction that passes the pooler. */
async function enqueueInside(databaseUrl: string, run: (client: pg.Client) => Promise<unknown>, end: string) {
  const client = new pg.Client(databaseUrl)
  client.on('error', () => undefined)
  await client.connect()
  await client.query('BEGIN')
  await run(client)
  await client.query(end)
  await client.end()
}

describeNeeding('pgbouncer', 'behind PgBouncer in transaction mode', (executable) => {
  test('a database is migrated and gets its first key', async () => {
    const arena = await harness.open()
    await arena.rows(`CREATE ROLE ${owner.name} LOGIN SUPERUSER PASSWORD '${owner.password}'`)
    await arena.rows(`CREATE DATABASE pooled OWNER ${owner.name}`)
    const { port } = await startPooler(arena, executable)
    const url = `postgres://${owner.name}:${encodeURIComponent(owner.password)}@127.0.0.1:${port}/pooled`
    const migrated = await belfry(['server', 'migrate'], url)
    expect([migrated.code, migrated.stderr]).toEqual([
      0,
      expect.stringContaining('The schema is up to date.'),
    ])
    const made = await belfry(['server', 'init', 'main'], url)
    expect([made.code, made.stderr]).toEqual([0, expect.stringContaining('Made the tenant main')])
  })

  test('servers, workers and the embedded library lose nothing, with a kill -9 meanwhile', async () => {
    const rig = await openWorkerRig(harness, { queues: ['embedded'] })
    const { arena } = rig
    const pooler = await startPooler(arena, executable)
    const databaseUrl = through(arena.databaseUrl, pooler)
    arena.nodes.get('a')?.signal('SIGTERM')
    await arena.nodes.get('a')?.ended
    const pooled = { ...env, DATABASE_URL: databaseUrl }
    for (const name of ['a', 'b', 'c']) await arena.start(name, pooled)
    const client = arena.client()
    const { url } = client
    const remote = await rig.start({ url, task: 'after:50', slots: 20 })
    const inside = { task: 'freeze:1000', queue: 'embedded', databaseUrl, settings } as const
    const embedded = await rig.start(inside)

    const handler = { kind: 'http', url: `${arena.ledger.url}/work` } as const
    const retry = { maxAttempts: 20, baseMs: 200, capMs: 1_000 }
    await client.jobs.create({ name: 'each', handler, retry, attemptTimeoutMs: 20_000 })
    const firstMs = nextSecond(1_000)
    const expected = await planEachSecond(client, { job: 'each', count: 10, firstMs, seconds: 12 })
    const asked = await enqueueMany(client, taskJob(), 200)
    asked.push(...(await enqueueMany(client, taskJob({ queue: 'embedded' }), 8)))
    const job = taskJob()
    const own = createBelfry({ databaseUrl, tenant: 'chaos', work: false, settings, migrate: false })
    harness.defer(() => own.stop())
    await own.start()
    const inTransaction = async (end: 'COMMIT' | 'ROLLBACK'): Promise<string> => {
      let id = ''
      const run = async (transaction: pg.Client) => {
        id = (await own.enqueue(job, null, { client: transaction })).id
      }
      await enqueueInside(databaseUrl, run, end)
      return id
    }
    asked.push(await inTransaction('COMMIT'))
    const undone = await inTransaction('ROLLBACK')
    expect(await arena.rows('SELECT FROM belfry.run WHERE id = $1', [undone])).toEqual([])
    await eventually(() => arena.ledger.calls.length > 30, 'runs', 60_000)
    arena.nodes.get('c')?.signal('SIGKILL')
    const direct = await arena.rows(
      `SELECT FROM pg_stat_activity WHERE usename = 'belfry' AND backend_type = 'client backend'`,
    )
    expect(direct.length, 'connections of the pooler alone').toBeLessThanOrEqual(poolSize)

    const sql = await untilQuiet(arena, Date.now() + 90_000)
    harness.defer(() => sql.end())
    const { calls } = arena.ledger
    const faults = await findFaults({ sql, expected, calls, atMostOnceScheduleIds: new Set() })
    expect(faults.slice(0, 20), pooler.log().split('\n').slice(-10).join('\n')).toEqual([])
    const ends = await sql.query<{ run_id: string }>(
      `SELECT run_id FROM belfry.attempt WHERE run_id = ANY($1) AND run_state = 'succeeded'`,
      [asked],
    )
    expect(ends.rows.map((row) => row.run_id).toSorted()).toEqual(asked.toSorted())
    expect(begun(remote).length).toBeGreaterThanOrEqual(200)
    expect(begun(embedded)).toHaveLength(8)
  })
})
