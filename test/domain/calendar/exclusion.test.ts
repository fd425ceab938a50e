// Calendars that leave out or move planned times: each form of a calendar, the decision and its reason, and
// what is refused.

import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  type CalendarDefinition,
  compileCalendar,
  type CompiledCalendar,
} from '../../../packages/server/src/domain/calendar/calendar-definition.ts'
import {
  exclusionOf,
  type ExclusionRules,
  MAX_DAYS_MOVED,
  movedTo,
  type OnExcluded,
} from '../../../packages/server/src/domain/calendar/occurrence-exclusion.ts'
import { instant, iso, zone, zones } from '../schedule/schedule-fixtures.ts'

const BERLIN = zone('Europe/Berlin')
const wallIn = (rules: typeof BERLIN) => (timeMs: number) => timeMs + rules.offsetAt(timeMs)

function calendar(definition: Omit<CalendarDefinition, 'name'>, name = 'holidays'): CompiledCalendar {
  const result = compileCalendar({ name, ...definition }, zones, BERLIN)
  if (!result.ok) throw new Error(JSON.stringify(result.error))
  return result.value
}

function pointersOf(definition: Omit<CalendarDefinition, 'name'>): string[] {
  const result = compileCalendar({ name: 'x', ...definition }, zones, BERLIN)
  return result.ok ? [] : result.error.map((fault) => fault.pointer)
}

/** Which of the instants are covered. */
function covered(definition: Omit<CalendarDefinition, 'name'>, times: readonly string[]): string[] {
  const compiled = calendar(definition)
  return times.filter((time) => compiled.covers(instant(time)) !== null)
}

describe('what a calendar covers', () => {
  test('dates are whole days of its zone', () => {
    const times = [
      '2026-12-24T22:59:59Z',
      '2026-12-24T23:00:00Z',
      '2026-12-25T22:59:59Z',
      '2026-12-25T23:00:00Z',
    ]
    expect(covered({ dates: ['2026-12-25'] }, times)).toEqual(times.slice(1, 3))
    expect(covered({ dates: ['2026-12-25'], zone: 'UTC' }, times)).toEqual(times.slice(2))
  })

  test('ranges of dates include both ends, ranges of times leave out the end', () => {
    const days = { zone: 'UTC', ranges: [{ from: '2026-12-24', to: '2026-12-26' }] }
    expect(
      covered(days, [
        '2026-12-23T23:59:59Z',
        '2026-12-24T00:00:00Z',
        '2026-12-26T23:59:59Z',
        '2026-12-27T00:00:00Z',
      ]),
    ).toEqual(['2026-12-24T00:00:00Z', '2026-12-26T23:59:59Z'])
    const hours = { zone: 'UTC', ranges: [{ from: '2026-12-24T12:00', to: '2026-12-24T18:00:00' }] }
    expect(covered(hours, ['2026-12-24T11:59:59Z', '2026-12-24T12:00:00Z', '2026-12-24T18:00:00Z'])).toEqual([
      '2026-12-24T12:00:00Z',
    ])
    const years = { zone: 'UTC', ranges: [{ from: '2020-01-01', to: '2029-12-31' }] }
    expect(covered(years, ['2019-12-31T12:00:00Z', '2025-06-01T12:00:00Z', '2030-01-01T12:00:00Z'])).toEqual([
      '2025-06-01T12:00:00Z',
    ])
  })

  test('yearly dates and weekdays', () => {
    const yearly = { zone: 'UTC', yearly: ['12-25', '02-29'] }
    expect(
      covered(yearly, [
        '2026-12-25T01:00:00Z',
        '2031-12-25T01:00:00Z',
        '2028-02-29T01:00:00Z',
        '2027-03-01T01:00:00Z',
      ]),
    ).toHaveLength(3)
    const week = [
      '2026-01-02T12:00:00Z',
      '2026-01-03T12:00:00Z',
      '2026-01-04T12:00:00Z',
      '2026-01-05T12:00:00Z',
    ]
    expect(covered({ weekdays: ['sat', 'Sunday'] }, week)).toEqual(week.slice(1, 3))
    expect(covered({ weekdays: ['business_days'] }, week)).toEqual([week[0], week[3]])
  })

  test('windows last from each time of a cron expression, through midnight and a change of clock', () => {
    const nights = { windows: [{ cron: '0 22 * * *', minutes: 480 }] }
    expect(
      covered(nights, [
        '2026-03-28T20:59:59Z',
        '2026-03-28T21:00:00Z',
        '2026-03-29T04:59:59Z',
        '2026-03-29T05:00:00Z',
      ]),
    ).toEqual(['2026-03-28T21:00:00Z', '2026-03-29T04:59:59Z'])
  })

  test('the reason names the part that covers', () => {
    expect(calendar({ dates: ['2026-12-25'] }).covers(instant('2026-12-25T12:00:00Z'))).toBe('2026-12-25')
    expect(calendar({ yearly: ['12-25'] }).covers(instant('2026-12-25T12:00:00Z'))).toBe('every 12-25')
    expect(calendar({ weekdays: ['sun'] }).covers(instant('2026-01-04T12:00:00Z'))).toBe('Sunday')
  })

  test.each<[Omit<CalendarDefinition, 'name'>, readonly string[]]>([
    [{}, ['']],
    [{ dates: ['2026-02-30', '2026-01-01', 'x'] }, ['/dates/0', '/dates/2']],
    [{ dates: ['2026-01-01T10:00'] }, ['/dates/0']],
    [{ ranges: [{ from: '2026-01-02', to: '2026-01-01' }] }, ['/ranges/0/to']],
    [{ ranges: [{ from: 'x', to: '2026-01-01' }] }, ['/ranges/0/from']],
    [{ yearly: ['13-01', '02-30', '1-1'] }, ['/yearly/0', '/yearly/1', '/yearly/2']],
    [{ weekdays: ['noday'] }, ['/weekdays/0']],
    [{ windows: [{ cron: '61 * * * *', minutes: 5 }] }, ['/windows/0/cron/minute']],
    [{ windows: [{ cron: '0 * * * *', minutes: 0 }] }, ['/windows/0/minutes']],
    [{ zone: 'Mars/Olympus', dates: ['2026-01-01'] }, ['/zone']],
    [{ dates: Array.from({ length: 5_001 }, () => '2026-01-01') }, ['/dates']],
    [{ ics: 'nothing' }, ['/ics']],
  ])('refuses %j', (definition, pointers) => {
    expect(pointersOf(definition)).toEqual(pointers)
  })
})

