// The search for times that run: what it passes on the way, against a walk one by one, in both directions;
// and that it ends soon where calendars leave nothing, whatever they are made of.

import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  type CalendarDefinition,
  compileCalendar,
} from '../../../packages/server/src/domain/calendar/calendar-definition.ts'
import { withCalendars } from '../../../packages/server/src/domain/calendar/calendar-schedule.ts'
import { keptTimes } from '../../../packages/server/src/domain/calendar/kept-times.ts'
import type { OnExcluded } from '../../../packages/server/src/domain/calendar/occurrence-exclusion.ts'
import type { CompiledSchedule } from '../../../packages/server/src/domain/schedule/schedule-spec.ts'
import { compiled, cronSpec, instant, iso, zone, zones } from '../schedule/schedule-fixtures.ts'

type Definition = Omit<CalendarDefinition, 'name'>
const FROM = instant('2026-11-30T00:00:00Z')
const HOUR = 3_600_000

function under(
  expression: string,
  skipOn: readonly Definition[],
  onlyOn: readonly Definition[] = [],
  onExcluded: OnExcluded = 'skip',
): CompiledSchedule {
  const compile = (definition: Definition) => {
    const result = compileCalendar({ name: 'c', ...definition }, zones, zone('Europe/Berlin'))
    if (!result.ok) throw new Error(JSON.stringify(result.error))
    return result.value
  }
  const rules = { skipOn: skipOn.map(compile), onlyOn: onlyOn.map(compile), onExcluded }
  const base = compiled(cronSpec(expression, 'Europe/Berlin'))
  const result = withCalendars(base, zone('Europe/Berlin'), rules)
  if (!result.ok) throw new Error(JSON.stringify(result.error))
  return result.value
}

test('those on the way are listed up to a hundred, and counted in all', () => {
  const everySecond = under('* * * * * *', [{ weekdays: ['sat', 'sun'] }])
  const friday = instant('2026-12-04T22:59:58Z')
  const found = keptTimes(everySecond, 'next', friday, 2)
  expect(found.times.map(iso)).toEqual(['2026-12-04T22:59:59Z', '2026-12-06T23:00:00Z'])
  expect([found.excluded.length, found.excludedCount, found.complete]).toEqual([100, 172_800, true])
  const back = keptTimes(everySecond, 'previous', instant('2026-12-06T23:00:01Z'), 2)
  expect(back.times.map(iso)).toEqual(['2026-12-06T23:00:00Z', '2026-12-04T22:59:59Z'])
  expect([back.excluded.length, back.excludedCount, back.complete]).toEqual([100, 172_800, true])
})

test('a time that was moved tells where to', () => {
  const moved = under('0 9 25 * *', [{ weekdays: ['sat', 'sun'] }], [], 'next_business_day')
  const { times, excluded } = keptTimes(moved, 'next', instant('2026-04-01T00:00:00Z'), 1)
  expect(times.map(iso)).toEqual(['2026-04-27T07:00:00Z'])
  expect(excluded).toEqual([
    {
      timeMs: instant('2026-04-25T07:00:00Z'),
      calendar: 'c',
      reason: 'the calendar c excludes it: Saturday',
      movedToMs: instant('2026-04-27T07:00:00Z'),
    },
  ])
})

test('without calendars nothing is looked at twice', () => {
  const plain = compiled(cronSpec('0 9 * * *'))
  expect(keptTimes(plain, 'next', FROM, 2)).toEqual({
    times: [FROM + 9 * HOUR, FROM + 33 * HOUR],
    excluded: [],
    excludedCount: 0,
    complete: true,
    lookedToMs: FROM + 33 * HOUR,
  })
})

test('a walk one by one finds the same', () => {
  const definition = fc.constantFrom<Definition>(
    { weekdays: ['sat', 'sun'] },
    { windows: [{ cron: '0 22 * * *', minutes: 480 }] },
    { windows: [{ cron: '*/7 * * * *', minutes: 3 }] },
    { ranges: [{ from: '2026-12-01T10:00', to: '2026-12-08T03:30' }] },
    { dates: ['2026-12-02', '2026-12-03'], zone: 'Asia/Tokyo' },
    { ranges: [{ from: '2026-12-02', to: '2027-01-10' }] },
  )
  const expression = fc.constantFrom('*/10 * * * *', '*/2 * * * *', '30 */5 * * *', '0 9 * * *')
  const input = fc.record({
    expression,
    skipOn: fc.array(definition, { minLength: 1, maxLength: 3 }),
    hours: fc.nat(24 * 14),
    direction: fc.constantFrom<'next' | 'previous'>('next', 'previous'),
    limit: fc.integer({ min: 1, max: 40 }),
  })
  fc.assert(
    fc.property(input, ({ expression: text, skipOn, hours, direction, limit }) => {
      const schedule = under(text, skipOn)
      const fromMs = FROM + hours * HOUR
      const found = keptTimes(schedule, direction, fromMs, limit)
      const times: number[] = []
      let excludedCount = 0
      let timeMs = schedule[direction](fromMs)
      // Some of these calendars leave nothing at all; then it ends where the search ended.
      const endMs = found.complete ? Infinity : Math.abs(found.lookedToMs - fromMs)
      while (timeMs !== null && times.length < limit && Math.abs(timeMs - fromMs) <= endMs) {
        if (schedule.exclusionOf?.(timeMs) === null) times.push(timeMs)
        else excludedCount++
        timeMs = schedule[direction](timeMs)
      }
      expect([found.times, found.excludedCount]).toEqual([times, excludedCount])
    }),
    { numRuns: 150 },
  )
})

