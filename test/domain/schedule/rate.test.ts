// Rates: what is read, what is refused and with which correction, and the arithmetic of anchored periods.

import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  countOfRate,
  latestOfRate,
  nextOfRate,
  parseRate,
} from '../../../packages/server/src/domain/schedule/rate.ts'
import { compiled, faultsOf, instant, nextTimes } from './schedule-fixtures.ts'

const MINUTE_MS = 60_000
const HOUR_MS = 3_600_000

describe('text', () => {
  test.each([
    ['90s', 90_000],
    ['5m', 5 * MINUTE_MS],
    ['1h', HOUR_MS],
    ['1d', 24 * HOUR_MS],
    ['1h30m', 90 * MINUTE_MS],
    [' 2d12h ', 60 * HOUR_MS],
    ['rate(1 minute)', MINUTE_MS],
    ['rate(5 minutes)', 5 * MINUTE_MS],
    ['rate(1 hour)', HOUR_MS],
    ['rate(14 days)', 14 * 24 * HOUR_MS],
  ])('%s', (text, everyMs) => {
    expect(parseRate(text)).toEqual({ ok: true, value: everyMs })
  })

  test.each([
    ['rate(1 minutes)', 'write rate(1 minute)'],
    ['rate(5 minute)', 'write rate(5 minutes)'],
    ['rate(2 day)', 'write rate(2 days)'],
    ['rate(0 minutes)', 'positive'],
    ['rate(-5 minutes)', 'positive whole number'],
    ['rate(1.5 hours)', 'positive whole number'],
    ['rate(5minutes)', 'a space and a unit'],
    ['rate()', 'a space and a unit'],
    ['rate(30 seconds)', 'write it short, as in 30s'],
    ['rate(2 weeks)', 'minute(s), hour(s) or day(s)'],
    ['0s', 'positive'],
    ['5', 'a whole number and s, m, h or d'],
    ['-5m', 'a whole number'],
    ['1.5h', 'a whole number'],
    ['30m1h', 'largest first'],
    ['5m5m', 'each unit once'],
    ['', 'is not a rate'],
    ['99999999999999999999d', 'at most 36500 days'],
    ['36501d', 'at most 36500 days'],
    [`${'1'.repeat(80)}s`, 'at most 64 characters'],
  ])('refuses %j', (text, words) => {
    const result = parseRate(text)
    const fault = result.ok ? { pointer: 'accepted', message: '' } : result.error
    expect(fault.pointer).toBe('/rate')
    expect(fault.message).toContain(words)
  })
})

describe('arithmetic', () => {
  const anchor = fc.integer({ min: -1e12, max: 4e12 })
  const period = fc.integer({ min: 1, max: 1e8 }).map((seconds) => seconds * 1000)

  test('the next time is the least anchor + k * period after the instant', () => {
    fc.assert(
      fc.property(anchor, period, fc.integer({ min: -2e12, max: 8e12 }), (anchorMs, everyMs, afterMs) => {
        const nextMs = nextOfRate(anchorMs, everyMs, afterMs)
        expect(nextMs).toBeGreaterThan(afterMs)
        expect(nextMs).toBeGreaterThanOrEqual(anchorMs)
        expect(Math.abs((nextMs - anchorMs) % everyMs)).toBe(0)
        expect(nextMs === anchorMs || nextMs - everyMs <= afterMs).toBe(true)
      }),
    )
  })

  test('count and latest agree with stepping through', () => {
    fc.assert(
      fc.property(
        anchor,
        period,
        fc.integer({ min: -50, max: 50 }),
        fc.nat(50),
        (anchorMs, everyMs, start, length) => {
          const afterMs = anchorMs + start * everyMs + 500
          const untilMs = afterMs + length * everyMs
          const times: number[] = []
          for (
            let ms = nextOfRate(anchorMs, everyMs, afterMs);
            ms <= untilMs;
            ms = nextOfRate(anchorMs, everyMs, ms)
          )
            times.push(ms)
          expect(countOfRate(anchorMs, everyMs, afterMs, untilMs)).toBe(times.length)
          const latestMs = times.at(-1) ?? latestOfRate(anchorMs, everyMs, untilMs)
          expect(latestOfRate(anchorMs, everyMs, untilMs)).toBe(latestMs)
        },
      ),
    )
  })
})

describe('compiled', () => {
  test('is anchored at what it is given, else at the start bound', () => {
    const spec = { kind: 'rate', everyMs: 90 * MINUTE_MS } as const
    const startAtMs = instant('2026-01-01T00:20:00Z')
    expect(nextTimes(compiled(spec, { startAtMs }), '2025-01-01T00:00:00Z', 2)).toEqual([
      '2026-01-01T00:20:00Z',
      '2026-01-01T01:50:00Z',
    ])
    const anchored = compiled({ ...spec, anchorMs: instant('2026-01-01T00:00:00Z') }, { startAtMs })
    expect(nextTimes(anchored, '2025-01-01T00:00:00Z', 2)).toEqual([
      '2026-01-01T01:30:00Z',
      '2026-01-01T03:00:00Z',
    ])
  })

  test('a century of missed seconds is counted without stepping', () => {
    const schedule = compiled({ kind: 'rate', everyMs: 1_000, anchorMs: 0 })
    const untilMs = instant('2070-01-01T00:00:00Z')
    expect(schedule.missedBetween(0, untilMs, 10)).toEqual({
      count: untilMs / 1000,
      capped: false,
      latestMs: untilMs,
    })
    expect(schedule.missedBetween(5, 999, 10)).toEqual({ count: 0, capped: false, latestMs: null })
  })

  test.each([0, -1_000, 500, 1_500, Number.NaN, Number.POSITIVE_INFINITY])(
    'refuses a period of %d ms',
    (everyMs) => {
      expect(faultsOf({ kind: 'rate', everyMs }).map((fault) => fault.pointer)).toEqual(['/rate'])
    },
  )
})
