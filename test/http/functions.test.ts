// Jobs whose handler is a function: how they are stored, where their runs wait, and who is given them.
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createFairTags } from '../../packages/server/src/engine/fair-tags.ts'
import { functionLane, functionRoute } from '../../packages/server/src/domain/route.ts'
import { createPostgresQueueProgress } from '../../packages/server/src/postgres/queue-progress.ts'
import { createPostgresRunQueue } from '../../packages/server/src/postgres/run-queue.ts'
import { createPostgresRunStore } from '../../packages/server/src/postgres/run-store.ts'
import { startTestApi, type TestApi } from '../support/api.ts'
import { realClock } from '../support/real-clock.ts'
import { newId, succeededEnd } from '../support/running.ts'

let api: TestApi
beforeAll(async () => {
  api = await startTestApi()
})
afterAll(() => api.close())

const functionJob = (name: string, more: Record<string, unknown> = {}) => ({
  name,
  handler: { kind: 'function', name },
  ...more,
})

async function openSession() {
  const store = createPostgresRunStore({ db: api.db, heartbeats: api.db })
  const id = newId()
  await store.openSession({ id, host: 'test', version: '0', queues: ['mail'], slots: 10 }, 60_000)
  return { id, store }
}

const shares = [{ queue: 'mail', minTag: -Infinity, limit: 10 }]

test('a function job is stored, listed and changed like any other', async () => {
  const made = await api.call('POST', '/v1/jobs', { body: functionJob('report') })
  expect(made.status).toBe(201)
  expect(made.body.handler).toEqual({ kind: 'function', name: 'report' })
  const listed = await api.call('GET', '/v1/jobs?name=report')
  expect(listed.body.items[0]?.handler).toEqual({ kind: 'function', name: 'report' })
  const path = `/v1/jobs/${made.body.id}`
  const toHttp = await api.call('PATCH', path, {
    body: { handler: { kind: 'http', url: 'https://example.com/' } },
  })
  expect(toHttp.body.handler.kind).toBe('http')
  const back = await api.call('PATCH', path, { body: { handler: { kind: 'function', name: 'report.v2' } } })
  expect(back.body).toMatchObject({ version: 3, handler: { kind: 'function', name: 'report.v2' } })
})

test.each([
  [{ kind: 'function' }, '/handler/name'],
  [{ kind: 'function', name: 'no spaces' }, '/handler/name'],
  [{ kind: 'function', name: 'a', url: 'https://example.com/' }, '/handler/url'],
  [{ kind: 'funktion', name: 'a' }, '/handler/kind'],
])('%j is refused with a pointer, and nothing is stored', async (handler, pointer) => {
  const before = await api.counts()
  const refused = await api.call('POST', '/v1/jobs', { body: { name: 'bad', handler } })
  expect(refused).toMatchObject({ status: 400, body: { code: 'invalid_request' } })
  expect(refused.body.errors.map((error) => error.pointer)).toContain(pointer)
  expect(await api.counts()).toEqual(before)
})

test('a run of a function is claimed by its route alone, and only within its tenant', async () => {
  await api.call('POST', '/v1/jobs', { body: functionJob('mail.send', { queue: 'mail' }) })
  const run = await api.call('POST', '/v1/runs', { body: { job: 'mail.send', input: { to: 'a@b.c' } } })
  const { id: sessionId } = await openSession()
  const queue = createPostgresRunQueue(api.db)
  const claim = async (route: string) =>
    (await queue.claim({ sessionId, shares, routes: [route], deadlineMarginMs: 0 })).runs

  expect(await claim('http')).toEqual([])
  expect(await claim('function')).toEqual([])
  expect(await claim(functionRoute(api.tenantId, 'other'))).toEqual([])
  expect(await claim(functionRoute(newId(), 'mail.send'))).toEqual([])
  expect(await queue.readyQueues(null)).toMatchObject({ found: [] })
  expect(await claim(functionRoute(api.tenantId, 'mail.send'))).toMatchObject([
    { runId: run.body.id, tenantId: api.tenantId, input: { to: 'a@b.c' } },
  ])
})

test('the result of an attempt is kept and shown', async () => {
  await api.call('POST', '/v1/jobs', { body: functionJob('sum', { queue: 'mail' }) })
  const made = await api.call('POST', '/v1/runs', { body: { job: 'sum' } })
  const { id: sessionId, store } = await openSession()
  const queue = createPostgresRunQueue(api.db)
  const routes = [functionRoute(api.tenantId, 'sum')]
  const { runs } = await queue.claim({ sessionId, shares, routes, deadlineMarginMs: 0 })
  const [claimed] = runs
  if (claimed === undefined) throw new Error('nothing was claimed')
  await store.complete(sessionId, [succeededEnd(claimed, { result: { total: [1, 2, null] } })])
  const run = await api.call('GET', `/v1/runs/${made.body.id}`)
  expect(run.body).toMatchObject({
    state: 'succeeded',
    attemptList: [{ number: 1, result: { total: [1, 2, null] } }],
  })
})

test('a process that has just begun puts new runs behind those of the lane that wait', async () => {
  await api.call('POST', '/v1/jobs', { body: functionJob('late', { queue: 'slow' }) })
  for (let count = 0; count < 3; count++) await api.call('POST', '/v1/runs', { body: { job: 'late' } })
  const [{ lowest } = { lowest: 0 }] = await api.database.sql<{ lowest: number }>(
    `SELECT min(tag)::float8 AS lowest FROM belfry.ready WHERE queue = 'slow'`,
  )
  const tags = createFairTags({ clock: realClock, progress: createPostgresQueueProgress(api.db) })
  const lane = functionLane('slow', api.tenantId)
  await tags.ready([lane, 'slow'])
  expect(tags.virtualTime(lane)).toBe(lowest)
  expect(tags.virtualTime('slow')).toBe(0)
  await tags.close()
})
