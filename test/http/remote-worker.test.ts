// The SDK's worker against a real API: functions with schemas, their outcomes, signals, progress, logs,
// cancel, drain. What needs whole processes is in test/cluster.
import { BelfryError, type Client, createClient, createWorker, defineJob } from '@belfry/sdk'
import { cancel, fail, retryAfter, type Worker, type WorkerEvent, type WorkerOptions } from '@belfry/sdk'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { eventually, startTestApi, type TestApi } from '../support/api.ts'
import { makeKey } from '../support/remote-worker.ts'

let api: TestApi
let client: Client
let url: string
const started: Worker[] = []

beforeAll(async () => {
  api = await startTestApi()
  url = await api.api.listen({ host: '127.0.0.1', port: 0 })
  client = createClient({ url, apiKey: api.adminKey })
})
afterEach(async () => {
  await Promise.all(started.splice(0).map((worker) => worker.stop()))
})
afterAll(() => api.close())

async function startWorker(options: Omit<WorkerOptions, 'url' | 'token'> & Partial<WorkerOptions>) {
  const events: WorkerEvent[] = []
  const token = options.token ?? (await makeKey(api, { scopes: ['worker'] }))
  const worker = createWorker({
    url,
    token,
    handleSignals: false,
    abortGraceMs: 200,
    onEvent: (event) => events.push(event),
    ...options,
  })
  started.push(worker)
  await worker.start()
  return { worker, events }
}

let names = 0
const nameOf = (word: string) => `${word}-${names++}`

const ended = (id: string) => client.waitForRun(id, { timeoutMs: 10_000 })
/** Until an attempt has ended, whatever becomes of the run. */
const attempted = (id: string) =>
  eventually(async () => {
    const run = await client.runs.get(id)
    const last = run.attemptList.at(-1)
    return last !== undefined && last.outcome !== 'running' ? { run, last } : undefined
  })

test('a typed job runs, and its result is kept', async () => {
  const sum = defineJob({
    name: nameOf('sum'),
    input: z.object({ numbers: z.array(z.number()) }),
    output: z.object({ total: z.number(), at: z.date().transform((date) => date.toISOString()) }),
    run: ({ numbers }, ctx) => {
      ctx.log.info('adding', { count: numbers.length })
      return { total: numbers.reduce((a, b) => a + b, 0), at: new Date(0) }
    },
  })
  await startWorker({ jobs: [sum] })
  const { id } = await client.enqueue(sum, { numbers: [1, 2, 3] })
  const run = await ended(id)
  expect(run).toMatchObject({
    state: 'succeeded',
    attemptList: [{ result: { total: 6, at: '1970-01-01T00:00:00.000Z' } }],
  })
  const { lines } = await client.logs.get(id)
  expect(lines).toMatchObject([{ number: 0, level: 'info', message: 'adding', fields: { count: 3 } }])
})

test('an input that does not fit is refused where it is asked for, with a pointer', async () => {
  const job = defineJob({
    name: nameOf('strict'),
    input: z.object({ to: z.email() }),
    run: ({ to }) => to.length,
  })
  const refused = client.enqueue(job, { to: 'nobody' })
  // @ts-expect-error: the compiler refuses what the schema would
  await expect(client.enqueue(job, { to: 5 })).rejects.toMatchObject({ code: 'invalid_request' })
  await expect(refused).rejects.toBeInstanceOf(BelfryError)
  await expect(refused).rejects.toMatchObject({ code: 'invalid_request', errors: [{ pointer: '/input/to' }] })
})

type Case = [words: string, body: () => unknown, outcome: string, state: string, code: string]

