// `belfry/testing` in memory: runs that wait for the test, a clock that it sets, retries, expectEnqueued.
import { cancel, defineJob, fail, retryAfter, skip } from 'belfry'
import { createInlineBelfry, expectEnqueued } from 'belfry/testing'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'

const mail = defineJob({
  name: 'mail.send',
  input: z.object({ to: z.email(), kind: z.string().default('plain') }),
  retry: { maxAttempts: 3, baseMs: 1_000, capMs: 60_000 },
  run: ({ to, kind }, ctx) => {
    ctx.log.info('sending', { to })
    if (to.startsWith('down') && ctx.attempt < 3) throw new Error('no route')
    return `${kind} to ${to}`
  },
})

test('what is enqueued waits until it is run, and its result is kept', async () => {
  const belfry = createInlineBelfry({ jobs: [mail] })
  const run = await belfry.enqueue(mail, { to: 'a@b.co' })
  expect(run.state).toBe('pending')
  expect(await belfry.runDue()).toEqual([run])
  expect(run).toMatchObject({ state: 'succeeded', attempts: 1 })
  expect(run.results[0]).toMatchObject({
    answer: { outcome: 'succeeded', result: 'plain to a@b.co' },
    log: [{ level: 'info', message: 'sending', fields: { to: 'a@b.co' } }],
  })
})

test('time is what the test says', async () => {
  const belfry = createInlineBelfry({ jobs: [mail], now: '2026-12-01T00:00:00Z' })
  await belfry.enqueue(mail, { to: 'a@b.co' }, { runAt: '2026-12-01T01:00:00Z' })
  expect(await belfry.runDue()).toEqual([])
  belfry.clock.advance(3_600_000)
  expect(await belfry.runDue()).toHaveLength(1)
  belfry.clock.set('2027-01-01T00:00:00Z')
  expect(belfry.clock.now().getUTCFullYear()).toBe(2027)
})

test('retries come when the policy says, at the upper end of their jitter', async () => {
  const belfry = createInlineBelfry({ jobs: [mail] })
  const run = await belfry.enqueue(mail, { to: 'down@b.co' })
  await belfry.runDue()
  expect(run).toMatchObject({ state: 'pending', attempts: 1 })
  expect(run.dueAt.getTime() - belfry.clock.now().getTime()).toBe(1_000)
  belfry.clock.advance(1_000)
  await belfry.runDue()
  belfry.clock.advance(2_000)
  await belfry.runDue()
  expect(run).toMatchObject({ state: 'succeeded', attempts: 3 })
})

describe('outcomes are those of the real one', () => {
  test.each<[run: () => unknown, state: string, attempts: number]>([
    [() => fail('never'), 'failed', 1],
    [() => cancel(), 'canceled', 1],
    [() => skip('no image'), 'skipped', 1],
    [() => retryAfter(5_000), 'pending', 1],
    [() => 1n, 'failed', 1],
    [() => ({ ratio: NaN }), 'failed', 1],
    [() => new Map([['a', 1]]), 'failed', 1],
  ])('%s leaves the run %s', async (run, state, attempts) => {
    const job = defineJob({ name: 'x', run })
    const belfry = createInlineBelfry({ jobs: [job] })
    const asked = await belfry.enqueue(job)
    await belfry.runDue()
    expect(asked).toMatchObject({ state, attempts })
  })
})

test.each<[run: () => unknown, words: string]>([
  [() => retryAfter('x' as unknown as number), 'retryAfter was given what it cannot take: /delayMs must be'],
  [() => retryAfter(-1), 'a number of milliseconds, 0 or more'],
  [() => ({ ratio: NaN }), 'The result /ratio is NaN, which JSON does not have'],
  [() => new Set([1]), 'The result is a Map or a Set, which JSON does not have'],
])('%s fails with words', async (run, words) => {
  const job = defineJob({ name: 'x', retry: { maxAttempts: 1 }, run })
  await expect(createInlineBelfry({ jobs: [job] }).run(job)).rejects.toThrow(words)
})

