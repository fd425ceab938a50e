// iCalendar files as calendars: single days and times, zones, yearly and other rules, exceptions, what is
// refused, and any text at all.

import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { compileCalendar } from '../../../packages/server/src/domain/calendar/calendar-definition.ts'
import { ianaOfWindows, WINDOWS_ZONES } from '../../../packages/server/src/domain/calendar/windows-zones.ts'
import { instant, zone, zones } from '../schedule/schedule-fixtures.ts'

const file = (...events: readonly (readonly string[])[]): string =>
  [
    'BEGIN:VCALENDAR',
    'VERSION:2.0',
    ...events.flatMap((lines) => ['BEGIN:VEVENT', ...lines, 'END:VEVENT']),
    'END:VCALENDAR',
    '',
  ].join('\r\n')

function compile(ics: string): ReturnType<typeof compileCalendar> {
  return compileCalendar({ name: 'ics', ics, zone: 'Europe/Berlin' }, zones, zone('UTC'))
}

function coversDays(ics: string, days: readonly string[]): string[] {
  const result = compile(ics)
  if (!result.ok) throw new Error(JSON.stringify(result.error))
  return days.filter((day) => result.value.covers(instant(`${day}T11:00:00Z`)) !== null)
}

function troubleOf(ics: string): string {
  const result = compile(ics)
  return result.ok ? 'accepted' : (result.error[0]?.message ?? '')
}

describe('events', () => {
  test('whole days, with the end left out; folded lines; names; alarms inside are no events', () => {
    const ics = file([
      'UID:1',
      'DTSTART;VALUE=DATE:20261224',
      'DTEND;VALUE=DATE:20261227',
      'SUMMARY:Christmas\\, and the',
      '  day after',
      'BEGIN:VALARM',
      'DTSTART:19990101T000000Z',
      'END:VALARM',
    ])
    expect(coversDays(ics, ['2026-12-23', '2026-12-24', '2026-12-26', '2026-12-27'])).toEqual([
      '2026-12-24',
      '2026-12-26',
    ])
    const result = compile(ics)
    expect(result.ok && result.value.covers(instant('2026-12-25T11:00:00Z'))).toBe(
      'Christmas, and the day after',
    )
  })

  test('one day without an end, a duration, and a cancelled event', () => {
    expect(coversDays(file(['DTSTART;VALUE=DATE:20260101']), ['2026-01-01', '2026-01-02'])).toEqual([
      '2026-01-01',
    ])
    expect(
      coversDays(file(['DTSTART;VALUE=DATE:20260101', 'DURATION:P2D']), ['2026-01-02', '2026-01-03']),
    ).toEqual(['2026-01-02'])
    const cancelled = file(
      ['DTSTART;VALUE=DATE:20260101', 'STATUS:CANCELLED'],
      ['DTSTART;VALUE=DATE:20260301'],
    )
    expect(coversDays(cancelled, ['2026-01-01', '2026-03-01'])).toEqual(['2026-03-01'])
  })

  test('times in UTC, in a named zone and in the calendar’s own', () => {
    const result = compile(
      file(
        ['DTSTART:20260701T100000Z', 'DTEND:20260701T110000Z', 'SUMMARY:utc'],
        ['DTSTART;TZID=America/New_York:20260702T090000', 'DURATION:PT1H', 'SUMMARY:new york'],
        ['DTSTART:20260703T090000', 'DTEND:20260703T100000', 'SUMMARY:own'],
      ),
    )
    const at = (time: string): string | null => (result.ok ? result.value.covers(instant(time)) : 'refused')
    expect([at('2026-07-01T09:59:59Z'), at('2026-07-01T10:00:00Z'), at('2026-07-01T11:00:00Z')]).toEqual([
      null,
      'utc',
      null,
    ])
    expect([at('2026-07-02T13:00:00Z'), at('2026-07-02T14:00:00Z')]).toEqual(['new york', null])
    expect([at('2026-07-03T07:00:00Z'), at('2026-07-03T09:00:00Z')]).toEqual(['own', null])
  })
})

