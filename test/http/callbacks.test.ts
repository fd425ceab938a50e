// A target that takes runs over by 202 and reports later, by the real API, worker and HTTP handler: what each
// report does, what comes again, late, for another run or from nobody, and what is shown meanwhile.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { callbackTokens } from '../../packages/server/src/security/callback-token.ts'
import { eventually, startTestApi } from '../support/api.ts'
import { type AsyncRig, openAsyncRig } from '../support/async-rig.ts'
import { answer, ok } from '../support/target-behaviours.ts'
import type { TargetCall } from '../support/target-server.ts'

let rig: AsyncRig
beforeAll(async () => {
  rig = await openAsyncRig()
})
afterAll(() => rig.close())

let names = 0
const accepted = answer(202, 'taken')

interface Taken {
  readonly runId: string
  readonly call: TargetCall
  readonly name: string
}

/** A run that its target has taken over. */
async function taken(definition: object = {}): Promise<Taken> {
  const name = `taken-${names++}`
  rig.target.program(`/${name}`, accepted)
  const runId = await rig.start(name, definition)
  const call = await rig.callOf(runId)
  await rig.parked(runId)
  return { runId, call, name }
}

const tokenOf = (call: TargetCall): string => call.headers['belfry-callback-token'] ?? ''
const attemptsOf = async (runId: string): Promise<readonly Record<string, unknown>[]> =>
  (await rig.run(runId))['attemptList'] as readonly Record<string, unknown>[]

describe('the call', () => {
  test('carries where to report and by which token; the run is running, and no slot is taken', async () => {
    const { runId, call } = await taken()
    expect(call.headers['belfry-callback-url']).toBe(`${rig.url}/v1/callbacks/${runId}`)
    expect(tokenOf(call)).toMatch(/^bfr_[\w-]{43}[0-9a-f]{8}$/)
    expect(await rig.run(runId)).toMatchObject({ state: 'running' })
    expect(await attemptsOf(runId)).toMatchObject([{ number: 1, outcome: 'running', workerId: null }])
    await eventually(async () => rig.worker.stats().busy === 0)
  })

  test('whoever scales workers counts no place for it', async () => {
    const { call } = await taken()
    await eventually(async () => rig.worker.stats().busy === 0)
    const { body } = await rig.api.call('GET', '/v1/queues/default/stats')
    expect(body).toMatchObject({ servers: { running: 0 } })
    await rig.report(call, { action: 'complete' })
  })

  test('is due no more once the report has ended the run, whatever time it had', async () => {
    const { runId, call } = await taken()
    const dueAt = () =>
      rig.api.database.sql<{ due: boolean }>(
        'SELECT due_at IS NOT NULL AS due FROM belfry.callback WHERE run_id = $1',
        [runId],
      )
    expect(await dueAt()).toEqual([{ due: true }])
    await rig.report(call, { action: 'complete' })
    expect(await dueAt()).toEqual([{ due: false }])
  })

  test('five runs are parked by a worker of two slots', async () => {
    const all = await Promise.all(Array.from({ length: 5 }, () => taken()))
    for (const { runId, call } of all) {
      expect(await rig.run(runId)).toMatchObject({ state: 'running' })
      expect((await rig.report(call, { action: 'complete' })).body.state).toBe('succeeded')
    }
  })

  test.each([
    ['200', ok('done at once'), 'succeeded'],
    ['201', answer(201, ''), 'succeeded'],
    ['500', answer(500, 'no'), 'failed'],
  ] as const)('answered with %s it is judged as ever, and its token is dead', async (_, behaviour, state) => {
    const name = `plain-${names++}`
    rig.target.program(`/${name}`, behaviour)
    const runId = await rig.start(name)
    await eventually(async () => (await rig.run(runId))['state'] === state)
    const late = await rig.report(await rig.callOf(runId), { action: 'heartbeat' })
    expect([late.status, late.body.code]).toEqual([409, 'callback_over'])
  })

  test('a job without "async" gets no token, and its 202 is a success', async () => {
    const name = `sync-${names++}`
    rig.target.program(`/${name}`, accepted)
    const runId = await rig.start(name, { handler: { async: undefined } })
    await eventually(async () => (await rig.run(runId))['state'] === 'succeeded')
    const { headers } = await rig.callOf(runId)
    expect(headers).not.toHaveProperty('belfry-callback-token')
    expect(headers).not.toHaveProperty('belfry-callback-url')
  })

  test('a token that the target repeats in its answer is shown nowhere', async () => {
    const name = `echo-${names++}`
    rig.target.program(`/${name}`, (response) => {
      const token = response.req.headers['belfry-callback-token']
      response.writeHead(500).end(`you sent ${String(token)}`)
    })
    const runId = await rig.start(name)
    await eventually(async () => (await rig.run(runId))['state'] === 'failed')
    const [attempt] = await attemptsOf(runId)
    expect(attempt?.['response']).toContain('you sent ')
    expect(JSON.stringify(attempt)).not.toContain(tokenOf(await rig.callOf(runId)))
  })
})