const events = (count: number, lines: (i: number) => readonly string[]): Definition => {
  const all = Array.from({ length: count }, (_, i) => ['BEGIN:VEVENT', ...lines(i), 'END:VEVENT'])
  return { ics: ['BEGIN:VCALENDAR', ...all.flat(), 'END:VCALENDAR'].join('\n') }
}
const dayOf = (i: number): string =>
  new Date(Date.UTC(2020, 0, 1) + i * 86_400_000).toISOString().slice(0, 10).replaceAll('-', '')
const everyDay: Definition = { weekdays: ['business_days', 'sat', 'sun'] }
const minutes = Array.from({ length: 50 }, (_, i) => ({ cron: `${i} * * * *`, minutes: 11 }))

test('of dear calendars fewer times that run are looked for', () => {
  const dear = Array.from({ length: 10 }, () => ({
    windows: minutes.map((window) => ({ ...window, minutes: 1 })),
  }))
  const schedule = under('55 * * * *', dear, [])
  const mostKept = Math.ceil(10_000 / 510)
  expect(schedule.search).toMatchObject({ mostKept, mostLooks: 20 })
  const found = keptTimes(schedule, 'next', FROM, 100)
  expect([found.times.length, found.complete]).toEqual([mostKept, false])
  expect(keptTimes(schedule, 'next', FROM, mostKept).complete).toBe(true)
})

test('under dear calendars the next one that runs is found behind many that do not', () => {
  const early = events(9, (i) => [`DTSTART:20200101T0${i}0000`, 'DURATION:PT1M', 'RRULE:FREQ=DAILY'])
  const schedule = under('* * * * *', [], [early, early])
  const found = keptTimes(schedule, 'next', Date.UTC(2026, 5, 1, 12), 1)
  expect(found.times).toEqual([Date.UTC(2026, 5, 1, 22)])
  expect([found.complete, found.excludedCount]).toEqual([true, 599])
})

describe('where nothing is left the search ends', () => {
  test.each<[string, Definition[], Definition[], OnExcluded?]>([
    ['* * * * * *', [everyDay], []],
    ['0 9 * * *', [everyDay], [], 'next_business_day'],
    ['0 * * * *', [everyDay], [], 'previous_business_day'],
    ['* * * * * *', [], [{ dates: ['2020-01-01'] }]],
    [
      '0 9 * * *',
      [],
      [{ yearly: ['02-29'], zone: 'Asia/Tokyo' }, { dates: ['2020-01-01'] }, everyDay],
      'skip',
    ],
    ['* * * * *', [{ windows: minutes }], []],
    ['* * * * *', [events(400, (i) => [`DTSTART;VALUE=DATE:${dayOf(i)}`, 'RRULE:FREQ=YEARLY'])], []],
    ['0 12 * * *', [], [events(9, () => ['DTSTART:20200101T010000', 'DURATION:PT1H', 'RRULE:FREQ=DAILY'])]],
    ['0 12 * * *', [], [events(5_000, (i) => [`DTSTART;VALUE=DATE:${dayOf(i - 6_000)}`])]],
  ])('%s, case %#', (expression, skipOn, onlyOn, onExcluded) => {
    let looks = 0
    const schedule = under(expression, skipOn, onlyOn, onExcluded)
    const counted = {
      ...schedule,
      exclusionOf: (timeMs: number) => (looks++, schedule.exclusionOf?.(timeMs) ?? null),
    }
    const { times, excludedCount } = keptTimes(counted, 'next', FROM, 1)
    expect(looks).toBeLessThanOrEqual(5_000)
    expect(onlyOn.includes(everyDay) ? times.length : times).toEqual(onlyOn.includes(everyDay) ? 1 : [])
    expect(excludedCount > 0).toBe(!onlyOn.includes(everyDay))
  })
})
