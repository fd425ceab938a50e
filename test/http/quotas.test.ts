// Quotas over the API: what a tenant may have is counted exactly near its limit, rates hold over processes,
// refusals name the quota and when to come again, and only who manages tenants may set them.
import { randomUUID } from 'node:crypto'
import { type Quota, quotaNames } from '@belfry/contract'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { createQuotaKeeper, type QuotaKeeper } from '../../packages/server/src/engine/quotas/quota-keeper.ts'
import { withLogQuota } from '../../packages/server/src/engine/quotas/log-quota.ts'
import type { LogAppend, WorkerStore } from '../../packages/server/src/ports/worker-store.ts'
import { createPostgresGate } from '../../packages/server/src/postgres/gate/gate.ts'
import {
  createQuotaBuckets,
  createQuotaLookup,
} from '../../packages/server/src/postgres/catalog/quota-store.ts'
import { quotaDefaults } from '../../packages/server/src/config/quota-fields.ts'
import { type Answer, httpJob, startTestApi, type TestApi } from '../support/api.ts'
import { realClock } from '../support/real-clock.ts'

let t: TestApi
let platform: string
beforeAll(async () => {
  t = await startTestApi({}, [])
  platform = await t.keyFor('operator', ['platform'])
})
afterAll(() => t.close())

const handler = { kind: 'http', url: 'https://example.com/hook' }
const set = (quotas: Record<string, unknown>, key = platform, tenant = 'acme') =>
  t.call('PATCH', `/v1/tenants/${tenant}/quotas`, { key, body: quotas })
afterEach(async () => {
  const all = Object.fromEntries(quotaNames.map((name) => [name, 'default']))
  const answer = await set(all)
  if (answer.status !== 200) throw new Error(answer.body.detail)
})

function expectRefused(answer: Answer, quota: string): void {
  expect(answer.body).toMatchObject({ status: 429, code: 'quota_exceeded', quota, retryable: true })
  expect(answer.body.detail).toContain(`"${quota}"`)
  expect(Number(answer.headers['retry-after'])).toBeGreaterThan(0)
}

async function quotaOf(name: string): Promise<Quota> {
  const { body } = await t.call('GET', '/v1/quotas')
  const found = (body.items as unknown as Quota[]).find(({ quota }) => quota === name)
  if (found === undefined) throw new Error(`There is no quota ${name}.`)
  return found
}

describe('what a tenant may have', () => {
  it('is refused beyond the limit, with the name of the quota, and there again after a delete', async () => {
    await t.call('POST', '/v1/jobs', { body: httpJob('first') })
    const { used } = await quotaOf('jobs')
    await set({ jobs: (used ?? 0) + 1 })
    const second = await t.call('POST', '/v1/jobs', { body: httpJob('second') })
    expect(second.status).toBe(201)
    const before = await t.counts()
    expectRefused(await t.call('POST', '/v1/jobs', { body: httpJob('third') }), 'jobs')
    // a job that comes with its schedule is a job
    const inline = { name: 'inline', every: '1h', handler }
    expectRefused(await t.call('POST', '/v1/schedules', { body: inline }), 'jobs')
    expect(await t.counts()).toEqual(before)
    expect(await quotaOf('jobs')).toMatchObject({ used: (used ?? 0) + 1, limit: (used ?? 0) + 1 })
    await t.call('DELETE', `/v1/jobs/${second.body.id}`)
    expect((await t.call('POST', '/v1/jobs', { body: httpJob('third') })).status).toBe(201)
  })

  it('is never passed by requests at the same time, whoever answers them', async () => {
    const { used } = await quotaOf('schedules')
    await set({ schedules: (used ?? 0) + 3 })
    const make = (index: number) =>
      t.call('POST', '/v1/schedules', { body: { name: `at-once-${index}`, every: '1h', job: 'first' } })
    const answers = await Promise.all(Array.from({ length: 12 }, (_, index) => make(index)))
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(3)
    for (const answer of answers.filter(({ status }) => status !== 201)) expectRefused(answer, 'schedules')
  })

  it('counts keys, workflows and runs; a dry run is judged and takes nothing', async () => {
    const keys = await quotaOf('keys')
    await set({ keys: keys.used, workflows: 0, secrets: 0, runs: 2 })
    const secret = { name: 'one-more', value: 'bright-otter-kettle-93' }
    expectRefused(await t.call('POST', '/v1/secrets', { body: secret }), 'secrets')
    expectRefused(await t.call('POST', '/v1/keys', { body: { name: 'k', scopes: ['read'] } }), 'keys')
    const wide = { name: 'k', scopes: ['admin', 'platform'], tenant: 'acme' }
    const both = await t.keyFor('acme', ['admin', 'platform'])
    expectRefused(await t.call('POST', '/v1/keys', { key: both, body: wide }), 'keys')
    const flow = { name: 'flow', tasks: [{ id: 'a', handler }] }
    expectRefused(await t.call('POST', '/v1/workflows', { body: flow }), 'workflows')
    for (let dry = 0; dry < 4; dry++) {
      const answer = await t.call('POST', '/v1/runs?dryRun=true', { body: { job: 'first' } })
      expect(answer.status).toBe(201)
    }
    const many = { items: Array.from({ length: 3 }, () => ({ job: 'first' })), atomic: true }
    expectRefused(await t.call('POST', '/v1/runs/batch', { body: many }), 'runs')
    expect((await t.call('POST', '/v1/runs', { body: { job: 'first' } })).status).toBe(201)
    expect((await t.call('POST', '/v1/runs', { body: { job: 'first' } })).status).toBe(201)
    expectRefused(await t.call('POST', '/v1/runs', { body: { job: 'first' } }), 'runs')
    expect(await quotaOf('runs')).toMatchObject({ used: 2, limit: 2, source: 'tenant' })
  })
})