describe('an end', () => {
  test('complete: the run has succeeded, with its result', async () => {
    const { runId, call } = await taken()
    const result = { rows: 12, text: '{{secrets.prod}}' }
    const done = await rig.report(call, { action: 'complete', result })
    expect([done.status, done.body.state]).toEqual([200, 'succeeded'])
    expect(await rig.run(runId)).toMatchObject({ state: 'succeeded' })
    expect(await attemptsOf(runId)).toMatchObject([{ outcome: 'succeeded', result, workerId: null }])
  })

  test('sent again it is answered as before; another one is refused', async () => {
    const { call } = await taken()
    const end = { action: 'complete', result: { n: 1 } }
    for (let n = 0; n < 3; n++)
      expect((await rig.report(call, end)).body).toMatchObject({ state: 'succeeded' })
    for (const other of [
      { action: 'complete', result: { n: 2 } },
      { action: 'complete' },
      { action: 'fail', error: { code: 'late', message: 'x' } },
      { action: 'heartbeat' },
      { action: 'log', firstLine: 0, lines: [{ at: '2026-01-01T00:00:00Z', level: 'info', message: 'x' }] },
    ]) {
      const late = await rig.report(call, other)
      expect([late.status, late.body.code, late.body.retryable]).toEqual([409, 'callback_over', false])
    }
  })

  test('ten at once: one is applied, none is answered with an error', async () => {
    const { runId, call } = await taken()
    const answers = await Promise.all(
      Array.from({ length: 10 }, () => rig.report(call, { action: 'complete' })),
    )
    expect(answers.map(({ status }) => status)).toEqual(Array.from({ length: 10 }, () => 200))
    expect(await attemptsOf(runId)).toHaveLength(1)
  })

  test('fail: tried again as the retry policy says, with a new token; the old one is dead', async () => {
    const { runId, call } = await taken({ retry: { maxAttempts: 2, backoff: 'fixed', baseMs: 1 } })
    const fail = { action: 'fail', error: { code: 'no_rows', message: 'nothing came' } }
    expect((await rig.report(call, fail)).body.state).toBe('pending')
    await rig.api.database.sql('UPDATE belfry.delayed SET due_at = now()')
    await moveDelayed()
    const second = await rig.callOf(runId, 2)
    await rig.parked(runId)
    expect(tokenOf(second)).not.toBe(tokenOf(call))
    expect(second.headers['idempotency-key']).toBe(call.headers['idempotency-key'])
    const late = await rig.report(call, { action: 'complete' })
    expect([late.status, late.body.code]).toEqual([409, 'callback_over'])
    expect((await rig.report(call, fail)).body.state, 'the same word again').toBe('pending')
    expect((await rig.report(second, { action: 'complete' })).body.state).toBe('succeeded')
    expect(await attemptsOf(runId)).toMatchObject([
      { number: 1, outcome: 'failed', error: { code: 'no_rows', message: 'nothing came' } },
      { number: 2, outcome: 'succeeded' },
    ])
  })

  test('fail with retryable false ends the run at once', async () => {
    const { runId, call } = await taken({ retry: { maxAttempts: 5 } })
    const fail = { action: 'fail', error: { code: 'bad_input', message: 'no' }, retryable: false }
    expect((await rig.report(call, fail)).body.state).toBe('failed')
    expect(await rig.run(runId)).toMatchObject({ state: 'failed', reason: 'not_retryable' })
  })

  test('before the 202 it counts as well, and the 202 changes nothing any more', async () => {
    const name = `early-${names++}`
    const held = Promise.withResolvers<void>()
    rig.target.program(
      `/${name}`,
      (response) => void held.promise.then(() => response.writeHead(202).end('taken')),
    )
    const runId = await rig.start(name)
    const call = await rig.callOf(runId)
    expect((await rig.report(call, { action: 'heartbeat', progress: 1 })).body).toMatchObject({
      reportBy: null,
    })
    expect((await rig.report(call, { action: 'complete', result: 7 })).body.state).toBe('succeeded')
    held.resolve()
    await eventually(async () => rig.worker.stats().busy === 0)
    expect(await rig.run(runId)).toMatchObject({ state: 'succeeded' })
    expect(await attemptsOf(runId)).toMatchObject([{ outcome: 'succeeded', result: 7 }])
  })

  test('after the deadline it comes too late', async () => {
    const { runId, call } = await taken()
    await rig.api.database.sql(
      `WITH c AS (UPDATE belfry.callback SET due_at = now(), report_by = now() WHERE run_id = '${runId}')
       UPDATE belfry.ready SET deadline = now() - interval '1 s' WHERE run_id = '${runId}'`,
    )
    await rig.rescue()
    const late = await rig.report(call, { action: 'complete' })
    expect([late.status, late.body.code]).toEqual([409, 'callback_over'])
    expect(late.body.detail).toContain('callback_overdue')
    expect(await attemptsOf(runId)).toMatchObject([
      { outcome: 'timed_out', error: { code: 'callback_overdue' } },
    ])
  })
})

