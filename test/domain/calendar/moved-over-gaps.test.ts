// Times that the clock leaps over, under calendars that move them: they move as the time they stand for, and
// so run once. Against a slow reading, also at other changes of the clock: calendar-schedule.test.ts.

import { describe, expect, test } from 'vitest'
import {
  compile,
  compileCalendar,
  type OnExcluded,
  type Schedule,
  type ScheduleSpec,
} from '../../../packages/server/src/schedule.ts'
import { cronSpec, instant, iso, zones } from '../schedule/schedule-fixtures.ts'

function outsideWeekends(spec: ScheduleSpec, onExcluded: OnExcluded): Schedule {
  const weekend = compileCalendar({ weekdays: ['sat', 'sun'] }, { zoneName: 'Europe/Berlin', zones })
  const plain = compile(spec, { zones })
  if (!weekend.ok || !plain.ok) throw new Error(JSON.stringify([weekend, plain]))
  const found = plain.value.under({ skipOn: [weekend.value], onExcluded })
  if (!found.ok) throw new Error(JSON.stringify(found.error))
  return found.value
}

// On Sunday 29 March 2026 the clock leaps from 02:00 to 03:00.
describe('what the clock leaps over', () => {
  test.each([
    ['30 2 * * *', 'next_business_day', '2026-03-27T12:00Z', ['2026-03-30T00:30Z', '2026-03-31T00:30Z']],
    ['30 2 * * *', 'previous_business_day', '2026-03-27T00:00Z', ['2026-03-27T01:30Z', '2026-03-30T00:30Z']],
    ['30 2 29 3 *', 'next_business_day', '2026-03-27T12:00Z', ['2026-03-30T00:30Z']],
    ['30 2 29 3 *', 'previous_business_day', '2026-03-26T12:00Z', ['2026-03-27T01:30Z']],
    // 03:00 that is planned itself stays 03:00
    ['0,30 2,3 * * 0', 'next_business_day', '2026-03-28T12:00Z', ['2026-03-30T01:00Z', '2026-03-30T01:30Z']],
  ] as const)('%s, %s', (expression, onExcluded, from, times) => {
    const schedule = outsideWeekends(cronSpec(expression, 'Europe/Berlin'), onExcluded)
    const running = schedule.runningAfter(instant(from), times.length).times
    expect(running.map((timeMs) => iso(timeMs).replace(':00Z', 'Z'))).toEqual(times)
  })

  test('a single time moves the same', () => {
    const at: ScheduleSpec = { kind: 'at', at: '2026-03-29T02:30:00', zone: 'Europe/Berlin' }
    const { times } = outsideWeekends(at, 'next_business_day').runningAfter(
      instant('2026-01-01T00:00:00Z'),
      3,
    )
    expect(times.map(iso)).toEqual(['2026-03-30T00:30:00Z'])
  })
})
