// Zone rules against known changes of real clocks, against the JavaScript engine's own data where that can be
// trusted, and as properties: every instant comes back from its wall time.

import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { openZoneSource } from '../../../packages/server/src/adapters/zones/zone-source.ts'
import type { ZoneRules } from '../../../packages/server/src/domain/zone/zone-rules.ts'

const zones = openZoneSource({ directories: [] })
const HOUR_MS = 3_600_000

function zone(name: string): ZoneRules {
  const rules = zones.get(name)
  if (!rules) throw new Error(`the bundled data has no zone ${name}`)
  return rules
}

const hoursAt = (name: string, instant: string): number => zone(name).offsetAt(Date.parse(instant)) / HOUR_MS

describe('known changes', () => {
  // The offset one millisecond before the instant, and at it.
  test.each([
    ['Europe/Berlin', '2026-03-29T01:00:00Z', 1, 2],
    ['Europe/Berlin', '2026-10-25T01:00:00Z', 2, 1],
    ['Europe/Berlin', '1980-04-06T01:00:00Z', 1, 2],
    ['America/New_York', '2026-03-08T07:00:00Z', -5, -4],
    ['America/New_York', '2026-11-01T06:00:00Z', -4, -5],
    ['America/New_York', '2006-04-02T07:00:00Z', -5, -4],
    ['Australia/Lord_Howe', '2024-10-05T15:30:00Z', 10.5, 11],
    ['Australia/Lord_Howe', '2025-04-05T15:00:00Z', 11, 10.5],
    ['Pacific/Apia', '2011-12-30T10:00:00Z', -10, 14],
    ['Antarctica/Troll', '2026-03-29T01:00:00Z', 0, 2],
    ['Antarctica/Troll', '2026-10-25T01:00:00Z', 2, 0],
    ['Europe/Dublin', '2026-03-29T01:00:00Z', 0, 1],
    ['America/Nuuk', '2026-03-29T01:00:00Z', -2, -1],
    ['Asia/Kathmandu', '1985-12-31T18:30:00Z', 5.5, 5.75],
    ['America/Vancouver', '2026-11-01T09:00:00Z', -7, -7],
  ])('%s at %s', (name, instant, before, after) => {
    const atMs = Date.parse(instant)
    expect(zone(name).offsetAt(atMs - 1) / HOUR_MS).toBe(before)
    expect(zone(name).offsetAt(atMs) / HOUR_MS).toBe(after)
  })

  test('before the first change the local mean time holds, to the second', () => {
    expect(zone('America/New_York').offsetAt(Date.parse('1850-01-01T00:00:00Z'))).toBe(
      -(4 * 3600 + 56 * 60 + 2) * 1000,
    )
  })

  test('the footer rule holds in 2150 and for ever after', () => {
    // Last Sundays: 29 March and 25 October 2150, as in 2026.
    expect(hoursAt('Europe/Berlin', '2150-03-29T00:59:59Z')).toBe(1)
    expect(hoursAt('Europe/Berlin', '2150-03-29T01:00:00Z')).toBe(2)
    expect(hoursAt('Europe/Berlin', '2150-10-25T00:59:59Z')).toBe(2)
    expect(hoursAt('Europe/Berlin', '2150-10-25T01:00:00Z')).toBe(1)
    // Second Sunday in March 2150: the 8th.
    expect(hoursAt('America/New_York', '2150-03-08T06:59:59Z')).toBe(-5)
    expect(hoursAt('America/New_York', '2150-03-08T07:00:00Z')).toBe(-4)
    for (const year of [2600, 5000, 9999]) {
      expect(hoursAt('Europe/Berlin', `${year}-01-15T00:00:00Z`)).toBe(1)
      expect(hoursAt('Europe/Berlin', `${year}-07-15T00:00:00Z`)).toBe(2)
      expect(hoursAt('Australia/Sydney', `${year}-01-15T00:00:00Z`)).toBe(11)
    }
  })

  test('the far future is continuous where the repeated calendar begins', () => {
    for (const name of [
      'Europe/Berlin',
      'America/New_York',
      'Asia/Gaza',
      'America/Nuuk',
      'Australia/Lord_Howe',
    ]) {
      const rules = zone(name)
      const edgeMs = rules.timeline.repeatFromMs
      for (let day = -360; day < 700; day++) {
        const atMs = edgeMs + day * 24 * HOUR_MS
        const cycleMs = 146_097 * 24 * HOUR_MS
        expect(rules.offsetAt(atMs)).toBe(rules.offsetAt(atMs - cycleMs))
        expect(rules.offsetAt(atMs)).toBe(rules.offsetAt(atMs + cycleMs))
      }
    }
  })
})

