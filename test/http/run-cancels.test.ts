// Cancels over the API: one with a reason, many by a filter: what waits, what waits for later, what runs; in
// steps, after a preview, and again without harm.
import { afterAll, beforeEach, describe, expect, it } from 'vitest'
import type { RunsCanceled } from '@belfry/contract'
import { httpJob, startTestApi, type TestApi } from '../support/api.ts'
import { playWorker, type PlayedWorker } from '../support/played-worker.ts'

let t: TestApi
let worker: PlayedWorker
beforeEach(async () => {
  await t?.close()
  t = await startTestApi()
  worker = playWorker(t.database)
  for (const name of ['mail', 'report']) await t.call('POST', '/v1/jobs', { body: httpJob(name) })
})
afterAll(() => t.close())

const start = async (job = 'mail', more: object = {}) =>
  (await t.call('POST', '/v1/runs', { body: { job, ...more } })).body.id
const stateOf = async (id: string) => (await t.call('GET', `/v1/runs/${id}`)).body.state
async function cancel(body: object, query = ''): Promise<RunsCanceled> {
  const answer = await t.call('POST', `/v1/runs/cancel${query}`, { body })
  if (answer.status !== 200) throw new Error(answer.body.detail)
  return answer.body as unknown as RunsCanceled
}

describe('one', () => {
  it('keeps why, for what waits and for what runs, and the first reason stays', async () => {
    const waiting = await start()
    const running = await start()
    await worker.claim(running)
    for (const id of [waiting, running])
      await t.call('POST', `/v1/runs/${id}/cancel`, { body: { reason: `wrong month ${id}` } })
    await t.call('POST', `/v1/runs/${running}/cancel`, { body: { reason: 'another' } })
    for (const id of [waiting, running])
      expect((await t.call('GET', `/v1/runs/${id}`)).body).toMatchObject({
        cancelReason: `wrong month ${id}`,
      })
    expect((await t.call('GET', `/v1/runs/${await start()}`)).body).toMatchObject({ cancelReason: null })
  })
})

describe('many', () => {
  it('previews by state and job, cancels what waits, asks what runs, and again finds nothing', async () => {
    const ready = [await start(), await start()]
    const later = await start('mail', { runAt: '2090-01-01T00:00:00Z' })
    const running = await start()
    const session = await worker.claim(running)
    const other = await start('report')
    const ended = await start()
    await worker.claim(ended)
    await worker.end(ended)
    const filter = { job: 'mail' }
    const { preview, canceled } = await cancel({ filter }, '?dryRun=true')
    expect(canceled).toBe(0)
    expect(preview).toMatchObject({
      count: 4,
      exact: true,
      byState: { waiting_for_dependencies: 0, pending: 3, running: 1 },
      byJob: [{ job: 'mail', count: 4 }],
    })
    expect(preview?.sample.map(({ id }) => id)).toEqual([running, later, ...ready.toReversed()])
    t.hints.length = 0
    expect(await cancel({ filter, reason: 'a mistake', expectedCount: 4 })).toEqual({
      canceled: 3,
      asked: 1,
      ended: 0,
      nextCursor: null,
      preview: null,
    })
    expect(t.hints).toContainEqual({ topic: 'cancel', key: session })
    for (const id of [...ready, later]) expect(await stateOf(id)).toBe('canceled')
    expect((await t.call('GET', `/v1/runs/${running}`)).body).toMatchObject({
      state: 'running',
      cancelRequested: true,
      cancelReason: 'a mistake',
    })
    expect(await stateOf(other)).toBe('pending')
    expect(await cancel({ filter })).toMatchObject({ canceled: 0, asked: 0, ended: 0 })
  })

  it('goes on in steps and never reaches what was made after the first', async () => {
    const ids: string[] = []
    for (let n = 0; n < 5; n++) ids.push(await start())
    const first = await cancel({ filter: { state: ['pending'] }, limit: 2 })
    expect(first).toMatchObject({ canceled: 2 })
    const young = await start()
    let cursor = first.nextCursor
    let canceled = first.canceled
    while (cursor !== null) {
      const step = await cancel({ filter: { state: ['pending'] }, limit: 2, cursor })
      canceled += step.canceled
      cursor = step.nextCursor
    }
    expect(canceled).toBe(5)
    expect(await stateOf(young)).toBe('pending')
  })

  it('by queue, state, time and schedule; refuses where more match than expected', async () => {
    const ids = [await start('mail', { queue: 'slow' }), await start('report')]
    const running = await start()
    await worker.claim(running)
    expect((await cancel({ filter: { queue: 'slow' } }, '?dryRun=true')).preview?.count).toBe(1)
    expect((await cancel({ filter: { state: ['running'] } }, '?dryRun=true')).preview?.count).toBe(1)
    const past = { createdBefore: '2001-01-01T00:00:00Z' }
    expect((await cancel({ filter: past }, '?dryRun=true')).preview?.count).toBe(0)
    const now = { createdAfter: '2001-01-01T00:00:00Z', createdBefore: '2190-01-01T00:00:00Z' }
    expect((await cancel({ filter: now }, '?dryRun=true')).preview?.count).toBe(3)
    const schedule = await t.call('POST', '/v1/schedules', { body: { name: 's', every: '1h', job: 'mail' } })
    const triggered = await t.call('POST', `/v1/schedules/${schedule.body.id}/trigger`)
    const bySchedule = { filter: { scheduleId: schedule.body.id } }
    expect((await cancel(bySchedule, '?dryRun=true')).preview?.sample[0]?.id).toBe(triggered.body.id)
    expect(await cancel(bySchedule)).toMatchObject({ canceled: 1 })
    const answer = await t.call('POST', '/v1/runs/cancel', {
      body: { filter: { state: ['pending'] }, expectedCount: 1 },
    })
    expect(answer).toMatchObject({ status: 412, body: { errors: [{ pointer: '/expectedCount' }] } })
    for (const id of ids) expect(await stateOf(id)).toBe('pending')
    expect(await cancel({ filter: { job: 'nobody' } })).toMatchObject({ canceled: 0 })
  })

  it('is of one tenant', async () => {
    const id = await start()
    const key = await t.keyFor('stranger', ['operate'])
    const answer = await t.call('POST', '/v1/runs/cancel', { key, body: { filter: { state: ['pending'] } } })
    expect(answer).toMatchObject({ status: 200, body: { canceled: 0 } })
    expect(await stateOf(id)).toBe('pending')
  })
})
