// Every dialect and calendar words over the API, on virtual time: what is planned, what is refused and where,
// what an edit moves, and what a preview says before it.
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { type AnswerBody, httpJob, startTestApi, type TestApi } from '../support/api.ts'

let t: TestApi
const now = new Date('2026-06-01T12:00:00Z') // a Monday
beforeAll(async () => {
  t = await startTestApi()
  await t.call('POST', '/v1/jobs', { body: httpJob('work') })
  await t.database.useVirtualNow(now)
})
beforeEach(() => t.database.setNow(now))
afterAll(() => t.close())

let made = 0
const post = (more: object) =>
  t.call('POST', '/v1/schedules', { body: { name: `d${made++}`, job: 'work', ...more } })
const create = async (more: object) => {
  const answer = await post(more)
  expect(answer.body.detail ?? '').toBe('')
  return answer.body
}
const patch = async (id: string, change: object) =>
  (await t.call('PATCH', `/v1/schedules/${id}`, { body: change })).body
const preview = async (body: object, key?: string) =>
  (await t.call('POST', '/v1/schedules/preview', { body, ...(key === undefined ? {} : { key }) })).body

const zone = 'Europe/Berlin'
const timings: readonly (readonly [string, object, string])[] = [
  ['unix', { cron: '30 4 * * 7' }, '2026-06-07T04:30:00.000Z'],
  ['kubernetes', { cron: '@daily', zone }, '2026-06-01T22:00:00.000Z'],
  ['github', { cron: '*/15 9 * * *' }, '2026-06-02T09:00:00.000Z'],
  ['quartz', { cron: '30 0 9 ? * 6L', zone }, '2026-06-26T07:00:30.000Z'],
  ['eventbridge', { cron: 'cron(0 9 ? * 3#2 *)' }, '2026-06-09T09:00:00.000Z'],
  ['systemd', { cron: 'Fri *-*-* 09:00 Asia/Tokyo' }, '2026-06-05T00:00:00.000Z'],
]

describe('a dialect', () => {
  it.each(timings)('%s is stored and planned by its own rules', async (dialect, timing, nextAt) => {
    const schedule = await create({ dialect, ...timing })
    expect(schedule).toMatchObject({ dialect, ...timing, nextAt })
    expect(schedule.upcoming[0]).toBe(nextAt)
    expect(schedule.upcoming).toHaveLength(3)
    expect(schedule.words).toContain(`(${String(schedule.zone)})`)
    expect((await preview({ dialect, ...timing, count: 3 })).next).toEqual(schedule.upcoming)
  })

  it('jenkins draws H from the id: the same at every reading, others elsewhere', async () => {
    const some: AnswerBody[] = []
    for (let i = 0; i < 6; i++) some.push(await create({ dialect: 'jenkins', cron: 'H H * * *' }))
    expect(new Set(some.map(({ nextAt }) => nextAt)).size).toBeGreaterThan(1)
    const { id, nextAt } = await create({ dialect: 'jenkins', cron: 'H H * * *' })
    expect((await patch(id, { description: 'other', dialect: 'jenkins' })).nextAt).toBe(nextAt)
    expect((await patch(id, { cron: 'H * * * *' })).dialect).toBe('jenkins')
    expect((await patch(id, { cron: 'H H * * *' })).nextAt).toBe(nextAt)
    expect((await preview({ scheduleId: id })).next[0]).toBe(nextAt)
    const unsown = await preview({ dialect: 'jenkins', cron: 'H H * * *' })
    expect(unsown.warnings.map(({ code }) => code)).toContain('no_seed')
  })

  it('that is left out is unix, whatever the text looks like', async () => {
    expect((await create({ cron: '0 9 * * 1' })).dialect).toBe('unix')
    expect((await post({ cron: 'cron(0 9 ? * 3#2 *)' })).body.code).toBe('invalid_schedule')
  })

  it('with a rate or a single time of its own counts from creation, and is over when it is', async () => {
    const rate = await create({ dialect: 'eventbridge', cron: 'rate(7 minutes)' })
    expect(rate.nextAt).toBe('2026-06-01T12:07:00.000Z')
    await t.database.setNow(new Date(now.getTime() + 60_000))
    expect((await patch(rate.id, { endAt: '2027-01-01T00:00:00Z' })).nextAt).toBe(rate.nextAt)
    const over = await post({ dialect: 'eventbridge', cron: 'at(2026-05-01T00:00:00)' })
    expect(over.body).toMatchObject({ code: 'invalid_schedule', errors: [{ pointer: '/cron' }] })
  })
})

