// Limits over the API: what is taken and refused, and how queues tell what runs next and what holds the rest.
import type { Queue } from '@belfry/contract'
import { queueListSchema, queueSchema } from '@belfry/contract'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createPostgresGate } from '../../packages/server/src/postgres/gate/gate.ts'
import { startTestApi, type TestApi } from '../support/api.ts'

let t: TestApi
beforeAll(async () => {
  t = await startTestApi()
})
afterAll(() => t.close())

const http = (url = 'https://example.com/hook') => ({ kind: 'http', url })

async function lookAll(): Promise<void> {
  const gate = createPostgresGate(t.db)
  for (let looks = 0; looks < 20; looks++) {
    const { tenantIds, regateIds } = await gate.work()
    for (const tenantId of regateIds) await gate.regate(tenantId)
    for (const tenantId of tenantIds) await gate.look(tenantId)
  }
}

const show = async (queue: string): Promise<Queue> =>
  queueSchema.parse((await t.call('GET', `/v1/queues/${queue}`)).body)

describe('limits of a job', () => {
  it('are kept with the definition, with their defaults, and taken away by null', async () => {
    const body = { name: 'kept', handler: http(), concurrency: { limit: 5, key: 'customerId' } }
    const made = await t.call('POST', '/v1/jobs', { body })
    const concurrency = { limit: 5, key: 'customerId', keyLimit: 1, pools: [], onLimit: 'queue' }
    expect(made.body).toMatchObject({ concurrency, rateLimit: null, paused: null })
    const change = { concurrency: null, rateLimit: { count: 10, perMs: 60_000 } }
    const changed = await t.call('PATCH', `/v1/jobs/${made.body.id}`, { body: change })
    const rateLimit = { count: 10, perMs: 60_000, burst: null, key: null }
    expect(changed.body).toMatchObject({ concurrency: null, rateLimit, version: 2 })
  })

  it.each([
    [{ concurrency: {} }, '/concurrency'],
    [{ concurrency: { limit: 0 } }, '/concurrency/limit'],
    [{ concurrency: { limit: 1, onLimit: 'drop' } }, '/concurrency/onLimit'],
    [{ concurrency: { key: '/a~2' } }, '/concurrency/key'],
    [{ concurrency: { pools: [{ name: 'nowhere' }] } }, '/concurrency/pools/0/name'],
    [{ rateLimit: { count: 1, perMs: 10 } }, '/rateLimit/perMs'],
    [{ rateLimit: { count: 0, perMs: 1_000 } }, '/rateLimit/count'],
  ])('are refused where they make no sense: %j', async (limits, pointer) => {
    const before = await t.counts()
    const answer = await t.call('POST', '/v1/jobs', { body: { name: 'bad', handler: http(), ...limits } })
    expect(answer.body).toMatchObject({ status: 400, code: 'invalid_request' })
    expect(answer.body.errors.map((error: { pointer: string }) => error.pointer)).toContain(pointer)
    expect(await t.counts()).toEqual(before)
  })
})

describe('pools', () => {
  it('are made, changed, counted, refused twice, and deleted once nobody names them', async () => {
    const made = await t.call('POST', '/v1/pools', {
      body: { name: 'database', slots: 3, host: 'DB.example.com' },
    })
    expect(made.body).toMatchObject({
      name: 'database',
      slots: 3,
      host: 'db.example.com',
      used: 0,
      waiting: 0,
    })
    const twice = await t.call('POST', '/v1/pools', { body: { name: 'database', slots: 1 } })
    expect(twice.body).toMatchObject({ status: 409, code: 'name_taken' })
    const host = await t.call('POST', '/v1/pools', {
      body: { name: 'other', slots: 1, host: 'db.example.com' },
    })
    expect(host.body).toMatchObject({ status: 409, code: 'name_taken' })
    const none = await t.call('POST', '/v1/pools', { body: { name: 'other' } })
    expect(none.body).toMatchObject({ status: 400, code: 'invalid_request' })
    const job = { name: 'pooled', handler: http(), concurrency: { pools: [{ name: 'database', weight: 2 }] } }
    const user = await t.call('POST', '/v1/jobs', { body: job })
    const path = `/v1/pools/${made.body.id}`
    expect((await t.call('DELETE', path)).body).toMatchObject({ code: 'in_use' })
    expect((await t.call('PATCH', path, { body: { slots: null } })).body).toMatchObject({
      code: 'invalid_request',
    })
    expect((await t.call('PATCH', path, { body: { slots: 9, host: null } })).body).toMatchObject({
      slots: 9,
      host: null,
    })
    await t.call('PATCH', `/v1/jobs/${user.body.id}`, { body: { concurrency: null } })
    expect((await t.call('DELETE', path)).status).toBe(204)
  })
})