describe('an attempt', () => {
  test.each<Case>([
    [
      'an ordinary error is tried again',
      () => Promise.reject(new TypeError('bad')),
      'failed',
      'pending',
      'function_error',
    ],
    ['fail() ends the run', () => fail('never'), 'failed', 'failed', 'function_error'],
    ['retryAfter() waits', () => retryAfter(3_600_000, 'later'), 'failed', 'pending', 'function_error'],
    ['cancel() calls it off', () => cancel('no need'), 'canceled', 'canceled', 'canceled'],
    ['a result that is no JSON is permanent', () => 1n, 'failed', 'failed', 'invalid_result'],
    [
      'a result that is too large is permanent',
      () => 'x'.repeat(262_145),
      'failed',
      'failed',
      'result_too_large',
    ],
  ])('%s', async (_, body, outcome, state, code) => {
    const job = defineJob({
      name: nameOf('outcome'),
      retry: { baseMs: 3_600_000, jitter: 'none' },
      run: body,
    })
    await startWorker({ jobs: [job] })
    const { run, last } = await attempted((await client.enqueue(job)).id)
    expect(last).toMatchObject({ outcome, error: { code } })
    expect(run.state).toBe(state)
  })

  test('whose result is too large is told the limit', async () => {
    const job = defineJob({ name: nameOf('large'), run: () => 'x'.repeat(262_145) })
    await startWorker({ jobs: [job] })
    const { last } = await attempted((await client.enqueue(job)).id)
    expect(last.error?.message).toContain('at most 262144 bytes')
  })

  test('whose stored input does not fit fails for good with its own code', async () => {
    const job = defineJob({ name: nameOf('schema'), input: z.object({ n: z.number() }), run: () => 1 })
    await startWorker({ jobs: [job] })
    const run = await ended((await client.runs.create({ job: job.name, input: { n: 'x' } })).id)
    expect(run).toMatchObject({
      state: 'failed',
      reason: 'not_retryable',
      attemptList: [{ error: { code: 'invalid_input' } }],
    })
  })

  test('is told who it is', async () => {
    const seen = Promise.withResolvers<Record<string, unknown>>()
    const job = defineJob({
      name: nameOf('context'),
      run: (input, { signal, log: _log, heartbeat: _beat, ...names }) =>
        seen.resolve({ input, aborted: signal.aborted, ...names }),
    })
    await startWorker({ jobs: [job] })
    const { id } = await client.enqueue(job, { any: 'thing' })
    expect(await seen.promise).toEqual({
      input: { any: 'thing' },
      secrets: {},
      aborted: false,
      runId: id,
      idempotencyKey: id,
      attempt: 1,
      leaseEpoch: 1,
      scheduledFor: null,
      delivery: 'at_least_once',
      runDeadline: null,
      traceparent: expect.stringMatching(/^00-/) as string,
    })
  })
})

test('a function is cut off when its whole run must be over, and knew of it', async () => {
  const seen = Promise.withResolvers<Date | null>()
  const reason = Promise.withResolvers<unknown>()
  const job = defineJob({
    name: nameOf('deadline'),
    retry: { maxAttempts: 5 },
    run: (_, { signal, runDeadline }) => {
      seen.resolve(runDeadline)
      return new Promise((_resolve, reject) => {
        signal.addEventListener('abort', () => {
          reason.resolve(signal.reason)
          reject(new Error('aborted'))
        })
      })
    },
  })
  await startWorker({ jobs: [job] })
  const { id, dueAt } = await client.enqueue(job, null, { runDeadlineMs: 1_000 })
  expect((await seen.promise)?.getTime()).toBe(Date.parse(dueAt) + 1_000)
  expect(await reason.promise).toBe('timeout')
  expect(await ended(id)).toMatchObject({
    state: 'failed',
    reason: 'deadline_exceeded',
    attempts: 1,
    attemptList: [{ outcome: 'timed_out' }],
  })
})

/** A function that waits for its signal and says why it fired. */
function waiting(more: { timeoutMs?: number } = {}) {
  const begun = Promise.withResolvers<void>()
  const reason = Promise.withResolvers<unknown>()
  const job = defineJob({
    name: nameOf('waiting'),
    ...more,
    run: (_, { signal }) =>
      new Promise((_resolve, reject) => {
        begun.resolve()
        signal.addEventListener('abort', () => {
          reason.resolve(signal.reason)
          reject(new Error('called off'))
        })
      }),
  })
  return { job, begun: begun.promise, reason: reason.promise }
}

describe('the signal of an attempt fires', () => {
  test('when its time is over', async () => {
    const { job, reason } = waiting({ timeoutMs: 150 })
    await startWorker({ jobs: [job] })
    const { id } = await client.enqueue(job)
    expect(await reason).toBe('timeout')
    expect((await attempted(id)).last).toMatchObject({
      outcome: 'timed_out',
      error: { code: 'attempt_timeout' },
    })
  })

  test('when its cancel is asked for, also with every slot taken', async () => {
    const { job, begun, reason } = waiting()
    await startWorker({ jobs: [job], slots: 1 })
    const { id } = await client.enqueue(job)
    await begun
    await client.runs.cancel(id)
    expect(await reason).toBe('cancel')
    expect(await ended(id)).toMatchObject({ state: 'canceled', reason: 'canceled_by_request' })
  })

  test('when the worker stops, and the run goes back uncounted', async () => {
    const { job, begun, reason } = waiting()
    const { worker } = await startWorker({ jobs: [job], drainMs: 50 })
    const { id } = await client.enqueue(job)
    await begun
    await worker.stop()
    expect(await reason).toBe('shutdown')
    const run = await client.runs.get(id)
    expect(run).toMatchObject({ state: 'pending', attemptList: [{ outcome: 'released' }] })
    expect(worker.stats()).toMatchObject({ sessionId: null, busy: 0 })
  })
})

test('a function that ignores its signal is left behind, and its slot is free', async () => {
  const stuck = Promise.withResolvers<void>()
  const job = defineJob({ name: nameOf('deaf'), timeoutMs: 100, run: () => stuck.promise })
  const other = defineJob({ name: nameOf('other'), run: () => 'fine' })
  const { worker, events } = await startWorker({ jobs: [job, other], slots: 1 })
  const { id } = await client.enqueue(job)
  const { last } = await attempted(id)
  expect(last.outcome).toBe('timed_out')
  expect(last.error?.message).toContain('left behind')
  expect((await ended((await client.enqueue(other)).id)).state).toBe('succeeded')
  expect(worker.stats().abandoned).toBe(1)
  expect(events.some((event) => event.kind === 'function_abandoned')).toBe(true)
  stuck.resolve()
})