describe('refused', () => {
  it.each([
    [{ dialect: 'quartz', cron: '0 0 0 1 * 2' }, '/cron/dayOfWeek'],
    [{ dialect: 'kubernetes', cron: '0 25 * * *' }, '/cron/hour'],
    [{ dialect: 'github', cron: '* * * * *' }, '/cron/minute'],
    [{ dialect: 'quartz', cron: '0 0 0 * * ? 2020' }, '/cron/year'],
    [{ dialect: 'eventbridge', cron: 'rate(1 minutes)' }, '/cron'],
    [{ dialect: 'systemd', cron: '*-*-* 02:00 Asia/Tokyo', zone }, '/zone'],
    [{ dialect: 'systemd', cron: '*-*-* 25:00' }, '/cron'],
    [{ every: 'every 2 weeks on foo' }, '/every'],
    [{ every: 'soon' }, '/every'],
    [{ every: 'every fri at 09:00', zone: 'Europe/Berlim' }, '/zone'],
    [{ at: '2027-03-28T02:30', zone, dst: { gap: 'skip' } }, '/at'],
  ])('%j at %s, by create and by preview', async (timing, pointer) => {
    const { body } = await post(timing)
    expect(body).toMatchObject({ status: 400, code: 'invalid_schedule' })
    expect(body.errors[0]?.pointer).toMatch(new RegExp(`^${pointer}`))
    expect((await preview(timing)).errors).toEqual(body.errors)
  })

  it('is what says how an expression is read, without one', async () => {
    for (const [field, value] of [
      ['dialect', 'quartz'],
      ['dayMatch', 'and'],
    ] as const) {
      const body = { every: '1h', [field]: value }
      expect((await post(body)).body.errors).toMatchObject([{ pointer: `/${field}` }])
      expect((await preview(body)).errors).toMatchObject([{ pointer: `/${field}` }])
      const { id } = await create({ every: '1h' })
      expect((await patch(id, { [field]: value })).errors).toMatchObject([{ pointer: `/${field}` }])
    }
    expect((await post({ cron: '0 9 * * *', dialect: 'cronie' })).body.errors[0]?.pointer).toBe('/dialect')
    expect((await post({ every: '1h', dst: { gap: 'leap' } })).body.errors[0]?.pointer).toBe('/dst/gap')
    expect((await preview({})).status).toBe(400)
    expect((await preview({ every: '1h', count: 101 })).errors[0]?.pointer).toBe('/count')
  })
})

describe('calendar words', () => {
  const every = 'every 2 weeks on fri at 09:00'
  it('count from the start, else from the day of creation, and keep their beat over edits', async () => {
    const { id, upcoming } = await create({ every, zone })
    expect(upcoming.slice(0, 2)).toEqual(['2026-06-05T07:00:00.000Z', '2026-06-19T07:00:00.000Z'])
    await t.database.setNow(new Date('2026-06-10T00:00:00Z'))
    expect((await patch(id, { every, endAt: '2027-01-01T00:00:00Z' })).nextAt).toBe(upcoming[1])
    expect((await patch(id, { startAt: '2026-06-08T00:00:00Z' })).nextAt).toBe('2026-06-12T07:00:00.000Z')
  })
})

