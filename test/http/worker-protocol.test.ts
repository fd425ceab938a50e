// The worker protocol over the API: sessions, claims that wait, ends judged by the server, the fence, what a
// key may reach, progress, logs.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { eventually, startTestApi, type TestApi } from '../support/api.ts'
import {
  enqueue,
  makeKey,
  openHandWorker,
  registerFunctions,
  type HandWorker,
} from '../support/remote-worker.ts'

let api: TestApi
beforeAll(async () => {
  api = await startTestApi()
  await registerFunctions(api, { name: 'work' }, { name: 'other' }, { name: 'mail', queue: 'mail' })
})
afterAll(() => api.close())

const runOf = async (id: string) => (await api.call('GET', `/v1/runs/${id}`)).body

async function claimOne(worker: HandWorker, job = 'work', input?: unknown) {
  const id = await enqueue(api, job, input)
  const [run] = await worker.claim()
  if (run?.runId !== id) throw new Error(`claimed ${run?.runId ?? 'nothing'} instead of ${id}`)
  return run
}

describe('a worker', () => {
  test('claims a run, answers with a result, and the run has succeeded', async () => {
    const worker = await openHandWorker(api, { functions: ['work'] })
    const run = await claimOne(worker, 'work', { n: 1 })
    expect(run).toMatchObject({ function: 'work', attempt: 1, input: { n: 1 }, idempotencyKey: run.runId })
    expect(run.traceparent).toMatch(/^00-[0-9a-f]{32}-[0-9a-f]{16}-01$/)
    expect(await worker.complete(run, { outcome: 'succeeded', result: { sum: 3 } })).toEqual({
      runId: run.runId,
      leaseEpoch: run.leaseEpoch,
      applied: true,
      state: 'succeeded',
    })
    expect(await runOf(run.runId)).toMatchObject({
      state: 'succeeded',
      attemptList: [{ result: { sum: 3 } }],
    })
  })

  test.each([
    [{ outcome: 'failed', error: { code: 'boom', message: 'no' } }, 'pending', null],
    [{ outcome: 'failed', retryable: false, error: { code: 'x', message: 'no' } }, 'failed', 'not_retryable'],
    [{ outcome: 'timed_out' }, 'pending', null],
    [{ outcome: 'canceled' }, 'canceled', 'canceled_by_handler'],
    [{ outcome: 'skipped' }, 'skipped', 'skipped_by_handler'],
    [{ outcome: 'released' }, 'pending', null],
  ])('that answers %j leaves the run %s', async (end, state, reason) => {
    const worker = await openHandWorker(api, { functions: ['work'] })
    const run = await claimOne(worker)
    expect(await worker.complete(run, end)).toMatchObject({ applied: true, state })
    expect(await runOf(run.runId)).toMatchObject({ state, reason })
    if (state === 'pending') await api.call('POST', `/v1/runs/${run.runId}/cancel`)
  })

  test('that asks for a pause gets it', async () => {
    const worker = await openHandWorker(api, { functions: ['work'] })
    const run = await claimOne(worker)
    await worker.complete(run, { outcome: 'failed', retryAfterMs: 3_600_000 })
    const { nextAttemptAt } = await runOf(run.runId)
    expect(Date.parse(nextAttemptAt ?? '') - Date.now()).toBeGreaterThan(3_500_000)
    await api.call('POST', `/v1/runs/${run.runId}/cancel`)
  })

  test('gives back what it did not begin: no attempt is counted', async () => {
    const worker = await openHandWorker(api, { functions: ['work'] })
    const run = await claimOne(worker)
    const { runId, leaseEpoch } = run
    const given = await worker.call('release', { runs: [{ runId, leaseEpoch }] })
    expect(given.body).toEqual({ releasedRunIds: [runId] })
    const [again] = await worker.claim()
    expect(again).toMatchObject({ runId, attempt: 1, leaseEpoch: leaseEpoch + 1 })
    if (again !== undefined) await worker.complete(again, { outcome: 'succeeded' })
  })

  test('incident 33: whose claim was answered into the void gets those runs from the session', async () => {
    const worker = await openHandWorker(api, { functions: ['work'] })
    const lost = await claimOne(worker)
    const kept = await claimOne(worker)
    const known = [{ runId: kept.runId, leaseEpoch: kept.leaseEpoch }]
    const answer = await worker.call('claim', { max: 10, known })
    expect(answer.body.runs.map((run) => run.runId)).toEqual([lost.runId])
  })

  test('that closes its session leaves nothing behind for long', async () => {
    const worker = await openHandWorker(api, { functions: ['other'] })
    expect((await worker.call('close')).status).toBe(204)
    expect(await worker.call('claim', { max: 1 })).toMatchObject({
      status: 409,
      body: { code: 'session_lost' },
    })
    const [{ count } = { count: 1 }] = await api.database.sql<{ count: number }>(
      'SELECT count(*)::int AS count FROM belfry.session WHERE id = $1',
      [worker.id],
    )
    expect(count).toBe(0)
  })
})

