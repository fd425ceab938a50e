// The words of schedules: descriptions for every kind and dialect, and the warnings about what people
// misread.

import { describe, expect, test } from 'vitest'
import { describeSchedule } from '../../../packages/server/src/domain/schedule/describe-schedule.ts'
import type { ScheduleSpec } from '../../../packages/server/src/domain/schedule/schedule-spec.ts'
import { warningsOf } from '../../../packages/server/src/domain/schedule/schedule-warnings.ts'
import { compiled, instant } from './schedule-fixtures.ts'

const NOW = instant('2026-01-10T00:00:00Z')
const unix = (expression: string, zone = 'UTC'): ScheduleSpec => ({
  kind: 'cron',
  dialect: 'unix',
  expression,
  zone,
})

describe('descriptions', () => {
  test.each([
    ['* * * * *', 'Every minute'],
    ['*/5 * * * *', 'Every 5 minutes'],
    ['0,30 * * * *', 'Every 30 minutes'],
    ['*/7 * * * *', 'Every 7 minutes from minute 0 to 56 of every hour'],
    ['5/15 * * * *', 'Every 15 minutes, beginning at minute 5'],
    ['1-10 * * * *', 'Every minute from minute 1 to 10 of every hour'],
    ['0 * * * *', 'Every hour, on the hour'],
    ['15 * * * *', 'At minute 15 of every hour'],
    ['3,7,40 * * * *', 'At minutes 3, 7 and 40 of every hour'],
    ['0 */2 * * *', 'At minute 0 of every 2nd hour'],
    ['* 9 * * *', 'Every minute from 09:00 to 09:59'],
    ['15 9-17 * * *', 'At minute 15 from 09:00 to 17:59'],
    ['*/10 22-2 * * *', 'Every 10 minutes from 22:00 to 02:59'],
    ['30 2 * * *', 'At 02:30 every day'],
    ['0 9,17 * * *', 'At 09:00 and 17:00 every day'],
    ['0 9 * * 1-5', 'At 09:00 from Monday to Friday'],
    ['0 9 * * 5-1', 'At 09:00 from Friday to Monday'],
    ['0 12 * 6-8 sat,sun', 'At 12:00 on Saturday and Sunday from June to August'],
    ['0 0 13 * 5', 'At 00:00 on the 13th of the month, and also on Friday'],
    ['0 0 1-7 * MON', 'At 00:00 on the days from the 1st to the 7th of the month, and also on Monday'],
    ['0 0 */3 * *', 'At 00:00 on every 3rd day from the 1st to the 31st of the month'],
    ['0 0 1,15 * *', 'At 00:00 on the 1st and the 15th of the month'],
    ['0 0 29 2 *', 'At 00:00 on the 29th of February'],
    ['0 0 1 1,4,7,10 *', 'At 00:00 on the 1st of January, April, July and October'],
    ['0 0 L * *', 'At 00:00 on the last day of the month'],
    ['0 0 L-3 * *', 'At 00:00 on the 4th to last day of the month'],
    ['0 0 LW * *', 'At 00:00 on the last business day of the month'],
    ['0 9 15W * *', 'At 09:00 on the business day nearest to the 15th of the month'],
    ['0 0 * * 5L', 'At 00:00 on the last Friday of the month'],
    ['0 0 * * MON#2', 'At 00:00 on the second Monday of the month'],
    ['* * * * * *', 'Every second'],
    ['*/20 * * * * *', 'Every 20 seconds'],
    ['5 * * * * *', 'At second 5 of every minute'],
    ['*/30 5 4 * * *', 'At 04:05 and 04:05:30 every day'],
    ['@daily', 'At 00:00 every day'],
  ])('%s', (expression, words) => {
    expect(describeSchedule(unix(expression))).toBe(`${words} (UTC)`)
  })

  test.each<[ScheduleSpec, string]>([
    [
      { kind: 'cron', dialect: 'quartz', expression: '0 15 10 ? * 6L 2026-2030' },
      'At 10:15 on the last Friday of the month from 2026 to 2030 (UTC)',
    ],
    [
      { kind: 'cron', dialect: 'quartz', expression: '0 0 0 1 1 ? 2020/4' },
      'At 00:00 on the 1st of January every 4 years from 2020 to 2196 (UTC)',
    ],
    [
      { kind: 'cron', dialect: 'eventbridge', expression: 'cron(0 9 ? * 3#2 *)' },
      'At 09:00 on the second Tuesday of the month (UTC)',
    ],
    [{ kind: 'cron', dialect: 'eventbridge', expression: 'rate(1 hour)' }, 'Every hour'],
    [
      { kind: 'cron', dialect: 'eventbridge', expression: 'at(2026-03-11T10:21:00)', zone: 'Asia/Kolkata' },
      'Once, at 2026-03-11 10:21:00 (Asia/Kolkata)',
    ],
    [{ kind: 'cron', dialect: 'kubernetes', expression: '@every 90m' }, 'Every 1 hour and 30 minutes'],
    [
      { kind: 'cron', dialect: 'jenkins', expression: 'H/15 * 1 * 1', seed: 'x' },
      'Every 15 minutes, beginning at minute 3, on the 1st of the month, but only if that is Monday (UTC)',
    ],
    [
      { kind: 'cron', dialect: 'systemd', expression: 'Mon..Fri *-*~01..07 02:30 Europe/Berlin' },
      'At 02:30 on the last 7 days of the month, but only if that is Monday to Friday (Europe/Berlin)',
    ],
    [
      { kind: 'cron', dialect: 'unix', expression: '61 * * * *' },
      'Refused: minute "61" at column 1: 61 is outside 0-59: write a value from 0 to 59',
    ],
    [
      {
        kind: 'calendar',
        every: 'every 2 weeks on fri at 09:00',
        anchor: '2026-01-02',
        zone: 'Europe/Berlin',
      },
      'At 09:00 every 2 weeks on Friday, counted from 2026-01-02 (Europe/Berlin)',
    ],
    [
      { kind: 'calendar', every: 'every 3 months on the last business day', anchor: '2026-01-02' },
      'At 00:00 every 3 months on the last business day, counted from 2026-01-02 (UTC)',
    ],
    [{ kind: 'calendar', every: 'every year on march 15' }, 'At 00:00 every year on the 15th of March (UTC)'],
    [
      { kind: 'calendar', every: 'every weekday at 8:15 and 17:00' },
      'At 08:15 and 17:00 every week from Monday to Friday (UTC)',
    ],
    [{ kind: 'rate', everyMs: 86_400_000 }, 'Every 24 hours'],
    [{ kind: 'rate', everyMs: 90_000 }, 'Every 1 minute and 30 seconds'],
    [{ kind: 'at', at: '2026-03-29T02:30:00+02:00' }, 'Once, at 2026-03-29 02:30:00+02:00'],
  ])('%j', (spec, words) => {
    expect(describeSchedule(spec)).toBe(words)
  })
})

