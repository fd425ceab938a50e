// Schedules that leave out what calendars cover: what is taken and shown, what is refused and where, what an
// edit moves, and that a preview tells what a create does.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { httpJob, startTestApi, type TestApi } from '../support/api.ts'

let t: TestApi
/** A Monday. */
const now = '2026-11-30T12:00:00Z'
beforeAll(async () => {
  t = await startTestApi()
  await t.database.useVirtualNow(new Date(now))
  await t.call('POST', '/v1/jobs', { body: httpJob('work') })
  for (const body of [
    { name: 'weekend', weekdays: ['sat', 'sun'] },
    { name: 'holidays', yearly: ['12-25', '12-26', '01-01'] },
    { name: 'december', ranges: [{ from: '2026-12-01', to: '2026-12-31' }] },
    { name: 'over', dates: ['2020-01-01'] },
    ...['dear', 'dearer'].map((name) => ({
      name,
      windows: Array.from({ length: 50 }, (_, i) => ({ cron: `${i} 3 * * *`, minutes: 1 })),
    })),
    { name: 'always', weekdays: ['business_days', 'sat', 'sun'] },
  ]) {
    await t.call('POST', '/v1/calendars', { body })
  }
})
afterAll(() => t.close())

const berlin = { zone: 'Europe/Berlin' }
const daily = { cron: '0 9 * * *', ...berlin }
let made = 0
const create = (parts: object) =>
  t.call('POST', '/v1/schedules', { body: { name: `s${made++}`, job: 'work', ...parts } })
const make = async (parts: object) => {
  const answer = await create(parts)
  expect(answer.body.detail ?? '').toBe('')
  return answer.body
}
const patch = (id: string, body: object) => t.call('PATCH', `/v1/schedules/${id}`, { body })
const preview = async (body: object) => (await t.call('POST', '/v1/schedules/preview', { body })).body
const timer = async (id: string) =>
  (
    await t.database.sql<{ at: Date }>(
      'SELECT scheduled_for AS at FROM belfry.timer WHERE schedule_id = $1',
      [id],
    )
  )[0]?.at.toISOString()

it('calendars that are too dear together are refused, by a create, an edit and a preview', async () => {
  const skipOn = ['dear', 'dearer']
  const schedule = await make({ ...daily, skipOn: ['dear'], onlyOn: ['always'] })
  for (const answer of [
    await create({ ...daily, skipOn }),
    await create({ ...daily, skipOn: ['weekend'], onlyOn: skipOn }),
    await patch(schedule.id, { skipOn }),
    await t.call('POST', '/v1/schedules/preview', { body: { ...daily, skipOn } }),
  ]) {
    expect([answer.status, answer.body.code]).toEqual([400, 'invalid_schedule'])
    expect(answer.body.errors[0]?.pointer).toMatch(/^.(skip|only)On$/)
    expect(answer.body.detail).toContain('a schedule may use 100; dear alone costs 51')
  }
})

