// `POST /v1/runs/batch`: a result for each item, all or nothing where asked for, keys and limits of the call.
import type { RunBatchResult } from '@belfry/contract'
import { maxBatchBytes, maxBatchItems, maxBodyBytes } from '@belfry/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { httpJob, startTestApi, type TestApi } from '../support/api.ts'

let api: TestApi

beforeAll(async () => {
  api = await startTestApi()
  await api.call('POST', '/v1/jobs', { body: httpJob('plain') })
  await api.call('POST', '/v1/jobs', {
    body: httpJob('other', { queue: 'slow', priority: 3, startWithinMs: 5_000 }),
  })
})
afterAll(() => api.close())

async function send(items: readonly unknown[], more: object = {}, options: object = {}, query = '') {
  const answer = await api.call('POST', `/v1/runs/batch${query}`, { body: { items, ...more }, ...options })
  return { ...answer, result: answer.body as unknown as RunBatchResult }
}
const stored = async () => (await api.counts())['run']
const codes = ({ results }: RunBatchResult) => results.map(({ error }) => error?.code ?? null)

test('a thousand runs of several jobs, each where it belongs', async () => {
  const before = (await stored()) ?? 0
  const later = new Date(Date.now() + 3_600_000).toISOString()
  const items = Array.from({ length: maxBatchItems }, (_, n) =>
    n % 3 === 0
      ? { job: 'other', input: { n } }
      : n % 3 === 1
        ? { job: 'plain' }
        : { job: 'plain', runAt: later, priority: -7 },
  )
  api.hints.length = 0
  const { status, result } = await send(items)
  expect({ status, created: result.created, refused: result.refused }).toEqual({
    status: 200,
    created: 1_000,
    refused: 0,
  })
  expect(new Set(result.results.map(({ run }) => run?.id)).size).toBe(1_000)
  expect(await stored()).toBe(before + 1_000)
  const shown = async (n: number) => (await api.call('GET', `/v1/runs/${result.results[n]?.run?.id}`)).body
  expect(await shown(3)).toMatchObject({
    job: 'other',
    queue: 'slow',
    priority: 3,
    input: { n: 3 },
    source: 'manual',
  })
  expect(await shown(4)).toMatchObject({ job: 'plain', queue: 'default', input: null })
  expect(await shown(5)).toMatchObject({ dueAt: later, priority: -7, state: 'pending' })
  const places = await api.database.sql<{ place: string; count: number }>(
    `SELECT 'ready' AS place, count(*)::int AS count FROM belfry.ready WHERE start_by IS NOT NULL
     UNION ALL SELECT 'delayed', count(*)::int FROM belfry.delayed`,
  )
  expect(Object.fromEntries(places.map(({ place, count }) => [place, count]))).toEqual({
    ready: 334,
    delayed: 333,
  })
  const told = new Set(api.hints.map(({ topic, key }) => (topic === 'ready' ? key : topic)))
  expect([...told].sort()).toEqual(['default', 'slow', 'timers'])
})

test('each item has a result of its own, with pointers to what is wrong with it', async () => {
  const { status, result } = await send([
    { job: 'plain', input: 1 },
    { job: 'plian' },
    { job: 'plain', prioritty: 1 },
    { job: 'plain', priority: 101 },
    { job: 'plain', runAt: '2020-01-01T00:00:00Z' },
    7,
    { job: 'plain', input: 2 },
  ])
  expect(status).toBe(200)
  expect(codes(result)).toEqual([
    null,
    'not_found',
    'invalid_request',
    'invalid_request',
    'invalid_request',
    'invalid_request',
    null,
  ])
  expect(result.results.map(({ error }) => error?.errors[0]?.pointer)).toEqual([
    undefined,
    '/items/1/job',
    '/items/2/prioritty',
    '/items/3/priority',
    '/items/4/runAt',
    '/items/5',
    undefined,
  ])
  expect(result.results[1]?.error?.message).toContain('Did you mean "plain"?')
  expect(result).toMatchObject({ created: 2, refused: 5 })
})

