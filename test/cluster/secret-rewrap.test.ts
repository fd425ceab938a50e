/**
 * A new master key while secrets are in use, with real processes on a real Postgres: the process that
 * rewraps is killed -9 within a step, the command line with it; every tenant's key opens all the same, the
 * next call goes on where the last one ended, and afterwards the old key is needed by nobody. A job gets its
 * secret before, between and after, and nothing that is kept of it holds the value.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { createSystemIds } from '../../packages/server/src/adapters/system/ids.ts'
import { keyRingText } from '../../packages/server/src/domain/key-ring.ts'
import { bootstrapTenant } from '../../packages/server/src/postgres/catalog/bootstrap.ts'
import { openDatabase } from '../../packages/server/src/postgres/database.ts'
import { keyMint } from '../../packages/server/src/security/credentials.ts'
import { realClock, realRandom } from '../support/real-clock.ts'
import { eventually } from '../support/running.ts'
import { randomRing, vaultOn } from '../support/test-vault.ts'
import { type Arena, arenaHarness } from './support/arena.ts'

const harness = arenaHarness()
const launcher = fileURLToPath(new URL('../../packages/cli/bin/belfry.js', import.meta.url))
const value = 'the-value-of-the-secret/+1'
const tenants = 60
const ring = randomRing(1, 2)
const only = (number: number) => new Map([...ring].filter(([each]) => each === number))
const keysOf = (keys: typeof ring) => ({ BELFRY_SECRET_KEYS: keyRingText(keys).trim().replaceAll('\n', ',') })

/** Says back whatever header it is sent, in two ways. */
async function startEcho() {
  const heard: string[] = []
  const server = createServer((request, response) => {
    const header = String(request.headers['x-partner'])
    heard.push(header)
    response.end(`you sent ${header}, which is ${Buffer.from(`x:${header}`).toString('base64')}`)
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  harness.defer(() => void server.close())
  return { heard, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/` }
}

function rewrap(apiUrl: string, key: string) {
  const child = spawn(process.execPath, [launcher, 'secret', 'rewrap', '--step', '5', '-o', 'json'], {
    env: { ...process.env, BELFRY_URL: apiUrl, BELFRY_API_KEY: key },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const out: string[] = []
  child.stdout.setEncoding('utf8').on('data', (text: string) => out.push(text))
  child.stderr.setEncoding('utf8').on('data', (text: string) => out.push(text))
  const ended = once(child, 'close').then(([code, signal]) => ({
    how: (code ?? signal) as unknown,
    text: out.join(''),
  }))
  return { ended, kill: () => child.kill('SIGKILL') }
}

async function platformKey(arena: Arena): Promise<string> {
  const db = openDatabase({ connection: arena.postgres.connection, clock: realClock, random: realRandom })
  const parts = { db, ids: createSystemIds(), mint: keyMint }
  const { key } = await bootstrapTenant(parts, { tenant: 'ops', keyName: 'ops', scopes: ['platform'] })
  await db.close()
  return key
}

/** Tenants with a secret each, sealed under the first key. */
async function fill(arena: Arena): Promise<void> {
  const vault = vaultOn(only(1))
  for (let count = 0; count < tenants; count++) {
    const [row] = await arena.rows<{ id: string }>(
      'INSERT INTO belfry.tenant (id, name) VALUES (gen_random_uuid(), $1) RETURNING id',
      [`t${count}`],
    )
    const tenantId = row?.id ?? ''
    const key = await vault.newKey(tenantId)
    const sealed = await vault.seal(key, { tenantId, secretId: tenantId, version: 1 }, `of ${tenantId}`)
    await arena.rows('INSERT INTO belfry.tenant_key (tenant_id, wrapper_id, wrapped) VALUES ($1, $2, $3)', [
      tenantId,
      key.wrapperId,
      key.bytes,
    ])
    await arena.rows("INSERT INTO belfry.secret (tenant_id, id, name) VALUES ($1, $1, 's')", [tenantId])
    await arena.rows(
      `INSERT INTO belfry.secret_version (tenant_id, secret_id, version, sealed, created_by)
       VALUES ($1, $1, 1, $2, 'test')`,
      [tenantId, sealed],
    )
  }
}

/** Opens every secret that `fill` made, and counts the keys by what wraps them. */
async function openAll(arena: Arena, keys: typeof ring): Promise<Record<string, number>> {
  const vault = vaultOn(keys)
  const rows = await arena.rows<{ tenant_id: string; wrapper_id: string; wrapped: Buffer; sealed: Buffer }>(
    `SELECT k.tenant_id, k.wrapper_id, k.wrapped, v.sealed FROM belfry.tenant_key k
     JOIN belfry.secret_version v ON v.tenant_id = k.tenant_id AND v.secret_id = k.tenant_id`,
  )
  expect(rows).toHaveLength(tenants)
  const counts: Record<string, number> = {}
  for (const { tenant_id: tenantId, wrapper_id: wrapperId, wrapped, sealed } of rows) {
    const place = { tenantId, secretId: tenantId, version: 1 }
    expect(await vault.open({ wrapperId, bytes: wrapped }, place, sealed)).toBe(`of ${tenantId}`)
    counts[wrapperId] = (counts[wrapperId] ?? 0) + 1
  }
  return counts
}

async function rewrapped(arena: Arena): Promise<number> {
  const [row] = await arena.rows<{ count: number }>(
    "SELECT count(*)::int FROM belfry.tenant_key WHERE wrapper_id = 'ring:2'",
  )
  return row?.count ?? 0
}

async function runOnce(arena: Arena, jobName: string) {
  const client = arena.client('a')
  const run = await client.runs.create({ job: jobName })
  return client.waitForRun(run.id, { timeoutMs: 30_000 })
}

/** A job that takes the secret to the echo: refused until it is granted; nothing kept holds the value. */
async function makeJob(arena: Arena, url: string): Promise<void> {
  const { secrets, jobs } = arena.client('a')
  const secret = await secrets.create({ name: 'partner', value })
  const headers = { 'X-Partner': 'Bearer {{secrets.partner}}' }
  await jobs.create({ name: 'call', handler: { kind: 'http', url, headers }, retry: { maxAttempts: 1 } })
  const refused = await runOnce(arena, 'call')
  expect([refused.state, refused.attemptList[0]?.error?.code]).toEqual(['failed', 'secret_denied'])
  await secrets.grant(secret.id, { job: 'call' })
  // what was refused is remembered for some seconds
  await eventually(async () => (await runOnce(arena, 'call')).state === 'succeeded', 'it is granted', 20_000)
  const [attempt] = (await runOnce(arena, 'call')).attemptList
  expect(attempt?.response).toMatch(/^you sent Bearer \*\*\*, which is \S*\*\*\*\S*$/)
}

/** Rewraps with slow steps, and kills server and command line within one, after some are done. */
async function killWithinStep(arena: Arena, platform: string): Promise<void> {
  await arena.rows(`CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS
    'BEGIN PERFORM pg_sleep(0.05); RETURN NEW; END'`)
  await arena.rows(
    'CREATE TRIGGER slow BEFORE UPDATE ON belfry.tenant_key FOR EACH ROW EXECUTE FUNCTION slow()',
  )
  const server = await arena.start('a', keysOf(ring))
  const command = rewrap(server.apiUrl, platform)
  await eventually(async () => (await rewrapped(arena)) >= 15, 'three steps are done', 30_000)
  const underWay = `SELECT 1 FROM pg_stat_activity
    WHERE query LIKE '%UPDATE belfry.tenant_key%' AND wait_event = 'PgSleep'`
  await eventually(async () => (await arena.rows(underWay)).length > 0, 'a step is under way', 10_000)
  server.signal('SIGKILL')
  command.kill()
  await Promise.all([server.ended, command.ended])
  await arena.rows('DROP TRIGGER slow ON belfry.tenant_key')
}

async function stop(arena: Arena): Promise<void> {
  const node = arena.nodes.get('a')
  node?.signal('SIGTERM')
  await node?.ended
}

async function readiness(opsUrl: string) {
  const answer = await fetch(`${opsUrl}/readyz?verbose`)
  return { status: answer.status, text: await answer.text() }
}

it('is taken into use without a secret lost, whoever is killed', { timeout: 180_000 }, async () => {
  const arena = await harness.open()
  const echo = await startEcho()
  const platform = await platformKey(arena)
  await fill(arena)
  const logs: (readonly string[])[] = []
  const start = async (keys: typeof ring, name = 'a') => {
    const node = await arena.start(name, keysOf(keys))
    logs.push(node.log)
    return node
  }
  await start(only(1))
  await makeJob(arena, echo.url)
  await stop(arena)

  await killWithinStep(arena, platform)
  const between = await openAll(arena, ring)
  expect((await rewrapped(arena)) % 5, 'a step is done as a whole or not at all').toBe(0)
  expect(between['ring:1']).toBeGreaterThan(0)

  const again = await start(ring)
  expect((await runOnce(arena, 'call')).state).toBe('succeeded')
  const second = await rewrap(again.apiUrl, platform).ended
  expect([second.how, second.text]).toEqual([0, expect.stringContaining('"left": 0')])
  expect(await openAll(arena, only(2))).toEqual({ 'ring:2': tenants })
  await stop(arena)

  // the old key goes; who has no other is not ready and says why
  const last = await start(only(2))
  expect((await runOnce(arena, 'call')).state).toBe('succeeded')
  expect((await readiness(last.opsUrl)).status).toBe(200)
  const stale = await start(only(1), 'stale')
  const { status, text } = await readiness(stale.opsUrl)
  expect([status, text]).toEqual([503, expect.stringContaining('need the master key ring:2')])
  expect(logs.flat().join('\n')).not.toContain(value)
  expect(new Set(echo.heard)).toEqual(new Set([`Bearer ${value}`]))
})