describe('a queue', () => {
  it('tells what runs next and why, what holds the rest, and its pause', async () => {
    const queue = 'orders'
    const job = { name: 'order', handler: http(), queue, concurrency: { limit: 1 } }
    const made = await t.call('POST', '/v1/jobs', { body: job })
    await t.call('POST', '/v1/jobs', { body: { name: 'free', handler: http(), queue, priority: -3 } })
    const runs: string[] = []
    for (const name of ['order', 'order', 'free']) {
      runs.push((await t.call('POST', '/v1/runs', { body: { job: name } })).body.id)
    }
    await lookAll()
    const shown = await show(queue)
    expect(shown).toMatchObject({ name: queue, ready: 2, held: 1, running: 0, paused: null, weight: 1 })
    expect(shown.next.map((run) => run.runId)).toEqual([runs[0], runs[2]])
    expect(shown.next[0]).toMatchObject({ place: 1, job: 'order', priority: 0 })
    expect(shown.next[1]?.priorityEffect).toBeLessThan(0)
    expect(shown.next[1]?.why).toContain('priority -3')
    expect(shown.heldGroups).toMatchObject([
      {
        job: 'order',
        runs: 1,
        firstRunId: runs[1],
        hold: { kind: 'job', limit: 1, used: 1, holders: [runs[0]] },
      },
    ])
    expect(shown.heldGroups[0]?.why).toContain('limit of runs at once: 1 of 1')

    await t.call('POST', `/v1/jobs/${made.body.id}/pause`, { body: { reason: 'repair' } })
    const paused = await t.call('GET', `/v1/jobs/${made.body.id}`)
    expect(paused.body).toMatchObject({ paused: { reason: 'repair' }, version: 1 })
    await lookAll()
    const held = await show(queue)
    expect(held).toMatchObject({ ready: 1, held: 2 })
    expect(held.heldGroups[0]?.hold).toMatchObject({
      kind: 'paused_job',
      name: 'order',
      reason: 'repair',
    })
    await t.call('POST', `/v1/jobs/${made.body.id}/resume`)

    const stopped = await t.call('POST', `/v1/queues/${queue}/pause`, { body: { reason: 'stock-taking' } })
    expect(stopped.body).toMatchObject({ paused: { reason: 'stock-taking' } })
    await lookAll()
    const still = await show(queue)
    expect(still).toMatchObject({ ready: 0, held: 3, next: [] })
    expect(still.heldGroups[0]?.hold).toMatchObject({ kind: 'paused_queue', name: queue })
    const list = queueListSchema.parse((await t.call('GET', '/v1/queues')).body)
    expect(list.items.find((each) => each.name === queue)).toMatchObject({ held: 3 })
    await t.call('POST', `/v1/queues/${queue}/resume`)
    await lookAll()
    expect(await show(queue)).toMatchObject({
      ready: 2,
      held: 1,
      paused: null,
    })
  })

  it('a dry run of a pause changes nothing', async () => {
    const answer = await t.call('POST', '/v1/queues/default/pause?dryRun=true', { body: { reason: 'x' } })
    expect(answer.body).toMatchObject({ paused: { reason: 'x' } })
    expect((await show('default')).paused).toBeNull()
  })
})

describe('the limit of the tenant', () => {
  it('is set, shown and taken away', async () => {
    const set = await t.call('PATCH', '/v1/tenant/limit', { body: { runLimit: 7 } })
    expect(set.body).toMatchObject({ runLimit: 7 })
    expect((await t.call('GET', '/v1/tenant/limit')).body).toMatchObject({ runLimit: 7 })
    expect((await t.call('PATCH', '/v1/tenant/limit', { body: { runLimit: 0 } })).status).toBe(400)
    const none = await t.call('PATCH', '/v1/tenant/limit', { body: { runLimit: null } })
    expect(none.body).toMatchObject({ runLimit: null })
  })
})
