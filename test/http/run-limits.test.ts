// Retry policies and the limits of whole runs over the API: what is taken, shown, changed and refused, and
// what workers outside are told and judged by.
import { reasonWords } from '@belfry/contract'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { httpJob, startTestApi, type TestApi } from '../support/api.ts'
import { enqueue, openHandWorker, registerFunctions } from '../support/remote-worker.ts'

let t: TestApi
beforeAll(async () => {
  t = await startTestApi()
})
afterAll(() => t.close())

let names = 0
const nameOf = (word: string): string => `${word}-${names++}`
const post = (path: string, body: unknown) => t.call('POST', path, { body })

const plain = {
  maxAttempts: 3,
  backoff: 'exponential',
  baseMs: 1_000,
  capMs: 300_000,
  jitter: 'full',
  delaysMs: [],
  retryOn: [],
  neverRetryOn: [],
}

describe('a job', () => {
  test('has no limits and the plain policy if nothing is said', async () => {
    const { body } = await post('/v1/jobs', httpJob(nameOf('job')))
    expect(body).toMatchObject({ retry: plain, runDeadlineMs: null, startWithinMs: null })
  })

  test('keeps what it is told, in lists and alone, and its columns say the same', async () => {
    const retry = {
      ...plain,
      maxAttempts: 1_000,
      backoff: 'list',
      delaysMs: [10_000, 60_000],
      retryOn: ['http_5xx', 'attempt_timeout', 'E*'],
      neverRetryOn: ['http_501'],
    }
    const limits = { runDeadlineMs: 3_600_000, startWithinMs: 2_592_000_000 }
    const { status, body } = await post('/v1/jobs', httpJob(nameOf('job'), { retry, ...limits }))
    expect(status).toBe(201)
    expect(body).toMatchObject({ retry, ...limits })
    const { body: listed } = await t.call('GET', `/v1/jobs?name=${body.name}`)
    expect(listed.items).toMatchObject([{ retry, ...limits }])
    const [row] = await t.database.sql(
      'SELECT run_deadline_ms::float8 AS a, start_within_ms::float8 AS b FROM belfry.job WHERE id = $1',
      [body.id],
    )
    expect(row).toEqual({ a: limits.runDeadlineMs, b: limits.startWithinMs })
    const lifted = await t.call('PATCH', `/v1/jobs/${body.id}`, {
      body: { startWithinMs: null, retry: { backoff: 'fixed' } },
    })
    expect(lifted.body).toMatchObject({
      version: 2,
      startWithinMs: null,
      runDeadlineMs: limits.runDeadlineMs,
      retry: { ...retry, backoff: 'fixed', delaysMs: [] },
    })
  })

  test('that was stored before there were such fields is shown with their defaults', async () => {
    const { body } = await post('/v1/jobs', httpJob(nameOf('job')))
    await t.database.sql(
      `UPDATE belfry.job SET definition = definition - 'runDeadlineMs' - 'startWithinMs'
         #- '{retry,delaysMs}' #- '{retry,retryOn}' #- '{retry,neverRetryOn}' WHERE id = $1`,
      [body.id],
    )
    const shown = await t.call('GET', `/v1/jobs/${body.id}`)
    expect(shown.body).toMatchObject({ retry: plain, runDeadlineMs: null, startWithinMs: null })
    const run = await post('/v1/runs', { job: body.name })
    expect(run.body).toMatchObject({ startBy: null, runDeadline: null, delivery: 'at_least_once' })
  })

  test.each([
    [{ retry: { backoff: 'list' } }, '/retry/delaysMs'],
    [{ retry: { delaysMs: [5] } }, '/retry/delaysMs'],
    [{ retry: { backoff: 'list', delaysMs: [-1] } }, '/retry/delaysMs/0'],
    [{ retry: { backoff: 'list', delaysMs: Array.from({ length: 101 }, () => 1) } }, '/retry/delaysMs'],
    [{ retry: { maxAttempts: 1_001 } }, '/retry/maxAttempts'],
    [{ retry: { retryOn: ['x'], neverRetryOn: ['x'] } }, '/retry/neverRetryOn/0'],
    [{ retry: { retryOn: ['*'] } }, '/retry/retryOn/0'],
    [{ retry: { retryOn: Array.from({ length: 51 }, (_, n) => `c${n}`) } }, '/retry/retryOn'],
    [{ retry: { retryon: ['x'] } }, '/retry/retryon'],
    [{ runDeadlineMs: 999 }, '/runDeadlineMs'],
    [{ startWithinMs: 2_592_000_001 }, '/startWithinMs'],
  ])('%j is refused, and nothing is stored', async (fields, pointer) => {
    const before = await t.counts()
    const { status, body } = await post('/v1/jobs', httpJob(nameOf('job'), fields))
    expect([status, body.errors.map((error) => error.pointer)]).toEqual([400, [pointer]])
    expect(await t.counts()).toEqual(before)
  })

  test('a change that does not fit what stays is refused', async () => {
    const { body } = await post('/v1/jobs', httpJob(nameOf('job'), { retry: { retryOn: ['x'] } }))
    for (const [retry, pointer] of [
      [{ delaysMs: [5] }, '/retry/delaysMs'],
      [{ neverRetryOn: ['x'] }, '/retry/neverRetryOn/0'],
    ] as const) {
      const refused = await t.call('PATCH', `/v1/jobs/${body.id}`, { body: { retry } })
      expect([refused.status, refused.body.errors[0]?.pointer]).toEqual([400, pointer])
    }
    const register = await post('/v1/functions', {
      jobs: [{ name: nameOf('f') }, { name: nameOf('g'), retry: { delaysMs: [5] } }],
    })
    expect([register.status, register.body.errors[0]?.pointer]).toEqual([400, '/jobs/1/retry/delaysMs'])
  })

  test('made with a schedule gets them too', async () => {
    const name = nameOf('nightly')
    const made = await post('/v1/schedules', {
      name,
      every: '1h',
      handler: { kind: 'http', url: 'https://example.com/' },
      retry: { backoff: 'list', delaysMs: [7_000] },
      runDeadlineMs: 60_000,
      startWithinMs: 5_000,
    })
    const { body } = await t.call('GET', `/v1/jobs/${made.body.jobId}`)
    expect(body).toMatchObject({ retry: { delaysMs: [7_000] }, runDeadlineMs: 60_000, startWithinMs: 5_000 })
  })
})

