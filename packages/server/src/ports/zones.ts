// The seam through which time zone rules come in. The adapter decides where the data is from; the engine
// stores `dataVersion` with each computed time, so that future times can be computed again when the data
// changes.

import type { ZoneLookup } from '../domain/zone/zone-lookup.ts'

export interface ZoneSource extends ZoneLookup {
  /** The release of the IANA data in use, e.g. `2026f`. */
  readonly dataVersion: string
  readonly source: 'system' | 'bundled'
  /** Of the tree in use; null for the data in the package. */
  readonly path: string | null
}

/** What there is to choose from, as the disk has it at the moment of asking. */
export interface ZoneDataOnDisk {
  readonly bundled: string
  /** The first tree that tells its release; null where none does. */
  readonly system: { readonly path: string; readonly version: string } | null
}
