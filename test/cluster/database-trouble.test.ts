/**
 * A database that is away, read-only, or frozen, while Belfry runs or starts. In each
 * case Belfry says so, leaves nothing half-done, and goes on by itself when it is over: nobody restarts it,
 * and no planned time is lost. (A full disk is in full-disk.test.ts; cut
 * connections and restarts under load in database-chaos.test.ts.)
 */
import { setTimeout as wait } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { arenaHarness, freePort } from './support/arena.ts'
import type { Arena } from './support/arena.ts'
import { freeze } from './support/freeze.ts'
import { findFaults } from './support/checker.ts'
import type { ExpectedSchedule } from './support/checker.ts'
import { parseLine } from './support/node-process.ts'
import type { NodeProcess, SpawnedNode } from './support/node-process.ts'
import { nextSecond, planEachSecond, untilQuiet } from './support/quiet.ts'
import { countRows } from './support/row-counts.ts'

const harness = arenaHarness()
const patient = { timeout: 60_000, interval: 50 }
const settleMs = 60_000

async function makeJob(arena: Arena, name: string, path: string, more: object = {}): Promise<void> {
  const handler = { kind: 'http', url: `${arena.ledger.url}${path}` } as const
  const retry = { maxAttempts: 10, baseMs: 200, capMs: 2_000 }
  await arena.client().jobs.create({ name, handler, retry, attemptTimeoutMs: 60_000, ...more })
}

/** Waits for quiet and lets the checker see all that came of schedules, whose target is `/work`. */
async function expectNothingLost(arena: Arena, expected: readonly ExpectedSchedule[]): Promise<void> {
  const sql = await untilQuiet(arena, Date.now() + settleMs)
  harness.defer(() => sql.end())
  const calls = arena.ledger.calls.filter((call) => call.path === '/work')
  const faults = await findFaults({ sql, expected, calls, atMostOnceScheduleIds: new Set() })
  const words = [...arena.nodes.values()].flatMap((node) => node.log.slice(-5)).join('\n')
  expect(faults.slice(0, 20), words).toEqual([])
  const stray = [...arena.nodes.values()].flatMap((node) =>
    node.log.filter((text) => parseLine(text) === undefined),
  )
  expect(stray, 'warnings of the runtime, for example of a leak').toEqual([])
}

/** What a process said at `warn` and above about waiting for its database: text, and when. */
function waitingWords(node: SpawnedNode): { message: string; atMs: number }[] {
  return node.log.flatMap((text) => {
    const entry = parseLine(text)
    const message = String(entry?.['message'])
    if (!message.includes('does not answer')) return []
    return [{ message, atMs: Date.parse(String(entry?.['time'])) }]
  })
}

async function isRunning(node: SpawnedNode): Promise<boolean> {
  return (await Promise.race([node.ended, Promise.resolve('running')])) === 'running'
}

describe('a database that is down at start', () => {
  it('is waited for, with words, growing pauses and no password; then all is well', async () => {
    const arena = await harness.open()
    await arena.stopPostgres()
    const opsPort = await freePort()
    const node = arena.spawn('a', { BELFRY_OPS_PORT: String(opsPort) })
    await expect.poll(() => waitingWords(node).length, patient).toBeGreaterThanOrEqual(6)
    const status = async (path: string) => (await fetch(`http://127.0.0.1:${opsPort}${path}`)).status
    expect(await Promise.all([status('/livez'), status('/readyz')])).toEqual([200, 503])
    const words = waitingWords(node)
    expect(words[0]?.message).toMatch(
      /Postgres at 127\.0\.0\.1:\d+, database "belfry" does not answer .*ECONNREFUSED/,
    )
    const pauseMs = (words[5]?.atMs ?? 0) - (words[4]?.atMs ?? 0)
    expect(pauseMs, 'the pause after the fifth try is at least half of 3.2 s').toBeGreaterThanOrEqual(1_600)
    expect(await isRunning(node), 'it must not exit in a loop').toBe(true)

    await arena.startPostgres()
    const back = performance.now()
    const up = await node.ready
    process.stdout.write(`down at start: ready ${Math.round(performance.now() - back)} ms after Postgres\n`)
    expect((await arena.call(up, 'GET', '/v1/jobs')).status).toBe(200)
    expect(node.log.join('\n')).not.toContain(arena.password)
  })

  it('does not keep a process that is asked to stop', async () => {
    const arena = await harness.open()
    await arena.stopPostgres()
    const node = arena.spawn('a')
    await expect.poll(() => waitingWords(node).length, patient).toBeGreaterThanOrEqual(4)
    const askedMs = performance.now()
    node.signal('SIGTERM')
    await node.ended
    expect(performance.now() - askedMs).toBeLessThan(5_000)
    expect(node.log.join('\n')).toContain('Stopped while waiting for the database')
  })

  it('that refuses the password is no reason to wait: says so without the password, and ends', async () => {
    const arena = await harness.open()
    const { tcp } = arena.postgres
    const url = `postgres://belfry:wrong-secret@${tcp?.host}:${tcp?.port}/belfry`
    const node = arena.spawn('a', { DATABASE_URL: url })
    expect(await node.ended).toBe(1)
    const said = node.log.join('\n')
    expect(said).toContain('Check DATABASE_URL')
    expect(said).not.toContain('wrong-secret')
  })
})

