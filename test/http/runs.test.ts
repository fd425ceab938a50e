// Runs over the API: started, seen in each state, canceled, listed. Workers are played by SQL, as the
// engine's own statements would leave the tables.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { httpJob, startTestApi, type TestApi } from '../support/api.ts'
import { playWorker, type PlayedEnd, type PlayedWorker } from '../support/played-worker.ts'

let t: TestApi
let worker: PlayedWorker
beforeAll(async () => {
  t = await startTestApi()
  worker = playWorker(t.database)
  await t.call('POST', '/v1/jobs', {
    body: httpJob('work', { retry: { maxAttempts: 4 }, queue: 'mail', priority: 5 }),
  })
})
afterAll(() => t.close())

const start = async (more: object = {}) =>
  (await t.call('POST', '/v1/runs', { body: { job: 'work', ...more } })).body
const get = async (id: string) => (await t.call('GET', `/v1/runs/${id}`)).body
/** Without how long it has waited, which goes on. */
const timeless = (run: object): unknown => JSON.parse(JSON.stringify(run).replace(/\d+ ms so far/, ''))
const claim = (id: string, lateMs?: number) => worker.claim(id, lateMs)
const end = (id: string, how?: PlayedEnd) => worker.end(id, how)

describe('a run', () => {
  it('starts pending and ready, with what it took from its job', async () => {
    t.hints.length = 0
    const run = await start({ input: { to: 'a' } })
    expect(run).toMatchObject({
      job: 'work',
      jobVersion: 1,
      source: 'manual',
      state: 'pending',
      queue: 'mail',
      priority: 5,
      attempts: 0,
      maxAttempts: 4,
      idempotencyKey: run.id,
      input: { to: 'a' },
      startedAt: null,
      finishedAt: null,
      attemptList: [],
      scheduleId: null,
      cancelRequested: false,
      delivery: 'at_least_once',
    })
    expect(t.hints).toEqual([{ topic: 'ready', key: 'mail' }])
    const [ready] = await t.database.sql(
      'SELECT queue, handler, priority, timeout_ms, tag FROM belfry.ready WHERE run_id = $1',
      [run.id],
    )
    expect(ready).toMatchObject({ queue: 'mail', handler: 'http', priority: 5, timeout_ms: 60_000 })
    const outcome = { duplicate: false, duplicateOf: null, gathered: null }
    expect(timeless({ ...(await get(run.id)), ...outcome })).toEqual(timeless(run))
  })

  it('answers what is on record of it, without reading it back', async () => {
    for (const more of [
      { input: { to: 'a' } },
      { runAt: '2100-01-01T00:00:00Z', queue: 'other', priority: 7 },
      { startWithinMs: 60_000, runDeadlineMs: 120_000 },
    ]) {
      const made = await start(more)
      const outcome = { duplicate: false, duplicateOf: null, gathered: null }
      expect(timeless(made)).toEqual(timeless({ ...(await get(made.id)), ...outcome }))
    }
  })

  it('for later waits aside, and hints the shard of its timer', async () => {
    t.hints.length = 0
    const run = await start({ runAt: '2090-01-01T00:00:00+01:00', queue: 'slow', priority: -3 })
    expect(run).toMatchObject({
      state: 'pending',
      queue: 'slow',
      priority: -3,
      dueAt: '2089-12-31T23:00:00.000Z',
      nextAttemptAt: '2089-12-31T23:00:00.000Z',
    })
    const shard = Number.parseInt(run.id.slice(-2), 16) & 63
    expect(t.hints).toEqual([{ topic: 'timers', key: String(shard) }])
    expect(await t.database.sql('SELECT shard FROM belfry.delayed WHERE run_id = $1', [run.id])).toEqual([
      { shard },
    ])
  })

  it('starts at once what is over by less than a minute, and refuses what is over for longer', async () => {
    const ago = (ms: number) => new Date(Date.now() - ms).toISOString()
    expect(await start({ runAt: ago(50_000) })).toMatchObject({ state: 'pending' })
    const before = await t.counts()
    for (const runAt of [ago(70_000), '2020-01-01T00:00:00Z']) {
      const { status, body } = await t.call('POST', '/v1/runs', { body: { job: 'one', runAt } })
      expect([status, body.code, body.errors.map(({ pointer }) => pointer)]).toEqual([
        400,
        'invalid_request',
        ['/runAt'],
      ])
      expect(body.errors[0]?.message).toMatch(/is over: .* leave it out to run now/)
    }
    expect(await t.counts()).toEqual(before)
  })

  it('goes on where its job is deleted', async () => {
    const { id: jobId } = (await t.call('POST', '/v1/jobs', { body: httpJob('gone') })).body
    const { id } = (await t.call('POST', '/v1/runs', { body: { job: 'gone' } })).body
    expect((await t.call('DELETE', `/v1/jobs/${jobId}`)).status).toBe(204)
    await claim(id, 0)
    expect(await get(id)).toMatchObject({ state: 'running', jobId })
  })

  it('shows the attempt that runs, and those that ended', async () => {
    const { id } = await start()
    const session = await claim(id, 1_234)
    const running = await get(id)
    expect(running).toMatchObject({ state: 'running', attempts: 1, nextAttemptAt: null })
    expect(running.attemptList).toMatchObject([
      { number: 1, outcome: 'running', workerId: session, leaseEpoch: 1, endedAt: null },
    ])
    expect(running.lateMs).toBe(1_234)
    await end(id, {
      outcome: 'failed',
      state: 'failed',
      reason: 'not_retryable',
      code: 'http_status',
      status: 404,
    })
    const failed = await get(id)
    expect(failed).toMatchObject({
      state: 'failed',
      reason: 'not_retryable',
      attempts: 1,
      startedAt: running.startedAt,
    })
    expect(failed.finishedAt).not.toBeNull()
    expect(failed.attemptList).toMatchObject([
      {
        number: 1,
        outcome: 'failed',
        error: { code: 'http_status' },
        httpStatus: 404,
        response: 'answer',
        retryAt: null,
        responseCapBytes: 16_384,
      },
    ])
  })

  it('keeps the version of the job that it was made with', async () => {
    const { body: job } = await t.call('POST', '/v1/jobs', { body: httpJob('versioned') })
    const run = await start({ job: 'versioned' })
    await t.call('PATCH', `/v1/jobs/${job.id}`, { body: { retry: { maxAttempts: 9 } } })
    expect(await get(run.id)).toMatchObject({ jobVersion: 1, maxAttempts: 3 })
    expect(await start({ job: 'versioned' })).toMatchObject({ jobVersion: 2, maxAttempts: 9 })
    await t.call('DELETE', `/v1/jobs/${job.id}`)
    expect(await get(run.id)).toMatchObject({ job: 'versioned', state: 'pending' })
    expect((await t.call('POST', '/v1/runs', { body: { job: 'versioned' } })).status).toBe(404)
  })
})

