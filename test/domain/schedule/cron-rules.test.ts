// The rules of the unix dialect and of daylight saving by example, beyond the public case file.

import { describe, expect, test } from 'vitest'
import { compiled, cronSpec, nextTimes } from './schedule-fixtures.ts'

function times(expression: string, zoneName: string, from: string, count: number): string[] {
  return nextTimes(compiled(cronSpec(expression, zoneName)), from, count)
}

describe('fields', () => {
  test('a step restarts in each field', () => {
    expect(times('*/25 * * * *', 'UTC', '2026-01-01T00:49:00Z', 3)).toEqual([
      '2026-01-01T00:50:00Z',
      '2026-01-01T01:00:00Z',
      '2026-01-01T01:25:00Z',
    ])
  })

  test('weekday 7 is Sunday in ranges and steps too', () => {
    const sundays = ['2026-01-04T00:00:00Z', '2026-01-11T00:00:00Z']
    for (const weekday of ['0', '7', 'sun', '7-7', '*/7', '7,0', 'SUN,7']) {
      expect(times(`0 0 * * ${weekday}`, 'UTC', '2026-01-01T00:00:00Z', 2)).toEqual(sundays)
    }
    expect(times('0 0 * * 6-7', 'UTC', '2026-01-01T00:00:00Z', 3)).toEqual(
      times('0 0 * * sat,sun', 'UTC', '2026-01-01T00:00:00Z', 3),
    )
    expect(times('0 0 * * 7-2', 'UTC', '2026-01-01T00:00:00Z', 6)).toEqual(
      times('0 0 * * 0-2', 'UTC', '2026-01-01T00:00:00Z', 6),
    )
  })

  test('a star in a list frees the field; a step of one is a star; a whole range is not', () => {
    const mondays = times('0 0 * * MON', 'UTC', '2026-01-01T00:00:00Z', 3)
    expect(times('0 0 *,5 * MON', 'UTC', '2026-01-01T00:00:00Z', 3)).toEqual(mondays)
    expect(times('0 0 */1 * MON', 'UTC', '2026-01-01T00:00:00Z', 3)).toEqual(mondays)
    expect(times('0 0 1-31 * MON', 'UTC', '2026-01-01T00:00:00Z', 2)).toEqual([
      '2026-01-02T00:00:00Z',
      '2026-01-03T00:00:00Z',
    ])
  })

  test('several special weekdays may stand in a list', () => {
    expect(times('0 9 * * MON#1,MON#3', 'UTC', '2026-01-01T00:00:00Z', 3)).toEqual([
      '2026-01-05T09:00:00Z',
      '2026-01-19T09:00:00Z',
      '2026-02-02T09:00:00Z',
    ])
  })

  test('tabs and blanks separate fields alike', () => {
    expect(times(' \t5\t4  * *\t* ', 'UTC', '2026-01-01T00:00:00Z', 1)).toEqual(['2026-01-01T04:05:00Z'])
  })

  test('a time with fractions of a second counts from the next whole one', () => {
    expect(times('* * * * * *', 'UTC', '2026-01-01T00:00:00.001Z', 1)).toEqual(['2026-01-01T00:00:01Z'])
    expect(times('* * * * * *', 'UTC', '2025-12-31T23:59:59.999Z', 1)).toEqual(['2026-01-01T00:00:00Z'])
  })

  test('29 February on a Monday is found across 2100, forty years on', () => {
    // AND of the two day fields cannot be written in unix; five Mondays in February mean the same.
    expect(times('0 0 * 2 MON#5', 'UTC', '2072-03-01T00:00:00Z', 2)).toEqual([
      '2112-02-29T00:00:00Z',
      '2140-02-29T00:00:00Z',
    ])
  })
})

describe('daylight saving', () => {
  test('an interval of seconds runs through both passes of a repeated hour, and never in a gap', () => {
    const schedule = compiled(cronSpec('*/30 * * * *', 'Europe/Berlin'))
    expect(nextTimes(schedule, '2026-10-25T00:00:00Z', 4)).toEqual([
      '2026-10-25T00:30:00Z',
      '2026-10-25T01:00:00Z',
      '2026-10-25T01:30:00Z',
      '2026-10-25T02:00:00Z',
    ])
    expect(nextTimes(schedule, '2026-03-29T00:30:00Z', 2)).toEqual([
      '2026-03-29T01:00:00Z',
      '2026-03-29T01:30:00Z',
    ])
  })

  test('a list of times of day is fixed: once in the repeated hour, once after the gap', () => {
    expect(times('0,30 2,3 * * *', 'Europe/Berlin', '2026-10-24T12:00:00Z', 5)).toEqual([
      '2026-10-25T00:00:00Z',
      '2026-10-25T00:30:00Z',
      '2026-10-25T02:00:00Z',
      '2026-10-25T02:30:00Z',
      '2026-10-26T01:00:00Z',
    ])
    expect(times('0,30 2,3 * * *', 'Europe/Berlin', '2026-03-28T12:00:00Z', 3)).toEqual([
      '2026-03-29T01:00:00Z',
      '2026-03-29T01:30:00Z',
      '2026-03-30T00:00:00Z',
    ])
  })

  test('asked inside the second pass, a fixed time waits for the next day', () => {
    expect(times('30 2 * * *', 'Europe/Berlin', '2026-10-25T01:05:00Z', 1)).toEqual(['2026-10-26T01:30:00Z'])
  })

  test('a gap that ends at midnight keeps the run of the evening before (Nuuk)', () => {
    expect(times('30 23 * * 6', 'America/Nuuk', '2026-03-28T12:00:00Z', 2)).toEqual([
      '2026-03-29T01:00:00Z',
      '2026-04-05T00:30:00Z',
    ])
  })

  test('two hours forward at once (Troll), half an hour back (Lord Howe)', () => {
    expect(times('30 1 * * *', 'Antarctica/Troll', '2026-03-28T12:00:00Z', 2)).toEqual([
      '2026-03-29T01:00:00Z',
      '2026-03-29T23:30:00Z',
    ])
    expect(times('*/15 1 * * *', 'Australia/Lord_Howe', '2026-04-04T13:50:00Z', 7)).toEqual([
      '2026-04-04T14:00:00Z',
      '2026-04-04T14:15:00Z',
      '2026-04-04T14:30:00Z',
      '2026-04-04T14:45:00Z',
      '2026-04-04T15:00:00Z',
      '2026-04-04T15:15:00Z',
      '2026-04-05T14:30:00Z',
    ])
  })

  test('a day that never was (Samoa, 30 December 2011) is not made up for', () => {
    expect(times('0 9 30 12 *', 'Pacific/Apia', '2011-12-01T00:00:00Z', 1)).toEqual(['2012-12-29T19:00:00Z'])
  })

  test('the rules hold in the far future and repeat with the calendar', () => {
    expect(times('30 2 * * *', 'Europe/Berlin', '2150-03-28T12:00:00Z', 2)).toEqual([
      '2150-03-29T01:00:00Z',
      '2150-03-30T00:30:00Z',
    ])
    const soon = times('30 2 29 2 *', 'America/New_York', '2097-01-01T00:00:00Z', 3)
    const late = times('30 2 29 2 *', 'America/New_York', '3297-01-01T00:00:00Z', 3)
    expect(late.map((time) => String(Number(time.slice(0, 4)) - 1200) + time.slice(4))).toEqual(soon)
  })
})