describe('warnings', () => {
  const codesOf = (spec: ScheduleSpec): string[] =>
    warningsOf(spec, compiled(spec), NOW).map((warning) => warning.code)
  const messageOf = (spec: ScheduleSpec, code: string): string =>
    warningsOf(spec, compiled(spec), NOW).find((warning) => warning.code === code)?.message ??
    'no such warning'

  test.each<[ScheduleSpec, readonly string[]]>([
    [unix('17 4 * * *'), []],
    [unix('*/5 * * * *'), []],
    [unix('0 4 * * *'), ['hot_spot']],
    [unix('17 0 13 * 5'), ['both_day_fields']],
    [{ ...unix('17 0 13 * 5'), dayMatch: 'and' } as ScheduleSpec, []],
    [unix('*/7 * * * *'), ['step_restarts']],
    [unix('17 */5 * * *'), ['step_restarts']],
    [unix('17 0 */3 * *'), ['step_restarts']],
    [unix('* 9 * * *'), ['every_minute']],
    [unix('* * * * * *'), ['every_second']],
    [unix('17 0 31 * *'), ['short_months']],
    [unix('17 0 29 2 *'), ['leap_day']],
    [unix('30 2 * * *', 'Europe/Berlin'), ['dst_gap', 'dst_overlap']],
    [unix('30 4 * * *', 'Europe/Berlin'), []],
    [unix('*/30 2 * * *', 'Europe/Berlin'), []],
    [{ kind: 'cron', dialect: 'quartz', expression: '0 17 12 ? * 2-6' }, ['weekday_numbers']],
    [{ kind: 'cron', dialect: 'quartz', expression: '0 17 12 ? * MON#2' }, []],
    [{ kind: 'cron', dialect: 'quartz', expression: '0 17 12 * * ? 2026-2028' }, ['last_year']],
    [{ kind: 'cron', dialect: 'quartz', expression: '0 17 12 * * ? 2020' }, ['nothing_left', 'last_year']],
    [{ kind: 'cron', dialect: 'jenkins', expression: 'H 4 * * *' }, ['no_seed']],
    [{ kind: 'cron', dialect: 'jenkins', expression: '17 4 13 * 5', seed: 'x' }, ['both_day_fields']],
    [{ kind: 'rate', everyMs: 86_400_000, zone: 'Europe/Berlin' }, ['day_of_24_hours']],
    [{ kind: 'calendar', every: 'every day at 02:30', zone: 'Europe/Berlin' }, ['dst_gap', 'dst_overlap']],
  ])('%j', (spec, codes) => {
    expect(codesOf(spec)).toEqual(codes)
  })

  test('a time inside a gap is named with the date and what happens', () => {
    const spec = unix('30 2 * * *', 'Europe/Berlin')
    expect(messageOf(spec, 'dst_gap')).toBe(
      'on 2026-03-29 the clock leaps from 02:00 to 03:00 in Europe/Berlin: ' +
        'what is planned for 02:30 runs at 03:00',
    )
    expect(messageOf({ ...spec, dst: { gap: 'skip' } }, 'dst_gap')).toContain('02:30 is left out')
    expect(messageOf(spec, 'dst_overlap')).toContain('on 2026-10-25 02:30 comes twice')
    expect(messageOf({ ...spec, dst: { overlap: 'both' } }, 'dst_overlap')).toContain('runs both times')
  })

  test('a restarting step says what comes after what', () => {
    expect(messageOf(unix('*/7 * * * *'), 'step_restarts')).toContain(
      'after minute 56 comes minute 0, 4 minutes later',
    )
  })
})
