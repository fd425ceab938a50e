// What each dialect refuses although another one knows it, with the field, the column and the fix; and what
// is particular about each one's own rules.

import { describe, expect, test } from 'vitest'
import type { CronDialect } from '../../../packages/server/src/domain/schedule/cron-dialect.ts'
import type { ScheduleSpec } from '../../../packages/server/src/domain/schedule/schedule-spec.ts'
import { compiled, faultsOf, instant, nextTimes } from './schedule-fixtures.ts'

const spec = (dialect: CronDialect, expression: string, zone = 'UTC'): ScheduleSpec => ({
  kind: 'cron',
  dialect,
  expression,
  zone,
})

const refused: readonly (readonly [CronDialect, string, string, readonly string[]])[] = [
  ['kubernetes', '0 0 * * 7', '/cron/dayOfWeek', ['column 9', 'outside 0-6']],
  ['kubernetes', '0 22-2 * * *', '/cron/hour', ['smaller value first']],
  ['kubernetes', '0 0 L * *', '/cron/dayOfMonth', ['no L or W', 'quartz']],
  ['kubernetes', '0 0 * * 5#2', '/cron/dayOfWeek', ['no L or #']],
  ['kubernetes', '0 0 0 * * *', '/cron', ['6 fields', 'kubernetes has 5 fields']],
  ['kubernetes', '*/60 * * * *', '/cron/minute', ['wider than the field']],
  ['kubernetes', '@every 5', '/cron', ['@every 1h30m']],
  ['kubernetes', '@every 0s5', '/cron', ['@every 1h30m']],
  ['kubernetes', '@reboot', '/cron', ['on demand']],
  ['kubernetes', 'H * * * *', '/cron/minute', ['no H', 'jenkins']],
  ['github', '@daily', '/cron', ['no macros', '5 fields']],
  ['github', '*/4 * * * *', '/cron/minute', ['5 minutes', '*/5']],
  ['github', '0,58 * * * *', '/cron/minute', ['5 minutes']],
  ['github', '0 0 ? * 1', '/cron/dayOfMonth', ['no "?"']],
  ['github', '0 0 * * 7', '/cron/dayOfWeek', ['outside 0-6']],
  ['quartz', '0 0 12 * *', '/cron', ['5 fields', '6 fields']],
  ['quartz', '0 0 12 * * *', '/cron/dayOfWeek', ['write ? in one']],
  ['quartz', '0 0 12 ? * ?', '/cron/dayOfWeek', ['only one']],
  ['quartz', '? 0 12 * * ?', '/cron/second', ['only in the day of month']],
  ['quartz', '0 0 12 ?,1 * 2', '/cron/dayOfMonth', ['stands alone']],
  ['quartz', '0 0 12 ? * 0', '/cron/dayOfWeek', ['outside 1-7']],
  ['quartz', '0 0 12 ? * 2#1,3#2', '/cron/dayOfWeek', ['stands alone']],
  ['quartz', '0 0 12 ? * MON,FRIL', '/cron/dayOfWeek', ['stands alone']],
  ['quartz', '0 0 12 ? * 2,L', '/cron/dayOfWeek', ['write SAT']],
  ['quartz', '0 0 12 ? * MON-FRI/2', '/cron/dayOfWeek', ['2-6/2']],
  ['quartz', '0 0 12 ? * MON-6', '/cron/dayOfWeek', ['both']],
  ['quartz', '0 0 12 ? * MONDAY', '/cron/dayOfWeek', ['did you mean MON?']],
  ['quartz', '0 0 12 L-31 * ?', '/cron/dayOfMonth', ['L-30']],
  ['quartz', '0 0 12 * * ? 1969', '/cron/year', ['1970-2199']],
  ['quartz', '0 0 12 * * ? 2030-2020', '/cron/year', ['smaller value first']],
  ['quartz', '0 0 12 29 2 ? 2025', '/cron/year', ['never fires']],
  ['quartz', '0 0 12 30 2 ?', '/cron/dayOfMonth', ['never fires: there is no day 30 in February']],
  ['eventbridge', '0 12 * * ? *', '/cron', ['cron(0 12 * * ? *)']],
  ['eventbridge', 'cron(0 12 * * *)', '/cron', ['5 fields', 'inside cron(']],
  ['eventbridge', 'cron(0 99 * * ? *)', '/cron/hour', ['column 8']],
  ['eventbridge', 'cron(0 12 ? * MON/2 *)', '/cron/dayOfWeek', ['no steps']],
  ['eventbridge', 'cron(0 12 ? * 2#1,3#2 *)', '/cron/dayOfWeek', ['stands alone']],
  ['eventbridge', 'rate(1 minutes)', '/cron', ['rate(1 minute)']],
  ['eventbridge', 'at(2026-03-11T10:21:00Z)', '/cron', ['without an offset']],
  ['eventbridge', 'at(2026-02-30T10:21:00)', '/cron', ['no day 30']],
  ['jenkins', '0 0 * * MON', '/cron/dayOfWeek', ['numbers from 0 to 7']],
  ['jenkins', '0 0 * JAN *', '/cron/month', ['numbers from 1 to 12']],
  ['jenkins', '5/15 * * * *', '/cron/minute', ['a range or *']],
  ['jenkins', 'H/61 * * * *', '/cron/minute', ['1 to 60']],
  ['jenkins', 'H(5-3) * * * *', '/cron/minute', ['smaller value first']],
  ['jenkins', 'H(0-60) * * * *', '/cron/minute', ['60 is outside']],
  ['jenkins', 'H-5 * * * *', '/cron/minute', ['H(0-29)/10']],
  ['jenkins', '0 0 L * *', '/cron/dayOfMonth', ['no L or W']],
  ['systemd', '', '/cron', ['empty']],
  ['systemd', '*-*-* *:*/2', '/cron/minute', ['column 9', '0/2']],
  ['systemd', 'Fri..Mon 12:00', '/cron/dayOfWeek', ['from Mon to Sun']],
  ['systemd', '25:00', '/cron/hour', ['column 1', 'outside 0-23']],
  ['systemd', '*-*-32', '/cron/dayOfMonth', ['column 5', 'outside 1-31']],
  ['systemd', '*-*~29', '/cron/dayOfMonth', ['outside 1-28']],
  ['systemd', '1969-01-01', '/cron/year', ['1969 is outside 1970-2199']],
  ['systemd', '12:00:00.5', '/cron/second', ['whole seconds']],
  ['systemd', '20/4:00', '/cron/hour', ['write 1 to 3']],
  ['systemd', '*-02-30', '/cron/dayOfMonth', ['never fires']],
  ['systemd', '12:00 Mars/Olympus', '/zone', ['no time zone']],
]

