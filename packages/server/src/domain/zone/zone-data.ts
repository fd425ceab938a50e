// Which zones a newer release of the zone data changes, from now on. What future times were computed with is
// on record as one fingerprint a zone: a hash of the offset at an instant and of every change after it, the
// footer rule included, so that two trees which say the same in different ways (listed changes, or a rule)
// are the same. Releases compare as text: 2025b < 2026a < 2026z < 2026za; whoever compiles rules of their own
// calls them 2026fa, which comes after 2026f and before 2026g.

import { createHash } from 'node:crypto'
import type { ZoneLookup } from './zone-lookup.ts'
import { segmentAt, type ZoneRules } from './zone-rules.ts'

/** What is on record of one zone. */
export type ZoneDataRecord = {
  readonly zone: string
  /** Hexadecimal; null where the newest release has no such zone. */
  readonly fingerprint: string | null
  /** The instant from which on the fingerprint speaks. */
  readonly rulesFromMs: number
  /** The newest release that has these rules. */
  readonly dataVersion: string
  /** The release that brought them. */
  readonly changedIn: string
}

/**
 * How the data of a process stands to what is on record.
 *
 * first: nothing was on record. newer: it changes `changed`. Both are to be written.
 * same: `differing` is not empty where somebody changed rules without calling the release by another name.
 * older: another process came with `newest`; in the zones of `differing` this one computes other times.
 */
export type ZoneDataVerdict =
  | { readonly kind: 'first'; readonly records: readonly ZoneDataRecord[] }
  | {
      readonly kind: 'newer'
      readonly records: readonly ZoneDataRecord[]
      readonly from: string
      readonly changed: readonly string[]
    }
  | { readonly kind: 'same'; readonly differing: readonly string[] }
  | { readonly kind: 'older'; readonly newest: string; readonly differing: readonly string[] }

export type ZoneData = ZoneLookup & { readonly dataVersion: string }

/** No planned time lies at or after it. */
const END_MS = Date.UTC(2200, 0)

/** Orders releases: `2025b` < `2026a` < `2026z` < `2026za`, as SQL does in the collation "C". */
export function compareZoneVersions(a: string, b: string): number {
  return a === b ? 0 : a < b ? -1 : 1
}

/** Equal where two tables tell the same time at every instant from `fromMs` on. */
export function fingerprintOf(rules: ZoneRules, fromMs: number): string {
  const { startsMs, offsetsMs } = rules.timeline
  const told = [rules.offsetAt(fromMs)]
  for (let i = segmentAt(rules.timeline, fromMs) + 1; i < offsetsMs.length; i++) {
    const startMs = startsMs[i] as number
    if (startMs >= END_MS) break
    told.push(startMs, offsetsMs[i] as number)
  }
  return createHash('sha256').update(Float64Array.from(told)).digest('hex')
}

export function judgeZoneData(
  stored: readonly ZoneDataRecord[],
  data: ZoneData,
  nowMs: number,
): ZoneDataVerdict {
  const known = new Map(stored.map((record) => [record.zone, record]))
  const newest = stored.reduce((latest, { dataVersion }) => (dataVersion > latest ? dataVersion : latest), '')
  const order = compareZoneVersions(data.dataVersion, newest)
  if (newest !== '' && order <= 0) {
    const differing = stored.filter((record) => differs(record, data)).map(({ zone }) => zone)
    return order === 0 ? { kind: 'same', differing } : { kind: 'older', newest, differing }
  }
  const changed: string[] = []
  const records = [...new Set([...data.names(), ...known.keys()])].sort().map((zone): ZoneDataRecord => {
    const before = known.get(zone)
    const isNew = before === undefined || differs(before, data)
    if (isNew && before !== undefined) changed.push(zone)
    return {
      zone,
      fingerprint: fingerprintIn(data, zone, nowMs),
      rulesFromMs: nowMs,
      dataVersion: data.dataVersion,
      changedIn: isNew ? data.dataVersion : before.changedIn,
    }
  })
  return newest === '' ? { kind: 'first', records } : { kind: 'newer', records, from: newest, changed }
}

function differs({ zone, fingerprint, rulesFromMs }: ZoneDataRecord, data: ZoneData): boolean {
  return fingerprintIn(data, zone, rulesFromMs) !== fingerprint
}

function fingerprintIn(data: ZoneData, zone: string, fromMs: number): string | null {
  const rules = data.get(zone)
  return rules === undefined ? null : fingerprintOf(rules, fromMs)
}
