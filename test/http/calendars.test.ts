// Calendars over the API: what is taken and stored, what is refused and where, what they cover day by day,
// how a change reaches the schedules that use them, and that what is used stays.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createPostgresCatalog } from '../../packages/server/src/postgres/catalog/catalog.ts'
import { eventually, httpJob, startTestApi, type TestApi } from '../support/api.ts'

let t: TestApi
beforeAll(async () => {
  t = await startTestApi()
  await t.database.useVirtualNow(new Date('2026-11-30T12:00:00Z'))
  await t.call('POST', '/v1/jobs', { body: httpJob('work') })
})
afterAll(() => t.close())

let made = 0
const make = async (parts: object) => {
  const answer = await t.call('POST', '/v1/calendars', { body: { name: `c${made++}`, ...parts } })
  expect(answer.body.detail ?? '').toBe('')
  return answer.body
}
const get = async (id: string) => (await t.call('GET', `/v1/calendars/${id}`)).body
const patch = (id: string, body: object, headers = {}) =>
  t.call('PATCH', `/v1/calendars/${id}`, { body, headers })
const schedule = async (parts: object) => {
  const body = { name: `s${made++}`, job: 'work', cron: '0 9 * * *', ...parts }
  const answer = await t.call('POST', '/v1/schedules', { body })
  expect(answer.body.detail ?? '').toBe('')
  return answer.body
}
const pointers = (answer: { body: { errors: readonly { pointer: string }[] } }) =>
  answer.body.errors.map(({ pointer }) => pointer)

const ics = (...events: readonly string[][]): string =>
  [
    'BEGIN:VCALENDAR',
    ...events.flatMap((lines) => ['BEGIN:VEVENT', ...lines, 'END:VEVENT']),
    'END:VCALENDAR',
    '',
  ].join('\r\n')
const christmas = ics(['DTSTART;VALUE=DATE:20201225', 'RRULE:FREQ=YEARLY', 'SUMMARY:Christmas Day'])

describe('what is stored', () => {
  it('every part, as it was sent; what is left out is empty', async () => {
    const parts = {
      description: 'closed',
      zone: 'Europe/Berlin',
      dates: ['2026-12-24'],
      ranges: [{ from: '2026-12-28', to: '2026-12-31' }],
      yearly: ['01-01'],
      weekdays: ['sat', 'sunday'],
      windows: [{ cron: '0 9 1 * *', minutes: 120 }],
      ics: christmas,
    }
    const calendar = await make(parts)
    expect(await get(calendar.id)).toMatchObject({
      ...parts,
      windows: [{ cron: '0 9 1 * *', dialect: 'unix', minutes: 120 }],
      version: 1,
      words: '1 date, 1 yearly date, 1 range, sat and sunday, 1 window, an iCalendar file',
      endsAt: null,
      usedBy: { count: 0, schedules: [] },
      replan: null,
    })
    const dates = await make({ dates: ['2026-12-24', '2026-12-31'] })
    expect(dates).toMatchObject({
      zone: null,
      ranges: [],
      yearly: [],
      weekdays: [],
      windows: [],
      ics: null,
      endsAt: '2027-01-01T00:00:00.000Z',
    })
  })

  it('lists are short, newest first, by name where one is asked for', async () => {
    const calendar = await make({ ics: christmas })
    const { body } = await t.call('GET', '/v1/calendars?limit=1')
    expect(body.items).toEqual([
      {
        id: calendar.id,
        name: calendar.name,
        description: '',
        version: 1,
        zone: null,
        words: 'an iCalendar file',
        createdAt: '2026-11-30T12:00:00.000Z',
        updatedAt: '2026-11-30T12:00:00.000Z',
      },
    ])
    expect(body.nextCursor).not.toBe(null)
    const named = await t.call('GET', `/v1/calendars?name=${calendar.name}`)
    expect(named.body.items.map(({ id }) => id)).toEqual([calendar.id])
  })

  it('a name is given once; a deleted one is free again', async () => {
    const calendar = await make({ dates: ['2026-12-24'] })
    const again = () =>
      t.call('POST', '/v1/calendars', { body: { name: calendar.name, dates: ['2026-12-25'] } })
    expect((await again()).body).toMatchObject({ code: 'name_taken', errors: [{ pointer: '/name' }] })
    expect((await t.call('DELETE', `/v1/calendars/${calendar.id}`)).status).toBe(204)
    expect((await t.call('GET', `/v1/calendars/${calendar.id}`)).body.code).toBe('not_found')
    expect((await again()).status).toBe(201)
  })

  it('a dry run checks and stores nothing', async () => {
    const before = await t.counts()
    const body = { name: 'dry', dates: ['2026-12-24'] }
    const answer = await t.call('POST', '/v1/calendars?dryRun=true', { body })
    expect([answer.status, answer.body.name]).toEqual([201, 'dry'])
    expect(await t.counts()).toEqual(before)
  })
})