/** Retries that are due are let in by a scheduler, which this rig has none of. */
async function moveDelayed(): Promise<void> {
  await rig.api.database.sql(
    `WITH due AS (DELETE FROM belfry.delayed RETURNING *)
     INSERT INTO belfry.ready (run_id, tenant_id, job_id, job_version, queue, handler, tag, priority,
       available_at, timeout_ms, lease_epoch, attempt, crash_count, failure_count)
     SELECT run_id, tenant_id, job_id, job_version, queue, handler, 1, priority, now(), timeout_ms,
       lease_epoch, attempt, crash_count, failure_count FROM due`,
  )
}

describe('signs of life', () => {
  test('a heartbeat says how far it is, and hears by when the next is due, and of a cancel', async () => {
    const { runId, call } = await taken({ handler: { async: { deadlineMs: 600_000, heartbeatMs: 60_000 } } })
    const first = (await rig.report(call, { action: 'heartbeat', progress: { done: 3 } }))
      .body as unknown as {
      cancelRequested: boolean
      heartbeatBy: string
      reportBy: string
    }
    expect(first).toMatchObject({ state: 'running', cancelRequested: false })
    expect(Date.parse(first.heartbeatBy)).toBeLessThan(Date.parse(first.reportBy))
    expect(await attemptsOf(runId)).toMatchObject([{ progress: { done: 3 } }])
    await rig.api.call('POST', `/v1/runs/${runId}/cancel`)
    const told = (await rig.report(call, { action: 'heartbeat' })).body
    expect(told).toMatchObject({ state: 'running', cancelRequested: true })
    const stopped = { action: 'fail', error: { code: 'stopped', message: 'as asked' } }
    expect((await rig.report(call, stopped)).body.state).toBe('canceled')
  })

  test('lines are kept as the log of the attempt, once', async () => {
    const { runId, call } = await taken()
    const line = (message: string) => ({ at: '2026-11-30T12:00:00Z', level: 'info', message })
    const chunk = { action: 'log', firstLine: 0, lines: [line('one'), line('two')] }
    expect((await rig.report(call, chunk)).body).toMatchObject({ state: 'running', logFull: false })
    await rig.report(call, chunk)
    await rig.report(call, { action: 'log', firstLine: 2, lines: [line(`with ${tokenOf(call)}`)] })
    const { body } = await rig.api.call('GET', `/v1/runs/${runId}/log`)
    expect(body.lines.map(({ message }) => message)).toEqual(['one', 'two', 'with bfr_***'])
  })

  test('what is awaited stands in the explanation and in the timeline', async () => {
    const { runId, call } = await taken({ handler: { async: { deadlineMs: 600_000, heartbeatMs: 60_000 } } })
    await rig.report(call, { action: 'heartbeat' })
    const { body } = await rig.api.call('GET', `/v1/runs/${runId}/explanation`)
    expect(body).toMatchObject({ verdict: 'running', workerId: null })
    const { message } = body as unknown as { message: string }
    expect(message).toMatch(
      /^Its target took it over .* ago; it was heard of .* ago\. It is to report the end within/,
    )
    expect(message).toContain('a sign of life within')
    const timeline = (await rig.run(runId))['timeline'] as readonly { words: string }[]
    expect(timeline.at(-1)?.words).toMatch(/^Attempt 1 is running: its target took it over after /)
  })
})