describe('rates', () => {
  it('refuse a flood of triggers, and say when to come again (case limit.flood_trigger)', async () => {
    const { body } = await t.call('POST', '/v1/schedules', {
      body: { name: 'flooded', every: '1h', job: 'first', overlap: 'allow' },
    })
    await set({ runRate: 20 })
    const trigger = () => t.call('POST', `/v1/schedules/${body.id}/trigger`, { body: {} })
    const answers = await Promise.all(Array.from({ length: 60 }, trigger))
    const through = answers.filter(({ status }) => status < 300).length
    expect(through).toBeGreaterThanOrEqual(20)
    // what came in while they were answered
    expect(through).toBeLessThan(60)
    for (const answer of answers.filter(({ status }) => status >= 300)) expectRefused(answer, 'runRate')
  })

  it('hold over all processes together', async () => {
    const quotas = [keeperWith(50), keeperWith(50)]
    const tenantId = randomUUID()
    const startedMs = performance.now()
    let through = 0
    const floods = quotas.map(async (keeper) => {
      const asker = { tenantId, dryRun: false, ask: createQuotaLookup(t.db)(tenantId) }
      for (let asked = 0; asked < 200; asked++) {
        const done = await keeper
          .runs(asker, 1, () => 0)
          .then(
            () => true,
            () => false,
          )
        if (done) through++
      }
    })
    await Promise.all(floods)
    const seconds = (performance.now() - startedMs) / 1_000
    expect(through).toBeGreaterThanOrEqual(40)
    expect(through).toBeLessThanOrEqual(50 + Math.ceil(seconds * 50) + 1)
  })
})

function keeperWith(runRate: number): QuotaKeeper {
  const defaults = quotaDefaults([`runRate=${runRate}`])
  return createQuotaKeeper({ defaults, buckets: createQuotaBuckets(t.db), clock: realClock })
}