test('all or nothing: one item that is refused refuses the call, and nothing is stored', async () => {
  const before = await api.counts()
  const { status, body } = await send([{ job: 'plain' }, { job: 'none' }, { job: 'nil' }], { atomic: true })
  expect({ status, code: body.code }).toEqual({ status: 404, code: 'not_found' })
  expect(body.errors.map(({ pointer }) => pointer)).toEqual(['/items/1/job', '/items/2/job'])
  expect(await api.counts()).toEqual(before)
  expect((await send([{ job: 'plain' }, { job: 'plain' }], { atomic: true })).result.created).toBe(2)
})

test('keys within one call: the first makes the run, the others are its duplicates', async () => {
  const held = await api.call('POST', '/v1/runs', { body: { job: 'plain', dedupeKey: 'held' } })
  const { result } = await send([
    { job: 'plain', dedupeKey: 'x' },
    { job: 'plain', dedupeKey: 'held' },
    { job: 'other', dedupeKey: 'x' },
    { job: 'plain', dedupeKey: 'x' },
    { job: 'plain' },
  ])
  const ids = result.results.map(({ run }) => run?.id)
  expect(result.results.map(({ run }) => run?.duplicateOf ?? null)).toEqual([
    null,
    held.body.id,
    null,
    ids[0],
    null,
  ])
  expect(result).toMatchObject({ created: 3, duplicates: 2 })
})

test('calls with the same keys in other orders wait for each other, and none is a deadlock', async () => {
  const keys = Array.from({ length: 60 }, (_, n) => `order-${n}`)
  const calls = Array.from({ length: 12 }, (_, call) =>
    send((call % 2 === 0 ? keys : keys.toReversed()).map((dedupeKey) => ({ job: 'plain', dedupeKey }))),
  )
  const answers = await Promise.all(calls)
  expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200))
  expect(answers.reduce((sum, { result }) => sum + result.created, 0)).toBe(60)
})

test('the same call with an Idempotency-Key happens once; a dry run stores nothing', async () => {
  const before = (await stored()) ?? 0
  const headers = { 'idempotency-key': 'batch' }
  const first = await send([{ job: 'plain' }], {}, { headers })
  const second = await send([{ job: 'plain' }], {}, { headers })
  expect(second.body).toEqual(first.body)
  expect(second.headers['idempotency-replayed']).toBe('true')
  expect((await send([{ job: 'other' }], {}, { headers })).status).toBe(422)
  expect(await stored()).toBe(before + 1)
  const dry = await send([{ job: 'plain' }, { job: 'none' }], {}, {}, '?dryRun=true')
  expect(dry.result).toMatchObject({ created: 1, refused: 1 })
  expect(await stored()).toBe(before + 1)
})

test('limits of the call', async () => {
  const refusals = [[], Array.from({ length: maxBatchItems + 1 }, () => ({ job: 'plain' }))]
  for (const items of refusals) {
    expect(await send(items)).toMatchObject({ status: 400, body: { errors: [{ pointer: '/items' }] } })
  }
  const input = 'x'.repeat(200_000)
  const large = Array.from({ length: 10 }, () => ({ job: 'plain', input }))
  expect(JSON.stringify(large).length).toBeGreaterThan(maxBodyBytes)
  expect((await send(large)).result.created).toBe(10)
  const tooLarge = await send([{ job: 'plain', input: 'x'.repeat(maxBatchBytes) }])
  expect(tooLarge).toMatchObject({ status: 413, body: { code: 'body_too_large' } })
  expect(tooLarge.body.detail).toContain(String(maxBatchBytes))
})

test('needs the right to enqueue, and sees no job of others', async () => {
  const read = await api.keyFor('acme', ['read'])
  expect((await send([{ job: 'plain' }], {}, { key: read })).status).toBe(403)
  const foreign = await api.keyFor('globex', ['enqueue'])
  const { result } = await send([{ job: 'plain' }], {}, { key: foreign })
  expect(codes(result)).toEqual(['not_found'])
})