async function setReadOnly(arena: Arena, on: boolean): Promise<void> {
  await arena.rows(`ALTER SYSTEM SET default_transaction_read_only = ${on ? 'on' : 'off'}`)
  // reaches the sessions that are open too
  await arena.rows('SELECT pg_reload_conf()')
}

async function untilRefused(arena: Arena, node: NodeProcess, code: string): Promise<void> {
  let number = 0
  const probe = async () =>
    (await arena.call(node, 'POST', '/v1/jobs', spare(arena, `probe-${number++}`))).body['code']
  await expect.poll(probe, patient).toBe(code)
}

type Write = readonly [method: string, path: string, body?: object]

const spare = (arena: Arena, name: string) => ({
  name,
  handler: { kind: 'http', url: `${arena.ledger.url}/asked` } as const,
})

/** Requests of every kind that changes something; all of them are valid. */
async function makeWrites(arena: Arena): Promise<readonly Write[]> {
  const client = arena.client()
  const job = await client.jobs.create(spare(arena, 'spare'))
  const schedule = await client.schedules.create({ ...spare(arena, 'spare-schedule'), every: '1h' })
  const run = await client.runs.create({
    job: 'spare',
    runAt: new Date(Date.now() + 3_600_000).toISOString(),
  })
  return [
    ['POST', '/v1/jobs', spare(arena, 'new-job')],
    ['PATCH', `/v1/jobs/${job.id}`, { priority: 5 }],
    [
      'POST',
      '/v1/schedules',
      { ...spare(arena, 'new-schedule'), at: new Date(Date.now() + 60_000).toISOString() },
    ],
    ['PATCH', `/v1/schedules/${schedule.id}`, { every: '2h' }],
    ['POST', `/v1/schedules/${schedule.id}/trigger`, {}],
    ['POST', `/v1/schedules/${schedule.id}/pause`, {}],
    ['POST', `/v1/schedules/${schedule.id}/resume`, {}],
    ['DELETE', `/v1/schedules/${schedule.id}`],
    ['POST', '/v1/runs', { job: 'spare' }],
    ['POST', `/v1/runs/${run.id}/cancel`, {}],
    ['POST', '/v1/keys', { name: 'new-key', scopes: ['read'] }],
  ]
}