describe('shapes', () => {
  it('of an input, a schedule and a workflow are refused with the field', async () => {
    await set({ inputBytes: 100, scheduleIntervalMs: 60_000, workflowTasks: 2, workflowEdges: 1 })
    const large = await t.call('POST', '/v1/runs', { body: { job: 'first', input: 'x'.repeat(200) } })
    expect(large.body).toMatchObject({ status: 400, code: 'beyond_quota', quota: 'inputBytes' })
    expect(large.body.errors).toMatchObject([{ pointer: '/input' }])
    const input = 'x'.repeat(200)
    const keeps: [string, string, object][] = [
      ['POST', '/v1/schedules', { name: 'keeps', every: '1h', job: 'first', input }],
      ['POST', '/v1/workflows', { name: 'keeps', tasks: [{ id: 'a', handler, input }] }],
    ]
    for (const [method, path, body] of keeps) {
      const answer = await t.call(method, path, { body })
      expect(answer.body, path).toMatchObject({ status: 400, quota: 'inputBytes' })
    }
    const often = [
      { every: '10s' },
      { cron: '*/30 * * * * ?', dialect: 'quartz' },
      // a burst once a day
      { cron: '0,30 0 3 * * ?', dialect: 'quartz' },
    ]
    for (const [index, timing] of often.entries()) {
      const body = { name: `often-${index}`, job: 'first', ...timing }
      const answer = await t.call('POST', '/v1/schedules', { body })
      expect(answer.body, JSON.stringify(timing)).toMatchObject({ status: 400, quota: 'scheduleIntervalMs' })
    }
    const body = { name: 'minutely', job: 'first', cron: '* * * * *' }
    const minutely = await t.call('POST', '/v1/schedules', { body })
    expect(minutely.status).toBe(201)
    const faster = await t.call('PATCH', `/v1/schedules/${minutely.body.id}`, { body: { every: '5s' } })
    expect(faster.body).toMatchObject({ status: 400, quota: 'scheduleIntervalMs' })
    const tasks = [
      { id: 'a', handler },
      { id: 'b', handler, needs: ['a'] },
      { id: 'c', handler },
    ]
    const flow = await t.call('POST', '/v1/workflows', { body: { name: 'large', tasks } })
    expect(flow.body).toMatchObject({ status: 400, quota: 'workflowTasks' })
    await set({ workflowTasks: null })
    const joined = [...tasks.slice(0, 2), { id: 'c', handler, needs: ['a'] }]
    const edges = await t.call('POST', '/v1/workflows', { body: { name: 'large', tasks: joined } })
    expect(edges.body).toMatchObject({ status: 400, quota: 'workflowEdges' })
  })
})

describe('logs', () => {
  it('beyond the bytes of a day are not kept, and say so; the run goes on', async () => {
    const keeper = createQuotaKeeper({
      defaults: quotaDefaults(['logBytes=10000']),
      buckets: createQuotaBuckets(t.db),
      clock: realClock,
    })
    const appended: LogAppend[] = []
    const workers = withLogQuota(
      {
        ...({} as WorkerStore),
        async appendLogs(_session: string, chunks: readonly LogAppend[]) {
          appended.push(...chunks)
          return chunks.map(({ runId, leaseEpoch }) => ({ runId, leaseEpoch, kept: true, full: false }))
        },
      },
      keeper,
      createQuotaLookup(t.db),
    )
    const tenantId = randomUUID()
    const lineOf = (message: string) => [{ at: '2026-11-30T12:00:00Z', level: 'info' as const, message }]
    const append = async (message: string) =>
      (
        await workers.appendLogs('s', [
          { tenantId, runId: 'r', leaseEpoch: 1, firstLine: 0, lines: lineOf(message) },
        ])
      )[0]
    expect(await append('x'.repeat(6_000))).toMatchObject({ kept: true, full: false })
    expect(await append('y'.repeat(6_000))).toMatchObject({ kept: true, full: true })
    expect(appended[1]?.lines[0]?.message).toContain('"logBytes"')
    expect(JSON.stringify(appended[1])).not.toContain('yyy')
    // of nobody's quota
    const free = { runId: 'r', leaseEpoch: 1, firstLine: 0, lines: lineOf('z'.repeat(50_000)) }
    expect((await workers.appendLogs('s', [free]))[0]).toMatchObject({ full: false })
  })

  it('are followed by so many at once', async () => {
    const { body } = await t.call('POST', '/v1/runs', { body: { job: 'first' } })
    await set({ streams: 0 })
    // known from the next look at the limits on
    await t.call('POST', '/v1/jobs?dryRun=true', { body: httpJob('looks') })
    const answer = await t.call('GET', `/v1/runs/${body.id}/logs/stream`)
    expect(answer.status).toBe(429)
    expectRefused(answer, 'streams')
  })
})

