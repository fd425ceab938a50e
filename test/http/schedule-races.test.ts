// Edits of a schedule that race: the later one sees what the earlier one left, the timer included.
import { afterAll, beforeAll, expect, it } from 'vitest'
import { createPostgresCatalog } from '../../packages/server/src/postgres/catalog/catalog.ts'
import { jitterMs } from '../../packages/server/src/domain/schedule/jitter.ts'
import type { Catalog } from '../../packages/server/src/ports/catalog.ts'
import { eventually, httpJob, startTestApi, type TestApi } from '../support/api.ts'
import { adminRights } from '../support/rights.ts'

let t: TestApi
let slowly: TestApi
/** Holds the transactions of `slowly` before their commit. */
let gate = Promise.withResolvers<void>()
let arrived = Promise.withResolvers<void>()
beforeAll(async () => {
  t = await startTestApi()
  const catalog = createPostgresCatalog({ db: t.db })
  const held: Catalog = {
    ...catalog,
    within: (access, work) =>
      catalog.within(access, async (tx) => {
        const result = await work(tx)
        arrived.resolve()
        await gate.promise
        return result
      }),
  }
  slowly = await startTestApi({
    catalog: held,
    authenticator: {
      authenticate: async () => credential(),
      provedLately: () => true,
      forget: () => undefined,
    },
  })
  await t.call('POST', '/v1/jobs', { body: httpJob('work') })
})
afterAll(async () => {
  await slowly.close()
  await t.close()
})
const credential = () => ({
  ...adminRights(t.tenantId),
  keyId: t.tenantId,
  tenantId: t.tenantId,
  tenantName: 'acme',
  tenantCreatedAtMs: 0,
  scopes: ['admin'] as const,
  queues: null,
})

/** Sends the first request and holds it before its commit until the second one waits for it. */
async function race<A, B>(first: () => Promise<A>, second: () => Promise<B>): Promise<[A, B]> {
  gate = Promise.withResolvers()
  arrived = Promise.withResolvers()
  const leading = first()
  await arrived.promise
  const following = second()
  await eventually(async () => (await t.database.waiting()) === 1)
  gate.resolve()
  return Promise.all([leading, following])
}

const timers = (id: string) =>
  t.database.sql<{ scheduled_for: Date; due_at: Date; gen: number; wanted: number; jitter: number }>(
    `SELECT t.scheduled_for, t.due_at, t.gen::int, s.gen::int AS wanted, s.jitter_ms AS jitter
     FROM belfry.schedule s JOIN belfry.timer t ON t.schedule_id = s.id WHERE s.id = $1`,
    [id],
  )

it('an edit of the jitter that waited for a resume moves the timer that the resume made', async () => {
  const body = { name: 'paused', job: 'work', every: '1h' }
  const { body: schedule } = await t.call('POST', '/v1/schedules', { body })
  await t.call('POST', `/v1/schedules/${schedule.id}/pause`)
  const [resumed, edited] = await race(
    () => slowly.call('POST', `/v1/schedules/${schedule.id}/resume`),
    () => t.call('PATCH', `/v1/schedules/${schedule.id}`, { body: { jitterMs: 3_000_000 } }),
  )
  expect([resumed.status, edited.status]).toEqual([200, 200])
  expect(edited.body).toMatchObject({ state: 'active', nextAt: resumed.body.nextAt, jitterMs: 3_000_000 })
  const [timer] = await timers(schedule.id)
  const plannedMs = Date.parse(resumed.body.nextAt)
  const delayMs = jitterMs(schedule.id, plannedMs, 3_000_000, plannedMs + 3_600_000)
  expect(timer?.due_at.getTime()).toBe(plannedMs + delayMs)
  expect(timer).toMatchObject({ gen: timer?.wanted, jitter: 3_000_000 })
})

it('an edit that waited for a pause makes no timer', async () => {
  const { body: schedule } = await t.call('POST', '/v1/schedules', {
    body: { name: 'active', job: 'work', every: '1h' },
  })
  const [paused, edited] = await race(
    () => slowly.call('POST', `/v1/schedules/${schedule.id}/pause`),
    () => t.call('PATCH', `/v1/schedules/${schedule.id}`, { body: { every: '2h', jitterMs: 1_000 } }),
  )
  expect([paused.status, edited.status]).toEqual([200, 200])
  expect(edited.body).toMatchObject({ state: 'paused', nextAt: null, every: '2h' })
  expect(await timers(schedule.id)).toEqual([])
})

