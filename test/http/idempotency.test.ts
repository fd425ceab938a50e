// Idempotency-Key: the same request once, whatever happens in between; another request refused; failures not
// kept; the secret of a key never stored.
import { afterAll, beforeAll, expect, it } from 'vitest'
import { eventually, httpJob, startTestApi, type TestApi } from '../support/api.ts'

let t: TestApi
beforeAll(async () => {
  t = await startTestApi()
  await t.call('POST', '/v1/jobs', { body: httpJob('known') })
})
afterAll(() => t.close())

const withKey = (key: string, body: unknown) => ({ body, headers: { 'idempotency-key': key } })

it('answers the same request as the first time, down to the headers', async () => {
  const first = await t.call('POST', '/v1/jobs', withKey('a', httpJob('once')))
  const again = await t.call('POST', '/v1/jobs', {
    // other white space and another order are the same request
    raw: '{ "handler": {"url": "https://example.com/hook", "kind": "http"}, "name": "once" }',
    headers: { 'idempotency-key': 'a' },
  })
  expect(first.status).toBe(201)
  expect(first.headers['idempotency-replayed']).toBeUndefined()
  expect(again.headers['idempotency-replayed']).toBe('true')
  expect([again.status, again.body]).toEqual([201, first.body])
  expect([again.headers['etag'], again.headers['location']]).toEqual([
    first.headers['etag'],
    first.headers['location'],
  ])
})

it('refuses another request, another path or other parameters under the same key', async () => {
  await t.call('POST', '/v1/runs', withKey('b', { job: 'known' }))
  for (const [path, body] of [
    ['/v1/runs', { job: 'known', priority: 1 }],
    ['/v1/jobs', httpJob('other')],
  ] as const) {
    const other = await t.call('POST', path, withKey('b', body))
    expect(other.body).toMatchObject({ status: 422, code: 'idempotency_key_reused' })
    expect(other.body.errors[0]?.pointer).toBe('/headers/idempotency-key')
  }
})

it('is of one API key: another key may use the same word', async () => {
  const key = await t.keyFor('acme', ['enqueue'])
  const mine = await t.call('POST', '/v1/runs', withKey('c', { job: 'known' }))
  const other = await t.call('POST', '/v1/runs', { ...withKey('c', { job: 'known' }), key })
  expect(other.status).toBe(201)
  expect(other.body.id).not.toBe(mine.body.id)
})

it('makes one run of twenty that race', async () => {
  const before = await t.counts()
  const answers = await Promise.all(
    Array.from({ length: 20 }, () => t.call('POST', '/v1/runs', withKey('race', { job: 'known' }))),
  )
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([201]))
  expect(new Set(answers.map(({ body }) => body.id)).size).toBe(1)
  expect(answers.filter(({ headers }) => headers['idempotency-replayed'] === 'true')).toHaveLength(19)
  expect((await t.counts())['run']).toBe((before['run'] ?? 0) + 1)
})

it('is told to come back when the first request takes long, and holds no connection until then', async () => {
  const lock = await t.database.hold("SELECT 1 FROM belfry.job WHERE name = 'known' FOR UPDATE")
  await lock.take()
  try {
    const body = { name: 'slow', every: '1h', job: 'known' }
    const send = () => t.call('POST', '/v1/schedules', withKey('slow', body))
    const first = send()
    await eventually(async () => (await t.database.waiting()) === 1)
    const startedMs = performance.now()
    const others = await Promise.all(Array.from({ length: 4 }, send))
    expect(performance.now() - startedMs).toBeLessThan(6_000)
    for (const other of others) {
      expect(other.body).toMatchObject({ status: 409, code: 'idempotency_key_busy', retryable: true })
      expect(other.body.errors[0]?.pointer).toBe('/headers/idempotency-key')
      expect(other.headers['retry-after']).toBe('1')
    }
    await lock.release()
    const done = await first
    expect(done.status).toBe(201)
    expect((await send()).body).toEqual(done.body)
  } finally {
    await lock.release()
  }
})

it('does not keep failures: the same key works once the cause is gone', async () => {
  const body = { job: 'later' }
  const failed = await t.call('POST', '/v1/runs', withKey('d', body))
  expect(failed.status).toBe(404)
  await t.call('POST', '/v1/jobs', { body: httpJob('later') })
  const done = await t.call('POST', '/v1/runs', withKey('d', body))
  expect(done.status).toBe(201)
  expect(done.headers['idempotency-replayed']).toBeUndefined()
})

it('is not looked at in a dry run, which keeps nothing', async () => {
  const dry = await t.call('POST', '/v1/runs?dryRun=true', withKey('e', { job: 'known' }))
  const real = await t.call('POST', '/v1/runs', withKey('e', { job: 'known' }))
  expect([dry.status, real.status]).toEqual([201, 201])
  expect(real.headers['idempotency-replayed']).toBeUndefined()
})

it('shows the secret of a new key once, and stores it nowhere', async () => {
  const body = { name: 'deploy', scopes: ['read'] }
  const first = await t.call('POST', '/v1/keys', withKey('f', body))
  const again = await t.call('POST', '/v1/keys', withKey('f', body))
  expect(first.body.secret).toMatch(/^bfy_[0-9a-z]{12}_.{43}[0-9a-f]{8}$/)
  expect(again.body).toEqual({ ...first.body, secret: null })
  const secret = first.body.secret.split('_').slice(2).join('_')
  const rows = await t.database.sql<{ row: string }>(
    'SELECT k::text AS row FROM belfry.api_key k UNION ALL SELECT i::text FROM belfry.idempotency_key i',
  )
  expect(rows.some(({ row }) => row.includes('deploy'))).toBe(true)
  for (const { row } of rows) expect(row).not.toContain(secret)
})

it('works for what a platform key makes in other tenants', async () => {
  const key = await t.keyFor('acme', ['platform'])
  const body = { name: 'fresh' }
  const first = await t.call('POST', '/v1/tenants', { ...withKey('g', body), key })
  const again = await t.call('POST', '/v1/tenants', { ...withKey('g', body), key })
  expect([again.status, again.body]).toEqual([201, first.body])
})

it('lasts a day: after that the same key is a new one', async () => {
  const first = await t.call('POST', '/v1/runs', withKey('h', { job: 'known' }))
  await t.database.sql(
    "UPDATE belfry.idempotency_key SET expires_at = now() - interval '1 second' WHERE key = 'h'",
  )
  const later = await t.call('POST', '/v1/runs', withKey('h', { job: 'known', priority: 2 }))
  expect(later.status).toBe(201)
  expect(later.body.id).not.toBe(first.body.id)
})