describe('the gate', () => {
  it('holds runs beyond the cap and the rate of starts, also of jobs that were there before', async () => {
    await set({ runsInFlight: 3, startRate: 7 })
    expect((await t.call('GET', '/v1/tenant/limit')).body).toMatchObject({ runLimit: 3 })
    const more = await t.call('PATCH', '/v1/tenant/limit', { body: { runLimit: 10 } })
    expect(more.body).toMatchObject({ status: 400, code: 'beyond_quota', quota: 'runsInFlight' })
    expect((await t.call('PATCH', '/v1/tenant/limit', { body: { runLimit: 2 } })).status).toBe(200)
    expect((await t.call('GET', '/v1/tenant/limit')).body).toMatchObject({ runLimit: 2 })
    await t.call('PATCH', '/v1/tenant/limit', { body: { runLimit: null } })
    await t.call('POST', '/v1/jobs', { body: httpJob('held', { queue: 'of-gate' }) })
    for (let made = 0; made < 5; made++) await t.call('POST', '/v1/runs', { body: { job: 'held' } })
    const gate = createPostgresGate(t.db)
    for (let looks = 0; looks < 10; looks++) {
      const { tenantIds, regateIds } = await gate.work()
      for (const tenantId of regateIds) await gate.regate(tenantId)
      for (const tenantId of tenantIds) await gate.look(tenantId)
    }
    const opened = await t.database.sql<{ count: number }>(
      `SELECT count(*)::int AS count FROM belfry.slot WHERE limit_key = 'tenant' AND NOT freed`,
    )
    expect(opened[0]?.count).toBe(3)
    const buckets = await t.database.sql<{ count: number }>(
      `SELECT count(*)::int AS count FROM belfry.bucket WHERE limit_key = 'tenant'`,
    )
    expect(buckets[0]?.count).toBe(1)
  })
})

describe('who sets them', () => {
  it('is the platform alone; the tenant sees what holds', async () => {
    expect((await set({ jobs: 5 }, t.adminKey)).body).toMatchObject({ status: 403, code: 'forbidden' })
    const read = await t.keyFor('acme', ['read'])
    const listed = await t.call('GET', '/v1/quotas', { key: read })
    expect(listed.body.items.map((each) => (each as unknown as Quota).quota)).toEqual([...quotaNames])
    expect((await t.call('GET', '/v1/tenants/acme/quotas', { key: read })).status).toBe(403)
    expect(await quotaOf('schedules')).toMatchObject({ limit: null, source: 'default', setAt: null })
    await set({ schedules: 7 })
    expect(await quotaOf('schedules')).toMatchObject({ limit: 7, source: 'tenant' })
    const dry = await t.call('PATCH', '/v1/tenants/acme/quotas?dryRun=true', {
      key: platform,
      body: { schedules: 1 },
    })
    expect(dry.status).toBe(200)
    expect(await quotaOf('schedules')).toMatchObject({ limit: 7 })
    await set({ schedules: null, jobs: 'default' })
    expect(await quotaOf('schedules')).toMatchObject({ limit: null, source: 'tenant' })
    expect(await quotaOf('jobs')).toMatchObject({ limit: 100_000, source: 'default' })
  })

  it.each([
    [{}, ''],
    [{ jobs: -1 }, '/jobs'],
    [{ jobs: 1.5 }, '/jobs'],
    [{ jobs: 'many' }, '/jobs'],
    [{ runRate: 0 }, '/runRate'],
    [{ runsInFlight: 20_000 }, '/runsInFlight'],
    [{ cows: 1 }, '/cows'],
  ])('refuses %j with its field', async (body, pointer) => {
    const answer = await set(body)
    expect(answer.body).toMatchObject({ status: 400, code: 'invalid_request' })
    expect(answer.body.errors.map((error) => error.pointer)).toContain(pointer)
  })

  it('finds no tenant that is not there', async () => {
    expect((await set({ jobs: 1 }, platform, 'nobody')).body).toMatchObject({ status: 404 })
  })

  it('leaves the others as they are', async () => {
    await set({ jobs: 0 })
    const key = await t.keyFor('neighbour', ['admin'])
    expect((await t.call('POST', '/v1/jobs', { key, body: httpJob('theirs') })).status).toBe(201)
  })
})