describe('cancel', () => {
  const cancel = (id: string) => t.call('POST', `/v1/runs/${id}/cancel`)

  it('ends a waiting run at once, ready or delayed', async () => {
    for (const more of [{}, { runAt: '2090-01-01T00:00:00Z' }]) {
      const { id } = await start(more)
      const canceled = await cancel(id)
      expect(canceled.status).toBe(202)
      expect(canceled.body).toMatchObject({
        state: 'canceled',
        reason: 'canceled_by_request',
        attempts: 0,
        startedAt: null,
      })
      expect(canceled.body.attemptList).toMatchObject([{ number: 0, outcome: 'canceled' }])
      const live = await t.database.sql(
        `SELECT run_id FROM belfry.ready WHERE run_id = $1
         UNION SELECT run_id FROM belfry.delayed WHERE run_id = $1`,
        [id],
      )
      expect(live).toEqual([])
      expect((await cancel(id)).body).toMatchObject({ status: 409, code: 'invalid_state' })
    }
  })

  it('asks the worker of a running one, once and again', async () => {
    const { id } = await start()
    const session = await claim(id)
    t.hints.length = 0
    expect((await cancel(id)).body).toMatchObject({ state: 'running', cancelRequested: true })
    expect((await cancel(id)).status).toBe(202)
    expect(t.hints).toEqual([
      { topic: 'cancel', key: session },
      { topic: 'cancel', key: session },
    ])
  })

  it('refuses one that ended', async () => {
    const { id } = await start()
    await claim(id)
    await end(id)
    expect((await cancel(id)).body).toMatchObject({
      code: 'invalid_state',
      detail: expect.stringContaining('succeeded') as string,
    })
  })

  it('incident 39: never loses or doubles a run that is claimed at the same moment', async () => {
    for (let n = 0; n < 20; n++) {
      const { id } = await start()
      const [answer] = await Promise.all([cancel(id), claim(id)])
      expect(answer.status).toBe(202)
      const run = await get(id)
      expect(run.attemptList).toHaveLength(1)
      expect(['canceled false', 'running true']).toContain(`${run.state} ${run.cancelRequested}`)
    }
  })
})

