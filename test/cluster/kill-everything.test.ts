/**
 * The proof of the foundation: three real Belfry processes on one real Postgres, 2,000 planned times over 40 seconds,
 * and meanwhile every process is killed -9 and started again in turn, one is stopped past its lease and woken, and
 * Postgres is killed -9 and comes back. Nothing may be lost, nothing may fire that nobody planned, nothing may run twice
 * without a reason on record.
 */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { createClient } from '@belfry/sdk'
import type { Client } from '@belfry/sdk'
import pg from 'pg'
import { afterEach, expect, it } from 'vitest'
import { createSystemIds } from '../../packages/server/src/adapters/system/ids.ts'
import { keyMint } from '../../packages/server/src/security/credentials.ts'
import { openDatabase } from '../../packages/server/src/postgres/database.ts'
import { bootstrapTenant } from '../../packages/server/src/postgres/catalog/bootstrap.ts'
import { startEmbeddedPostgres } from '../../packages/server/src/postgres/embedded/embedded-postgres.ts'
import type { EmbeddedPostgres } from '../../packages/server/src/postgres/embedded/embedded-postgres.ts'
import { migrate } from '../../packages/server/src/postgres/migrate.ts'
import { realClock } from '../support/real-clock.ts'
import { startLedger } from './support/ledger.ts'
import type { Ledger } from './support/ledger.ts'
import { countAlive, findFaults } from './support/checker.ts'
import type { ExpectedSchedule } from './support/checker.ts'
import { startNode } from './support/node-process.ts'
import type { NodeProcess } from './support/node-process.ts'

const windowMs = 40_000
const leadMs = 15_000
const settleMs = 90_000
const nodeNames = ['a', 'b', 'c'] as const

const cleanUps: (() => Promise<void> | void)[] = []
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp()
})

interface Arena {
  readonly postgres: EmbeddedPostgres
  readonly sql: pg.Client
  readonly ledger: Ledger
  readonly env: Record<string, string>
  readonly nodes: Map<string, NodeProcess>
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  const { port } = server.address() as AddressInfo
  await new Promise((resolve) => server.close(resolve))
  return port
}

async function openArena(): Promise<{ arena: Arena; client: () => Client }> {
  const dataDir = mkdtempSync(join(tmpdir(), 'belfry-cluster-'))
  cleanUps.push(() => rmSync(dataDir, { recursive: true, force: true }))
  const postgres = await startEmbeddedPostgres({ dataDir, port: await freePort(), log: () => undefined })
  cleanUps.push(postgres.stop)
  await migrate(postgres.adminConnection, { log: () => undefined, runtimeLogin: 'belfry' })
  const db = openDatabase({ connection: postgres.connection, clock: realClock })
  const { key } = await bootstrapTenant(
    { db, ids: createSystemIds(), mint: keyMint },
    { tenant: 'chaos', keyName: 'chaos', scopes: ['admin'] },
  )
  await db.close()
  const ledger = await startLedger()
  cleanUps.push(ledger.close)
  const tcp = postgres.tcp
  if (tcp === undefined) throw new Error('the embedded Postgres has no port')
  const password = encodeURIComponent(readFileSync(tcp.passwordFile, 'utf8').trim())
  const env = {
    DATABASE_URL: `postgres://belfry:${password}@${tcp.host}:${tcp.port}/belfry`,
    BELFRY_LEASE_MS: '4000',
    BELFRY_HEARTBEAT_MS: '1000',
    BELFRY_TERM_MS: '4000',
    BELFRY_RESCUE_MS: '1000',
    BELFRY_DRAIN_MS: '5000',
    BELFRY_EGRESS_ALLOW: '127.0.0.0/8',
  }
  const nodes = new Map<string, NodeProcess>()
  cleanUps.push(async () => {
    for (const node of nodes.values()) {
      node.signal('SIGCONT')
      node.signal('SIGKILL')
      await node.ended
    }
  })
  for (const name of nodeNames) nodes.set(name, await startNode(name, env))
  const client = (): Client => {
    const [first] = nodes.values()
    if (first === undefined) throw new Error('no node is up')
    return createClient({ url: first.apiUrl, apiKey: key })
  }
  return { arena: { postgres, sql: await connect(postgres), ledger, env, nodes }, client }
}

/** A connection to look with; it is made again when Postgres comes back. */
async function connect(postgres: EmbeddedPostgres): Promise<pg.Client> {
  const sql = new pg.Client(postgres.adminConnection)
  sql.on('error', () => undefined)
  await sql.connect()
  return sql
}

