// The worker against the real store: every way in which an attempt can end, and how it starts and stops.
import { type JobDefinition, retryPolicySchema } from '@belfry/contract'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { HandlerResult } from '../../packages/server/src/ports/handler.ts'
import {
  createRunningFixture,
  eventually,
  type RunningFixture,
  success,
  testHandler,
  untilAborted,
} from '../support/running.ts'
import { workerRigs } from '../support/worker-rig.ts'

let fixture: RunningFixture
const rigs = workerRigs(() => fixture)

beforeAll(async () => {
  fixture = await createRunningFixture()
})
afterAll(() => fixture.drop())
beforeEach(() =>
  fixture.database.sql('TRUNCATE belfry.ready, belfry.session, belfry.delayed, belfry.attempt'),
)
afterEach(rigs.stopAll)

async function addRun(definition: Partial<JobDefinition> = {}): Promise<string> {
  const [runId = ''] = await fixture.addRuns(await fixture.addJob(definition), 1)
  return runId
}

const ended = (runId: string) =>
  eventually(async () => {
    const attempts = await fixture.attempts(runId)
    return attempts.length > 0 && attempts
  }, `an attempt of ${runId}`)

const failure: HandlerResult = {
  outcome: 'failed',
  retryable: true,
  error: { code: 'http_status', message: 'The target answered 503.' },
  httpStatus: 503,
  response: 'busy',
}

describe('an attempt', () => {
  test('gets everything that its handler needs, and its success is recorded', async () => {
    const job = await fixture.addJob()
    const [runId = ''] = await fixture.addRuns(job, 1, {
      input: { n: 1 },
      scheduledFor: new Date(1_767_225_600_000),
    })
    const handler = testHandler(() => success)
    const { events } = await rigs.start(handler)
    expect(await ended(runId)).toMatchObject([
      {
        number: 1,
        outcome: 'succeeded',
        run_state: 'succeeded',
        http_status: 200,
        response: 'done',
        error_code: null,
      },
    ])
    expect(handler.requests).toMatchObject([
      {
        runId,
        tenantId: fixture.tenantId,
        jobId: job.id,
        attempt: 1,
        leaseEpoch: 1,
        scheduledForMs: 1_767_225_600_000,
        idempotencyKey: runId,
        input: { n: 1 },
        handler: job.definition.handler,
        timeoutMs: 60_000,
        traceparent: expect.stringMatching(
          new RegExp(`^00-${runId.replaceAll('-', '')}-[0-9a-f]{16}-01$`),
        ) as unknown,
      },
    ])
    await eventually(() => events.of('attempt_ended').length === 1, 'the event')
    expect(events.of('attempt_ended')).toMatchObject([
      { runId, outcome: 'succeeded', state: 'succeeded', queue: 'default' },
    ])
    expect(events.of('runs_claimed')).toMatchObject([{ queue: 'default', count: 1 }])
    expect(events.of('attempt_started')).toMatchObject([{ runId, attempt: 1, leaseEpoch: 1 }])
  })

  test('that failed is tried again after its pause, and the schedulers hear of it', async () => {
    const runId = await addRun({
      retry: retryPolicySchema.parse({ maxAttempts: 2, backoff: 'fixed', baseMs: 60_000, jitter: 'none' }),
    })
    const { hints } = await rigs.start(testHandler(() => failure))
    const [attempt] = await ended(runId)
    expect(attempt).toMatchObject({
      outcome: 'failed',
      run_state: null,
      error_code: 'http_status',
      http_status: 503,
      response: 'busy',
    })
    expect(await fixture.place(runId)).toMatchObject({ place: 'delayed', failure_count: 1 })
    const shard = String(Number.parseInt(runId.slice(-2), 16) & 63)
    await eventually(
      () => hints.published.some((hint) => hint.topic === 'timers' && hint.key === shard),
      'the hint',
    )
  })

  test('that throws is a failed one', async () => {
    const runId = await addRun({
      retry: retryPolicySchema.parse({ maxAttempts: 1 }),
    })
    await rigs.start(
      testHandler(() => {
        throw new Error('a \u0000 in a bug')
      }),
    )
    expect(await ended(runId)).toMatchObject([
      {
        outcome: 'failed',
        run_state: 'failed',
        reason: 'attempts_exhausted',
        error_code: 'handler_error',
        error_message: 'a \uFFFD in a bug',
      },
    ])
  })

  test('that takes too long is cut off: signal, then a timeout on record', async () => {
    const runId = await addRun({ attemptTimeoutMs: 100 })
    const handler = testHandler(untilAborted)
    await rigs.start(handler)
    expect(await ended(runId)).toMatchObject([
      {
        outcome: 'timed_out',
        run_state: null,
        error_code: 'attempt_timeout',
        // the handler knows best where the time went
        error_message: 'The attempt was cut off: The signal fired.',
      },
    ])
    expect(handler.requests[0]?.signal.reason).toBe('timeout')
  })

  test('whose handler ignores the signal is left behind, and its late answer goes nowhere', async () => {
    const runId = await addRun({ attemptTimeoutMs: 100 })
    const late = Promise.withResolvers<HandlerResult>()
    const handler = testHandler((request) => (request.runId === runId ? late.promise : success))
    const { worker } = await rigs.start(handler, { settings: { slots: 1 } })
    const [attempt] = await ended(runId)
    expect(attempt).toMatchObject({ outcome: 'timed_out' })
    expect(attempt?.error_message).toContain('did not react')
    expect(worker.stats().abandoned).toBe(1)
    const next = await addRun()
    expect(await ended(next)).toMatchObject([{ outcome: 'succeeded' }])
    late.resolve(success)
    await eventually(() => worker.stats().abandoned === 0, 'the late answer')
    expect(await fixture.attempts(runId)).toHaveLength(1)
  })

  test('whose definition cannot be used fails for good, and says so', async () => {
    const job = await fixture.addJob()
    await fixture.database.sql(`UPDATE belfry.job_version SET definition = '{}' WHERE job_id = $1`, [job.id])
    const [runId = ''] = await fixture.addRuns(job, 1)
    const handler = testHandler(() => success)
    await rigs.start(handler)
    expect(await ended(runId)).toMatchObject([
      { outcome: 'failed', run_state: 'failed', reason: 'not_retryable', error_code: 'definition_unusable' },
    ])
    expect(handler.requests).toEqual([])
  })
})