describe('a run', () => {
  const dueOf = (body: unknown) => Date.parse((body as { dueAt: string }).dueAt)
  const iso = (ms: number) => new Date(ms).toISOString()

  test('has the limits of its job, or its own instead, from its due time', async () => {
    const job = nameOf('job')
    await post('/v1/jobs', httpJob(job, { startWithinMs: 5_000, runDeadlineMs: 60_000 }))
    const now = (await post('/v1/runs', { job })).body
    expect(now).toMatchObject({ startBy: iso(dueOf(now) + 5_000), runDeadline: iso(dueOf(now) + 60_000) })
    const later = (
      await post('/v1/runs', {
        job,
        runAt: '2090-01-01T00:00:00Z',
        startWithinMs: null,
        runDeadlineMs: 7_000,
      })
    ).body
    expect(later).toMatchObject({ startBy: null, runDeadline: '2090-01-01T00:00:07.000Z' })
    const { body: listed } = await t.call('GET', `/v1/runs?job=${job}`)
    expect(listed.items).toMatchObject([{ id: later.id, startBy: null }, { id: now.id }])
    const refused = await post('/v1/runs', { job, startWithinMs: 1 })
    expect([refused.status, refused.body.errors[0]?.pointer]).toEqual([400, '/startWithinMs'])
  })

  test('that is claimed too late ends before a worker outside sees it', async () => {
    const name = nameOf('late')
    await registerFunctions(t, { name, startWithinMs: 1_000 })
    const worker = await openHandWorker(t, { functions: [name] })
    const [late, fresh] = [await enqueue(t, name), await enqueue(t, name)]
    await t.database.sql(`UPDATE belfry.ready SET start_by = belfry.now() WHERE run_id = $1`, [late])
    expect((await worker.claim()).map((run) => run.runId)).toEqual([fresh])
    const { body } = await t.call('GET', `/v1/runs/${late}`)
    expect(body).toMatchObject({
      state: 'failed',
      reason: 'expired',
      startedAt: null,
      attempts: 0,
      attemptList: [{ number: 0, outcome: 'expired', error: { code: 'expired' } }],
    })
    expect(t.events).toContainEqual({
      name: 'attempt_ended',
      payload: expect.objectContaining({ runId: late, outcome: 'expired', state: 'failed' }) as unknown,
    })
  })

  test('that runs outside is given the time that is left, and cut off is judged by it', async () => {
    const name = nameOf('long')
    await registerFunctions(t, { name, runDeadlineMs: 20_000, delivery: 'at_least_once' })
    const worker = await openHandWorker(t, { functions: [name] })
    const id = await enqueue(t, name)
    const [run] = await worker.claim()
    if (run === undefined) throw new Error('nothing was claimed')
    expect(run.timeoutMs).toBeLessThanOrEqual(20_000)
    expect(run.timeoutMs).toBeGreaterThan(10_000)
    expect(run).toMatchObject({ delivery: 'at_least_once', runDeadline: expect.any(String) as unknown })
    expect(await worker.complete(run, { outcome: 'timed_out' })).toMatchObject({ state: 'failed' })
    const { body } = await t.call('GET', `/v1/runs/${id}`)
    expect(body).toMatchObject({ reason: 'deadline_exceeded', attempts: 1, runDeadline: null })
  })

  test.each([
    ['http_*', 'pending', null],
    ['boom', 'failed', 'not_retryable'],
    ['b*', 'failed', 'not_retryable'],
  ])('that failed with "boom" and never again on %s is %s', async (code, state, reason) => {
    const name = nameOf('picky')
    await registerFunctions(t, { name, retry: { neverRetryOn: [code] } })
    const worker = await openHandWorker(t, { functions: [name] })
    const id = await enqueue(t, name)
    const [run] = await worker.claim()
    if (run === undefined) throw new Error('nothing was claimed')
    await worker.complete(run, { outcome: 'failed', error: { code: 'boom', message: 'no' } })
    expect((await t.call('GET', `/v1/runs/${id}`)).body).toMatchObject({ state, reason })
  })
})

test('the description of the API says in words what each reason means', async () => {
  const { body } = await t.call('GET', '/v1/openapi.json')
  const text = JSON.stringify(body)
  for (const words of Object.values(reasonWords)) expect(text).toContain(words)
})
