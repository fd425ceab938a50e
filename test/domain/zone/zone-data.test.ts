// Which zones a release changes from now on, whatever form its files have, and which of two releases is
// newer.
import { afterAll, describe, expect, test } from 'vitest'
import { openZoneSource } from '../../../packages/server/src/adapters/zones/zone-source.ts'
import { changesOfYear, parsePosixRule } from '../../../packages/server/src/domain/zone/posix-rule.ts'
import { parseTzif } from '../../../packages/server/src/domain/zone/tzif.ts'
import {
  fingerprintOf,
  judgeZoneData,
  type ZoneData,
  type ZoneDataRecord,
} from '../../../packages/server/src/domain/zone/zone-data.ts'
import { makeZoneRules, type ZoneRules } from '../../../packages/server/src/domain/zone/zone-rules.ts'
import { bundledFile, removeZoneTrees, tzif, withFooter, zonesOf } from '../../support/zone-trees.ts'

const hourMs = 3_600_000
const nowMs = Date.UTC(2026, 5, 1)
const zones = ['Europe/Berlin', 'America/New_York', 'Asia/Tokyo']

afterAll(removeZoneTrees)

function rulesOf(bytes: Uint8Array): ZoneRules {
  const table = parseTzif(bytes)
  if (!table.ok) throw new Error(table.error)
  return makeZoneRules('Test/Zone', table.value)
}

const fingerprint = (bytes: Uint8Array, fromMs = nowMs): string => fingerprintOf(rulesOf(bytes), fromMs)

const centralEurope = 'CET-1CEST,M3.5.0,M10.5.0/3'

describe('the fingerprint of a zone', () => {
  test('is the same for a rule and for the changes that it makes, listed one by one', () => {
    const rule = parsePosixRule(centralEurope)
    if (rule === undefined) throw new Error('the rule cannot be read')
    const listed = Array.from({ length: 40 }, (_, index) => changesOfYear(rule, 2000 + index)).flat()
    const changes = listed.map(([atMs, offsetMs]) => ({ atMs, offsetMs }))
    const fat = tzif(hourMs, changes, centralEurope)
    expect(fingerprint(fat)).toBe(fingerprint(tzif(hourMs, [], centralEurope)))
    expect(fingerprint(fat)).toBe(fingerprint(bundledFile('Europe/Berlin')))
  })

  test('does not see the past, and sees the present offset and every later change', () => {
    const past = { atMs: Date.UTC(2020, 0), offsetMs: 5 * hourMs }
    const back = { atMs: Date.UTC(2021, 0), offsetMs: 2 * hourMs }
    const plain = tzif(2 * hourMs, [], 'EET-2')
    expect(fingerprint(tzif(2 * hourMs, [past, back], 'EET-2'))).toBe(fingerprint(plain))
    expect(fingerprint(tzif(2 * hourMs, [past, back], 'EET-2'), Date.UTC(2019, 0))).not.toBe(
      fingerprint(plain, Date.UTC(2019, 0)),
    )
    const summerTime = tzif(2 * hourMs, [back], 'EET-2EEST,M3.5.0/3,M10.5.0/4')
    expect(fingerprint(summerTime)).not.toBe(fingerprint(plain))
    expect(fingerprint(tzif(3 * hourMs, [], 'MSK-3'))).not.toBe(fingerprint(plain))
    const farAhead = { atMs: Date.UTC(2150, 0), offsetMs: 3 * hourMs }
    expect(fingerprint(tzif(2 * hourMs, [farAhead], 'MSK-3'))).not.toBe(fingerprint(plain))
  })
})

const data = (version: string, altered: Record<string, Uint8Array | null> = {}): ZoneData =>
  zonesOf({ version, zones, altered })

function recordsOf(first: ZoneData, atMs = nowMs): readonly ZoneDataRecord[] {
  const verdict = judgeZoneData([], first, atMs)
  if (verdict.kind !== 'first') throw new Error(`the first data was judged ${verdict.kind}`)
  return verdict.records
}