test('zones by the names that Windows gives them', () => {
  const lines = (name: string) => [`DTSTART;TZID=${name}:20260702T090000`, 'DURATION:PT1H']
  const result = compile(file(lines('"Eastern Standard Time"'), lines('Tokyo Standard Time')))
  const at = (time: string): boolean => result.ok && result.value.covers(instant(time)) !== null
  expect([at('2026-07-02T13:30:00Z'), at('2026-07-02T00:30:00Z'), at('2026-07-02T07:30:00Z')]).toEqual([
    true,
    true,
    false,
  ])
  for (const name of WINDOWS_ZONES)
    expect([name, zones.get(ianaOfWindows(name) ?? '')?.name]).toEqual([name, expect.any(String)])
})

describe('rules', () => {
  const ruled = (rule: string, start = '20200101', ...more: readonly string[]): string =>
    file([`DTSTART;VALUE=DATE:${start}`, `RRULE:${rule}`, ...more])

  test.each([
    ['FREQ=YEARLY', '20201225', ['2020-12-25', '2031-12-25'], ['2019-12-25', '2026-12-24']],
    ['FREQ=YEARLY;BYMONTH=11;BYDAY=4TH', '20201126', ['2026-11-26', '2027-11-25'], ['2026-11-19']],
    ['FREQ=YEARLY;BYMONTH=5;BYDAY=-1MO', '20200525', ['2026-05-25', '2027-05-31'], ['2026-05-18']],
    ['FREQ=YEARLY;INTERVAL=2;BYMONTH=1;BYMONTHDAY=1', '20200101', ['2022-01-01'], ['2021-01-01']],
    ['FREQ=YEARLY;COUNT=3', '20200101', ['2022-01-01'], ['2023-01-01']],
    ['FREQ=YEARLY;UNTIL=20220101', '20200101', ['2022-01-01'], ['2023-01-01']],
    ['FREQ=YEARLY', '20200229', ['2024-02-29'], ['2023-02-28', '2023-03-01']],
    ['FREQ=MONTHLY;BYMONTHDAY=-1', '20200131', ['2026-02-28', '2026-03-31'], ['2026-03-30']],
    ['FREQ=MONTHLY;BYDAY=2TU', '20200114', ['2026-01-13'], ['2026-01-06']],
    ['FREQ=MONTHLY;BYDAY=FR;BYMONTHDAY=13', '20200313', ['2026-02-13'], ['2026-01-13', '2026-02-20']],
    ['FREQ=WEEKLY;BYDAY=SA,SU', '20200104', ['2026-01-03', '2026-01-04'], ['2026-01-05']],
    ['FREQ=WEEKLY;INTERVAL=2', '20260102', ['2026-01-16'], ['2026-01-09']],
    ['FREQ=DAILY;INTERVAL=10', '20260101', ['2026-01-11', '2026-01-21'], ['2026-01-12']],
  ])('%s from %s', (rule, start, inside, outside) => {
    expect(coversDays(ruled(rule, start), [...inside, ...outside])).toEqual(inside)
  })

  test('several days at each start, through the turn of the year', () => {
    const ics = ruled('FREQ=YEARLY', '20201230', 'DTEND;VALUE=DATE:20210103')
    const days = ['2026-12-29', '2026-12-30', '2027-01-02', '2027-01-03']
    expect(coversDays(ics, days)).toEqual(['2026-12-30', '2027-01-02'])
  })

  test('exceptions, extra dates, and an event that was moved', () => {
    const ics = file(
      [
        'UID:a',
        'DTSTART;VALUE=DATE:20200101',
        'RRULE:FREQ=YEARLY',
        'EXDATE;VALUE=DATE:20220101,20230101',
        'RDATE;VALUE=DATE:20220601',
      ],
      ['UID:a', 'RECURRENCE-ID;VALUE=DATE:20240101', 'DTSTART;VALUE=DATE:20240108'],
    )
    const days = [
      '2021-01-01',
      '2022-01-01',
      '2022-06-01',
      '2023-01-01',
      '2024-01-01',
      '2024-01-08',
      '2025-01-01',
    ]
    expect(coversDays(ics, days)).toEqual(['2021-01-01', '2022-06-01', '2024-01-08', '2025-01-01'])
  })
})