describe('what is taken and shown', () => {
  it('nothing said: no calendars', async () => {
    expect(await make(daily)).toMatchObject({ skipOn: [], onlyOn: [], onExcluded: 'skip', notes: [] })
  })

  it('names in their order, in words, in lists, and the next time that runs', async () => {
    const schedule = await make({ ...daily, skipOn: ['weekend', 'holidays'], onlyOn: ['december'] })
    const shown = {
      skipOn: ['weekend', 'holidays'],
      onlyOn: ['december'],
      onExcluded: 'skip',
      words: 'At 09:00 every day (Europe/Berlin), only on december, except on weekend and holidays',
      nextAt: '2026-12-01T08:00:00.000Z',
    }
    expect(schedule).toMatchObject({
      ...shown,
      upcoming: ['2026-12-01T08:00:00.000Z', '2026-12-02T08:00:00.000Z', '2026-12-03T08:00:00.000Z'],
    })
    expect((await t.call('GET', '/v1/schedules?limit=1')).body.items).toMatchObject([shown])
  })

  it('a next planned time that is left out is told in a note; its fire is planned all the same', async () => {
    const body = { ...daily, startAt: '2026-12-25T00:00:00Z', skipOn: ['holidays'] }
    const schedule = await make(body)
    expect(schedule).toMatchObject({
      nextAt: '2026-12-27T08:00:00.000Z',
      upcoming: ['2026-12-27T08:00:00.000Z', '2026-12-28T08:00:00.000Z', '2026-12-29T08:00:00.000Z'],
      notes: ['2026-12-25T08:00:00.000Z does not run: the calendar holidays excludes it: every 12-25'],
    })
    expect(await timer(schedule.id)).toBe('2026-12-25T08:00:00.000Z')
  })

  it('what explains it names the time that runs, and the one that does not', async () => {
    const { id } = await make({ ...daily, startAt: '2026-12-25T00:00:00Z', skipOn: ['holidays'] })
    const { body } = await t.call('GET', `/v1/schedules/${id}/explain`)
    const { standing } = body as unknown as { readonly standing: string }
    expect(standing).toMatch(/^It is active; next is Sun 2026-12-27 09:00:00 \+01:00, in /)
    expect(standing).toMatch(
      /\. Fri 2026-12-25 09:00:00 \+01:00 does not run: the calendar holidays excludes it: every 12-25\.$/,
    )
  })

  it('a calendar that is changed so that nothing runs is told in the warnings of the schedule', async () => {
    const body = { name: 'shutting', weekdays: ['sun'] }
    const { body: calendar } = await t.call('POST', '/v1/calendars', { body })
    const { id, warnings } = await make({ cron: '0 9 * * 1-5', skipOn: ['shutting'] })
    expect(warnings.map(({ code }: { code: string }) => code)).not.toContain('nothing_runs')
    const all = ['mon', 'tue', 'wed', 'thu', 'fri', 'sat', 'sun']
    await t.call('PATCH', `/v1/calendars/${calendar.id}`, { body: { weekdays: all } })
    const after = (await t.call('GET', `/v1/schedules/${id}`)).body
    expect(after.nextAt).toBeNull()
    expect(after.warnings).toContainEqual({
      code: 'nothing_runs',
      message: expect.stringMatching(
        /^the calendars leave out every planned time .*: nothing runs$/,
      ) as string,
      at: null,
    })
  })

  it('a moved time is a planned time of its own', async () => {
    const body = { cron: '0 9 26 * *', ...berlin, skipOn: ['weekend'] }
    const before = await make({ ...body, onExcluded: 'previous_business_day' })
    expect(before).toMatchObject({
      words:
        'At 09:00 on the 26th of the month (Europe/Berlin), except on weekend; ' +
        'what is left out runs on the previous business day instead',
      nextAt: '2026-12-25T08:00:00.000Z',
      notes: [],
    })
    expect(await timer(before.id)).toBe('2026-12-25T08:00:00.000Z')
    const after = await make({ ...body, onExcluded: 'next_business_day' })
    expect(after).toMatchObject({
      nextAt: '2026-12-28T08:00:00.000Z',
      notes: [
        '2026-12-26T08:00:00.000Z does not run: the calendar weekend excludes it: Saturday; ' +
          'moved to 2026-12-28T08:00:00Z',
      ],
    })
  })

  it('a calendar whose days are over is warned of', async () => {
    const { warnings } = await make({ ...daily, skipOn: ['over', 'weekend'] })
    expect(warnings).toContainEqual({
      code: 'calendar_over',
      message: 'the calendar over covers nothing after 2020-01-01: add what is to come',
      at: '2020-01-01T23:00:00.000Z',
    })
  })
})