describe('refused, with the place and the fix', () => {
  test.each(refused)('%s: %s', (dialect, expression, pointer, words) => {
    const faults = faultsOf({ kind: 'cron', dialect, expression })
    expect(faults.map((fault) => fault.pointer)).toEqual([pointer])
    for (const word of words) expect(faults[0]?.message).toContain(word)
  })

  test('a day match is refused where both day fields cannot be', () => {
    const faults = faultsOf({ kind: 'cron', dialect: 'quartz', expression: '0 0 12 * * ?', dayMatch: 'and' })
    expect(faults.map((fault) => fault.pointer)).toEqual(['/dayMatch'])
  })

  test('a year list that is over is refused where the present is known', () => {
    const over = { kind: 'cron', dialect: 'quartz', expression: '0 0 12 * * ? 2020-2024' } as const
    const faults = faultsOf(over, { nowMs: instant('2026-01-01T00:00:00Z') })
    expect(faults[0]?.pointer).toBe('/cron/year')
    expect(faults[0]?.message).toContain('never fires: the last year of this schedule is 2024')
    expect(faultsOf(over)).toEqual([])
  })
})

describe('what is each one’s own', () => {
  const next = (
    dialect: CronDialect,
    expression: string,
    from: string,
    count: number,
    zone = 'UTC',
  ): string[] => nextTimes(compiled(spec(dialect, expression, zone)), from, count)

  test('1 is Monday in unix and Sunday in quartz and eventbridge', () => {
    expect(next('unix', '0 0 * * 1', '2026-01-01T00:00:00Z', 1)).toEqual(['2026-01-05T00:00:00Z'])
    expect(next('quartz', '0 0 0 ? * 1', '2026-01-01T00:00:00Z', 1)).toEqual(['2026-01-04T00:00:00Z'])
    expect(next('eventbridge', 'cron(0 0 ? * 1 *)', '2026-01-01T00:00:00Z', 1)).toEqual([
      '2026-01-04T00:00:00Z',
    ])
  })

  test('both day fields: or in unix and kubernetes, and in jenkins and systemd; dayMatch overrides', () => {
    const from = '2026-01-01T00:00:00Z'
    expect(next('kubernetes', '0 0 13 * 5', from, 2)).toEqual([
      '2026-01-02T00:00:00Z',
      '2026-01-09T00:00:00Z',
    ])
    expect(next('jenkins', '0 0 13 * 5', from, 1)).toEqual(['2026-02-13T00:00:00Z'])
    expect(next('systemd', 'Fri *-*-13', from, 1)).toEqual(['2026-02-13T00:00:00Z'])
    const both = { ...spec('unix', '0 0 13 * 5'), dayMatch: 'and' } as ScheduleSpec
    expect(nextTimes(compiled(both), from, 2)).toEqual(['2026-02-13T00:00:00Z', '2026-03-13T00:00:00Z'])
  })

  test('@daily is midnight, or hashed; @weekly is Sunday, weekly Monday', () => {
    expect(next('unix', '@daily', '2026-01-01T00:00:00Z', 1)).toEqual(['2026-01-02T00:00:00Z'])
    const hashed = compiled({ kind: 'cron', dialect: 'jenkins', expression: '@daily', seed: 'stuff' })
    expect(nextTimes(hashed, '2026-01-01T00:00:00Z', 2).map((time) => time.slice(11))).not.toContain(
      '00:00:00Z',
    )
    expect(next('kubernetes', '@weekly', '2026-01-01T00:00:00Z', 1)).toEqual(['2026-01-04T00:00:00Z'])
    expect(next('systemd', 'weekly', '2026-01-01T00:00:00Z', 1)).toEqual(['2026-01-05T00:00:00Z'])
  })

  test('the seed decides, and each H draws anew', () => {
    const times = ['a', 'b', 'c', 'd', 'e'].map((seed) =>
      nextTimes(
        compiled({ kind: 'cron', dialect: 'jenkins', expression: 'H H H H *', seed }),
        '2026-01-01T00:00:00Z',
        1,
      ),
    )
    expect(new Set(times.flat()).size).toBe(5)
    for (let i = 0; i < 300; i++) {
      const monthly = { kind: 'cron', dialect: 'jenkins', expression: '0 0 H * *', seed: `job-${i}` } as const
      const [time = ''] = nextTimes(compiled(monthly), '2026-01-31T00:00:00Z', 1)
      expect(time.slice(0, 7)).toBe('2026-02')
    }
  })

  test('an interval of kubernetes is anchored like a rate', () => {
    const every = compiled({
      kind: 'cron',
      dialect: 'kubernetes',
      expression: '@every 1h30m',
      anchorMs: instant('2026-01-01T00:10:00Z'),
    })
    expect(nextTimes(every, '2026-01-01T01:00:00Z', 2)).toEqual([
      '2026-01-01T01:40:00Z',
      '2026-01-01T03:10:00Z',
    ])
  })

  test('an OnCalendar expression may name its zone, and only one zone counts', () => {
    const named = { kind: 'cron', dialect: 'systemd', expression: '12:00 Asia/Kolkata' } as const
    expect(nextTimes(compiled(named), '2026-01-01T00:00:00Z', 1)).toEqual(['2026-01-01T06:30:00Z'])
    expect(faultsOf({ ...named, zone: 'UTC' })[0]?.pointer).toBe('/zone')
    expect(next('systemd', '@1767225600', '2025-01-01T00:00:00Z', 2)).toEqual(['2026-01-01T00:00:00Z'])
  })
})