test('a canceled function that ignores its signal is left behind; its late answer goes nowhere', async () => {
  const [stuck, begun] = [Promise.withResolvers<string>(), Promise.withResolvers<void>()]
  const run = (): Promise<string> => {
    begun.resolve()
    return stuck.promise
  }
  const job = defineJob({ name: nameOf('deaf-to-cancel'), run })
  const { worker } = await startWorker({ jobs: [job], slots: 1 })
  const { id } = await client.enqueue(job)
  await begun.promise
  await client.runs.cancel(id, { reason: 'no longer wanted' })
  const canceled = await ended(id)
  expect(canceled).toMatchObject({ state: 'canceled', cancelReason: 'no longer wanted' })
  expect(canceled.attemptList[0]?.error?.message).toContain('left behind')
  expect(worker.stats().abandoned).toBe(1)
  stuck.resolve('late')
  await eventually(async () => worker.stats().abandoned === 0)
  expect(await client.runs.get(id)).toMatchObject({ state: 'canceled', attemptsTotal: 1 })
})

test('progress shows while it runs', async () => {
  const done = Promise.withResolvers<void>()
  const job = defineJob({
    name: nameOf('progress'),
    run: (_, { heartbeat }) => {
      heartbeat({ step: 1 })
      return done.promise
    },
  })
  await startWorker({ jobs: [job] })
  const { id } = await client.enqueue(job)
  const shown = await eventually(async () => {
    const { attemptList } = await client.runs.get(id)
    return attemptList.at(-1)?.progress ?? undefined
  })
  expect(shown).toEqual({ step: 1 })
  done.resolve()
  await ended(id)
})

test('fifty runs go through a few slots, each once', async () => {
  const seen = new Map<string, number>()
  const job = defineJob({
    name: nameOf('many'),
    run: (_, { runId }) => void seen.set(runId, (seen.get(runId) ?? 0) + 1),
  })
  await client.functions.register([job])
  const asked = await Promise.all(Array.from({ length: 50 }, () => client.enqueue(job)))
  const ids = asked.map(({ id }) => id)
  await startWorker({ jobs: [job], slots: 7 })
  await Promise.all(ids.map(ended))
  expect([...seen.values()]).toEqual(ids.map(() => 1))
})

test('many workers that start at once with a new job agree on it', async () => {
  const job = defineJob({ name: nameOf('rush'), run: () => 'ran' })
  const workers = await Promise.all(Array.from({ length: 6 }, () => startWorker({ jobs: [job] })))
  expect(workers).toHaveLength(6)
  const { id } = await client.enqueue(job)
  expect(await ended(id)).toMatchObject({ state: 'succeeded', jobVersion: 1 })
})

test('runs that come one by one are each begun soon, though a claim has just been answered', async () => {
  const job = defineJob({ name: nameOf('soon'), run: () => undefined })
  await startWorker({ jobs: [job], slots: 2 })
  const late: number[] = []
  for (let count = 0; count < 12; count++) {
    const { id } = await client.enqueue(job)
    late.push((await ended(id)).lateMs ?? Infinity)
  }
  // a look that missed its hint comes a second later
  expect(late.filter((ms) => ms > 900)).toEqual([])
})

describe('a worker that cannot be meant', () => {
  test.each([
    [{ jobs: [] }, 'invalid_request'],
    [{ url: 'ftp://x' }, 'invalid_config'],
  ])('%j is refused at once', (more, code) => {
    const job = defineJob({ name: 'x', run: () => 1 })
    const make = () => createWorker({ jobs: [job], url, token: 'bfy_x', ...more })
    expect(make).toThrow(expect.objectContaining({ code }) as Error)
  })

  test('a token that is refused ends the start', async () => {
    const job = defineJob({ name: nameOf('x'), run: () => 1 })
    await expect(startWorker({ jobs: [job], token: 'bfy_nope' })).rejects.toMatchObject({
      code: 'unauthenticated',
    })
    const key = await makeKey(api, { scopes: ['worker'], queues: ['elsewhere'] })
    await expect(startWorker({ jobs: [job], token: key })).rejects.toMatchObject({ code: 'forbidden' })
    await expect(startWorker({ jobs: [job], token: key, register: false })).rejects.toMatchObject({
      code: 'forbidden',
    })
  })

  test('a definition that does not fit names what is wrong', () => {
    const define = () => defineJob({ name: 'has space', timeoutMs: 1, run: () => 1 })
    expect(define).toThrow(
      expect.objectContaining({
        code: 'invalid_request',
        errors: [
          expect.objectContaining({ pointer: '/name' }),
          expect.objectContaining({ pointer: '/timeoutMs' }),
        ],
      }) as Error,
    )
  })
})