describe('the fence', () => {
  // case tenant.lease_steal
  test('incident 7: an end under an old epoch changes nothing, and the worker is told', async () => {
    const worker = await openHandWorker(api, { functions: ['work'] })
    const run = await claimOne(worker)
    const stale = { ...run, leaseEpoch: run.leaseEpoch - 1 }
    expect(await worker.complete(stale, { outcome: 'succeeded' })).toMatchObject({
      applied: false,
      state: null,
    })
    expect((await runOf(run.runId)).state).toBe('running')
    await worker.complete(run, { outcome: 'succeeded' })
  })

  test('an end that is sent twice is answered as applied both times and counts once', async () => {
    const worker = await openHandWorker(api, { functions: ['work'] })
    const run = await claimOne(worker)
    const first = await worker.complete(run, { outcome: 'succeeded', result: 1 })
    expect(await worker.complete(run, { outcome: 'succeeded', result: 1 })).toEqual(first)
    expect((await runOf(run.runId)).attemptsTotal).toBe(1)
    expect(await worker.complete(run, { outcome: 'failed' })).toMatchObject({ applied: false })
  })

  test('after its session has run out a worker hears so, whatever it calls', async () => {
    const worker = await openHandWorker(api, { functions: ['work'] })
    await api.database.sql('DELETE FROM belfry.session WHERE id = $1', [worker.id])
    for (const [verb, body] of [
      ['heartbeat', {}],
      ['claim', { max: 1 }],
    ] as const) {
      expect(await worker.call(verb, body)).toMatchObject({ status: 409, body: { code: 'session_lost' } })
    }
  })
})

describe('a claim', () => {
  test('waits for a run, and is woken as soon as one comes', async () => {
    const worker = await openHandWorker(api, { functions: ['work'] })
    const waiting = worker.claim(10, 15_000)
    await eventually(async () => api.gate.waiting() > 0)
    const id = await enqueue(api, 'work')
    const startedMs = performance.now()
    const [run] = await waiting
    expect(run?.runId).toBe(id)
    expect(performance.now() - startedMs).toBeLessThan(500)
    if (run !== undefined) await worker.complete(run, { outcome: 'succeeded' })
  })

  test('that finds nothing answers nothing when its wait is over', async () => {
    const worker = await openHandWorker(api, { functions: ['other'] })
    expect(await worker.claim(10, 50)).toEqual([])
  })

  test('brings a cancel that is asked for while it waits', async () => {
    const worker = await openHandWorker(api, { functions: ['work'] })
    const run = await claimOne(worker)
    const waiting = worker.call('claim', { max: 0, waitMs: 15_000 })
    await eventually(async () => api.gate.waiting() > 0)
    await api.call('POST', `/v1/runs/${run.runId}/cancel`)
    expect((await waiting).body).toEqual({ runs: [], heldRunIds: [run.runId], cancelRunIds: [run.runId] })
    const beat = await worker.call('heartbeat')
    expect(beat.body).toMatchObject({ heldRunIds: [run.runId], cancelRunIds: [run.runId] })
    expect(await worker.complete(run, { outcome: 'canceled' })).toMatchObject({ state: 'canceled' })
    expect((await runOf(run.runId)).state).toBe('canceled')
  })

  test('takes no more than there is room for, and not all inputs at once', async () => {
    const worker = await openHandWorker(api, { functions: ['mail'], queues: ['mail'] })
    const large = 'x'.repeat(200_000)
    for (let count = 0; count < 60; count++) await enqueue(api, 'mail', large)
    expect(await worker.claim(3)).toHaveLength(3)
    const runs = await worker.claim(500)
    expect(runs).toHaveLength(50)
    expect(await worker.claim(500)).toHaveLength(7)
  })
})