it('an edit that waited for a deletion finds nothing', async () => {
  const { body: schedule } = await t.call('POST', '/v1/schedules', {
    body: { name: 'gone', job: 'work', every: '1h' },
  })
  const [deleted, edited] = await race(
    () => slowly.call('DELETE', `/v1/schedules/${schedule.id}`),
    () => t.call('PATCH', `/v1/schedules/${schedule.id}`, { body: { jitterMs: 1_000 } }),
  )
  expect([deleted.status, edited.status]).toEqual([204, 404])
  expect(await timers(schedule.id)).toEqual([])
})

it('a new timer that is being fired is not waited for: the edit is told to come again', async () => {
  const { body: schedule } = await t.call('POST', '/v1/schedules', {
    body: { name: 'contended', job: 'work', every: '1h' },
  })
  const timer = `belfry.timer WHERE schedule_id = '${schedule.id}'`
  await t.database.sql(`CREATE TABLE public.kept AS SELECT * FROM ${timer}`)
  await t.database.sql(`DELETE FROM ${timer}`)
  const resume = await t.database.hold(`SELECT 1 FROM belfry.schedule WHERE id = '${schedule.id}' FOR UPDATE`)
  const fire = await t.database.hold(`SELECT 1 FROM ${timer} FOR UPDATE`)
  await resume.take()
  const edit = () => t.call('PATCH', `/v1/schedules/${schedule.id}`, { body: { jitterMs: 1_000 } })
  const edited = edit()
  await eventually(async () => (await t.database.waiting()) === 1)
  await t.database.sql('INSERT INTO belfry.timer SELECT * FROM public.kept')
  await fire.take()
  await resume.release()
  expect((await edited).body).toMatchObject({ status: 503, code: 'serialization_conflict', retryable: true })
  await fire.release()
  expect((await edit()).status).toBe(200)
})

it('an edit that names other calendars waits for none of those that stay', async () => {
  for (const name of ['a', 'b', 'stays'])
    await t.call('POST', '/v1/calendars', { body: { name, dates: ['2090-12-25'] } })
  await t.call('POST', '/v1/calendars', { body: { name: 'only', weekdays: ['sat', 'sun'] } })
  const { body: schedule } = await t.call('POST', '/v1/schedules', {
    body: { name: 'under', job: 'work', cron: '0 9 * * *', skipOn: ['a', 'stays'], onlyOn: ['only'] },
  })
  const named = "SELECT 1 FROM belfry.calendar WHERE name = 'only' FOR UPDATE"
  const changed = await t.database.hold(named)
  await changed.take()
  try {
    for (const skipOn of [['b', 'stays'], ['stays'], ['stays', 'a'], []]) {
      const { status, body } = await t.call('PATCH', `/v1/schedules/${schedule.id}`, { body: { skipOn } })
      expect(status).toBe(200)
      expect(body).toMatchObject({ skipOn, onlyOn: ['only'] })
    }
  } finally {
    await changed.release()
  }
})

it('an edit of calendars and a change of one that stays do not wait in a circle', async () => {
  const { body: calendar } = await t.call('POST', '/v1/calendars', { body: { name: 'x', weekdays: ['sat'] } })
  for (const name of ['y', 'z']) {
    await t.call('POST', '/v1/calendars', { body: { name, dates: ['2090-12-25'] } })
  }
  const { body: schedule } = await t.call('POST', '/v1/schedules', {
    body: { name: 'both', job: 'work', cron: '0 9 * * *', skipOn: ['y'], onlyOn: ['x'] },
  })
  for (let round = 0; round < 20; round++) {
    const odd = round % 2 === 1
    const answers = await Promise.all([
      t.call('PATCH', `/v1/schedules/${schedule.id}`, { body: { skipOn: [odd ? 'y' : 'z'] } }),
      t.call('PATCH', `/v1/calendars/${calendar.id}`, { body: { weekdays: ['sat', odd ? 'sun' : 'mon'] } }),
    ])
    expect(answers.map(({ status }) => status)).toEqual([200, 200])
  }
})
