// Hostile expressions: bounded work, counted in months and segments of the zone that the search looks at
// (time would depend on the machine), and never a throw whatever the text.

import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { parseCron } from '../../../packages/server/src/domain/schedule/cron-parser.ts'
import type { CronDialect } from '../../../packages/server/src/domain/schedule/cron-dialect.ts'
import { CRON_DIALECT_NAMES } from '../../../packages/server/src/domain/schedule/cron-dialect.ts'
import {
  FIXED_TIME_POLICY,
  INTERVAL_POLICY,
  nextOfCron,
  previousOfCron,
} from '../../../packages/server/src/domain/schedule/cron-search.ts'
import { parseRate } from '../../../packages/server/src/domain/schedule/rate.ts'
import { faultsOf, zone, zones } from './schedule-fixtures.ts'

const MAX_MONTHS = 1_000
const MAX_SEGMENTS = 200

const hostile: readonly string[] = [
  '0 0 29 2 *',
  '59 59 23 29 2 *',
  '0 0 29 2 MON#5',
  '0 0 * 2 MON#5',
  '0 0 31 12 *',
  '59 23 L-30 * *',
  '0 0 31W 1 *',
  '* * 29 2 *',
  '30 2 29 2 *',
  `${Array.from({ length: 60 }, (_, i) => i).join(',')} 3 29 2 *`,
]

/** Far years, rare days and long lists: what makes a search go on. */
const hostileElsewhere: readonly (readonly [CronDialect, string])[] = [
  ['quartz', '59 59 23 31 12 ? 2199'],
  ['quartz', '0 0 0 29 2 ? 1972/100'],
  ['quartz', '0 0 0 ? 2 2#5 2196-2199'],
  ['quartz', `0 0 0 ${Array.from({ length: 31 }, (_, i) => `${i + 1}W`).join(',')} 2 ? 2199`],
  ['eventbridge', 'cron(30 2 29 2 ? 2000,2196)'],
  ['systemd', 'Mon 2196-02~01 02:30:00'],
  ['systemd', '1970,2199-12-31 23:59:59'],
  ['jenkins', '0 0 29 2 1'],
]

describe('bounded work', () => {
  // A month is one look, however many of its days are wanted.
  test.each(hostileElsewhere)('%s %s, forwards and backwards', (dialect, expression) => {
    const plan = parseCron(expression, dialect)
    if (!plan.ok) throw new Error(JSON.stringify(plan.error))
    for (const name of ['UTC', 'America/New_York', 'Africa/Casablanca', 'Asia/Gaza']) {
      for (const from of ['0001-01-01', '1970-01-01', '2026-01-01', '2196-03-01', '9999-01-01']) {
        for (const search of [nextOfCron, previousOfCron]) {
          const meter = { months: 0, segments: 0 }
          search(plan.value, zone(name).timeline, FIXED_TIME_POLICY, Date.parse(from), meter)
          expect(meter.months).toBeLessThan(15_000)
          expect(meter.segments).toBeLessThan(1_200)
        }
      }
    }
  })

  test('a rare day is found backwards within the same bounds', () => {
    const plan = parseCron('0 0 * 2 MON#5', 'unix')
    if (!plan.ok) throw new Error(JSON.stringify(plan.error))
    const meter = { months: 0, segments: 0 }
    const { timeline } = zone('Europe/Berlin')
    const before = Date.parse('2112-02-01T00:00:00Z')
    expect(previousOfCron(plan.value, timeline, FIXED_TIME_POLICY, before, meter)).toBe(
      Date.parse('2072-02-28T23:00:00Z'),
    )
    expect(meter.months).toBeLessThan(MAX_MONTHS)
  })

  test.each(hostile)('%s', (expression) => {
    const plan = parseCron(expression, 'unix')
    if (!plan.ok) throw new Error(JSON.stringify(plan.error))
    for (const name of zones.names()) {
      const { timeline } = zone(name)
      for (const from of [
        '1895-06-01',
        '1970-01-01',
        '2026-01-01',
        '2072-03-01',
        '2096-03-01',
        '9999-01-01',
      ]) {
        const meter = { months: 0, segments: 0 }
        const policy = plan.value.fixedTime ? FIXED_TIME_POLICY : INTERVAL_POLICY
        const next = nextOfCron(plan.value, timeline, policy, Date.parse(from), meter)
        expect(next).not.toBe(null)
        expect(meter.months).toBeLessThan(MAX_MONTHS)
        expect(meter.segments).toBeLessThan(MAX_SEGMENTS)
      }
    }
  })

  test('a plan whose only month is far away still looks at few months', () => {
    const plan = parseCron('0 0 29 2 *', 'unix')
    if (!plan.ok) throw new Error(JSON.stringify(plan.error))
    const meter = { months: 0, segments: 0 }
    nextOfCron(
      plan.value,
      zone('America/New_York').timeline,
      FIXED_TIME_POLICY,
      Date.parse('2096-03-01'),
      meter,
    )
    expect(meter.months).toBeLessThan(20)
  })
})

describe('any text is answered with a value', () => {
  const pieces = fc.constantFrom(
    ...'0123456789*/-,?#LWH@ \t~=%<>()'.split(''),
    'MON',
    'JAN',
    '*/5',
    '@daily',
    ' * ',
    'cron(',
    'Mon..Fri ',
    ':00',
    '*-*-*',
  )
  const nearCron = fc.array(pieces, { maxLength: 40 }).map((parts) => parts.join(''))

  test.each(CRON_DIALECT_NAMES)('cron in the dialect %s', (dialect) => {
    fc.assert(
      fc.property(fc.oneof(nearCron, fc.string({ unit: 'binary', maxLength: 300 })), (expression) => {
        const faults = faultsOf({ kind: 'cron', dialect, expression })
        for (const fault of faults) {
          expect(fault.pointer).toMatch(
            /^\/cron(\/(second|minute|hour|dayOfMonth|month|dayOfWeek|year))?$|^\/zone$/,
          )
          expect(fault.message.length).toBeGreaterThan(10)
          expect(fault.message.length).toBeLessThan(700)
        }
      }),
      { numRuns: 2_000 },
    )
  })

  test('calendar intervals', () => {
    const word = fc.constantFrom(
      ...'every other 2 3rd 31st days week months years on the at 09:00 , and of last first to'.split(' '),
      ...'business day weekday friday mon march 15 999999 24:00 day'.split(' '),
    )
    const sentence = fc.array(word, { maxLength: 14 }).map((words) => words.join(' '))
    fc.assert(
      fc.property(fc.oneof(sentence, fc.string({ unit: 'binary', maxLength: 300 })), (every) => {
        for (const fault of faultsOf({ kind: 'calendar', every, anchor: '2026-01-30' })) {
          expect(fault.pointer).toBe('/every')
          expect(fault.message.length).toBeGreaterThan(10)
          expect(fault.message.length).toBeLessThan(700)
        }
      }),
      { numRuns: 3_000 },
    )
  })

  test('at, rate and zone', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 100 }), (text) => {
        expect(faultsOf({ kind: 'at', at: text }).map((fault) => fault.pointer)).toEqual(['/at'])
        expect(parseRate(text).ok && !/^\s*(\d+[smhd])+\s*$/.test(text)).toBe(false)
        const zoneFaults = faultsOf({ kind: 'at', at: '2026-01-01T00:00:00Z', zone: text })
        expect(zoneFaults.length === 0 || zoneFaults[0]?.pointer === '/zone').toBe(true)
      }),
    )
  })
})