describe('what is refused', () => {
  it.each<[object, string, readonly string[]]>([
    [{}, 'invalid_calendar', ['']],
    [{ dates: [] }, 'invalid_calendar', ['']],
    [{ dates: ['2026-02-30', '2026-01-01', 'x'] }, 'invalid_calendar', ['/dates/0', '/dates/2']],
    [{ yearly: ['13-01'] }, 'invalid_calendar', ['/yearly/0']],
    [{ weekdays: ['noday'] }, 'invalid_calendar', ['/weekdays/0']],
    [{ ranges: [{ from: '2026-01-02', to: '2026-01-01' }] }, 'invalid_calendar', ['/ranges/0/to']],
    [{ windows: [{ cron: '61 * * * *', minutes: 5 }] }, 'invalid_calendar', ['/windows/0/cron/minute']],
    [
      { windows: [{ cron: '1 * * * *', dialect: 'x', minutes: 5 }] },
      'invalid_calendar',
      ['/windows/0/dialect'],
    ],
    [{ windows: [{ cron: '1 * * * *', minutes: 0 }] }, 'invalid_calendar', ['/windows/0/minutes']],
    [{ zone: 'Mars/Olympus', dates: ['2026-01-01'] }, 'invalid_calendar', ['/zone']],
    [{ ics: 'nothing' }, 'invalid_calendar', ['/ics']],
    [{ date: ['2026-01-01'] }, 'invalid_request', ['/date']],
    [{ dates: '2026-01-01' }, 'invalid_request', ['/dates']],
    [{ dates: [20_260_101] }, 'invalid_request', ['/dates/0']],
    [{ ranges: [{ from: '2026-01-01' }] }, 'invalid_request', ['/ranges/0/to']],
    [{ ics: 'x'.repeat(262_145) }, 'invalid_request', ['/ics']],
    [{ dates: Array.from({ length: 5_001 }, () => '2026-01-01') }, 'invalid_request', ['/dates']],
    [{ name: 'no spaces', dates: ['2026-01-01'] }, 'invalid_request', ['/name']],
  ])('%.80j', async (parts, code, where) => {
    const answer = await t.call('POST', '/v1/calendars', { body: { name: `c${made++}`, ...parts } })
    expect([answer.status, answer.body.code, pointers(answer)]).toEqual([400, code, where])
  })

  it('entries are counted together, and faults are told up to twenty', async () => {
    const many = Array.from({ length: 3_000 }, () => '2026-01-01')
    const ranges = many.map((date) => ({ from: date, to: date }))
    const together = await t.call('POST', '/v1/calendars', { body: { name: 'm', dates: many, ranges } })
    expect(pointers(together)).toEqual(['/dates'])
    const wrong = await t.call('POST', '/v1/calendars', {
      body: { name: 'm', dates: many.map(() => 'x') },
    })
    expect(wrong.body.errors).toHaveLength(20)
    expect(wrong.body.detail).toContain('and 2997 more')
  })
})