const noSummerTime = withFooter('Europe/Berlin', 'CET-1')

describe('zone data against what is on record', () => {
  test('the first data fills the record', () => {
    const records = recordsOf(data('2099a'))
    expect(records.map(({ zone }) => zone)).toEqual([...zones, 'UTC'].sort())
    for (const record of records) {
      expect(record).toMatchObject({ dataVersion: '2099a', changedIn: '2099a', rulesFromMs: nowMs })
      expect(record.fingerprint).toMatch(/^[0-9a-f]{64}$/)
    }
  })

  test('newer data changes the zones whose rules differ, and no others', () => {
    const before = recordsOf(data('2099a'))
    const altered = { 'Europe/Berlin': noSummerTime, 'Asia/Tokyo': null, 'Mars/Olympus': tzif(0, [], 'UTC0') }
    const laterMs = nowMs + 86_400_000
    const verdict = judgeZoneData(before, data('2099b', altered), laterMs)
    if (verdict.kind !== 'newer') throw new Error(verdict.kind)
    expect(verdict).toMatchObject({ from: '2099a', changed: ['Asia/Tokyo', 'Europe/Berlin'] })
    const found = new Map(verdict.records.map((record) => [record.zone, record]))
    expect(found.get('Europe/Berlin')).toMatchObject({ changedIn: '2099b', rulesFromMs: laterMs })
    expect(found.get('Asia/Tokyo')).toMatchObject({ changedIn: '2099b', fingerprint: null })
    expect(found.get('Mars/Olympus')).toMatchObject({ changedIn: '2099b' })
    expect(found.get('America/New_York')).toMatchObject({ changedIn: '2099a', dataVersion: '2099b' })
  })

  test('a zone that stays away changes once', () => {
    const before = recordsOf(data('2099a'))
    const without = judgeZoneData(before, data('2099b', { 'Asia/Tokyo': null }), nowMs)
    if (without.kind !== 'newer') throw new Error(without.kind)
    const still = judgeZoneData(without.records, data('2099c', { 'Asia/Tokyo': null }), nowMs)
    expect(still).toMatchObject({ kind: 'newer', changed: [] })
    const again = judgeZoneData(without.records, data('2099c'), nowMs)
    expect(again).toMatchObject({ kind: 'newer', changed: ['Asia/Tokyo'] })
  })

  test('time that passes changes nothing', () => {
    const before = recordsOf(data('2099a'))
    const yearsLaterMs = nowMs + 3 * 365 * 86_400_000
    expect(judgeZoneData(before, data('2099b'), yearsLaterMs)).toMatchObject({ kind: 'newer', changed: [] })
    expect(judgeZoneData(before, data('2099a'), yearsLaterMs)).toEqual({ kind: 'same', differing: [] })
  })

  test('older data says where it differs, and the same release with other rules too', () => {
    const before = recordsOf(data('2099b', { 'Europe/Berlin': noSummerTime }))
    expect(judgeZoneData(before, data('2099a'), nowMs)).toEqual({
      kind: 'older',
      newest: '2099b',
      differing: ['Europe/Berlin'],
    })
    expect(judgeZoneData(before, data('2099b'), nowMs)).toEqual({
      kind: 'same',
      differing: ['Europe/Berlin'],
    })
    expect(judgeZoneData(before, data('2099ba'), nowMs)).toMatchObject({
      kind: 'newer',
      changed: ['Europe/Berlin'],
    })
  })

  test('all bundled zones together cost little', () => {
    const bundled = openZoneSource({ directories: [] })
    const startedMs = performance.now()
    const verdict = judgeZoneData([], bundled, nowMs)
    expect(verdict.kind === 'first' && verdict.records.length).toBeGreaterThan(590)
    expect(performance.now() - startedMs).toBeLessThan(5_000)
  })
})
