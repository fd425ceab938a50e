// The zone rules that this process uses: the newer of the system's data and the release bundled in the
// package. The system's wins a tie, since its operator keeps it; a tree that does not tell its version is
// never used, because it cannot be known to be newer. Zones are parsed at first use and kept.

import { compareZoneVersions } from '../../domain/zone/zone-data.ts'
import type { ZoneRules } from '../../domain/zone/zone-rules.ts'
import { makeZoneRules } from '../../domain/zone/zone-rules.ts'
import { parseTzif } from '../../domain/zone/tzif.ts'
import type { ZoneDataOnDisk, ZoneSource } from '../../ports/zones.ts'
import { BUNDLED_ZONES_BASE64, BUNDLED_ZONES_VERSION } from './bundled-zones.generated.ts'
import { unpackZones, type ZoneFiles } from './zone-bundle.ts'
import { readZoneDirectory, readZoneVersion, SYSTEM_ZONE_DIRECTORIES } from './zone-directory.ts'

export type ZoneSourceOptions = {
  /**
   * Trees to look for, in order; the first that tells its version counts. Default: the system's usual places.
   */
  readonly directories?: readonly string[]
}

/** Options for a tree that is to be looked at before the system's usual places. */
export function zoneDirectories(first: string | undefined): ZoneSourceOptions {
  return first === undefined ? {} : { directories: [first, ...SYSTEM_ZONE_DIRECTORIES] }
}

export function openZoneSource(options: ZoneSourceOptions = {}): ZoneSource {
  const { system } = zoneDataOnDisk(options)
  if (system !== null && compareZoneVersions(system.version, BUNDLED_ZONES_VERSION) >= 0) {
    const zones = readZoneDirectory(system.path, system.version)
    if (zones.files.has('UTC')) return makeZoneSource(zones, { source: 'system', path: system.path })
  }
  return makeZoneSource(unpackZones(BUNDLED_ZONES_BASE64), { source: 'bundled', path: null })
}

/** Reads versions only. A process that began before an update of the system uses what was there then. */
export function zoneDataOnDisk(options: ZoneSourceOptions = {}): ZoneDataOnDisk {
  for (const path of options.directories ?? SYSTEM_ZONE_DIRECTORIES) {
    const version = readZoneVersion(path)
    if (version !== undefined) return { bundled: BUNDLED_ZONES_VERSION, system: { path, version } }
  }
  return { bundled: BUNDLED_ZONES_VERSION, system: null }
}

function makeZoneSource(zones: ZoneFiles, origin: Pick<ZoneSource, 'source' | 'path'>): ZoneSource {
  const parsed = new Map<string, ZoneRules | undefined>()
  const names = [...zones.files.keys()].sort()
  return {
    dataVersion: zones.version,
    ...origin,
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