describe('a read-only database', () => {
  it('takes no writes and says so, answers reads, and recovers by itself; schedules catch up', async () => {
    const arena = await harness.open()
    const node = await arena.start('a')
    await makeJob(arena, 'each', '/work')
    await makeJob(arena, 'held', '/held')
    const writes = await makeWrites(arena)
    const running = await arena.client().runs.create({ job: 'held' })
    const plan = { job: 'each', count: 3, firstMs: nextSecond(1_000), seconds: 15 }
    const expected = await planEachSecond(arena.client(), plan)
    await expect.poll(() => arena.ledger.calls.length, patient).toBeGreaterThanOrEqual(7)
    await expect.poll(arena.ledger.holding, patient).toBe(1)
    const send = ([method, path, body]: Write, index: number) =>
      arena.call(node, method, path, body, method === 'POST' ? `write-${index}` : undefined)

    await setReadOnly(arena, true)
    await untilRefused(arena, node, 'database_read_only')
    const before = await countRows(arena)
    for (const [index, write] of writes.entries()) {
      const { status, body } = await send(write, index)
      const refusal = [503, 'database_read_only', true]
      expect.soft([status, body['code'], body['retryable']], `${write[0]} ${write[1]}`).toEqual(refusal)
    }
    for (const path of ['/v1/jobs', '/v1/schedules', '/v1/runs', `/v1/runs/${running.id}`, '/v1/whoami']) {
      expect.soft((await arena.call(node, 'GET', path)).status, path).toBe(200)
    }
    expect(await countRows(arena), 'nothing is half-done').toEqual(before)
    const readiness = async () => (await fetch(`${node.opsUrl}/readyz`)).status
    await expect.poll(readiness, patient).toBe(503)
    await expect.poll(() => node.log.some((text) => text.includes('"session_lost"')), patient).toBe(true)
    expect(await countRows(arena), 'nor after the lease').toEqual(before)

    await setReadOnly(arena, false)
    const backMs = performance.now()
    const [first = ['GET', '/']] = writes
    await expect.poll(async () => (await send(first, 0)).status, patient).toBe(201)
    await expect.poll(readiness, patient).toBe(200)
    process.stdout.write(
      `read-only: writes again ${Math.round(performance.now() - backMs)} ms after it was over\n`,
    )
    for (const [index, write] of writes.entries()) {
      const { status, body } = await send(write, index)
      expect.soft(status, `${write[0]} ${write[1]}: ${JSON.stringify(body)}`).toBeLessThan(300)
      if (write[1] === '/v1/schedules') await arena.client().schedules.delete(String(body['id']))
    }
    arena.ledger.release()
    await expectNothingLost(arena, expected)
    const end = await arena.client().runs.get(running.id)
    expect(end.attemptList.map((attempt) => attempt.outcome)).toEqual(['lost', 'succeeded'])
    expect(await isRunning(node), 'nobody restarted it').toBe(true)
  })

  it('incident 11: that a process starts in: runs of a killed one can be claimed later', async () => {
    const arena = await harness.open()
    const first = await arena.start('a')
    await makeJob(arena, 'held', '/held')
    const running = await arena.client().runs.create({ job: 'held' })
    const later = await arena
      .client()
      .runs.create({ job: 'held', runAt: new Date(Date.now() + 4_000).toISOString() })
    await expect.poll(arena.ledger.holding, patient).toBe(1)

    await setReadOnly(arena, true)
    await untilRefused(arena, first, 'database_read_only')
    first.signal('SIGKILL')
    await first.ended
    const second = await arena.start('b')
    for (const id of [running.id, later.id]) {
      expect((await arena.call(second, 'GET', `/v1/runs/${id}`)).status).toBe(200)
    }
    expect((await arena.call(second, 'POST', '/v1/runs', { job: 'held' })).body['code']).toBe(
      'database_read_only',
    )
    await expect
      .poll(() => second.log.filter((text) => text.includes('"role_failed"')).length, patient)
      .toBeGreaterThan(5)

    arena.ledger.release()
    await setReadOnly(arena, false)
    const client = arena.client('b')
    for (const id of [running.id, later.id]) {
      const run = await client.waitForRun(id, { timeoutMs: 60_000 })
      expect(run.state).toBe('succeeded')
    }
    const history = (await client.runs.get(running.id)).attemptList
    expect(history.map((attempt) => attempt.outcome)).toEqual(['lost', 'succeeded'])
    expect(await isRunning(second)).toBe(true)
  })
})

describe('under load', () => {
  it.each(['the postmaster', 'every process of Postgres'])(
    '%s is frozen for 8 s: nothing is lost',
    async (what) => {
      const arena = await harness.open()
      for (const name of ['a', 'b']) await arena.start(name)
      await makeJob(arena, 'each', '/work')
      const plan = { job: 'each', count: 10, firstMs: nextSecond(1_000), seconds: 14 }
      const expected = await planEachSecond(arena.client(), plan)
      await expect.poll(() => arena.ledger.calls.length, patient).toBeGreaterThan(20)

      const frozen = await freeze(arena, what === 'the postmaster')
      harness.defer(frozen.thaw)
      const asked = performance.now()
      const answered = arena.rows('SELECT 1').then(() => performance.now() - asked)
      const thawed = wait(8_000).then(frozen.thaw)
      const [node] = arena.nodes.values()
      expect((await fetch(`${node?.opsUrl}/livez`)).status).toBe(200)
      // with the postmaster alone frozen, who has a connection already goes on
      const fitting = what === 'the postmaster' ? [200, 503] : [503]
      expect(fitting).toContain((await fetch(`${node?.opsUrl}/readyz`)).status)
      await thawed
      expect(await answered, 'a new connection had to wait').toBeGreaterThan(7_000)
      await expectNothingLost(arena, expected)
      for (const each of arena.nodes.values()) expect(await isRunning(each), each.name).toBe(true)
    },
  )
})