describe('what is refused', () => {
  const day = 'DTSTART;VALUE=DATE:20260101'
  test.each([
    ['', 'no VEVENT'],
    [file(['SUMMARY:x']), 'event 1 (x): DTSTART: it is missing'],
    [file(['DTSTART:2026']), 'is no date'],
    [file(['DTSTART;VALUE=DATE:20260230']), 'is no date'],
    [file(['DTSTART:20260101T100000Z']), 'needs an end'],
    [file([day, 'DTEND;VALUE=DATE:20260101']), 'not after DTSTART'],
    [file([day, 'DURATION:-P1D']), 'P1D or PT2H'],
    [
      file(['DTSTART;TZID=Mars/Olympus:20260101T100000', 'DURATION:PT1H']),
      'no time zone "Mars/Olympus": write',
    ],
    [file([day, 'RRULE:FREQ=SECONDLY']), 'FREQ is DAILY'],
    [file([day, 'RRULE:FREQ=YEARLY;BYSETPOS=1']), 'BYSETPOS is not read here'],
    [file([day, 'RRULE:FREQ=YEARLY;BYDAY=1MO']), 'need BYMONTH'],
    [file([day, 'RRULE:FREQ=WEEKLY;BYDAY=1MO']), 'needs MONTHLY or YEARLY'],
    [file([day, 'RRULE:FREQ=WEEKLY;INTERVAL=2;WKST=SU']), 'WKST'],
    [file([day, 'RRULE:FREQ=YEARLY;COUNT=0']), 'COUNT'],
    [file([day, 'RRULE:FREQ=YEARLY;INTERVAL=x']), 'INTERVAL'],
    [file(...Array.from({ length: 5_001 }, () => [day])), 'more than 5000 events'],
    [file(...Array.from({ length: 401 }, () => [day, 'RRULE:FREQ=YEARLY'])), 'more than 400 events repeat'],
    [
      file(...Array.from({ length: 11 }, () => [day, 'RRULE:FREQ=DAILY'])),
      'event 11 (without a summary): RRULE: the events up to here begin more than 4000 times in 400 days',
    ],
    [
      file(...Array.from({ length: 20 }, () => [day, 'RRULE:FREQ=MONTHLY;INTERVAL=1000;COUNT=1000'])),
      'those of all events are too many: write UNTIL',
    ],
    [
      file([day]).replace('END:VEVENT\r\n', ''),
      'line 3: BEGIN:VEVENT has no END:VEVENT: the file is cut short',
    ],
    [file([day]).replace('END:VCALENDAR\r\n', ''), 'line 1: BEGIN:VCALENDAR has no END:VCALENDAR'],
    [
      file([day, 'SUMMARY:folded', ' line']).split('END:VEVENT')[0] ?? '',
      'line 3: BEGIN:VEVENT has no END:VEVENT',
    ],
    [`${file([day])}END:VEVENT`, 'line 7: END:VEVENT has no BEGIN:VEVENT'],
    ['x'.repeat(1_000_001), 'more than 1000000 characters'],
  ])('%.60j', (ics, words) => {
    expect(troubleOf(ics)).toContain(words)
  })

  test('any text is answered with a value', () => {
    const piece = fc.constantFrom(
      'BEGIN:VEVENT',
      'END:VEVENT',
      day,
      'RRULE:FREQ=YEARLY',
      'RRULE:FREQ=DAILY;COUNT=999',
      'EXDATE:',
      'UID:1',
      'DTEND:20270101T000000Z',
      ' folded',
      ';:=',
      'DURATION:P9999D',
      'RECURRENCE-ID:20260101',
      'RDATE:20270101',
    )
    const lines = fc.array(piece, { maxLength: 30 }).map((parts) => parts.join('\n'))
    fc.assert(
      fc.property(fc.oneof(lines, fc.string({ unit: 'binary', maxLength: 500 })), (ics) => {
        const result = compile(ics)
        const covers = result.ok ? result.value.covers(instant('2026-06-01T00:00:00Z')) : null
        expect(covers === null || covers.length > 0).toBe(true)
        expect(result.ok ? '' : result.error[0]?.pointer).toMatch(/^(?:\/ics)?$/)
      }),
      { numRuns: 1_000 },
    )
  })
})
