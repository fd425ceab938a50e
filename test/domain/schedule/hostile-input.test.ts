// Hostile expressions: bounded work, counted in months and segments of the zone that the search looks at
// (time would depend on the machine), and never a throw whatever the text.

import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { parseCron } from '../../../packages/server/src/domain/schedule/cron-parser.ts'
import {
  FIXED_TIME_POLICY,
  INTERVAL_POLICY,
  nextOfCron,
} from '../../../packages/server/src/domain/schedule/cron-search.ts'
import { parseRate } from '../../../packages/server/src/domain/schedule/rate.ts'
import { faultsOf, zone, zones } from './schedule-fixtures.ts'

const MAX_MONTHS = 1_000
const MAX_SEGMENTS = 200

const hostile = [
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

describe('bounded work', () => {
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
  )
  const nearCron = fc.array(pieces, { maxLength: 40 }).map((parts) => parts.join(''))

  test('cron', () => {
    fc.assert(
      fc.property(fc.oneof(nearCron, fc.string({ unit: 'binary', maxLength: 300 })), (expression) => {
        const faults = faultsOf({ kind: 'cron', dialect: 'unix', expression })
        for (const fault of faults) {
          expect(fault.pointer).toMatch(/^\/cron(\/(second|minute|hour|dayOfMonth|month|dayOfWeek))?$/)
          expect(fault.message.length).toBeGreaterThan(10)
          expect(fault.message.length).toBeLessThan(700)
        }
      }),
      { numRuns: 2_000 },
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
