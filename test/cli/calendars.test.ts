// `belfry calendar …` and the flags that name calendars in a schedule: what is sent, what people see.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeEach, describe, expect, it } from 'vitest'
import { problem } from './support/contract-server.ts'
import { runAlone, startCliRig } from './support/cli.ts'

const rig = await startCliRig()
const folder = mkdtempSync(join(tmpdir(), 'belfry-calendars-'))
afterAll(async () => {
  rmSync(folder, { recursive: true, force: true })
  await rig.close()
})
beforeEach(() => {
  rig.server.store.calendars.clear()
  rig.server.store.schedules.clear()
  rig.server.seen.length = 0
  rig.server.intercept = () => undefined
})

const file = (name: string, text: string): string => {
  const path = join(folder, name)
  writeFileSync(path, text)
  return path
}
const lines = ['BEGIN:VCALENDAR', 'BEGIN:VEVENT', 'DTSTART;VALUE=DATE:20261225', 'SUMMARY:Christmas']
const ics = [...lines, 'END:VEVENT', 'END:VCALENDAR', ''].join('\r\n')
const lastBody = () => rig.server.seen.at(-1)?.body

describe('calendar create', () => {
  const create = (...flags: string[]) => rig.run(['calendar', 'create', ...flags])

  it('takes short ones from flags', async () => {
    const result = await create(
      'closed',
      '--weekdays',
      'sat, sun',
      '--dates=2026-12-24',
      '--dates',
      '2026-12-31',
    )
    expect(lastBody()).toEqual({
      name: 'closed',
      weekdays: ['sat', 'sun'],
      dates: ['2026-12-24', '2026-12-31'],
    })
    expect(result.code).toBe(0)
    expect(result.out).toMatch(/^NAME +COVERS +ZONE +VERSION +CHANGED\nclosed +sat and sun +- +1 +/)
    expect(result.err).toContain('Created the calendar closed: sat and sun.')
    expect(result.err).toContain('Next: belfry schedule update SCHEDULE --skip-on closed')
  })

  it('takes an iCalendar file as it is, under the name of the file', async () => {
    await create('--file', file('holidays.ics', ics), '--zone', 'Europe/Berlin', '--description', 'public')
    expect(lastBody()).toEqual({ name: 'holidays', ics, zone: 'Europe/Berlin', description: 'public' })
    await create('de', '--file', file('holidays.ics', ics))
    expect(lastBody()).toEqual({ name: 'de', ics })
    const piped = await rig.run(['calendar', 'create', 'piped', '--file', '-'], { stdin: ics })
    expect([piped.code, lastBody()]).toEqual([0, { name: 'piped', ics }])
  })

  it('takes YAML with all parts; a flag goes before the file', async () => {
    const yaml = file(
      'plan.yaml',
      'name: plan\ndates: ["2026-12-24"]\nranges: [{from: "2026-12-28", to: "2026-12-31"}]\n' +
        'windows: [{cron: "0 9 1 * *", minutes: 120}]\n',
    )
    await create('--file', yaml, '--dates', '2027-12-24')
    expect(lastBody()).toEqual({
      name: 'plan',
      dates: ['2027-12-24'],
      ranges: [{ from: '2026-12-28', to: '2026-12-31' }],
      windows: [{ cron: '0 9 1 * *', minutes: 120 }],
    })
  })

  it('takes back what `get -o yaml` has written', async () => {
    rig.server.store.addCalendar('kept', { weekdays: ['sat'], dates: ['2026-12-24'] })
    const { out } = await rig.run(['calendar', 'get', 'kept', '-o', 'yaml'])
    const yaml = file('kept.yaml', out)
    await create('again', '--file', yaml)
    const parts = { weekdays: ['sat'], dates: ['2026-12-24'], ranges: [], yearly: [], windows: [] }
    expect(lastBody()).toEqual({ name: 'again', description: '', ...parts })
    expect((await rig.run(['calendar', 'update', 'kept', '--file', yaml])).code).toBe(0)
    expect(lastBody()).toEqual({ description: '', zone: null, ics: null, ...parts })
  })

  it('says what is missing, before anything is sent', async () => {
    expect((await create('empty')).err).toContain('say what it covers: --file holidays.ics')
    expect((await create('--weekdays', 'sat')).err).toContain('give the calendar a name')
    expect((await create('x', '--file', file('list.yaml', '- 1\n'))).err).toContain('holds no calendar')
    expect((await create('x', '--file', file('broken.yaml', 'dates: ['))).code).toBe(2)
    expect(rig.server.seen).toEqual([])
  })

  it('shows each fault with the flag or the file that it came from', async () => {
    const faults = [
      { pointer: '/dates/0', message: '"x" is not a date' },
      { pointer: '/ranges/0/to', message: 'the range ends before it begins' },
    ]
    rig.server.intercept = () => ({
      status: 400,
      body: problem('invalid_calendar', 'It is not valid.', faults),
    })
    const result = await create('x', '--dates', 'x')
    expect(result.err).toContain('--dates (/dates/0): "x" is not a date')
    expect(result.err).toContain('--file (/ranges/0/to): the range ends before it begins')
  })
})