describe('what becomes of a planned time', () => {
  const christmas = calendar({ yearly: ['12-24', '12-25', '12-26'], weekdays: ['sat', 'sun'] })
  const business = calendar({ weekdays: ['business_days'] }, 'business')
  const rulesOf = (
    onExcluded: OnExcluded,
    skipOn: readonly CompiledCalendar[] = [christmas],
    onlyOn: readonly CompiledCalendar[] = [],
  ): ExclusionRules => ({ skipOn, onlyOn, onExcluded })
  const moved = (time: string, rules: ExclusionRules, mostDays = MAX_DAYS_MOVED): string | null => {
    const toMs = movedTo(instant(time), { zone: BERLIN, rules, mostDays, wallTimeOf: wallIn(BERLIN) })
    return toMs === null ? null : iso(toMs)
  }

  test('a free time runs', () => {
    expect(exclusionOf(instant('2026-12-23T08:00:00Z'), rulesOf('skip'))).toBe(null)
  })

  test('an excluded time has the calendar and the reason', () => {
    expect(exclusionOf(instant('2026-12-24T08:00:00Z'), rulesOf('skip'))).toEqual({
      by: 'skipOn',
      calendar: 'holidays',
      reason: 'the calendar holidays excludes it: every 12-24',
    })
  })

  test('it moves to the next or the previous free business day, at the same time of day', () => {
    // 24 December 2026 is a Thursday; Friday, Saturday and Sunday are excluded as well.
    expect(moved('2026-12-24T08:00:00Z', rulesOf('next_business_day'))).toBe('2026-12-28T08:00:00Z')
    expect(moved('2026-12-26T08:00:00Z', rulesOf('previous_business_day'))).toBe('2026-12-23T08:00:00Z')
    // 28 March 2026 is a Saturday, and on Sunday the clock changes: 09:00 stays 09:00.
    expect(moved('2026-03-28T08:00:00Z', rulesOf('next_business_day'))).toBe('2026-03-30T07:00:00Z')
  })

  test('onlyOn keeps what some calendar covers, and skipOn still applies', () => {
    const only = rulesOf('skip', [], [business])
    expect(exclusionOf(instant('2026-01-03T08:00:00Z'), only)).toEqual({
      by: 'onlyOn',
      calendar: 'business',
      reason: 'it lies outside of business',
    })
    expect(exclusionOf(instant('2026-01-05T08:00:00Z'), only)).toBe(null)
    const both = rulesOf('next_business_day', [christmas], [business])
    expect(exclusionOf(instant('2026-12-25T08:00:00Z'), both)).toMatchObject({ by: 'skipOn' })
    expect(moved('2026-12-25T08:00:00Z', both)).toBe('2026-12-28T08:00:00Z')
  })

  test('it stays where no business day is free within so many days', () => {
    const always = calendar({ ranges: [{ from: '2020-01-01', to: '2040-12-31' }] }, 'freeze')
    expect(moved('2026-01-05T08:00:00Z', rulesOf('next_business_day', [always]))).toBe(null)
    expect(moved('2026-12-24T08:00:00Z', rulesOf('next_business_day'), 3)).toBe(null)
    expect(moved('2026-12-24T08:00:00Z', rulesOf('next_business_day'), 4)).toBe('2026-12-28T08:00:00Z')
  })

  test('what is moved lands on a free business day at the same wall time, beyond its own day', () => {
    const input = fc.record({
      dates: fc.array(fc.integer({ min: 0, max: 400 }), { maxLength: 60 }),
      at: fc.integer({ min: 0, max: 400 * 1_440 }),
      forwards: fc.boolean(),
    })
    const start = instant('2026-01-01T00:00:00Z')
    fc.assert(
      fc.property(input, ({ dates, at, forwards }) => {
        const listed = dates.map((each) => iso(start + each * 86_400_000).slice(0, 10))
        const skip = calendar({ dates: [...listed, '2000-01-01'], weekdays: ['sat', 'sun'], zone: 'UTC' })
        const rules = rulesOf(forwards ? 'next_business_day' : 'previous_business_day', [skip])
        const nominalMs = start + at * 60_000
        expect(exclusionOf(nominalMs, rules) === null).toBe(skip.covers(nominalMs) === null)
        const toMs = movedTo(nominalMs, {
          zone: zone('UTC'),
          rules,
          mostDays: MAX_DAYS_MOVED,
          wallTimeOf: wallIn(zone('UTC')),
        })
        if (toMs === null) return
        expect(skip.covers(toMs)).toBe(null)
        expect(Math.abs(toMs - nominalMs) % 86_400_000).toBe(0)
        expect(toMs > nominalMs).toBe(forwards)
        expect([1, 2, 3, 4, 5]).toContain(new Date(toMs).getUTCDay())
      }),
      { numRuns: 500 },
    )
  })
})
