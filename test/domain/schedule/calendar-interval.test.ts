// Calendar intervals: what is read, when it fires around anchors and changes of the clock, what is refused.

import { describe, expect, test } from 'vitest'
import { compiled, faultsOf, instant, nextTimes } from './schedule-fixtures.ts'

function times(every: string, anchor: string, from: string, count: number, zone = 'UTC'): string[] {
  return nextTimes(compiled({ kind: 'calendar', every, anchor, zone }), from, count)
}

const day = (text: string): string => `${text}T00:00:00Z`

describe('when it fires', () => {
  test('every other Friday keeps its hour through the change of the clock', () => {
    expect(
      times('every 2 weeks on fri at 09:00', '2026-03-13', '2026-03-01T00:00:00Z', 3, 'Europe/Berlin'),
    ).toEqual(['2026-03-13T08:00:00Z', '2026-03-27T08:00:00Z', '2026-04-10T07:00:00Z'])
  })

  test('weeks begin on Monday: both days of an active week, none before the anchor', () => {
    expect(times('every 2 weeks on sun, wed and mon', '2026-01-07', '2025-01-01T00:00:00Z', 5)).toEqual(
      ['2026-01-07', '2026-01-11', '2026-01-19', '2026-01-21', '2026-01-25'].map(day),
    )
  })

  test('the last business day of every third month', () => {
    expect(times('every 3 months on the last business day', '2026-01-15', '2026-01-01T00:00:00Z', 5)).toEqual(
      ['2026-01-30', '2026-04-30', '2026-07-31', '2026-10-30', '2027-01-29'].map(day),
    )
  })

  test('every ten days from an anchor long ago, and from one far ahead', () => {
    expect(times('every 10 days at 06:30', '2000-01-01', '2026-01-01T00:00:00Z', 2)).toEqual([
      '2026-01-04T06:30:00Z',
      '2026-01-14T06:30:00Z',
    ])
    expect(times('every 10 days', '2190-12-31', '2026-01-01T00:00:00Z', 2)).toEqual(
      ['2190-12-31', '2191-01-10'].map(day),
    )
  })

  test.each([
    ['every month on the 31st', ['2026-01-31', '2026-03-31', '2026-05-31']],
    ['Every Month On day 15', ['2026-01-15', '2026-02-15', '2026-03-15']],
    ['every month on the 2nd to last day', ['2026-01-30', '2026-02-27', '2026-03-30']],
    ['every month on the first business day', ['2026-01-01', '2026-02-02', '2026-03-02']],
    ['every month on the 3rd last business day', ['2026-01-28', '2026-02-25', '2026-03-27']],
    ['every month on the second tuesday and the last fri', ['2026-01-13', '2026-01-30', '2026-02-10']],
    ['every 2 months on the 1st', ['2026-01-01', '2026-03-01', '2026-05-01']],
    ['every year on feb 29', ['2028-02-29', '2032-02-29']],
    ['every 2 years on the last monday of may', ['2026-05-25', '2028-05-29']],
    ['every year on the 1st and 15th of march', ['2026-03-01', '2026-03-15', '2027-03-01']],
    ['every weekday', ['2026-01-01', '2026-01-02', '2026-01-05']],
    ['every business day', ['2026-01-01', '2026-01-02', '2026-01-05']],
    ['every other day', ['2026-01-01', '2026-01-03', '2026-01-05']],
    ['every friday', ['2026-01-02', '2026-01-09']],
    ['every week', ['2026-01-01', '2026-01-08']],
    ['every month', ['2026-01-01', '2026-02-01']],
    ['every year', ['2026-01-01', '2027-01-01']],
  ])('%s', (every, days) => {
    expect(times(every, '2026-01-01', '2025-12-01T00:00:00Z', days.length)).toEqual(days.map(day))
  })

  test('several times a day come in their order', () => {
    expect(times('every day at 17:00, 8:30 and 08:30:15', '2026-01-01', '2026-01-01T00:00:00Z', 4)).toEqual([
      '2026-01-01T08:30:00Z',
      '2026-01-01T08:30:15Z',
      '2026-01-01T17:00:00Z',
      '2026-01-02T08:30:00Z',
    ])
  })

  test('the start bound is the anchor where none is given', () => {
    const schedule = compiled(
      { kind: 'calendar', every: 'every 3 days at 12:00', zone: 'Asia/Kolkata' },
      { startAtMs: instant('2026-01-01T20:00:00Z') },
    )
    // In Kolkata it is the 2nd already.
    expect(nextTimes(schedule, '2026-01-01T00:00:00Z', 2)).toEqual([
      '2026-01-02T06:30:00Z',
      '2026-01-05T06:30:00Z',
    ])
  })
})

describe('what is refused', () => {
  test.each([
    ['', 'begins with "every"'],
    ['2 weeks', 'begins with "every"'],
    ['every', 'write day, week, month or year'],
    ['every 0 days', 'write 1 to 3660'],
    ['every 5000 days', 'write 1 to 3660'],
    ['every 2 fortnights', '"fortnights" at column 9'],
    ['every 2 weeks on noday', '"noday" at column 18'],
    ['every 3 days on monday', 'has no "on"'],
    ['every friday on monday', 'named already'],
    ['every 2 business days', 'not counted'],
    ['every month on the 32nd', 'write 1st to 31st'],
    ['every month on the 6th friday', '1st to the 5th'],
    ['every month on the 24th business day', 'write 1st to 23rd'],
    ['every year on the 1st', 'write "of" and the month'],
    ['every year on feb 30', 'never fires'],
    ['every day at 25:00', 'no time of day'],
    ['every day at noon', '"noon" at column 14'],
    ['every day at 09:00 please', '"please" at column 20 is not expected'],
    [
      `every day at ${Array.from({ length: 25 }, (_, i) => `00:${String(i).padStart(2, '0')}`).join(',')}`,
      'at most 24',
    ],
    ['every day '.repeat(40), 'at most 256'],
  ])('%s', (every, words) => {
    const faults = faultsOf({ kind: 'calendar', every, anchor: '2026-01-01' })
    expect(faults.map((fault) => fault.pointer)).toEqual(['/every'])
    expect(faults[0]?.message).toContain(words)
  })

  test('without an anchor the day has to be said, and an anchor is a date', () => {
    expect(faultsOf({ kind: 'calendar', every: 'every 2 weeks' })[0]?.message).toContain('give an anchor')
    for (const anchor of ['tomorrow', '2026-02-30', '1969-01-01', '2026-13-01']) {
      expect(faultsOf({ kind: 'calendar', every: 'every 2 weeks', anchor })[0]?.pointer).toBe('/anchor')
    }
  })
})