/** 900 `at`, 21 × 40 `rate`, 40 × 4 cron, 100 `at` at most once: 2,000 planned times. */
async function plan(client: Client, target: string, firstMs: number): Promise<{
  expected: ExpectedSchedule[]
  atMostOnce: Set<string>
}> {
  const iso = (ms: number): string => new Date(ms).toISOString()
  const handler = { kind: 'http', url: target } as const
  const bounds = { startAt: iso(firstMs), endAt: iso(firstMs + windowMs) }
  const rules = { overlap: 'allow', catchUp: { policy: 'all', windowMs: 3_600_000, maxRuns: 1_000 } } as const
  const retry = { maxAttempts: 10, baseMs: 200, capMs: 2_000 } as const
  await client.jobs.create({ name: 'least', handler, retry, attemptTimeoutMs: 10_000 })
  await client.jobs.create({ name: 'most', handler, delivery: 'at_most_once', attemptTimeoutMs: 10_000 })
  const expected: ExpectedSchedule[] = []
  const atMostOnce = new Set<string>()
  const add = async (body: object, job: string, times: readonly number[]): Promise<void> => {
    const name = `s-${expected.length}`
    const made = await client.request('scheduleCreate', { body: { name, job, ...rules, ...body } as never })
    expected.push({ scheduleId: made.id, times })
    if (job === 'most') atMostOnce.add(made.id)
  }
  const at = (index: number, count: number): number => firstMs + Math.floor((index * windowMs) / count)
  const series = (stepMs: number): number[] => Array.from({ length: windowMs / stepMs }, (_, k) => firstMs + k * stepMs)
  const work: (() => Promise<void>)[] = []
  for (let index = 0; index < 900; index++) work.push(() => add({ at: iso(at(index, 900)) }, 'least', [at(index, 900)]))
  for (let index = 0; index < 100; index++) work.push(() => add({ at: iso(at(index, 100)) }, 'most', [at(index, 100)]))
  for (let index = 0; index < 21; index++) work.push(() => add({ every: '1s', ...bounds }, 'least', series(1_000)))
  for (let index = 0; index < 40; index++) {
    work.push(() => add({ cron: '*/10 * * * * *', ...bounds }, 'least', series(10_000)))
  }
  for (let from = 0; from < work.length; from += 20) await Promise.all(work.slice(from, from + 20).map((each) => each()))
  return { expected, atMostOnce }
}

async function killAndRestart(arena: Arena, name: string): Promise<void> {
  const node = arena.nodes.get(name)
  if (node === undefined) throw new Error(`no node ${name}`)
  node.signal('SIGKILL')
  await node.ended
  arena.nodes.set(name, await startNode(name, arena.env))
}

/** Runs each act at its second of the window. */
async function wreak(arena: Arena, firstMs: number): Promise<void> {
  const acts: [second: number, act: () => Promise<void> | void][] = [
    [5, () => killAndRestart(arena, 'a')],
    [11, () => killAndRestart(arena, 'b')],
    [17, () => killAndRestart(arena, 'c')],
    [23, () => void process.kill(arena.postgres.pid, 'SIGKILL')],
    [29, () => arena.nodes.get('a')?.signal('SIGSTOP')],
    [36, () => arena.nodes.get('a')?.signal('SIGCONT')],
  ]
  for (const [second, act] of acts) {
    await wait(Math.max(0, firstMs + second * 1_000 - Date.now()))
    await act()
  }
}

async function untilQuiet(arena: Arena, untilMs: number): Promise<pg.Client> {
  let sql = await connect(arena.postgres)
  while (Date.now() < untilMs) {
    const left = await countAlive(sql).catch(async () => {
      await sql.end().catch(() => undefined)
      sql = await connect(arena.postgres).catch(() => sql)
      return undefined
    })
    const timers = left === 0 ? (await sql.query('SELECT FROM belfry.timer LIMIT 1')).rowCount : undefined
    if (left === 0 && timers === 0) break
    await wait(250)
  }
  cleanUps.push(() => sql.end())
  return sql
}

it('loses nothing while every process and Postgres are killed in turn', { timeout: 300_000 }, async () => {
  const { arena, client } = await openArena()
  const firstMs = Math.ceil((Date.now() + leadMs) / 10_000) * 10_000
  const { expected, atMostOnce } = await plan(client(), `${arena.ledger.url}/work`, firstMs)
  await arena.sql.end()
  expect(expected.flatMap((each) => each.times)).toHaveLength(2_000)
  expect(Date.now(), 'the plan must be in place before its first time').toBeLessThan(firstMs)

  await wreak(arena, firstMs)
  const sql = await untilQuiet(arena, firstMs + windowMs + settleMs)

  const faults = await findFaults({ sql, expected, calls: arena.ledger.calls, atMostOnceScheduleIds: atMostOnce })
  expect(faults.slice(0, 20), [...arena.nodes.values()].flatMap((node) => node.log.slice(-5)).join('\n')).toEqual([])
  const lost = await sql.query<{ n: number }>("SELECT count(*)::int AS n FROM belfry.attempt WHERE outcome = 'lost'")
  expect(lost.rows[0]?.n, 'the chaos must have hit something').toBeGreaterThan(0)
})
