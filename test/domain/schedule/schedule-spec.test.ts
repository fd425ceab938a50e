// The front door: bounds on planned times, faults of the window, and the count of missed times without long
// loops.

import { describe, expect, test } from 'vitest'
import { compiled, cronSpec, faultsOf, instant, iso, nextTimes } from './schedule-fixtures.ts'

describe('bounds', () => {
  test('the start is inside, the end is not', () => {
    const bounds = { startAtMs: instant('2026-01-01T00:00:00Z'), endAtMs: instant('2026-01-03T00:00:00Z') }
    const schedule = compiled(cronSpec('0 0 * * *'), bounds)
    expect(nextTimes(schedule, '2020-01-01T00:00:00Z', 5)).toEqual([
      '2026-01-01T00:00:00Z',
      '2026-01-02T00:00:00Z',
    ])
    expect(schedule.missedBetween(0, instant('2030-01-01T00:00:00Z'), 10)).toEqual({
      count: 2,
      capped: false,
      latestMs: instant('2026-01-02T00:00:00Z'),
    })
  })

  test('a rate keeps its anchor when the start lies elsewhere, and counts only what is inside', () => {
    const bounds = { startAtMs: instant('2026-01-01T00:30:00Z'), endAtMs: instant('2026-01-01T03:00:00Z') }
    const schedule = compiled({ kind: 'rate', everyMs: 3_600_000, anchorMs: 0 }, bounds)
    expect(nextTimes(schedule, '2020-01-01T00:00:00Z', 5)).toEqual([
      '2026-01-01T01:00:00Z',
      '2026-01-01T02:00:00Z',
    ])
    expect(schedule.missedBetween(0, 4e12, 0)).toEqual({
      count: 2,
      capped: false,
      latestMs: instant('2026-01-01T02:00:00Z'),
    })
  })

  test('windows in which nothing fires are refused', () => {
    const startAtMs = instant('2026-01-01T00:00:00Z')
    const endAtMs = instant('2026-02-01T00:00:00Z')
    expect(faultsOf(cronSpec('0 0 * * *'), { startAtMs: endAtMs, endAtMs: startAtMs })[0]?.pointer).toBe(
      '/endAt',
    )
    expect(faultsOf(cronSpec('0 0 * * *'), { startAtMs, endAtMs: startAtMs })[0]?.pointer).toBe('/endAt')
    const summer = faultsOf(cronSpec('0 0 1 7 *'), { startAtMs, endAtMs })
    expect(summer.map((fault) => fault.pointer)).toEqual(['/endAt'])
    expect(summer[0]?.message).toContain('never fires')
    const late = faultsOf({ kind: 'at', at: '2026-03-01T00:00:00Z' }, { startAtMs, endAtMs })
    expect(late.map((fault) => fault.pointer)).toEqual(['/at'])
    expect(late[0]?.message).toContain('never fires')
    expect(faultsOf({ kind: 'at', at: '2026-03-01T00:00:00Z' }, { endAtMs })).toHaveLength(1)
    expect(faultsOf({ kind: 'at', at: '2026-01-31T00:00:00Z' }, { endAtMs })).toEqual([])
  })
})

describe('missed times', () => {
  test('the latest of a year of seconds is found without counting them', () => {
    const schedule = compiled(cronSpec('* * 9-17 * * 1-5', 'Europe/Berlin'))
    const untilMs = instant('2026-06-07T12:00:00Z')
    const missed = schedule.missedBetween(instant('2025-06-07T12:00:00Z'), untilMs, 100)
    expect(missed).toMatchObject({ count: 100, capped: true })
    expect(iso(missed.latestMs ?? 0)).toBe('2026-06-05T15:59:59Z')
  })

  test('a cap of zero says only whether there were any', () => {
    const schedule = compiled(cronSpec('0 * * * *'))
    expect(schedule.missedBetween(0, 1, 0)).toEqual({ count: 0, capped: false, latestMs: null })
    expect(schedule.missedBetween(0, 3_600_000, 0)).toEqual({ count: 0, capped: true, latestMs: 3_600_000 })
  })

  test('the watermark itself is not missed, the end is', () => {
    const schedule = compiled(cronSpec('0 * * * *'))
    expect(schedule.missedBetween(3_600_000, 7_200_000, 5)).toEqual({
      count: 1,
      capped: false,
      latestMs: 7_200_000,
    })
  })
})

test('the zone is UTC when none is named', () => {
  const schedule = compiled({ kind: 'cron', dialect: 'unix', expression: '0 12 * * *' })
  expect(schedule.zoneName).toBe('UTC')
  expect(nextTimes(schedule, '2026-07-01T00:00:00Z', 1)).toEqual(['2026-07-01T12:00:00Z'])
})