describe('an edit', () => {
  it('of the dialect, the day rule or the clock rule is one of the timing', async () => {
    const { id } = await create({ cron: '0 0 9 13 6 1' })
    const etag = async () => (await t.call('GET', `/v1/schedules/${id}`)).headers['etag']
    const both = await patch(id, { cron: '0 9 13 * 1' })
    expect(both.nextAt).toBe('2026-06-08T09:00:00.000Z')
    expect(both.warnings[0]?.code).toBe('both_day_fields')
    const strict = await patch(id, { dayMatch: 'and' })
    expect(strict).toMatchObject({ dayMatch: 'and', nextAt: '2026-07-13T09:00:00.000Z' })
    const before = await etag()
    await patch(id, { dayMatch: 'and', dialect: 'unix', cron: '0 9 13 * 1' })
    expect(await etag()).toBe(before)
    expect((await patch(id, { dayMatch: null })).nextAt).toBe(both.nextAt)
    const quartz = await patch(id, { dialect: 'quartz', cron: '0 0 9 ? * 1' })
    expect(quartz).toMatchObject({ dialect: 'quartz', nextAt: '2026-06-07T09:00:00.000Z' })
    expect(await patch(id, { every: '1h' })).toMatchObject({ dialect: null, cron: null, dayMatch: null })
  })

  it('of one clock rule keeps the other', async () => {
    const startAt = '2027-03-27T12:00:00Z'
    const { id, nextAt } = await create({ cron: '30 2 * * *', zone, startAt, dst: { overlap: 'both' } })
    expect(nextAt).toBe('2027-03-28T01:00:00.000Z')
    const skipped = await patch(id, { dst: { gap: 'skip' } })
    expect(skipped).toMatchObject({
      dst: { gap: 'skip', overlap: 'both' },
      nextAt: '2027-03-29T00:30:00.000Z',
    })
    expect(skipped.notes).toEqual([])
    expect(await patch(id, { dst: null })).toMatchObject({ dst: null, nextAt })
  })

  it('to an expression with a zone of its own moves there', async () => {
    const { id } = await create({ dialect: 'systemd', cron: '*-*-* 09:00 Asia/Tokyo' })
    const moved = await patch(id, { cron: '*-*-* 09:00 Europe/Berlin' })
    expect(moved).toMatchObject({ zone, nextAt: '2026-06-02T07:00:00.000Z' })
  })
})

describe('a preview', () => {
  it('tells times, clock changes, words, warnings and the zone data, and stores nothing', async () => {
    const before = await t.counts()
    const from = '2026-03-28T12:00:00Z'
    const told = await preview({ cron: '30 2 * * *', zone, from, count: 2 })
    expect(told).toMatchObject({
      next: ['2026-03-29T01:00:00.000Z', '2026-03-30T00:30:00.000Z'],
      notes: [
        {
          at: '2026-03-29T01:00:00.000Z',
          message: 'stands for 02:30: the clock leaps from 02:00 to 03:00',
        },
      ],
      description: 'At 02:30 every day (Europe/Berlin)',
      before: null,
      after: null,
    })
    expect(told.zone).toEqual({ name: zone, dataVersion: (await create({ every: '1h' })).zoneDataVersion })
    expect(told.warnings[0]).toMatchObject({ code: 'dst_gap', at: '2026-03-29T01:00:00.000Z' })
    expect((await preview({ every: '1s', count: 100 })).next).toHaveLength(100)
    expect((await t.counts())['schedule']).toBe((before['schedule'] ?? 0) + 1)
  })

  it('of an edit tells before and after, as the edit then does', async () => {
    const { id, upcoming } = await create({ cron: '0 9 * * *', zone })
    const told = await preview({ scheduleId: id, zone: 'Asia/Tokyo', count: 3 })
    expect(told.before).toEqual(upcoming)
    expect(told.after).toEqual(told.next)
    expect((await patch(id, { zone: 'Asia/Tokyo' })).upcoming).toEqual(told.after)
  })

  it('ends with the years that can be written', async () => {
    const body = { every: '36500d', startAt: '2199-06-01T00:00:00Z', count: 100 }
    expect((await preview(body)).next).toEqual(['2199-06-01T00:00:00.000Z'])
    expect((await create({ ...body, count: undefined })).upcoming).toEqual(['2199-06-01T00:00:00.000Z'])
  })

  it('knows no schedule of others', async () => {
    const { id } = await create({ every: '1h' })
    const key = await t.keyFor('other', ['read'])
    expect(await preview({ scheduleId: id, every: '2h' }, key)).toMatchObject({
      status: 404,
      code: 'not_found',
    })
  })
})