describe('who may report', () => {
  const end = { action: 'complete' }

  test('nobody without a token, with one that is none, or with one that was never given out', async () => {
    const { runId } = await taken()
    const never = callbackTokens.mint().token
    for (const token of [null, '', 'null', 'undefined', 'bfr_', `${never}x`, never, rig.api.adminKey]) {
      const { status, body } = await rig.reportAs(runId, token, end)
      expect([token, status, body.code]).toEqual([token, 401, 'unauthenticated'])
    }
    expect(await rig.run(runId)).toMatchObject({ state: 'running' })
  })

  test('token.run_token_other_run: the token of one run may do nothing to another', async () => {
    const [one, two] = await Promise.all([taken(), taken()])
    const crossed = await rig.reportAs(two.runId, tokenOf(one.call), end)
    expect([crossed.status, crossed.body.code]).toEqual([403, 'forbidden'])
    expect(await rig.run(two.runId)).toMatchObject({ state: 'running' })
    expect((await rig.report(one.call, end)).status).toBe(200)
    const over = await rig.reportAs(two.runId, tokenOf(one.call), end)
    expect(over.status, 'also when its own run is over').toBe(403)
  })

  test('a run of another tenant is told from none by nobody', async () => {
    const { call } = await taken()
    const unknown = await rig.reportAs('019ad0c1-7f3e-7c63-9a52-6e4d8c1b2a3f', tokenOf(call), end)
    const other = await taken()
    const crossed = await rig.reportAs(other.runId, tokenOf(call), end)
    const words = ({ body }: typeof unknown) => [body.status, body.code, body.detail]
    expect(words(unknown)).toEqual(words(crossed))
  })

  test('token.run_token_after_end: it opens nothing else of the API, before or after the end', async () => {
    const { runId, call } = await taken()
    const token = tokenOf(call)
    const tries = [
      ['GET', '/v1/whoami'],
      ['GET', '/v1/secrets'],
      ['GET', `/v1/runs/${runId}`],
      ['POST', `/v1/runs/${runId}/cancel`],
      ['GET', '/v1/lambda'],
    ] as const
    for (const [method, path] of tries)
      expect((await rig.api.call(method, path, { key: token })).status).toBe(401)
    await rig.report(call, end)
    for (const [method, path] of tries)
      expect((await rig.api.call(method, path, { key: token })).status).toBe(401)
  })

  test('too many unknown tokens from one address are not looked up any more', async () => {
    const limited = await openLimited()
    try {
      const statuses: number[] = []
      for (let n = 0; n < 5; n++) statuses.push((await limited.guess()).status)
      expect(statuses).toEqual([401, 401, 401, 429, 429])
      expect(Number((await limited.guess()).headers['retry-after'])).toBeGreaterThan(0)
    } finally {
      await limited.close()
    }
  })

  test.each([
    ['no action', {}, '/action'],
    ['an unknown action', { action: 'finish' }, '/action'],
    ['an unknown field', { action: 'complete', state: 'succeeded' }, '/state'],
    ['an end without an error', { action: 'fail' }, '/error'],
    ['a result that is too large', { action: 'complete', result: 'x'.repeat(300_000) }, '/result'],
  ])('%s is refused by name, and the run goes on', async (_, body, pointer) => {
    const { runId, call } = await taken()
    const refused = await rig.report(call, body)
    expect([refused.status, refused.body.code]).toEqual([400, 'invalid_request'])
    expect(refused.body.errors.map((each) => each.pointer)).toContain(pointer)
    expect(await rig.run(runId)).toMatchObject({ state: 'running' })
  })
})

async function openLimited() {
  const api = await startTestApi({ limits: { failuresPerMinute: 3 } })
  const path = '/v1/callbacks/019ad0c1-7f3e-7c63-9a52-6e4d8c1b2a3f'
  return {
    guess: () => api.call('POST', path, { key: callbackTokens.mint().token, body: { action: 'heartbeat' } }),
    close: () => api.close(),
  }
}