describe('what is refused', () => {
  it.each<[object, string, readonly string[]]>([
    [{ skipOn: ['holiday'] }, 'not_found', ['/skipOn/0']],
    [{ skipOn: ['weekend', 'x'], onlyOn: ['y'] }, 'not_found', ['/skipOn/1', '/onlyOn/0']],
    [{ skipOn: ['weekend', 'weekend'] }, 'invalid_request', ['/skipOn']],
    [{ skipOn: 'weekend' }, 'invalid_request', ['/skipOn']],
    [{ onlyOn: Array.from({ length: 11 }, (_, i) => `c${i}`) }, 'invalid_request', ['/onlyOn']],
    [{ onExcluded: 'move' }, 'invalid_request', ['/onExcluded']],
    [{ skipOn: ['always'] }, 'invalid_schedule', ['/skipOn']],
    [{ onlyOn: ['over'] }, 'invalid_schedule', ['/onlyOn']],
    [{ skipOn: ['weekend'], onlyOn: ['weekend'] }, 'invalid_schedule', ['/onlyOn']],
    [
      { cron: '*/5 * * * *', skipOn: ['weekend'], onExcluded: 'next_business_day' },
      'invalid_schedule',
      ['/onExcluded'],
    ],
  ])('%j', async (parts, code, pointers) => {
    for (const path of ['/v1/schedules', '/v1/schedules/preview']) {
      const own = path === '/v1/schedules' ? { name: `s${made++}`, job: 'work' } : {}
      const answer = await t.call('POST', path, { body: { ...own, ...daily, ...parts } })
      expect([answer.body.code, answer.body.errors.map(({ pointer }) => pointer)]).toEqual([code, pointers])
    }
    const { id } = await make(daily)
    expect((await patch(id, parts)).body).toMatchObject({ code })
    expect(await timer(id)).toBe('2026-12-01T08:00:00.000Z')
  })

  it('with what was meant, or with the reason', async () => {
    expect((await create({ ...daily, skipOn: ['holiday'] })).body.detail).toContain(
      'There is no calendar named "holiday". Did you mean "holidays"?',
    )
    expect((await create({ ...daily, onlyOn: ['over'] })).body.detail).toMatch(
      new RegExp(
        'onlyOn: never fires: the calendars leave out every planned time up to 20\\d\\d-\\d\\d-\\d\\d; ' +
          'at 2026-12-01T08:00:00.000Z it lies outside of over',
      ),
    )
    const at = { at: '2026-12-25T09:00:00', ...berlin, skipOn: ['holidays'] }
    expect((await create(at)).body.detail).toContain(
      'skipOn: never fires: at 2026-12-25T08:00:00.000Z the calendar holidays excludes it: every 12-25',
    )
    expect((await create({ ...at, onExcluded: 'next_business_day' })).body.nextAt).toBe(
      '2026-12-28T08:00:00.000Z',
    )
    const bounds = { ...daily, startAt: '2026-12-25T00:00:00Z', endAt: '2026-12-26T23:00:00Z' }
    expect((await create({ ...bounds, skipOn: ['holidays'] })).body.detail).toContain(
      'never fires: the calendars leave out every planned time; at 2026-12-25T08:00:00.000Z',
    )
  })

  it('another tenant’s calendars are none', async () => {
    const key = await t.keyFor('others', ['admin'])
    await t.call('POST', '/v1/jobs', { key, body: httpJob('work') })
    const body = { name: 'theirs', job: 'work', ...daily, skipOn: ['weekend'] }
    expect((await t.call('POST', '/v1/schedules', { key, body })).body).toMatchObject({
      code: 'not_found',
      detail: 'There is no calendar named "weekend". Create it first.',
    })
  })
})

