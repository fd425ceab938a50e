// What calendars may cost to look at: what a schedule that is written may use together, and that a dense one
// answers as a plain one does, and that the work of a move is bounded.

import { describe, expect, test } from 'vitest'
import {
  type CalendarDefinition,
  type CompiledCalendar,
  compileCalendar,
} from '../../../packages/server/src/domain/calendar/calendar-definition.ts'
import { tooDear, withCalendars } from '../../../packages/server/src/domain/calendar/calendar-schedule.ts'
import { compiled, cronSpec, instant, zone, zones } from '../schedule/schedule-fixtures.ts'

type Definition = Omit<CalendarDefinition, 'name'>
type Lists = { readonly skipOn?: readonly Definition[]; readonly onlyOn?: readonly Definition[] }
const DAY = 86_400_000

function made(zoneName: string, definitions: readonly Definition[]): CompiledCalendar[] {
  return definitions.map((definition, i) => {
    const result = compileCalendar({ name: `c${i}`, ...definition }, zones, zone(zoneName))
    if (!result.ok) throw new Error(JSON.stringify(result.error))
    return result.value
  })
}

describe('the calendars of a schedule that is written', () => {
  const dear = (count: number): Definition => ({
    windows: Array.from({ length: count }, (_, i) => ({ cron: `${i} 3 * * *`, minutes: 1 })),
  })
  test('may cost so much together; the dearer list is named, and its dearest one', () => {
    const rules = {
      skipOn: made('UTC', [dear(49)]),
      onlyOn: made('UTC', [dear(48)]),
      onExcluded: 'skip' as const,
    }
    expect(tooDear(rules)).toBe(undefined)
    const fault = tooDear({ ...rules, onlyOn: made('UTC', [dear(2), dear(50)]) })
    expect(fault?.pointer).toBe('/onlyOn')
    expect(fault?.message).toContain('cost 104 to look at and a schedule may use 100; c1 alone costs 51')
    expect(tooDear({ ...rules, skipOn: made('UTC', [dear(50), dear(1)]) })?.pointer).toBe('/skipOn')
  })

  test('one that is dense is laid out for a few days at a time, to the same answers', () => {
    const event = (i: number, rule: string): string =>
      ['BEGIN:VEVENT', `DTSTART:2026010${i}T0${i}0000`, 'DURATION:PT40H', rule, 'END:VEVENT'].join('\n')
    const ics = (...events: string[]): Definition => ({ ics: events.join('\n') })
    const dense = Array.from({ length: 9 }, (_, i) =>
      [
        'BEGIN:VEVENT',
        `DTSTART:20200101T${10 + i}0000`,
        'DURATION:PT1M',
        'RRULE:FREQ=DAILY',
        'END:VEVENT',
      ].join('\n'),
    )
    const rule = 'RRULE:FREQ=WEEKLY;BYDAY=MO,TH'
    const [one, many] = made('UTC', [ics(event(1, rule)), ics(event(1, rule), ...dense)])
    if (!one || !many) throw new Error('both were made')
    const ofDense = (timeMs: number): boolean => {
      const at = new Date(timeMs)
      return at.getUTCMinutes() === 0 && at.getUTCHours() >= 10 && at.getUTCHours() < 19
    }
    for (
      let timeMs = instant('2026-01-01T00:00:00Z');
      timeMs < instant('2026-06-01T00:00:00Z');
      timeMs += DAY / 48
    ) {
      expect(many.covers(timeMs) !== null).toBe(one.covers(timeMs) !== null || ofDense(timeMs))
      expect(many.steadyUntil(timeMs)).toBeGreaterThan(timeMs)
    }
    expect([one.effort, many.effort]).toEqual([2, 38])
  })
})

describe('the work of a move is bounded', () => {
  // On each day there is free time, but hardly any at which something would land.
  const windows = (shift: number): Definition => ({
    windows: Array.from({ length: 50 }, (_, i) => ({
      cron: `${((i + shift) % 30) + 20} ${i % 24} * * 1-5`,
      minutes: 10,
    })),
  })
  const ten = Array.from({ length: 10 }, (_, i) => windows(i))
  const weekend: Definition = { weekdays: ['sat', 'sun'] }
  const all: Definition = { ranges: [{ from: '2000-01-01', to: '2100-01-01' }] }

  test.each([
    ['0 * * * *', 'in few of 500 windows', { onlyOn: ten }],
    ['0 * * * *', 'in and out of windows', { skipOn: ten, onlyOn: ten }],
    ['0 * 25 12 *', 'in few of 500 windows', { onlyOn: ten }],
    ['0 9 * * *', 'in few of 500 windows', { onlyOn: ten }],
    ['0 * * * *', 'never', { skipOn: [all] }],
    ['0 9 * * *', 'never', { skipOn: [weekend], onlyOn: [weekend] }],
  ])('%s, %s', (expression, _, lists: Lists) => {
    for (const onExcluded of ['next_business_day', 'previous_business_day'] as const) {
      let effort = 0
      const base = compiled(cronSpec(expression, 'Europe/Berlin'))
      const counted = (definitions: readonly Definition[] = []) =>
        made('Europe/Berlin', definitions).map((calendar) => ({
          ...calendar,
          covers: (instantMs: number) => ((effort += calendar.effort), calendar.covers(instantMs)),
        }))
      const rules = { skipOn: counted(lists.skipOn), onlyOn: counted(lists.onlyOn), onExcluded }
      const result = withCalendars(base, zone('Europe/Berlin'), rules)
      if (!result.ok) throw new Error(JSON.stringify(result.error))
      const schedule = result.value
      const fromMs = instant('2020-01-09T00:00:00Z')
      for (const days of [0, 100, 350, 3_000]) {
        const atMs = fromMs + days * DAY
        for (const look of [
          () => schedule.next(atMs),
          () => schedule.previous(atMs),
          () => schedule.countBetween(fromMs, atMs),
          () => schedule.missedBetween(fromMs, atMs, 10),
        ]) {
          effort = 0
          look()
          expect(effort).toBeLessThan(1_000_000)
        }
      }
    }
  })
})
