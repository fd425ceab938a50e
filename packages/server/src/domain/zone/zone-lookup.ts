// From a zone's name, as a person typed it, to its rules. An unknown name is answered with the names that
// were probably meant: another case, a missing underscore, the city alone, a typing slip, or a fixed UTC
// offset.

import { editDistance } from '@belfry/contract'
import { refuse, type Result, succeed } from './result.ts'
import type { ZoneRules } from './zone-rules.ts'

export type ZoneLookup = {
  get(name: string): ZoneRules | undefined
  /** Every known IANA name, links included. */
  names(): readonly string[]
}

const MAX_NAME_LENGTH = 64
const MAX_SUGGESTIONS = 3
const OFFSET_PATTERN = /^(?:UTC|GMT)?([+-])(\d{1,2})(?::?00)?$/i

/** The error is a sentence that names the zone and, where there is one, the fix. */
export function resolveZone(zones: ZoneLookup, name: string): Result<ZoneRules, string> {
  const rules = zones.get(name)
  if (rules) return succeed(rules)
  const shown = JSON.stringify(name.length > MAX_NAME_LENGTH ? `${name.slice(0, MAX_NAME_LENGTH)}…` : name)
  const suggestions = suggestZones(zones, name)
  const fix =
    suggestions.length > 0
      ? `did you mean ${suggestions.join(' or ')}?`
      : 'write an IANA name such as Europe/Berlin, America/New_York or UTC'
  return refuse(`there is no time zone ${shown}: ${fix}`)
}

/** Best first, at most three; empty when nothing is near. */
export function suggestZones(zones: ZoneLookup, name: string): readonly string[] {
  if (name.length === 0 || name.length > MAX_NAME_LENGTH) return []
  const fixed = fixedOffsetName(zones, name)
  if (fixed) return [fixed]
  const wanted = plain(name)
  const allowed = Math.max(1, Math.floor(wanted.length / 4))
  const ranked: { name: string; distance: number }[] = []
  for (const candidate of zones.names()) {
    const distance = Math.min(
      distanceWithin(wanted, plain(candidate), allowed),
      distanceWithin(wanted, plain(candidate.slice(candidate.lastIndexOf('/') + 1)), allowed),
    )
    if (distance <= allowed) ranked.push({ name: candidate, distance })
  }
  ranked.sort(
    (a, b) => a.distance - b.distance || a.name.length - b.name.length || (a.name < b.name ? -1 : 1),
  )
  const best = ranked[0]
  return best
    ? ranked
        .filter((entry) => entry.distance === best.distance)
        .slice(0, MAX_SUGGESTIONS)
        .map((entry) => entry.name)
    : []
}

function fixedOffsetName(zones: ZoneLookup, name: string): string | undefined {
  const match = OFFSET_PATTERN.exec(name)
  if (!match) return undefined
  // The sign of the Etc names is reversed by POSIX tradition: Etc/GMT-2 is two hours east of UTC.
  const fixed = `Etc/GMT${match[1] === '+' ? '-' : '+'}${Number(match[2])}`
  return zones.get(fixed)
    ? `${fixed} (its sign is reversed on purpose: it is UTC${match[1]}${Number(match[2])})`
    : undefined
}

function plain(name: string): string {
  return name.toLowerCase().replace(/[^a-z0-9+-]/g, '')
}

/** Edit distance, or Infinity where the lengths alone tell that it is too large. */
function distanceWithin(wanted: string, candidate: string, limit: number): number {
  return Math.abs(wanted.length - candidate.length) > limit ? Infinity : editDistance(wanted, candidate)
}