describe('a change', () => {
  it('replaces each part that is given, null takes it away, the same again makes no version', async () => {
    const { id } = await make({ dates: ['2026-12-24'], weekdays: ['sat'], zone: 'Asia/Tokyo' })
    expect((await patch(id, { dates: ['2026-12-31'], zone: null })).body).toMatchObject({
      dates: ['2026-12-31'],
      weekdays: ['sat'],
      zone: null,
      version: 2,
    })
    expect((await patch(id, { dates: ['2026-12-31'] })).body.version).toBe(2)
    expect((await patch(id, { description: 'new' })).body.version).toBe(3)
    expect((await patch(id, { dates: null, weekdays: null })).body).toMatchObject({
      code: 'invalid_calendar',
      errors: [{ pointer: '' }],
    })
    expect((await patch(id, { yearly: ['1-1'] })).body.errors).toMatchObject([{ pointer: '/yearly/0' }])
    expect(await get(id)).toMatchObject({ version: 3, weekdays: ['sat'] })
  })

  it('by what it was shown as, parts that are not there among it', async () => {
    const windows = [{ cron: '0 9 1 * *', minutes: 120 }]
    const made = await make({ dates: ['2026-12-24'], windows })
    const fields = ['zone', 'dates', 'ranges', 'yearly', 'weekdays', 'windows', 'ics']
    const shown = Object.entries(await get(made.id))
    const parts = shown.filter(([part]) => fields.includes(part))
    expect((await patch(made.id, Object.fromEntries(parts))).status).toBe(200)
    const given = parts.filter(([, value]) => value !== null)
    expect(await make(Object.fromEntries(given))).toMatchObject(Object.fromEntries(parts))
  })

  it('under a precondition', async () => {
    const { id } = await make({ dates: ['2026-12-24'] })
    const stale = await patch(id, { dates: ['2026-12-25'] }, { 'if-match': '"7"' })
    expect(stale.body.code).toBe('precondition_failed')
    const tag = (await t.call('GET', `/v1/calendars/${id}`)).headers['etag'] ?? ''
    expect((await patch(id, { dates: ['2026-12-25'] }, { 'if-match': tag })).status).toBe(200)
    const gone = await t.call('DELETE', `/v1/calendars/${id}`, { headers: { 'if-match': tag } })
    expect(gone.body.code).toBe('precondition_failed')
  })

  it('counts the versions of schedules that use it, and asks for a replan, in one transaction', async () => {
    const calendar = await make({ weekdays: ['sat', 'sun'] })
    const used = await schedule({ skipOn: [calendar.name] })
    const other = await schedule({})
    const tagOf = async (id: string) => (await t.call('GET', `/v1/schedules/${id}`)).headers['etag']
    const before = [await tagOf(used.id), await tagOf(other.id)]
    t.hints.length = 0
    await patch(calendar.id, { description: 'only words' })
    expect([await tagOf(used.id), await tagOf(other.id)]).toEqual(before)
    expect(t.hints).toEqual([])
    const dry = await t.call('PATCH', `/v1/calendars/${calendar.id}?dryRun=true`, {
      body: { weekdays: ['mon'] },
    })
    expect([dry.status, await tagOf(used.id)]).toEqual([200, before[0]])
    await patch(calendar.id, { weekdays: ['sat'] })
    expect([await tagOf(used.id), await tagOf(other.id)]).toEqual(['"2"', before[1]])
    expect(t.hints).toEqual([{ topic: 'replans', key: 'asked' }])
    expect(await get(calendar.id)).toMatchObject({
      version: 3,
      usedBy: { count: 1, schedules: [used.name] },
      replan: { state: 'pending', total: 1, done: 0, moved: 0, endedAt: null },
    })
  })
})

describe('days', () => {
  const days = (id: string, query = '') => t.call('GET', `/v1/calendars/${id}/days${query}`)

  it('are told with the reason, whole or in part, in the zone of the calendar', async () => {
    const { id } = await make({
      zone: 'Europe/Berlin',
      weekdays: ['sun'],
      ranges: [{ from: '2026-12-24T12:00', to: '2026-12-25T00:00' }],
      ics: christmas,
    })
    const { body } = await days(id, '?from=2026-12-20&to=2026-12-27')
    expect(body).toEqual({
      zone: 'Europe/Berlin',
      from: '2026-12-19T23:00:00.000Z',
      to: '2026-12-26T23:00:00.000Z',
      covered: [
        {
          date: '2026-12-20',
          weekday: 'Sunday',
          from: '2026-12-19T23:00:00.000Z',
          to: '2026-12-20T23:00:00.000Z',
          wholeDay: true,
          reason: 'Sunday',
        },
        {
          date: '2026-12-24',
          weekday: 'Thursday',
          from: '2026-12-24T11:00:00.000Z',
          to: '2026-12-24T23:00:00.000Z',
          wholeDay: false,
          reason: '2026-12-24T12:00 to 2026-12-25T00:00',
        },
        {
          date: '2026-12-25',
          weekday: 'Friday',
          from: '2026-12-24T23:00:00.000Z',
          to: '2026-12-25T23:00:00.000Z',
          wholeDay: true,
          reason: 'Christmas Day',
        },
      ],
      next: null,
    })
  })

  it('begin today, go on for a year, and page by `next`', async () => {
    const weekend = await make({ weekdays: ['sat', 'sun'] })
    const { body } = await days(weekend.id)
    expect(body).toMatchObject({
      zone: 'UTC',
      from: '2026-11-30T00:00:00.000Z',
      to: '2027-12-01T00:00:00.000Z',
    })
    expect(body).toMatchObject({ next: null })
    const long = (await days(weekend.id, '?from=2026-01-01&to=2046-01-01')).body as unknown as {
      covered: { date: string }[]
      next: string
    }
    expect([long.covered.length, long.next]).toEqual([1_000, '2035-08-04T00:00:00.000Z'])
    const rest = await days(weekend.id, `?from=${long.next}&to=2035-08-06`)
    expect(rest.body).toMatchObject({ covered: [{ date: '2035-08-04' }, { date: '2035-08-05' }], next: null })
  })

  it('of a calendar without a zone are those of the one that is asked for', async () => {
    const { id } = await make({ dates: ['2026-12-24'] })
    expect((await days(id, '?from=2026-12-01&zone=Asia/Tokyo')).body).toMatchObject({
      zone: 'Asia/Tokyo',
      covered: [{ from: '2026-12-23T15:00:00.000Z', wholeDay: true }],
    })
  })

  it.each([
    ['?from=yesterday', '/query/from'],
    ['?from=2026-02-30', '/query/from'],
    ['?from=1969-01-01', '/query/from'],
    ['?from=2026-12-02&to=2026-12-01', '/query/to'],
    ['?zone=Mars/Olympus', '/query/zone'],
    ['?x=1', '/query/x'],
  ])('refuse %s', async (query, pointer) => {
    const { id } = await make({ dates: ['2026-12-24'] })
    const answer = await days(id, query)
    expect([answer.status, answer.body.code, pointers(answer)]).toEqual([400, 'invalid_request', [pointer]])
  })

  it('are bounded, whatever the calendar is made of', async () => {
    const minutes = Array.from({ length: 50 }, (_, i) => ({ cron: `${i}/2 * * * *`, minutes: 1 }))
    const { id } = await make({ windows: minutes })
    const { body } = await days(id, '?from=1970-01-01&to=2199-01-01')
    expect(body).toMatchObject({ next: expect.stringContaining('1970-01-01') as string })
  })
})