describe('an edit', () => {
  it('plans anew where it names other calendars', async () => {
    const { id } = await make({ cron: '0 9 * * 6', ...berlin })
    expect(await timer(id)).toBe('2026-12-05T08:00:00.000Z')
    const moved = { skipOn: ['weekend'], onExcluded: 'previous_business_day' }
    expect((await patch(id, moved)).body).toMatchObject({ ...moved, nextAt: '2026-12-04T08:00:00.000Z' })
    expect(await timer(id)).toBe('2026-12-04T08:00:00.000Z')
    expect((await patch(id, { ...moved, description: 'the same' })).body).toMatchObject(moved)
    expect(await timer(id)).toBe('2026-12-04T08:00:00.000Z')
    expect((await patch(id, { onExcluded: 'next_business_day' })).body).toMatchObject({
      skipOn: ['weekend'],
      nextAt: '2026-12-07T08:00:00.000Z',
    })
    expect(await timer(id)).toBe('2026-12-05T08:00:00.000Z')
    expect((await patch(id, { skipOn: null })).body).toMatchObject({
      skipOn: [],
      onExcluded: 'next_business_day',
      nextAt: '2026-12-05T08:00:00.000Z',
    })
    expect((await patch(id, { skipOn: [], onlyOn: ['december'] })).body).toMatchObject({
      onlyOn: ['december'],
    })
    expect((await patch(id, { cron: '30 9 * * 6' })).body).toMatchObject({
      onlyOn: ['december'],
      // The Saturday in November lies outside, and its time moves on to the first day of December.
      nextAt: '2026-12-01T08:30:00.000Z',
    })
  })

  it('of the order alone is an edit', async () => {
    const { id } = await make({ ...daily, skipOn: ['weekend', 'holidays'] })
    expect((await patch(id, { skipOn: ['holidays', 'weekend'] })).body).toMatchObject({
      skipOn: ['holidays', 'weekend'],
    })
  })

  it('a skip leaves out a time that would have run', async () => {
    const { id } = await make({ ...daily, startAt: '2026-12-25T00:00:00Z', skipOn: ['holidays'] })
    const { body } = await t.call('POST', `/v1/schedules/${id}/skip`, { body: { count: 2 } })
    expect(body).toMatchObject({ sleepUntil: '2026-12-28T08:00:00.001Z' })
  })
})

describe('a preview', () => {
  it('tells what runs and what does not, and why', async () => {
    const body = { ...daily, from: '2026-12-23T12:00:00Z', count: 3, skipOn: ['holidays'] }
    expect(await preview(body)).toMatchObject({
      next: ['2026-12-24T08:00:00.000Z', '2026-12-27T08:00:00.000Z', '2026-12-28T08:00:00.000Z'],
      excluded: [
        {
          at: '2026-12-25T08:00:00.000Z',
          calendar: 'holidays',
          reason: 'the calendar holidays excludes it: every 12-25',
          movedTo: null,
        },
        { at: '2026-12-26T08:00:00.000Z' },
      ],
      description: 'At 09:00 every day (Europe/Berlin), except on holidays',
    })
    const moved = { ...body, skipOn: ['holidays', 'weekend'], onExcluded: 'next_business_day' }
    expect(await preview(moved)).toMatchObject({
      next: ['2026-12-24T08:00:00.000Z', '2026-12-28T08:00:00.000Z', '2026-12-29T08:00:00.000Z'],
      excluded: [{ movedTo: '2026-12-28T08:00:00.000Z' }, {}, {}],
    })
  })

  it('of an edit, before and after', async () => {
    const { id } = await make({ ...daily, skipOn: ['weekend'] })
    const found = await preview({
      scheduleId: id,
      from: '2026-12-04T12:00:00Z',
      count: 2,
      skipOn: ['december'],
    })
    expect(found).toMatchObject({
      before: ['2026-12-07T08:00:00.000Z', '2026-12-08T08:00:00.000Z'],
      after: ['2027-01-01T08:00:00.000Z', '2027-01-02T08:00:00.000Z'],
    })
    const kept = await preview({ scheduleId: id, from: '2026-12-04T12:00:00Z', count: 1 })
    expect(kept).toMatchObject({ next: ['2026-12-07T08:00:00.000Z'], excluded: [{}, {}] })
  })
})

it('an explanation names the calendar of a time to come', async () => {
  const { id } = await make({ ...daily, skipOn: ['holidays'] })
  const { body } = await t.call('GET', `/v1/schedules/${id}/explain?at=2026-12-25T08:00:00Z`)
  expect(JSON.stringify(body)).toContain('the calendar holidays excludes it: every 12-25')
})

it('a backfill leaves out what the calendars leave out', async () => {
  const { id } = await make({ ...daily, skipOn: ['weekend'] })
  const body = { from: '2026-11-23T00:00:00Z', to: '2026-11-30T00:00:00Z' }
  const answer = await t.call('POST', `/v1/schedules/${id}/backfills?dryRun=true`, { body })
  expect(answer.body).toMatchObject({ preview: { wouldRun: 5, excluded: 2 } })
})