describe('slots', () => {
  test('bound what is held, and every run is executed once', async () => {
    const runs = await fixture.addRuns(await fixture.addJob(), 60)
    let most = 0
    const running: (() => void)[] = []
    const handler = testHandler(async () => {
      const gate = Promise.withResolvers<void>()
      most = Math.max(most, running.push(gate.resolve))
      await gate.promise
      return success
    })
    const { worker } = await rigs.start(handler, { settings: { slots: 7 } })
    await eventually(() => running.length === 7, 'full slots')
    await eventually(async () => {
      for (const open of running.splice(0)) open()
      return (await remaining()) === 0
    }, 'the end')
    expect(most).toBe(7)
    expect(handler.requests.map((request) => request.runId).sort()).toEqual([...runs].sort())
    await eventually(() => worker.stats().busy === 0, 'free slots')
  })

  test('two workers share a queue and never a run', async () => {
    const runs = await fixture.addRuns(await fixture.addJob(), 1_000)
    const handlers = [testHandler(() => success), testHandler(() => success)]
    await Promise.all(handlers.map((handler) => rigs.start(handler, { settings: { slots: 50 } })))
    await eventually(async () => (await remaining()) === 0, 'the end')
    const seen = handlers.flatMap((handler) => handler.requests.map((request) => request.runId))
    expect(seen.sort()).toEqual([...runs].sort())
  })
})

async function remaining(): Promise<number> {
  const [row] = await fixture.database.sql<{ count: number }>('SELECT count(*)::int FROM belfry.ready')
  return row?.count ?? 0
}

describe('a worker of every queue', () => {
  test('finds queues that it never heard of', async () => {
    const handler = testHandler(() => success)
    await rigs.start(handler, { queues: '*' })
    const runs = await Promise.all(['a', 'b', 'c'].map((queue) => addRun({ queue })))
    for (const runId of runs) expect(await ended(runId)).toMatchObject([{ outcome: 'succeeded' }])
  })

  test('serves a tenant in one queue beside one in 10,000, though no slot is ever left over', async () => {
    const flood = await fixture.addJob({})
    await fixture.database.sql(
      `INSERT INTO belfry.ready (run_id, tenant_id, job_id, job_version, queue, handler, tag, priority,
         available_at, timeout_ms)
       SELECT gen_random_uuid(), $1, $2, 1, 'flood-' || n, 'http', 1, 0, now(), 1000
       FROM generate_series(1, 10000) AS n`,
      [flood.tenantId, flood.id],
    )
    const running: (() => void)[] = []
    const handler = testHandler(async () => {
      const gate = Promise.withResolvers<void>()
      running.push(gate.resolve)
      await gate.promise
      return success
    })
    await rigs.start(handler, { queues: '*', settings: { slots: 4 } })
    await eventually(() => running.length === 4, 'full slots')
    const tenantId = await fixture.addTenant()
    const [runId = ''] = await fixture.addRuns(await fixture.addJob({ queue: 'one' }, tenantId), 1)
    // one slot at a time: the next but a few is the other tenant's, not the one after 10,000
    await eventually(() => {
      if (running.length === 4) running.shift()?.()
      return handler.requests.some((request) => request.runId === runId)
    }, 'the other tenant')
    expect(handler.requests.length).toBeLessThan(1_000)
    await fixture.database.sql('DELETE FROM belfry.ready WHERE session_id IS NULL')
    for (const open of running.splice(0)) open()
  })

  test('takes a hint at its word, without waiting for the poll', async () => {
    const handler = testHandler(() => success)
    const { worker, hints } = await rigs.start(handler, { queues: '*', settings: { maxPollMs: 3_600_000 } })
    await eventually(() => worker.stats().sessionId !== null, 'the session')
    const runId = await addRun({ queue: 'hinted' })
    hints.publish({ topic: 'ready', key: 'hinted' })
    expect(await ended(runId)).toMatchObject([{ outcome: 'succeeded' }])
  })
})