test('run answers the result, or throws what the run failed with', async () => {
  const belfry = createInlineBelfry({ jobs: [] })
  expect(await belfry.run(mail, { to: 'a@b.co', kind: 'rich' })).toBe('rich to a@b.co')
  await expect(belfry.run(mail, { to: 'down@b.co' })).rejects.toMatchObject({ message: 'no route' })
  expect(belfry.runs()).toEqual([])
})

test('expectEnqueued finds what holds at least this, and says what there was instead', async () => {
  const belfry = createInlineBelfry({ jobs: [mail] })
  await belfry.enqueue(mail, { to: 'a@b.co', kind: 'rich' })
  expect(expectEnqueued(belfry, mail, { to: 'a@b.co' }).input).toEqual({ to: 'a@b.co', kind: 'rich' })
  expect(() => expectEnqueued(belfry, mail, { to: 'b@b.co' })).toThrow('There were: {"to":"a@b.co"')
  expect(() => expectEnqueued(belfry, { name: 'other' })).toThrow('of others: mail.send')
})

test('an input that does not fit is refused, and a job that was not given is named', async () => {
  const belfry = createInlineBelfry({ jobs: [] })
  await expect(belfry.enqueue(mail, { to: 'nobody' })).rejects.toMatchObject({ code: 'invalid_request' })
  await belfry.enqueue(mail, { to: 'a@b.co' })
  await expect(belfry.runDue()).rejects.toThrow('No job "mail.send" was given')
})

describe('policies are those of the real one', () => {
  const failing = (more: object) =>
    defineJob({
      name: 'sync',
      ...more,
      run: () => {
        throw Object.assign(new Error('no'), { code: 'busy' })
      },
    })

  test('delays from a list, of which the last repeats', async () => {
    const job = failing({ retry: { maxAttempts: 9, backoff: 'list', delaysMs: [5_000, 60_000] } })
    const belfry = createInlineBelfry({ jobs: [job] })
    const run = await belfry.enqueue(job)
    for (const ms of [5_000, 60_000, 60_000]) {
      await belfry.runDue()
      expect(run.dueAt.getTime() - belfry.clock.now().getTime()).toBe(ms)
      belfry.clock.advance(ms)
    }
  })

  test.each([
    [{ retry: { neverRetryOn: ['bu*'] } }, 'failed'],
    [{ retry: { retryOn: ['other'] } }, 'failed'],
    [{ retry: { retryOn: ['busy'] } }, 'pending'],
    [{ delivery: 'at_most_once' }, 'failed'],
  ])('%j leaves the run %s', async (policy, state) => {
    const job = failing(policy)
    const belfry = createInlineBelfry({ jobs: [job] })
    const run = await belfry.enqueue(job)
    await belfry.runDue()
    expect(run.state).toBe(state)
  })

  test('a run that starts too late expires, one that takes too long ends', async () => {
    const job = failing({ startWithinMs: 5_000, runDeadlineMs: 60_000, retry: { baseMs: 59_000 } })
    const belfry = createInlineBelfry({ jobs: [job] })
    const [late, slow] = [await belfry.enqueue(job), await belfry.enqueue(job, null, { startWithinMs: null })]
    belfry.clock.advance(5_000)
    await belfry.runDue()
    expect(late).toMatchObject({ state: 'failed', reason: 'expired', attempts: 0 })
    expect(slow).toMatchObject({ state: 'failed', reason: 'deadline_exceeded', attempts: 1 })
  })
})

test('a policy that does not hold together is refused where it is written', () => {
  const define = (retry: object) => () => defineJob({ name: 'x', retry, run: () => 1 })
  for (const [retry, pointer] of [
    [{ backoff: 'list' }, '/retry/delaysMs'],
    [{ backoff: 'fixed', delaysMs: [1] }, '/retry/delaysMs'],
    [{ retryOn: ['a'], neverRetryOn: ['a'] }, '/retry/neverRetryOn/0'],
  ] as const)
    expect(define(retry)).toThrow(expect.objectContaining({ errors: [expect.objectContaining({ pointer })] }))
})