describe('lists', () => {
  it('finds runs by state, job, schedule and time, alone and together', async () => {
    const key = await t.keyFor('lister', ['admin'])
    const call = (method: string, path: string, body?: unknown) =>
      t.call(method, path, { key, ...(body === undefined ? {} : { body }) })
    await call('POST', '/v1/jobs', httpJob('one'))
    await call('POST', '/v1/jobs', httpJob('two'))
    const schedule = (await call('POST', '/v1/schedules', { name: 's', job: 'two', every: '1h' })).body
    const run = async (job: string, more: object = {}) =>
      (await call('POST', '/v1/runs', { job, ...more })).body.id
    const pending = await run('one')
    const delayed = await run('one', { runAt: '2090-01-01T00:00:00Z' })
    const running = await run('two')
    await claim(running)
    const succeeded = await run('one')
    await claim(succeeded)
    await end(succeeded)
    const failed = await run('two')
    await claim(failed)
    await end(failed, { outcome: 'failed', state: 'failed', reason: 'attempts_exhausted' })
    const canceled = await run('one')
    await call('POST', `/v1/runs/${canceled}/cancel`)
    const triggered = (await call('POST', `/v1/schedules/${schedule.id}/trigger`)).body.id

    const found = async (query: string) =>
      (await call('GET', `/v1/runs?${query}`)).body.items.map((item: { id: string }) => item.id)
    const all = [triggered, canceled, failed, succeeded, running, delayed, pending]
    expect(await found('')).toEqual(all)
    expect(await found('state=pending')).toEqual([triggered, delayed, pending])
    expect(await found('state=running')).toEqual([running])
    expect(await found('state=succeeded')).toEqual([succeeded])
    expect(await found('state=failed,canceled')).toEqual([canceled, failed])
    expect(await found('state=running,failed,pending')).toEqual([
      triggered,
      failed,
      running,
      delayed,
      pending,
    ])
    expect(await found('state=succeeded,failed')).toEqual([failed, succeeded])
    expect(await found('state=skipped,waiting_for_dependencies,upstream_failed')).toEqual([])
    expect(await found('job=two')).toEqual([triggered, failed, running])
    expect(await found('job=two&state=failed')).toEqual([failed])
    expect(await found('job=one&state=succeeded,failed')).toEqual([succeeded])
    expect(await found('job=none')).toEqual([])
    expect(await found(`jobId=${schedule.jobId}&state=pending`)).toEqual([triggered])
    expect(await found(`jobId=${schedule.jobId}&job=one`)).toEqual([])
    expect(await found(`scheduleId=${schedule.id}`)).toEqual([triggered])
    expect(await found(`scheduleId=${schedule.id}&job=one`)).toEqual([])
    expect(await found(`scheduleId=${schedule.id}&state=succeeded`)).toEqual([])
    expect(await found(`scheduleId=${schedule.id}&state=pending`)).toEqual([triggered])
    expect(await found('createdAfter=2090-01-01T00:00:00Z')).toEqual([])
    expect(await found('createdBefore=2090-01-01T00:00:00Z&createdAfter=2020-01-01T00:00:00Z')).toEqual(all)
    expect(await found('createdBefore=2020-01-01T00:00:00Z&state=failed')).toEqual([])

    const stepped: string[] = []
    for (let cursor: string | null = ''; cursor !== null; ) {
      const page = await call(
        'GET',
        `/v1/runs?limit=1&state=pending,running,failed${cursor === '' ? '' : `&cursor=${cursor}`}`,
      )
      stepped.push(...page.body.items.map((item: { id: string }) => item.id))
      cursor = page.body.nextCursor
    }
    expect(stepped).toEqual([triggered, failed, running, delayed, pending])
  })
})