describe('calendar list, get and days', () => {
  it('show what it covers, who uses it and how far a change came', async () => {
    const replan = {
      state: 'running',
      total: 2_501,
      done: 400,
      moved: 3,
      requestedAt: '2026-11-29T12:00:00.000Z',
      endedAt: null,
    } as const
    rig.server.store.addCalendar('closed', {
      weekdays: ['sat', 'sun'],
      dates: Array.from({ length: 14 }, (_, i) => `2026-12-${i + 10}`),
      windows: [{ cron: '0 9 1 * *', dialect: 'unix', minutes: 120 }],
      usedBy: { count: 12, schedules: ['a', 'b'] },
      replan,
    })
    expect((await rig.run(['calendar', 'list'])).out).toMatch(/closed +sat and sun/)
    const { out } = await rig.run(['calendar', 'get', 'closed'])
    expect(out).toMatch(/Weekdays +sat, sun\n/)
    expect(out).toMatch(/Dates +2026-12-10, .* and 2 more\n/)
    expect(out).toMatch(/Windows +120 minutes from 0 9 1 \* \*\n/)
    expect(out).toMatch(/Used by +a, b and 10 more\n/)
    expect(out).toMatch(/Last change +running: 400 of 2501 schedules looked at, 3 with another next time\n/)
    expect(await rig.json(['calendar', 'get', 'closed'])).toMatchObject({ name: 'closed', replan })
  })

  it('an unknown name gets the nearest one', async () => {
    rig.server.store.addCalendar('holidays')
    expect((await rig.run(['calendar', 'get', 'holiday'])).err).toContain('did you mean holidays?')
  })

  it('days are a table, or JSON for programs', async () => {
    rig.server.store.addCalendar('closed')
    const flags = [
      'calendar',
      'days',
      'closed',
      '--from',
      '2026-12-01',
      '--to',
      '2027-01-01',
      '--zone',
      'UTC',
    ]
    const { out } = await rig.run(flags)
    expect(rig.server.seen.at(-1)?.query).toEqual({ from: '2026-12-01', to: '2027-01-01', zone: 'UTC' })
    expect(out).toMatch(/^DATE +COVERED +WHY\nFri 2026-12-25 +all day +Christmas Day\n/)
    expect(out).toMatch(/Thu 2026-12-31 +11:00 to 23:00 UTC +2026-12-31T12:00 to 2027-01-01T00:00\n/)
    expect(await rig.json(flags)).toMatchObject({ items: [{ date: '2026-12-25' }, { date: '2026-12-31' }] })
  })
})

describe('calendar update and delete', () => {
  const update = (...flags: string[]) => rig.run(['calendar', 'update', 'closed', ...flags])
  beforeEach(() => {
    rig.server.store.addCalendar('closed', { weekdays: ['sat'], usedBy: { count: 2, schedules: ['a', 'b'] } })
  })

  it('sends what is given, and null for what goes', async () => {
    const result = await update('--dates', '2026-12-24,2026-12-31', '--weekdays', 'none', '--zone', 'none')
    expect(lastBody()).toEqual({ dates: ['2026-12-24', '2026-12-31'], weekdays: null, zone: null })
    expect(result.err).toContain(
      'Changed the calendar closed: sat and sun; the 2 schedules that use it follow.',
    )
    expect((await update()).err).toContain('nothing to change')
  })

  it('a file replaces everything', async () => {
    await update('--file', file('closed.ics', ics))
    const gone = { dates: null, yearly: null, weekdays: null, zone: null, ranges: null, windows: null }
    expect(lastBody()).toEqual({ ...gone, ics })
    await update('--file', file('next.yaml', 'name: closed\nyearly: ["12-25"]\n'), '--weekdays', 'sun')
    expect(lastBody()).toEqual({ ...gone, ics: null, yearly: ['12-25'], weekdays: ['sun'] })
  })

  it('one that is used is not deleted, and says by whom', async () => {
    const words = 'The schedule "payroll" uses the calendar "closed"; take it out first.'
    rig.server.intercept = ({ method }) =>
      method === 'DELETE' ? { status: 409, body: problem('in_use', words) } : undefined
    const result = await rig.run(['calendar', 'delete', 'closed'])
    expect([result.code, result.err]).toEqual([1, expect.stringContaining(words)])
  })
})

