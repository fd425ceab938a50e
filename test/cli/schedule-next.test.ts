// `belfry schedule next`: what it prints for programs and for people, every flag, and what it refuses. All of
// it offline: no server and no context is there, and any request would fail the test.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, describe, expect, it } from 'vitest'
import { openZoneSource } from '../../packages/server/src/adapters/zones/zone-source.ts'
import { type Result, runAlone } from './support/cli.ts'

const folder = mkdtempSync(join(tmpdir(), 'belfry-next-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const noFetch = () => Promise.reject(new Error('schedule next asked a server'))
const run = (...flags: readonly string[]): Promise<Result> =>
  runAlone(['schedule', 'next', ...flags], { fetch: noFetch, env: { BELFRY_URL: 'http://nowhere' } })

type Preview = {
  readonly next?: readonly string[]
  readonly previous?: readonly string[]
  readonly description: string
  readonly warnings: readonly { readonly code: string; readonly message: string }[]
  readonly zone: { readonly name: string; readonly dataVersion: string }
  readonly excluded?: readonly { readonly at: string; readonly calendar: string; readonly reason: string }[]
}

async function json(...flags: readonly string[]): Promise<Preview> {
  const result = await run(...flags, '-o', 'json')
  expect(result).toMatchObject({ code: 0, err: '' })
  return JSON.parse(result.out) as Preview
}

async function times(...flags: readonly string[]): Promise<readonly string[]> {
  const { next, previous } = await json(...flags)
  return next ?? previous ?? []
}

type Refusal = { readonly code: string; readonly errors: readonly { readonly pointer: string }[] }

/** Code and pointers of a refusal. */
async function refused(...flags: readonly string[]): Promise<unknown> {
  const result = await run(...flags, '-o', 'json')
  expect(result.code).toBe(2)
  const problem = JSON.parse(result.out) as Refusal
  return { code: problem.code, pointers: problem.errors.map(({ pointer }) => pointer) }
}

function file(name: string, text: string): string {
  const path = join(folder, name)
  writeFileSync(path, text)
  return path
}

const holding = (text: string): unknown => expect.stringContaining(text)

const berlin = ['--cron', '30 2 * * *', '--tz', 'Europe/Berlin', '--from', '2026-03-28T12:00:00Z']

describe('what it prints', () => {
  it('is the preview, for programs', async () => {
    expect(await json('--dialect', 'unix', ...berlin, '--count', '5')).toEqual({
      next: [
        '2026-03-29T01:00:00Z',
        '2026-03-30T00:30:00Z',
        '2026-03-31T00:30:00Z',
        '2026-04-01T00:30:00Z',
        '2026-04-02T00:30:00Z',
      ],
      description: 'At 02:30 every day (Europe/Berlin)',
      warnings: [
        {
          code: 'dst_gap',
          message:
            'on 2026-03-29 the clock leaps from 02:00 to 03:00 in Europe/Berlin: ' +
            'what is planned for 02:30 runs at 03:00',
          at: '2026-03-29T01:00:00Z',
        },
        {
          code: 'dst_overlap',
          message: 'on 2026-10-25 02:30 comes twice in Europe/Berlin: it runs the first time only',
          at: '2026-10-25T01:00:00Z',
        },
      ],
      zone: { name: 'Europe/Berlin', dataVersion: openZoneSource().dataVersion },
    })
  })

  it('is words, times in the zone and in UTC, and what the clock does, for people', async () => {
    const { out, err } = await run(...berlin, '--count', '2')
    expect(err).toBe('')
    expect(out.split('\n').slice(0, 5)).toEqual([
      'At 02:30 every day (Europe/Berlin)',
      '',
      'LOCAL TIME                      UTC                   CLOCK CHANGE',
      'Sun 2026-03-29 03:00:00 +02:00  2026-03-29T01:00:00Z  ' +
        'stands for 02:30: the clock leaps from 02:00 to 03:00',
      'Mon 2026-03-30 02:30:00 +02:00  2026-03-30T00:30:00Z  -',
    ])
    expect(out).toContain('warning: on 2026-10-25 02:30 comes twice')
    expect(out).toMatch(/Zone Europe\/Berlin, data \d{4}\w+ \((?:system|bundled)\)\n$/)
  })

  it('tells how far away it is when it counts from now, and when nothing is left', async () => {
    expect((await run('--at', '2026-11-29T12:05:00Z')).out).toContain('in 5m')
    const over = await run('--at', '2026-11-29T11:00:00Z')
    expect(over.code).toBe(0)
    expect(over.out).toContain('No planned time after 2026-11-29T12:00:00Z.')
  })

  it('is one line, YAML, or the bare instants, as asked', async () => {
    const [line, yaml, name] = await Promise.all(
      ['jsonl', 'yaml', 'name'].map((format) => run(...berlin, '--count', '1', '-o', format)),
    )
    expect(line?.out).toMatch(/^\{"next":\["2026-03-29T01:00:00Z"\],"description":.*\}\n$/)
    expect(yaml?.out).toContain('next:\n  - 2026-03-29T01:00:00Z\n')
    expect(name?.out).toBe('2026-03-29T01:00:00Z\n')
  })
})

const later = ['--from', '2026-01-01T00:00:00Z', '--count', '2']

describe('flags', () => {
  it.each([
    ['kubernetes', '@every 90m', '2026-01-01T01:30:00Z'],
    ['k8s', '0 0 * * ?', '2026-01-02T00:00:00Z'],
    ['github', '0 9 * * 1', '2026-01-05T09:00:00Z'],
    ['quartz', '0 0 12 ? * 2#1', '2026-01-05T12:00:00Z'],
    ['eventbridge', 'cron(0 12 ? * 2 *)', '2026-01-05T12:00:00Z'],
    ['jenkins', '0 9 * * 1', '2026-01-05T09:00:00Z'],
    ['systemd', 'Mon *-*-* 09:00', '2026-01-05T09:00:00Z'],
    ['systemd-like', 'Mon *-*-* 09:00', '2026-01-05T09:00:00Z'],
  ])('--dialect %s reads %s', async (dialect, expression, first) => {
    expect((await times('--dialect', dialect, '--cron', expression, ...later))[0]).toBe(first)
  })

  it('--at takes an instant, a wall time, and a distance', async () => {
    expect(await times('--at', '2026-12-01T02:30:00+01:00')).toEqual(['2026-12-01T01:30:00Z'])
    expect(await times('--at', '2026-12-01T02:30:00', '--tz', 'Asia/Tokyo')).toEqual(['2026-11-30T17:30:00Z'])
    expect(await times('--at', '+10m')).toEqual(['2026-11-29T12:10:00Z'])
  })

  it('--rate and --every count from --start', async () => {
    const start = ['--start', '2026-01-01T00:00:30Z']
    const wanted = ['2026-01-01T00:00:30Z', '2026-01-01T00:05:30Z']
    expect(await times('--rate', 'rate(5 minutes)', ...start, ...later)).toEqual(wanted)
    expect(await times('--every', '5m', ...start, ...later)).toEqual(wanted)
  })

  it('--every takes calendar words, counted from the day of --start', async () => {
    const flags = ['--every', 'every 2 weeks on fri at 09:00', '--start', '2026-01-02T00:00:00Z', ...later]
    expect(await json(...flags)).toMatchObject({
      next: ['2026-01-02T09:00:00Z', '2026-01-16T09:00:00Z'],
      description: 'At 09:00 every 2 weeks on Friday, counted from 2026-01-02 (UTC)',
    })
  })

  it('--zone is another word for --tz, and an OnCalendar expression may name its own', async () => {
    const own = ['--dialect', 'systemd', '--cron', '*-*-* 02:00 Asia/Tokyo', ...later]
    expect(await json(...own)).toMatchObject({ zone: { name: 'Asia/Tokyo' } })
    expect(await times('--cron', '0 2 * * *', '--zone', 'Asia/Tokyo', ...later)).toEqual(await times(...own))
  })

  it('--from and --before take any year of four digits, and no other year is listed', async () => {
    const yearly = ['--cron', '0 0 1 1 *', '--count', '3']
    expect(await times(...yearly, '--from', '1899-06-01T00:00:00Z')).toContain('1900-01-01T00:00:00Z')
    expect(await times(...yearly, '--from', '9998-06-01T00:00:00Z')).toEqual(['9999-01-01T00:00:00Z'])
    expect(await times(...yearly, '--before', '0002-06-01T00:00:00Z')).toEqual([
      '0002-01-01T00:00:00Z',
      '0001-01-01T00:00:00Z',
    ])
    expect(await times('--rate', '36500d', '--from', '9990-01-01T00:00:00Z')).toEqual([])
  })

  it('--from is now if left out, and a wall time of the zone without an offset', async () => {
    expect(await times('--cron', '0 * * * *', '--count', '1')).toEqual(['2026-11-29T13:00:00Z'])
    const local = ['--cron', '0 * * * *', '--tz', 'Asia/Tokyo', '--from', '2026-01-01T09:30:00']
    expect(await times(...local, '--count', '1')).toEqual(['2026-01-01T01:00:00Z'])
    expect((await times('--cron', '0 * * * *')).length).toBe(5)
    expect((await times('--cron', '* * * * *', '--count', '1000')).length).toBe(1000)
  })

  it('--before goes back, latest first', async () => {
    const found = await json('--cron', '0 9 * * 1-5', '--before', '2026-01-06T09:00:00Z', '--count', '2')
    expect(found.previous).toEqual(['2026-01-05T09:00:00Z', '2026-01-02T09:00:00Z'])
    expect(Object.keys(found)).toEqual(['previous', 'description', 'warnings', 'zone'])
  })

  it('--start and --end bound it', async () => {
    const bounds = ['--start', '2026-01-03T00:00:00Z', '--end', '2026-01-05T00:00:00Z']
    expect(await times('--cron', '@daily', ...bounds, '--from', '2026-01-01T00:00:00Z')).toEqual([
      '2026-01-03T00:00:00Z',
      '2026-01-04T00:00:00Z',
    ])
  })

  it('--dst-gap and --dst-overlap choose', async () => {
    const gap = [...berlin, '--count', '1', '--dst-gap', 'skip']
    expect(await times(...gap)).toEqual(['2026-03-30T00:30:00Z'])
    const overlap = ['--cron', '30 2 * * *', '--tz', 'Europe/Berlin', '--from', '2026-10-24T12:00:00Z']
    expect(await times(...overlap, '--count', '2', '--dst-overlap', 'both')).toEqual([
      '2026-10-25T00:30:00Z',
      '2026-10-25T01:30:00Z',
    ])
    expect((await run(...overlap, '--dst-overlap', 'both')).out).toContain('the second 02:30 of two')
  })

  it('--day-match joins both day fields, --seed moves H', async () => {
    const both = ['--cron', '0 0 13 * 5', ...later]
    expect((await times(...both))[0]).toBe('2026-01-02T00:00:00Z')
    expect((await times(...both, '--day-match', 'and'))[0]).toBe('2026-02-13T00:00:00Z')
    const hashed = ['--dialect', 'jenkins', '--cron', 'H H * * *', ...later]
    const a = await times(...hashed, '--seed', 'a')
    expect(await times(...hashed, '--seed', 'a')).toEqual(a)
    expect(await times(...hashed, '--seed', 'b')).not.toEqual(a)
  })
})

describe('calendars', () => {
  const holidays = file('holidays.yaml', 'dates: ["2026-01-02"]\nweekdays: [sat, sunday]\n')
  const summer = file('summer.json', JSON.stringify({ name: 'summer', yearly: ['01-02', '01-05'] }))
  const daily = ['--cron', '0 9 * * *', '--from', '2026-01-01T12:00:00Z', '--count', '1']

  it('leave out what they cover, and say why', async () => {
    expect(await json(...daily, '--calendar', holidays)).toMatchObject({
      next: ['2026-01-05T09:00:00Z'],
      excluded: [
        { at: '2026-01-02T09:00:00Z', calendar: 'holidays', reason: holding('2026-01-02') },
        { at: '2026-01-03T09:00:00Z', reason: holding('Saturday') },
        { at: '2026-01-04T09:00:00Z' },
      ],
    })
    const { out } = await run(...daily, '--calendar', holidays)
    expect(out).toContain('left out: 2026-01-02T09:00:00Z, the calendar holidays excludes it: 2026-01-02')
  })

  it('or are the only days, by --only-on; both work together and backwards', async () => {
    expect(await times(...daily, '--only-on', summer)).toEqual(['2026-01-02T09:00:00Z'])
    expect(await times(...daily, '--only-on', summer, '--calendar', holidays)).toEqual([
      '2026-01-05T09:00:00Z',
    ])
    const back = ['--cron', '0 9 * * *', '--before', '2026-01-05T09:00:00Z', '--count', '1']
    expect(await times(...back, '--calendar', holidays)).toEqual(['2026-01-01T09:00:00Z'])
  })

  it('come from iCalendar files too', async () => {
    const lines = ['BEGIN:VCALENDAR', 'BEGIN:VEVENT', 'UID:1', 'SUMMARY:Fair', 'DTSTART;VALUE=DATE:20260102']
    const fair = file('fair.ics', [...lines, 'END:VEVENT', 'END:VCALENDAR', ''].join('\r\n'))
    expect(await json(...daily, '--calendar', fair)).toMatchObject({
      next: ['2026-01-03T09:00:00Z'],
      excluded: [{ calendar: 'fair', reason: holding('Fair') }],
    })
  })

  it('that leave nothing end the search with a warning', async () => {
    const never = file('never.yaml', 'weekdays: [business_days, sat, sun]\n')
    const found = await json('--cron', '* * * * * *', ...later, '--calendar', never)
    expect(found.next).toEqual([])
    expect(found.warnings.map(({ code }) => code)).toContain('calendars')
    expect(found.excluded?.length).toBe(100)
  })

  it('are refused with the field, or as a file', async () => {
    const wrong = file('wrong.yaml', 'date: []\nweekdays: [funday]\nranges: [{from: 1, to: "2026-01-01"}]\n')
    expect(await refused(...daily, '--calendar', holidays, '--calendar', wrong)).toEqual({
      code: 'invalid_schedule',
      pointers: ['/skipOn/1/date', '/skipOn/1/ranges/0/from'],
    })
    const broken = file('broken.yaml', 'dates: [')
    expect(await refused(...daily, '--only-on', broken)).toMatchObject({ code: 'invalid_request' })
    expect((await run(...daily, '--calendar', join(folder, 'absent.yaml'))).err).toContain('ENOENT')
  })
})

describe('what it refuses, with exit code 2 and a pointer', () => {
  it.each([
    [['--cron', '61 * * * *'], ['/cron/minute']],
    [
      ['--cron', '61 24 * * *'],
      ['/cron/minute', '/cron/hour'],
    ],
    [['--cron', '* * *'], ['/cron']],
    [['--cron', '0 0 30 2 *'], ['/cron/dayOfMonth']],
    [['--dialect', 'quartz', '--cron', '0 0 0 1 * 2'], ['/cron/dayOfWeek']],
    [['--dialect', 'cronie', '--cron', '* * * * *'], ['/dialect']],
    [['--cron', '* * * * *', '--tz', 'Mars/Olympus'], ['/zone']],
    [['--at', 'tomorrow'], ['/at']],
    [['--rate', 'rate(1 minutes)'], ['/rate']],
    [['--every', '5x'], ['/every']],
    [['--every', 'every 2 moons'], ['/every']],
    [['--cron', '* * * * *', '--start', '2026-02-30T00:00:00Z'], ['/startAt']],
    [['--cron', '* * * * *', '--end', 'soon'], ['/endAt']],
    [['--cron', '* * * * *', '--start', '2026-01-02T00:00:00Z', '--end', '2026-01-01T00:00:00Z'], ['/endAt']],
    [
      ['--dialect', 'quartz', '--cron', '0 0 0 * * ? 2020', '--start', '2026-01-01T00:00:00Z'],
      ['/cron/year'],
    ],
  ])('%j', async (flags, pointers) => {
    expect(await refused(...flags)).toEqual({ code: 'invalid_schedule', pointers })
  })

  it('says it in words, with the flag', async () => {
    expect(await run('--cron', '61 * * * *')).toEqual({
      code: 2,
      out: '',
      err:
        'error: The schedule is not valid; see the errors. (invalid_schedule)\n' +
        '  --cron (/cron/minute): minute "61" at column 1: 61 is outside 0-59: write a value from 0 to 59\n',
    })
  })

  it.each([
    [[]],
    [['--cron', '* * * * *', '--every', '5m']],
    [['--cron', '* * * * *', '--tz', 'UTC', '--zone', 'UTC']],
    [['--cron', '* * * * *', '--from', 'now', '--before', 'now']],
    [['--every', '5m', '--seed', 'x']],
    [['--at', 'now', '--day-match', 'and']],
    [['--cron', '* * * * *', '--count', '1001']],
    [['--cron', '* * * * *', '--dst-gap', 'both']],
    [['--cron', '* * * * *', '--from', 'yesterday']],
    [['--cron', '* * * * *', '--before', '2026-02-30T00:00:00Z']],
  ])('%j is no way to call it', async (flags) => {
    expect(await refused(...flags)).toMatchObject({ code: 'invalid_request' })
  })

  it.each([
    [['--at', '+'], '/at', 'invalid_schedule'],
    [['--at', '+99999999999d'], '/at', 'invalid_schedule'],
    [['--cron', '* * * * *', '--start', '+x'], '/startAt', 'invalid_schedule'],
    [['--cron', '* * * * *', '--from', '+'], '/from', 'invalid_request'],
  ])('%j, which counts from now and cannot, is refused with a pointer', async (flags, pointer, code) => {
    expect(await refused(...flags)).toEqual({ code, pointers: [pointer] })
  })

  it('refuses whatever garbage comes, or answers it, and never fails', async () => {
    const word = fc.oneof(
      fc.string({ maxLength: 40 }),
      fc.string({ unit: 'grapheme', maxLength: 20 }),
      fc.stringMatching(/^[-*?#LWH0-9,/@ a-z():~]{0,40}$/),
    )
    const dialects = ['unix', 'k8s', 'github', 'quartz', 'eventbridge', 'jenkins', 'systemd', 'rate']
    const flag = fc.oneof(
      fc.tuple(fc.constant('--cron'), word, fc.constant('--dialect'), fc.constantFrom(...dialects)),
      fc.tuple(fc.constantFrom('--cron', '--at', '--rate', '--every'), word),
      fc.tuple(
        fc.constant('--cron'),
        fc.constant('* * * * *'),
        fc.constantFrom('--tz', '--dialect', '--start'),
        word,
      ),
    )
    const property = fc.asyncProperty(flag, async (words) => {
      // `--flag=value` keeps a value that begins with a dash a value.
      const flags = words.flatMap((value, i) => (i % 2 === 0 ? [`${value}=${words[i + 1] ?? ''}`] : []))
      const { code, out } = await run(...flags, '-o', 'json', '--count', '1')
      const { code: name = 'none', errors = [] } = JSON.parse(out) as Partial<Refusal>
      const pointed = errors.length > 0 && errors.every(({ pointer }) => pointer.startsWith('/'))
      expect([
        [0, 'none', false],
        [2, 'invalid_schedule', true],
      ]).toContainEqual([code, name, pointed])
    })
    await fc.assert(property, { numRuns: 400 })
  })
})
