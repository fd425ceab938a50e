// The parser of compiled zone data: damaged and unsuitable files are refused with a reason, never misread,
// and the footer rule is read in all its forms.

import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { BUNDLED_ZONES_BASE64 } from '../../../packages/server/src/adapters/zones/bundled-zones.generated.ts'
import { unpackZones } from '../../../packages/server/src/adapters/zones/zone-bundle.ts'
import { changesOfYear, parsePosixRule } from '../../../packages/server/src/domain/zone/posix-rule.ts'
import { parseTzif } from '../../../packages/server/src/domain/zone/tzif.ts'
import { makeZoneRules } from '../../../packages/server/src/domain/zone/zone-rules.ts'

const files = unpackZones(BUNDLED_ZONES_BASE64).files
const HOUR_MS = 3_600_000

function berlin(): Uint8Array {
  const bytes = files.get('Europe/Berlin')
  if (!bytes) throw new Error('the bundled data has no Europe/Berlin')
  return Uint8Array.from(bytes)
}

/** Finds the second header, whose counts the tests damage. */
function secondHeader(bytes: Uint8Array): number {
  return Buffer.from(bytes).indexOf('TZif', 4)
}

function errorOf(bytes: Uint8Array): string {
  const result = parseTzif(bytes)
  return result.ok ? 'accepted' : result.error
}

describe('TZif', () => {
  test('every bundled file is read', () => {
    for (const [name, bytes] of files) expect(parseTzif(bytes).ok, name).toBe(true)
  })

  test('what is no zone file, or not a whole one, is refused', () => {
    expect(errorOf(new Uint8Array())).toContain('not a TZif file')
    expect(
      errorOf(new TextEncoder().encode('# a text file, long enough to hold a header of forty-four bytes')),
    ).toContain('not a TZif file')
    expect(errorOf(berlin().subarray(0, 60))).toContain('second header')
    expect(errorOf(berlin().subarray(0, 300))).toContain('ends inside its data')
    expect(errorOf(berlin().subarray(0, -1))).toContain('footer is not closed')
  })

  test('version 1, leap seconds, wrong order and wrong types are refused', () => {
    const versionOne = berlin()
    versionOne[4] = 0
    expect(errorOf(versionOne)).toContain('version 1')
    const bytes = berlin()
    const header = secondHeader(bytes)
    const withLeapSeconds = berlin()
    new DataView(withLeapSeconds.buffer).setUint32(header + 28, 1)
    // The body then has to be twelve bytes longer.
    expect(errorOf(Uint8Array.from([...withLeapSeconds, ...new Uint8Array(12).fill(10)]))).toContain(
      'leap seconds',
    )
    const disordered = berlin()
    new DataView(disordered.buffer).setInt32(header + 44 + 8, -1_000_000)
    expect(errorOf(disordered)).toContain('not in time order')
    const changes = new DataView(bytes.buffer).getUint32(header + 32)
    bytes[header + 44 + changes * 8] = 200
    expect(errorOf(bytes)).toContain('local time type that is not there')
  })

  test('random damage gives a table or a reason, never a throw', () => {
    const damage = fc.array(fc.tuple(fc.nat(800), fc.nat(255)), { minLength: 1, maxLength: 8 })
    fc.assert(
      fc.property(damage, fc.nat(800), (edits, length) => {
        const bytes = berlin().subarray(0, length)
        for (const [at, value] of edits) if (at < bytes.length) bytes[at] = value
        const result = parseTzif(bytes)
        const offsetMs = result.ok ? makeZoneRules('X', result.value).offsetAt(1.7e12) : 0
        expect(Number.isFinite(offsetMs)).toBe(true)
        expect(result.ok || result.error.length > 5).toBe(true)
      }),
      { numRuns: 1_000 },
    )
  })
})

describe('the footer rule', () => {
  test('without daylight saving', () => {
    expect(parsePosixRule('EST5')).toEqual({ offsetMs: -5 * HOUR_MS, daylight: null })
    expect(parsePosixRule('<+0545>-5:45')).toEqual({ offsetMs: 5.75 * HOUR_MS, daylight: null })
  })

  test.each([
    // Weekday rules, with times before midnight, after the day's end, and with the summer as "standard"
    // (Ireland).
    ['CET-1CEST,M3.5.0,M10.5.0/3', 2026, '2026-03-29T01:00:00Z', '2026-10-25T01:00:00Z'],
    ['<-02>2<-01>,M3.5.0/-1,M10.5.0/0', 2026, '2026-03-29T01:00:00Z', '2026-10-25T01:00:00Z'],
    ['EET-2EEST,M3.4.4/50,M10.4.4/50', 2026, '2026-03-28T00:00:00Z', '2026-10-23T23:00:00Z'],
    ['IST-1GMT0,M10.5.0,M3.5.0/1', 2026, '2026-03-29T01:00:00Z', '2026-10-25T01:00:00Z'],
    ['AEST-10AEDT,M10.1.0,M4.1.0/3', 2026, '2026-04-04T16:00:00Z', '2026-10-03T16:00:00Z'],
    // Jn never counts 29 February; n counts it, from zero.
    ['AAA0BBB,J60,J300', 2024, '2024-03-01T02:00:00Z', '2024-10-27T01:00:00Z'],
    ['AAA0BBB,J60,J300', 2025, '2025-03-01T02:00:00Z', '2025-10-27T01:00:00Z'],
    ['AAA0BBB,59,300', 2024, '2024-02-29T02:00:00Z', '2024-10-27T01:00:00Z'],
    ['AAA0BBB,59,300', 2025, '2025-03-01T02:00:00Z', '2025-10-28T01:00:00Z'],
  ])('%s in %d', (text, year, first, second) => {
    const rule = parsePosixRule(text)
    if (!rule) throw new Error('not read')
    expect(
      changesOfYear(rule, year).map(([atMs]) => new Date(atMs).toISOString().replace('.000', '')),
    ).toEqual([first, second])
  })

  test('daylight saving all year round makes one lasting offset', () => {
    const rule = parsePosixRule('XXX3EDT4,0/0,J365/23')
    if (!rule) throw new Error('not read')
    const rules = makeZoneRules('X', {
      initialOffsetMs: -3 * HOUR_MS,
      changesMs: [0],
      offsetsMs: [-4 * HOUR_MS],
      rule,
    })
    for (const instant of [
      '1980-01-01T03:59:59Z',
      '1980-01-01T04:00:00Z',
      '2026-12-31T23:00:00Z',
      '3000-06-01T00:00:00Z',
    ]) {
      expect(rules.offsetAt(Date.parse(instant))).toBe(-4 * HOUR_MS)
    }
  })

  test.each([
    '',
    'CET',
    'CET-1CEST,M3.5.0',
    'CET-1CEST,X3.5.0,M10.5.0',
    '1',
    'CET-1CEST,M3.5.0,M10.5.0,M1.1.1',
  ])('%j is no rule', (text) => {
    expect(parsePosixRule(text)).toBe(undefined)
  })
})
