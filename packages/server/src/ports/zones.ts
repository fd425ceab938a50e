// The seam through which time zone rules come in. The adapter decides where the data is from; the engine
// stores `dataVersion` with each computed time, so that future times can be computed again when the data
// changes.

import type { ZoneLookup } from '../domain/zone/zone-lookup.ts'

export interface ZoneSource extends ZoneLookup {
  /** The release of the IANA data in use, e.g. `2026f`. */
  readonly dataVersion: string
  readonly source: 'system' | 'bundled'
}
