// What a queue needs of workers, as the API tells it: figures of real rows, by the clock of the database, for
// those who may ask, and for nobody else.
import type { QueueStats } from '@belfry/contract'
import { queueStatsSchema } from '@belfry/contract'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createPostgresNodeRecords } from '../../packages/server/src/postgres/nodes.ts'
import { httpJob, startTestApi, type TestApi } from '../support/api.ts'
import { playWorker } from '../support/played-worker.ts'
import { newId } from '../support/running.ts'

let t: TestApi
let platformKey: string
const start = Date.parse('2031-02-03T04:05:06.000Z')
const at = (ms: number) => t.database.useVirtualNow(new Date(start + ms))

beforeAll(async () => {
  t = await startTestApi()
  platformKey = await t.keyFor('acme', ['platform'])
  await at(0)
})
afterAll(() => t.close())

async function stats(queue: string, query = '', key?: string): Promise<QueueStats> {
  const { body } = await t.call('GET', `/v1/queues/${queue}/stats${query}`, key === undefined ? {} : { key })
  return queueStatsSchema.parse(body)
}

/** Runs of a job in a queue, of the tenant of a key. */
async function ask(queue: string, count: number, key = t.adminKey): Promise<string[]> {
  await t.call('POST', '/v1/jobs', { key, body: httpJob(`of-${queue}`, { queue }) })
  const made = []
  for (let each = 0; each < count; each += 1)
    made.push((await t.call('POST', '/v1/runs', { key, body: { job: `of-${queue}` } })).body.id)
  return made
}

const node = (more: object = {}) => ({
  id: newId(),
  host: 'alpha',
  version: '1',
  roles: ['worker'],
  skew: null,
  lagMs: null,
  worker: null,
  parts: [],
  ...more,
})