describe.each([['a list of queues', ['default', 'b', 'c']] as const, ['every queue', '*'] as const])(
  'an idle worker of %s',
  (_, queues) => {
    test('sends one query a poll, never sooner than the longest poll', async () => {
      const asked: number[] = []
      const note = () => void asked.push(performance.now())
      const queue = {
        claim: (options: Parameters<typeof fixture.queue.claim>[0]) => {
          note()
          return fixture.queue.claim(options)
        },
        readyQueues: (cursor: Parameters<typeof fixture.queue.readyQueues>[0]) => {
          note()
          return fixture.queue.readyQueues(cursor)
        },
      }
      await rigs.start(
        testHandler(() => success),
        { queue, queues, settings: { maxPollMs: 150 } },
      )
      await eventually(() => asked.length >= 14, 'polls')
      const gaps = asked
        .slice(-5)
        .map((atMs, index, all) => (index === 0 ? Infinity : atMs - (all[index - 1] ?? 0)))
      expect(Math.min(...gaps)).toBeGreaterThanOrEqual(145)
    })
  },
)

describe('a stop', () => {
  test('claims no more, lets what runs come to its end, and closes the session', async () => {
    const runId = await addRun()
    const gate = Promise.withResolvers<HandlerResult>()
    const handler = testHandler(() => gate.promise)
    const { worker } = await rigs.start(handler)
    await eventually(() => handler.requests.length === 1, 'the start')
    const stopped = worker.stop()
    const later = await addRun()
    gate.resolve(success)
    await stopped
    expect(await fixture.attempts(runId)).toMatchObject([{ outcome: 'succeeded' }])
    expect(await fixture.place(later)).toMatchObject({ place: 'ready', attempt: 0 })
    expect(handler.requests).toHaveLength(1)
    expect(await fixture.database.sql('SELECT 1 FROM belfry.session')).toEqual([])
  })

  test('signals what outlasts the drain: goes back uncounted, or ends unknown if at most once', async () => {
    const again = await addRun()
    const once = await addRun({ delivery: 'at_most_once' })
    const handler = testHandler(untilAborted)
    const { worker } = await rigs.start(handler, { settings: { drainMs: 50 } })
    await eventually(() => handler.requests.length === 2, 'the starts')
    await worker.stop()
    expect(handler.requests.map((request) => request.signal.reason as unknown)).toEqual([
      'shutdown',
      'shutdown',
    ])
    expect(await fixture.attempts(again)).toMatchObject([{ outcome: 'released', run_state: null }])
    expect(await fixture.place(again)).toMatchObject({ place: 'delayed', failure_count: 0, crash_count: 0 })
    expect(await fixture.attempts(once)).toMatchObject([
      { outcome: 'lost', run_state: 'failed', reason: 'outcome_unknown' },
    ])
    expect(await fixture.database.sql('SELECT 1 FROM belfry.session')).toEqual([])
  })

  test('twice is one stop', async () => {
    const { worker } = await rigs.start(testHandler(() => success))
    await Promise.all([worker.stop(), worker.stop()])
    expect(worker.stats()).toMatchObject({ busy: 0, sessionId: null })
  })
})

test('a lease that is too short for its heartbeat and margin is refused at once', async () => {
  const settings = { leaseMs: 3_000, leaseMarginMs: 1_000, heartbeatMs: 2_000 }
  await expect(
    rigs.start(
      testHandler(() => success),
      { settings },
    ),
  ).rejects.toMatchObject({
    code: 'invalid_config',
  })
})