describe('what a key may reach', () => {
  test('only queues that it is bound to', async () => {
    const key = await makeKey(api, { scopes: ['worker'], queues: ['mail'] })
    const body = { functions: ['work'], queues: ['mail', 'default'], slots: 1 }
    const refused = await api.call('POST', '/v1/workers', { key, body })
    expect(refused).toMatchObject({ status: 403, body: { errors: [{ pointer: '/queues/1' }] } })
    const jobs = [{ name: 'sly', queue: 'default' }]
    expect(await api.call('POST', '/v1/functions', { key, body: { jobs } })).toMatchObject({
      status: 403,
      body: { errors: [{ pointer: '/jobs/0/queue' }] },
    })
    expect((await api.call('GET', '/v1/jobs?name=sly')).body.items).toEqual([])
  })

  test('nothing but the routes of workers', async () => {
    const key = await makeKey(api, { scopes: ['worker'] })
    for (const path of ['/v1/jobs', '/v1/runs', '/v1/keys', '/v1/workers'])
      expect((await api.call('GET', path, { key })).status).toBe(403)
  })

  test('no session of another key, though it is of the same tenant', async () => {
    const worker = await openHandWorker(api, { functions: ['work'] })
    const key = await makeKey(api, { scopes: ['worker'] })
    const answer = await api.call('POST', `/v1/workers/${worker.id}/heartbeat`, { key, body: {} })
    expect(answer).toMatchObject({ status: 409, body: { code: 'session_lost' } })
  })

  test('no run of another tenant, though queue and function have the same names', async () => {
    const stranger = await api.keyFor('stranger', ['admin'])
    const jobs = [{ name: 'work' }]
    await api.call('POST', '/v1/functions', { key: stranger, body: { jobs } })
    const id = await enqueue(api, 'work')
    const theirs = await openHandWorker(api, { functions: ['work'], key: stranger })
    expect(await theirs.claim()).toEqual([])
    const worker = await openHandWorker(api, { functions: ['work'] })
    const [run] = await worker.claim()
    expect(run?.runId).toBe(id)
    if (run === undefined) return
    expect(await theirs.complete(run, { outcome: 'succeeded' })).toMatchObject({ applied: false })
    await worker.complete(run, { outcome: 'succeeded' })
  })

  test('queues are for keys of workers', async () => {
    const body = { name: 'odd', scopes: ['read'], queues: ['mail'] }
    expect(await api.call('POST', '/v1/keys', { body })).toMatchObject({
      status: 400,
      body: { errors: [{ pointer: '/queues' }] },
    })
  })
})

describe('registering functions', () => {
  const register = async (job: Record<string, unknown>) =>
    (await api.call('POST', '/v1/functions', { body: { jobs: [job] } })).body.jobs[0]

  test('makes a job once, and a version only where the code says something new', async () => {
    const job = { name: 'steady', retry: { maxAttempts: 7 }, attemptTimeoutMs: 5_000 }
    expect(await register(job)).toMatchObject({ version: 1, change: 'created' })
    expect(await register(job)).toMatchObject({ version: 1, change: 'none' })
    expect(await register({ ...job, attemptTimeoutMs: 6_000 })).toMatchObject({
      version: 2,
      change: 'updated',
    })
  })

  test('what the code leaves open stays as people set it', async () => {
    await register({ name: 'tuned' })
    const { items } = (await api.call('GET', '/v1/jobs?name=tuned')).body
    await api.call('PATCH', `/v1/jobs/${items[0]?.id}`, { body: { priority: 9 } })
    expect(await register({ name: 'tuned' })).toMatchObject({ version: 2, change: 'none' })
    await register({ name: 'tuned', queue: 'fast' })
    const after = (await api.call('GET', '/v1/jobs?name=tuned')).body.items[0]
    expect(after).toMatchObject({ version: 3, priority: 9, queue: 'fast' })
  })

  test('a job with another handler is not taken over', async () => {
    const handler = { kind: 'http', url: 'https://example.com/' }
    await api.call('POST', '/v1/jobs', { body: { name: 'called', handler } })
    expect(await api.call('POST', '/v1/functions', { body: { jobs: [{ name: 'called' }] } })).toMatchObject({
      status: 409,
      body: { code: 'name_taken', errors: [{ pointer: '/jobs/0/name' }] },
    })
  })
})

