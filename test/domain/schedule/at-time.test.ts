// One-time schedules: RFC 3339 instants, wall times in a zone with gaps and repeated hours, and what is
// refused.

import { describe, expect, test } from 'vitest'
import { compiled, faultsOf, instant, nextTimes } from './schedule-fixtures.ts'

const EARLY = '1960-01-01T00:00:00Z'

describe('what is read', () => {
  test.each([
    ['2026-03-29T02:30:00Z', '2026-03-29T02:30:00Z'],
    ['2026-03-29t02:30:00z', '2026-03-29T02:30:00Z'],
    ['2026-03-29 02:30:00+02:00', '2026-03-29T00:30:00Z'],
    ['2026-03-29T02:30:00-09:30', '2026-03-29T12:00:00Z'],
    ['2026-03-29T02:30:00-00:00', '2026-03-29T02:30:00Z'],
    ['2026-03-29T02:30Z', '2026-03-29T02:30:00Z'],
    ['2024-02-29T23:59:59Z', '2024-02-29T23:59:59Z'],
    ['2026-01-01T00:00:00.250Z', '2026-01-01T00:00:00.250Z'],
    ['2026-01-01T00:00:00.5Z', '2026-01-01T00:00:00.500Z'],
    ['2026-01-01T00:00:00.123456789Z', '2026-01-01T00:00:00.123Z'],
  ])('%s', (at, expected) => {
    const schedule = compiled({ kind: 'at', at, zone: 'Europe/Berlin' })
    expect(nextTimes(schedule, EARLY, 3)).toEqual([expected])
    expect(schedule.notes).toEqual([])
  })

  test('a wall time belongs to the zone', () => {
    const schedule = compiled({ kind: 'at', at: '2026-07-01T09:00:00', zone: 'America/New_York' })
    expect(nextTimes(schedule, EARLY, 2)).toEqual(['2026-07-01T13:00:00Z'])
    expect(schedule.zoneName).toBe('America/New_York')
  })

  test('in a gap: the first instant after it, with a note', () => {
    const schedule = compiled({ kind: 'at', at: '2026-03-29T02:30:00', zone: 'Europe/Berlin' })
    expect(nextTimes(schedule, EARLY, 2)).toEqual(['2026-03-29T01:00:00Z'])
    expect(schedule.notes).toHaveLength(1)
    expect(schedule.notes[0]).toContain('does not exist in Europe/Berlin')
  })

  test('in a repeated hour: the first of the two, with a note', () => {
    const schedule = compiled({ kind: 'at', at: '2026-10-25T02:30:00', zone: 'Europe/Berlin' })
    expect(nextTimes(schedule, EARLY, 2)).toEqual(['2026-10-25T00:30:00Z'])
    expect(schedule.notes[0]).toContain('occurs twice in Europe/Berlin')
  })

  test('strictly after: at its own instant there is no next', () => {
    const schedule = compiled({ kind: 'at', at: '2026-01-01T00:00:00Z' })
    const atMs = instant('2026-01-01T00:00:00Z')
    expect(schedule.next(atMs - 1)).toBe(atMs)
    expect(schedule.next(atMs)).toBe(null)
    expect(schedule.missedBetween(atMs - 1, atMs, 10)).toEqual({ count: 1, capped: false, latestMs: atMs })
    expect(schedule.missedBetween(atMs, atMs + 1, 10)).toEqual({ count: 0, capped: false, latestMs: null })
  })
})

describe('what is refused', () => {
  test('both passes of a wall time that comes twice: a single time runs once', () => {
    const at = { kind: 'at', at: '2026-10-25T02:30:00', zone: 'Europe/Berlin' } as const
    const [fault] = faultsOf({ ...at, dst: { overlap: 'both' } })
    expect(fault?.pointer).toBe('/dst/overlap')
    expect(fault?.message).toContain('a single time runs once')
    expect(nextTimes(compiled({ ...at, dst: { overlap: 'first' } }), EARLY, 2)).toEqual([
      '2026-10-25T00:30:00Z',
    ])
    expect(
      nextTimes(compiled({ ...at, at: '2026-10-26T02:30:00', dst: { overlap: 'both' } }), EARLY, 2),
    ).toEqual(['2026-10-26T01:30:00Z'])
  })

  test.each([
    ['2026-02-29T00:00:00Z', 'write 01 to 28'],
    ['2026-04-31T00:00:00Z', 'write 01 to 30'],
    ['2026-13-01T00:00:00Z', 'there is no month 13'],
    ['2026-00-01T00:00:00Z', 'there is no month 0'],
    ['2026-01-01T24:00:00Z', '00:00 of the next day'],
    ['2026-01-01T25:00:00Z', 'there is no hour 25'],
    ['2026-01-01T00:60:00Z', 'there is no minute 60'],
    ['2026-06-30T23:59:60Z', 'leap seconds'],
    ['2026-06-30T23:59:61Z', 'there is no second 61'],
    ['2026-01-01T00:00:00+24:00', 'UTC offset'],
    ['1969-12-31T23:59:59Z', 'outside 1970-2199'],
    ['2200-01-01T00:00:00Z', 'outside 1970-2199'],
    ['2026-01-01', 'is not a date and time'],
    ['tomorrow', 'write 2026-03-29T02:30:00Z'],
    ['', 'is not a date and time'],
    ['9'.repeat(500), 'is not a date and time'],
  ])('%s', (at, words) => {
    const [fault] = faultsOf({ kind: 'at', at })
    expect(fault?.pointer).toBe('/at')
    expect(fault?.message).toContain(words)
    expect(fault?.message.length).toBeLessThan(300)
  })
})