describe('daylight saving by choice', () => {
  const gap = '2026-03-28T12:00:00Z'
  const overlap = '2026-10-24T12:00:00Z'
  const berlin = (expression: string, dst: ScheduleSpec['dst']): ScheduleSpec => ({
    ...spec('unix', expression, 'Europe/Berlin'),
    ...(dst ? { dst } : {}),
  })

  test.each<[string, ScheduleSpec['dst'], string, readonly string[]]>([
    ['30 2 * * *', undefined, gap, ['2026-03-29T01:00:00Z', '2026-03-30T00:30:00Z']],
    ['30 2 * * *', { gap: 'skip' }, gap, ['2026-03-30T00:30:00Z', '2026-03-31T00:30:00Z']],
    ['30 2 * * *', undefined, overlap, ['2026-10-25T00:30:00Z', '2026-10-26T01:30:00Z']],
    ['30 2 * * *', { overlap: 'both' }, overlap, ['2026-10-25T00:30:00Z', '2026-10-25T01:30:00Z']],
    ['*/30 2 * * *', undefined, gap, ['2026-03-30T00:00:00Z', '2026-03-30T00:30:00Z']],
    ['*/30 2 * * *', { gap: 'next_valid' }, gap, ['2026-03-29T01:00:00Z', '2026-03-30T00:00:00Z']],
    [
      '30 */2 * * *',
      { overlap: 'first' },
      '2026-10-25T00:00:00Z',
      ['2026-10-25T00:30:00Z', '2026-10-25T03:30:00Z'],
    ],
  ])('%s %j after %s', (expression, dst, from, times) => {
    expect(nextTimes(compiled(berlin(expression, dst)), from, 2)).toEqual(times)
  })

  test('a single time in a gap is refused where it may not move', () => {
    const at = { kind: 'at', at: '2026-03-29T02:30:00', zone: 'Europe/Berlin', dst: { gap: 'skip' } } as const
    expect(faultsOf(at)[0]).toMatchObject({ pointer: '/at' })
    expect(faultsOf(at)[0]?.message).toContain('never fires')
  })
})
