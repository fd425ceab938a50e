// The zone rules that this process uses: the newer of the system's data and the release bundled in the
// package. The system's wins a tie, since its operator keeps it; a tree that does not tell its version is
// never used, because it cannot be known to be newer. Zones are parsed at first use and kept.

import type { ZoneRules } from '../../domain/zone/zone-rules.ts'
import { makeZoneRules } from '../../domain/zone/zone-rules.ts'
import { parseTzif } from '../../domain/zone/tzif.ts'
import type { ZoneSource } from '../../ports/zones.ts'
import { BUNDLED_ZONES_BASE64, BUNDLED_ZONES_VERSION } from './bundled-zones.generated.ts'
import { unpackZones, type ZoneFiles } from './zone-bundle.ts'
import {
  compareZoneVersions,
  readZoneDirectory,
  readZoneVersion,
  SYSTEM_ZONE_DIRECTORIES,
} from './zone-directory.ts'

export type ZoneSourceOptions = {
  /**
   * Trees to look for, in order; the first that tells its version counts. Default: the system's usual places.
   */
  readonly directories?: readonly string[]
}

export function openZoneSource(options: ZoneSourceOptions = {}): ZoneSource {
  const system = newerSystemZones(options.directories ?? SYSTEM_ZONE_DIRECTORIES)
  return system
    ? makeZoneSource(system, 'system')
    : makeZoneSource(unpackZones(BUNDLED_ZONES_BASE64), 'bundled')
}

function newerSystemZones(directories: readonly string[]): ZoneFiles | undefined {
  for (const directory of directories) {
    const version = readZoneVersion(directory)
    if (version === undefined) continue
    if (compareZoneVersions(version, BUNDLED_ZONES_VERSION) < 0) return undefined
    const zones = readZoneDirectory(directory, version)
    return zones.files.has('UTC') ? zones : undefined
  }
  return undefined
}

function makeZoneSource(zones: ZoneFiles, source: ZoneSource['source']): ZoneSource {
  const parsed = new Map<string, ZoneRules | undefined>()
  const names = [...zones.files.keys()].sort()
  return {
    dataVersion: zones.version,
    source,
    names: () => names,
    get(name) {
      const known = parsed.get(name)
      if (known) return known
      const bytes = zones.files.get(name)
      if (!bytes) return undefined
      const table = parseTzif(bytes)
      // A file that is not what it should be counts as absent: to guess at a zone would fire at wrong times.
      if (!table.ok) return undefined
      const rules = makeZoneRules(name, table.value)
      parsed.set(name, rules)
      return rules
    },
  }
}