describe('GET /v1/queues/{queue}/stats', () => {
  it('of a queue that nobody ever named says that nothing is needed', async () => {
    const nothing = { backlog: 0, oldestAgeMs: null, running: 0, meanRunMs: null, wantedWorkers: 0 }
    expect(await stats('never-named')).toMatchObject({
      queue: 'never-named',
      time: '2031-02-03T04:05:06.000Z',
      tenants: 'own',
      servers: { ...nothing, why: 'Nothing waits or runs.' },
      functions: nothing,
    })
    expect((await stats('never-named', '?minWorkers=2')).servers.wantedWorkers).toBe(2)
  })

  it('counts what waits and runs, ages and the length of attempts', async () => {
    await at(0)
    const [first = '', second = '', third = ''] = await ask('mail', 5)
    const worker = playWorker(t.database)
    for (const id of [first, second, third]) await worker.claim(id)
    await at(4_000)
    await worker.end(third)
    await createPostgresNodeRecords(t.db).notePace([
      { tenantId: t.tenantId, queue: 'mail', kind: 'servers', attempts: 10, busyMs: 20_000 },
    ])
    const { servers } = await stats('mail', '?slotsPerWorker=2')
    expect(servers).toMatchObject({ backlog: 2, oldestAgeMs: 4_000, running: 2, meanRunMs: 2_000 })
    // those that run have been running for 4 s; so each of the two that wait takes 4/5 of a slot
    expect(servers).toMatchObject({ wantedSlots: 4, wantedWorkers: 2 })
    expect(servers.why).toBe('2 running and 2 waiting of about 4 s each take 4 slots, 2 a worker.')
  })

  it('forgets the pace of before by half each minute, and adds what other processes saw', async () => {
    await at(0)
    const records = createPostgresNodeRecords(t.db)
    const ended = (attempts: number, busyMs: number) =>
      records.notePace([{ tenantId: t.tenantId, queue: 'pace', kind: 'servers', attempts, busyMs }])
    await ended(8, 8_000)
    await ended(8, 24_000)
    expect((await stats('pace')).servers.meanRunMs).toBe(2_000)
    await at(180_000)
    // 2 of 4 s are left of the 16 of before
    await ended(2, 36_000)
    expect((await stats('pace')).servers.meanRunMs).toBe(10_000)
    await at(180_000 + 20 * 60_000)
    expect((await stats('pace')).servers.meanRunMs).toBeNull()
    // a number that is too small to be reckoned with
    await at(400 * 24 * 3_600_000)
    expect((await stats('pace')).servers.meanRunMs).toBeNull()
    await at(0)
  })

  it('counts the slots of workers that serve the queue and were heard of lately', async () => {
    await at(0)
    const records = createPostgresNodeRecords(t.db)
    const worker = (queues: string[], slots: number, busy: number) =>
      node({ worker: { queues, slots, busy } })
    await records.report(worker(['slots', 'other'], 10, 3), 20_000)
    await records.report(worker(['*'], 5, 5), 30_000)
    await records.report(worker(['other'], 100, 0), 30_000)
    await records.report(node(), 30_000)
    expect((await stats('slots')).servers).toMatchObject({ workers: 2, slots: 15, freeSlots: 15 })
    await at(25_000)
    expect((await stats('slots')).servers).toMatchObject({ workers: 1, slots: 5, freeSlots: 5 })
    // what others run there is told to the platform alone
    expect((await stats('slots', '?tenants=all', platformKey)).servers).toMatchObject({ freeSlots: 0 })
    await at(0)
  })

  it('does not count what a limit or a pause holds', async () => {
    await ask('held', 2)
    await t.database.sql(`UPDATE belfry.ready SET gate = 'x/y/z/held' WHERE queue = 'held'`)
    expect((await stats('held')).servers).toMatchObject({ backlog: 0, wantedWorkers: 0 })
  })

  it('tells of functions apart, with the sessions of their workers', async () => {
    await at(0)
    const body = { jobs: [{ name: 'resize', queue: 'images' }] }
    expect((await t.call('POST', '/v1/functions', { body })).status).toBe(200)
    for (let each = 0; each < 3; each += 1) await t.call('POST', '/v1/runs', { body: { job: 'resize' } })
    await t.call('POST', '/v1/workers', { body: { functions: ['resize'], queues: ['images'], slots: 4 } })
    const { servers, functions } = await stats('images', '?slotsPerWorker=1&maxWorkers=2')
    expect(servers).toMatchObject({ backlog: 0, workers: expect.any(Number) as number })
    expect(functions).toMatchObject({ backlog: 3, workers: 1, slots: 4, freeSlots: 4, wantedWorkers: 2 })
  })

  it('keeps tenants apart, and counts all for the platform', async () => {
    await at(0)
    const foreign = await t.keyFor('foreign', ['admin'])
    await ask('shared', 2)
    await ask('shared', 3, foreign)
    const [tenant] = await t.database.sql<{ id: string }>(
      `SELECT id FROM belfry.tenant WHERE name = 'foreign'`,
    )
    const entry = { queue: 'shared', kind: 'servers', attempts: 1, busyMs: 700 } as const
    await createPostgresNodeRecords(t.db).notePace([{ ...entry, tenantId: tenant?.id ?? '' }])
    expect((await stats('shared')).servers).toMatchObject({ backlog: 2, meanRunMs: null })
    expect((await stats('shared', '', foreign)).servers).toMatchObject({ backlog: 3, meanRunMs: 700 })
    const all = await stats('shared', '?tenants=all', platformKey)
    expect(all).toMatchObject({ tenants: 'all', servers: { backlog: 5, meanRunMs: 700 }, functions: null })
  })

  it('is refused to those who may not know', async () => {
    const call = (query: string, key: string) => t.call('GET', `/v1/queues/mail/stats${query}`, { key })
    const refused = { status: 403, code: 'forbidden' }
    expect((await call('?tenants=all', t.adminKey)).body).toMatchObject({
      ...refused,
      detail: expect.stringContaining('"platform"') as string,
    })
    expect((await call('', platformKey)).body).toMatchObject({
      ...refused,
      detail: expect.stringContaining('tenants=all') as string,
    })
    const made = await t.call('POST', '/v1/keys', {
      body: { name: 'mail-workers', scopes: ['worker'], queues: ['mail'] },
    })
    const workerKey = made.body.secret
    expect((await call('', workerKey)).status).toBe(200)
    const other = await t.call('GET', '/v1/queues/reports/stats', { key: workerKey })
    expect(other.body).toMatchObject({ ...refused, detail: expect.stringContaining('mail') as string })
    expect((await call('?tenants=all', workerKey)).body).toMatchObject(refused)
  })

  it.each([
    ['?tenants=both', '/query/tenants'],
    ['?targetStartDelayMs=9', '/query/targetStartDelayMs'],
    ['?targetStartDelayMs=soon', '/query/targetStartDelayMs'],
    ['?targetStartDelayMs=', '/query/targetStartDelayMs'],
    ['?slotsPerWorker=0', '/query/slotsPerWorker'],
    ['?slotsPerWorker=1.5', '/query/slotsPerWorker'],
    ['?minWorkers=-1', '/query/minWorkers'],
    ['?maxWorkers=10001', '/query/maxWorkers'],
    ['?minWorkers=3&maxWorkers=2', '/query/minWorkers'],
    ['?maxworkers=2', '/query/maxworkers'],
  ])('refuses %s', async (query, pointer) => {
    const { body } = await t.call('GET', `/v1/queues/mail/stats${query}`)
    expect(body).toMatchObject({ status: 400, code: 'invalid_request' })
    expect(body.errors.map((error) => error.pointer)).toContain(pointer)
  })

  it('refuses names that no queue has', async () => {
    for (const name of ['a%20b', 'a%2Fb', '*', 'x'.repeat(129)])
      expect((await t.call('GET', `/v1/queues/${name}/stats`)).status).toBe(400)
  })
})