describe('while it runs', () => {
  test('progress is shown, and goes with the attempt', async () => {
    const worker = await openHandWorker(api, { functions: ['work'] })
    const { runId, leaseEpoch, ...run } = await claimOne(worker)
    await worker.call('heartbeat', { progress: [{ runId, leaseEpoch, progress: { done: 3, of: 9 } }] })
    expect((await runOf(runId)).attemptList).toMatchObject([{ progress: { done: 3, of: 9 } }])
    await worker.call('heartbeat', { progress: [{ runId, leaseEpoch: leaseEpoch - 1, progress: 'stale' }] })
    expect((await runOf(runId)).attemptList).toMatchObject([{ progress: { done: 3, of: 9 } }])
    await worker.complete({ ...run, runId, leaseEpoch }, { outcome: 'succeeded' })
    expect((await runOf(runId)).attemptList).toMatchObject([{ outcome: 'succeeded', progress: null }])
  })

  const line = (message: string) => ({ at: '2026-11-29T12:00:00.000Z', level: 'info', message })

  test('log lines are kept in order, once, and read page by page', async () => {
    const worker = await openHandWorker(api, { functions: ['work'] })
    const run = await claimOne(worker)
    const { runId, leaseEpoch } = run
    const say = (firstLine: number, ...messages: string[]) =>
      worker.call('log', { chunks: [{ runId, leaseEpoch, firstLine, lines: messages.map(line) }] })
    await say(0, 'a', 'b')
    await say(2, 'c')
    expect((await say(2, 'c')).body).toMatchObject({ results: [{ kept: true, full: false }] })
    const log = await api.call('GET', `/v1/runs/${runId}/log`)
    expect(log.body.lines.map(({ number, message }) => `${number}${message}`)).toEqual(['0a', '1b', '2c'])
    const rest = await api.call('GET', `/v1/runs/${runId}/log?after=0&attempt=1`)
    expect(rest.body).toMatchObject({ lastLine: 2, more: false, full: false, logCapBytes: 262_144 })
    expect(rest.body.lines).toHaveLength(2)
    await worker.complete(run, { outcome: 'succeeded' })
    expect((await say(3, 'late')).body).toMatchObject({ results: [{ kept: false }] })
  })

  test('a log ends at its cap, and says so', async () => {
    const worker = await openHandWorker(api, { functions: ['work'] })
    const { runId, leaseEpoch } = await claimOne(worker)
    const lines = Array.from({ length: 30 }, () => line('x'.repeat(10_000)))
    const say = (firstLine: number) =>
      worker.call('log', { chunks: [{ runId, leaseEpoch, firstLine, lines }] })
    expect((await say(0)).body).toMatchObject({ results: [{ kept: true, full: true }] })
    expect((await say(30)).body).toMatchObject({ results: [{ kept: false, full: true }] })
    expect((await api.call('GET', `/v1/runs/${runId}/log`)).body).toMatchObject({ full: true, lastLine: 29 })
  })
})

describe('bad input', () => {
  test.each([
    ['claim', { max: 501 }, '/max'],
    ['claim', { max: 1, waitMs: 20_001 }, '/waitMs'],
    ['complete', { ends: [] }, '/ends'],
    ['complete', { ends: [{ runId: 'x' }] }, '/ends/0/runId'],
    ['heartbeat', { progres: [] }, '/progres'],
    ['release', {}, '/runs'],
    ['log', { chunks: [{ lines: [] }] }, '/chunks/0/lines'],
  ])('%s refuses %j with a pointer', async (verb, body, pointer) => {
    const worker = await openHandWorker(api, { functions: ['work'] })
    const refused = await worker.call(verb, body)
    expect(refused).toMatchObject({ status: 400, body: { code: 'invalid_request' } })
    expect(refused.body.errors.map((error) => error.pointer)).toContain(pointer)
  })

  test('a result that is too large is refused with the limit named', async () => {
    const worker = await openHandWorker(api, { functions: ['work'] })
    const run = await claimOne(worker)
    const end = { runId: run.runId, leaseEpoch: run.leaseEpoch, outcome: 'succeeded', durationMs: 1 }
    const refused = await worker.call('complete', { ends: [{ ...end, result: 'x'.repeat(262_143) }] })
    expect(refused.body.errors).toEqual([
      { pointer: '/ends/0/result', message: expect.stringContaining('at most 262144 bytes') as string },
    ])
    const twice = await worker.call('complete', { ends: [end, end] })
    expect(twice.body.errors).toMatchObject([{ pointer: '/ends/1/runId' }])
    await worker.complete(run, { outcome: 'succeeded' })
  })
})