describe('a calendar that is used', () => {
  it('is not deleted, and the schedules that use it are named', async () => {
    const calendar = await make({ weekdays: ['sat', 'sun'] })
    const [one, two] = [
      await schedule({ skipOn: [calendar.name] }),
      await schedule({ onlyOn: [calendar.name] }),
    ]
    const refused = await t.call('DELETE', `/v1/calendars/${calendar.id}`)
    expect(refused.body).toMatchObject({ status: 409, code: 'in_use' })
    expect(refused.body.detail).toContain(`"${one.name}", "${two.name}" use the calendar "${calendar.name}"`)
    await t.call('PATCH', `/v1/schedules/${two.id}`, { body: { onlyOn: null } })
    expect((await t.call('DELETE', `/v1/calendars/${calendar.id}`)).body.detail).toContain(
      `The schedule "${one.name}" uses`,
    )
    await t.call('DELETE', `/v1/schedules/${one.id}`)
    expect((await t.call('DELETE', `/v1/calendars/${calendar.id}`)).status).toBe(204)
  })

  it('by more than ten is told by ten of them and how many more', async () => {
    const calendar = await make({ weekdays: ['sat', 'sun'] })
    for (let i = 0; i < 12; i++) await schedule({ skipOn: [calendar.name] })
    expect((await t.call('DELETE', `/v1/calendars/${calendar.id}`)).body.detail).toContain(' and 2 more use ')
    expect(await get(calendar.id)).toMatchObject({ usedBy: { count: 12 } })
  })

  it('also by a schedule that is being made: the deletion waits, and is refused', async () => {
    const calendar = await make({ weekdays: ['sat', 'sun'] })
    const body = { name: `s${made++}`, job: 'work', cron: '0 9 * * *', skipOn: [calendar.name] }
    const access = { tenantId: t.tenantId, dryRun: false, readOnly: false }
    const catalog = createPostgresCatalog({ db: t.db })
    let deletion: ReturnType<TestApi['call']> | undefined
    await catalog.within(access, async (tx) => {
      const [found] = await tx.calendars.byNames([calendar.name], true)
      expect(found?.id).toBe(calendar.id)
      deletion = t.call('DELETE', `/v1/calendars/${calendar.id}`)
      await eventually(async () => (await t.database.waiting()) === 1)
      await t.database.sql(
        `INSERT INTO belfry.schedule_calendar (tenant_id, schedule_id, calendar_id, use, position)
         SELECT $1, s.id, $2, 'skip', 0 FROM belfry.schedule s WHERE s.name = $3`,
        [t.tenantId, calendar.id, (await schedule({})).name],
      )
    })
    expect((await deletion)?.body.code).toBe('in_use')
    expect((await t.call('POST', '/v1/schedules', { body })).status).toBe(201)
  })
})