describe('schedules', () => {
  it('name calendars by flags, one by one or in a list', async () => {
    const flags = ['--skip-on', 'weekend', '--skip-on', 'holidays,fairs', '--only-on', 'summer']
    await rig.run([
      'schedule',
      'create',
      'a',
      '--cron',
      '0 9 * * *',
      '--job',
      'x',
      ...flags,
      '--on-excluded',
      'previous_business_day',
    ])
    expect(lastBody()).toMatchObject({
      skipOn: ['weekend', 'holidays', 'fairs'],
      onlyOn: ['summer'],
      onExcluded: 'previous_business_day',
    })
    await rig.run(['schedule', 'update', 'a', '--skip-on', 'none', '--on-excluded', 'skip'])
    expect(lastBody()).toEqual({ skipOn: [], onExcluded: 'skip' })
  })

  it('an unknown one is told with the flag', async () => {
    const message = 'There is no calendar named "holiday". Did you mean "holidays"?'
    const faults = [{ pointer: '/skipOn/0', message }]
    rig.server.intercept = () => ({ status: 404, body: problem('not_found', message, faults) })
    const flags = ['--every', '5m', '--job', 'x', '--skip-on', 'holiday']
    expect((await rig.run(['schedule', 'create', 'a', ...flags])).err).toContain(
      `--skip-on (/skipOn/0): ${message}`,
    )
  })
})

describe('schedule next, offline', () => {
  const next = async (...flags: string[]) => {
    const { out } = await runAlone(['schedule', 'next', ...flags, '-o', 'json'])
    return JSON.parse(out) as { next: string[]; previous: string[]; excluded: object[]; description: string }
  }
  const weekend = file('weekend.yaml', 'weekdays: [sat, sun]\n')
  const payroll = [
    '--cron',
    '0 9 25 * *',
    '--calendar',
    weekend,
    '--from',
    '2026-04-01T00:00:00Z',
    '--count',
    '2',
  ]

  it('moves what calendars leave out, as the server does', async () => {
    const found = await next(...payroll, '--on-excluded', 'previous_business_day')
    expect(found).toMatchObject({
      next: ['2026-04-24T09:00:00Z', '2026-05-25T09:00:00Z'],
      excluded: [{ at: '2026-04-25T09:00:00Z', calendar: 'weekend', movedTo: '2026-04-24T09:00:00Z' }],
      description:
        'At 09:00 on the 25th of the month (UTC), except on weekend; ' +
        'what is left out runs on the previous business day instead',
    })
    expect((await next(...payroll)).next).toEqual(['2026-05-25T09:00:00Z', '2026-06-25T09:00:00Z'])
    const { out } = await runAlone(['schedule', 'next', ...payroll, '--on-excluded', 'next_business_day'])
    const why = 'the calendar weekend excludes it: Saturday; moved to 2026-04-27T09:00:00Z'
    expect(out).toContain(`left out: 2026-04-25T09:00:00Z, ${why}`)
  })

  it('goes back the same way', async () => {
    const flags = ['--cron', '0 9 25 * *', '--calendar', weekend, '--on-excluded', 'next_business_day']
    const found = await next(...flags, '--before', '2026-05-01T00:00:00Z', '--count', '2')
    expect(found.previous).toEqual(['2026-04-27T09:00:00Z', '2026-03-25T09:00:00Z'])
  })

  it('refuses a move of what fires too often, or without a calendar', async () => {
    const often = ['schedule', 'next', '--cron', '* * * * *', '--on-excluded', 'next_business_day']
    const refused = await runAlone([...often, '--calendar', weekend])
    expect([refused.code, refused.err]).toEqual([
      2,
      expect.stringContaining('--on-excluded (/onExcluded): only a'),
    ])
    expect((await runAlone(often)).err).toContain('--on-excluded says what becomes of times')
  })
})