describe('wall time to instant', () => {
  const local = (text: string): number => Date.parse(`${text}Z`)

  test('once', () => {
    expect(zone('Europe/Berlin').resolveLocal(local('2026-07-01T12:00:00'))).toEqual({
      kind: 'unique',
      instantMs: Date.parse('2026-07-01T10:00:00Z'),
    })
  })

  test('never, in a gap: the first instant after it, and how wide it is', () => {
    const gap = { kind: 'gap', instantMs: Date.parse('2026-03-29T01:00:00Z'), gapMs: HOUR_MS }
    expect(zone('Europe/Berlin').resolveLocal(local('2026-03-29T02:00:00'))).toEqual(gap)
    expect(zone('Europe/Berlin').resolveLocal(local('2026-03-29T02:59:59'))).toEqual(gap)
    expect(zone('Europe/Berlin').resolveLocal(local('2026-03-29T03:00:00')).kind).toBe('unique')
    expect(zone('Australia/Lord_Howe').resolveLocal(local('2024-10-06T02:15:00'))).toMatchObject({
      gapMs: HOUR_MS / 2,
    })
    expect(zone('Antarctica/Troll').resolveLocal(local('2026-03-29T02:30:00'))).toMatchObject({
      gapMs: 2 * HOUR_MS,
    })
    expect(zone('Pacific/Apia').resolveLocal(local('2011-12-30T12:00:00'))).toEqual({
      kind: 'gap',
      instantMs: Date.parse('2011-12-30T10:00:00Z'),
      gapMs: 24 * HOUR_MS,
    })
  })

  test('twice, in a repeated hour: both, the first one first', () => {
    expect(zone('America/New_York').resolveLocal(local('2026-11-01T01:30:00'))).toEqual({
      kind: 'overlap',
      instantMs: Date.parse('2026-11-01T05:30:00Z'),
      laterMs: Date.parse('2026-11-01T06:30:00Z'),
    })
    expect(zone('America/New_York').resolveLocal(local('2026-11-01T02:00:00')).kind).toBe('unique')
    expect(zone('Europe/Berlin').resolveLocal(local('4026-10-25T02:30:00')).kind).toBe('overlap')
  })

  test('every instant of every zone comes back from its wall time', () => {
    const instant = fc.integer({ min: -5e9, max: 4e10 }).map((seconds) => seconds * 1000)
    fc.assert(
      fc.property(fc.constantFrom(...zones.names()), instant, (name, atMs) => {
        const rules = zone(name)
        const resolved = rules.resolveLocal(atMs + rules.offsetAt(atMs))
        expect(resolved.kind).not.toBe('gap')
        const candidates =
          resolved.kind === 'overlap' ? [resolved.instantMs, resolved.laterMs] : [resolved.instantMs]
        expect(candidates).toContain(atMs)
      }),
      { numRuns: 3_000 },
    )
  })

  test('each change of each zone is a gap or an overlap of exactly its size', () => {
    for (const name of zones.names()) {
      const rules = zone(name)
      const { startsMs, offsetsMs } = rules.timeline
      // Up to 2040: after that the footer rule only repeats.
      for (let i = 1; i < offsetsMs.length && (startsMs[i] ?? 0) < 2.2e12; i++) {
        const atMs = startsMs[i] ?? 0
        const jumpMs = (offsetsMs[i] ?? 0) - (offsetsMs[i - 1] ?? 0)
        const resolved = rules.resolveLocal(atMs + (offsetsMs[i - 1] ?? 0) + (jumpMs > 0 ? 0 : jumpMs))
        const gap = { kind: 'gap', instantMs: atMs }
        expect(resolved).toMatchObject(
          jumpMs > 0 ? gap : { kind: 'overlap', instantMs: atMs + jumpMs, laterMs: atMs },
        )
      }
    }
  })
})

test('agrees with the JavaScript engine from 1970 to 2025, all zones that it knows', () => {
  const known = new Set(Intl.supportedValuesOf('timeZone'))
  let compared = 0
  for (const name of zones.names().filter((zoneName) => known.has(zoneName))) {
    const format = new Intl.DateTimeFormat('en-US', { timeZone: name, timeZoneName: 'longOffset' })
    for (let year = 1972; year < 2026; year += 3) {
      for (const month of [0, 6]) {
        const atMs = Date.UTC(year, month, 15, 12)
        const shown = format.format(atMs).split('GMT')[1] ?? ''
        const [, sign = '+', hours = '0', minutes = '0', seconds = '0'] =
          /([+-])(\d\d):(\d\d)(?::(\d\d))?/.exec(shown) ?? []
        const size = (Number(hours) * 3600 + Number(minutes) * 60 + Number(seconds)) * 1000
        const expected = sign === '-' ? 0 - size : size
        expect(zone(name).offsetAt(atMs), `${name} ${new Date(atMs).toISOString()}`).toBe(expected)
        compared++
      }
    }
  }
  expect(compared).toBeGreaterThan(10_000)
})
