// `belfry/testing` in memory: runs that wait for the test, a clock that it sets, retries, expectEnqueued.
import { cancel, defineJob, fail, retryAfter } from 'belfry'
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
    [() => retryAfter(5_000), 'pending', 1],
    [() => 1n, 'failed', 1],
  ])('%s leaves the run %s', async (run, state, attempts) => {
    const job = defineJob({ name: 'x', run })
    const belfry = createInlineBelfry({ jobs: [job] })
    const asked = await belfry.enqueue(job)
    await belfry.runDue()
    expect(asked).toMatchObject({ state, attempts })
  })
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
