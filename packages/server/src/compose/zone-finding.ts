/**
 * Words about the zone data of a process or a machine: is there newer one at hand, does another process have
 * newer one. Shared by `/readyz?verbose` and `belfry doctor`.
 */
import { compareZoneVersions, type ZoneDataVerdict } from '../domain/zone/zone-data.ts'
import type { ZoneDataOnDisk, ZoneSource } from '../ports/zones.ts'
import type { Finding } from '../telemetry/ops-server.ts'

export interface ZoneView {
  readonly zones: Pick<ZoneSource, 'dataVersion' | 'source' | 'path'>
  readonly onDisk: ZoneDataOnDisk
  /** Null: nothing is on record. Undefined: nobody asked. */
  readonly newestOnRecord: string | null | undefined
  /** What a scheduler found at its start. */
  readonly verdict?: ZoneDataVerdict | undefined
}

const mostNamed = 3

export function zoneFinding(view: ZoneView): Finding {
  const { zones, onDisk, newestOnRecord, verdict } = view
  const { dataVersion: version, source, path } = zones
  const newestAvailable = newestOf(onDisk)
  const differing = verdict !== undefined && 'differing' in verdict ? verdict.differing : []
  const facts = {
    version,
    source,
    path,
    bundled: onDisk.bundled,
    system: onDisk.system,
    newestAvailable,
    ...(newestOnRecord === undefined ? {} : { newestOnRecord }),
    ...(verdict === undefined ? {} : { differingZones: differing }),
  }
  const message = complaint(view, newestAvailable, differing)
  return { status: message === null ? 'ok' : 'warn', message, facts }
}

function newestOf({ bundled, system }: ZoneDataOnDisk): string {
  return system !== null && compareZoneVersions(system.version, bundled) > 0 ? system.version : bundled
}

function complaint(view: ZoneView, newestAvailable: string, differing: readonly string[]): string | null {
  const { zones, newestOnRecord, verdict } = view
  const { dataVersion: version } = zones
  if (compareZoneVersions(newestAvailable, version) > 0)
    return `This process computes with ${version}, and ${newestAvailable} is on this machine; restart it.`
  if (newestOnRecord !== undefined && newestOnRecord !== null && newestOnRecord > version) {
    const where = verdict === undefined ? '' : `, which differs in ${namesOf(differing)}`
    return (
      `The zone data here is ${version}, and another scheduler came with ${newestOnRecord}${where}; ` +
      "update the system's tzdata or Belfry here, then restart."
    )
  }
  if (differing.length === 0) return null
  return (
    `The rules of ${namesOf(differing)} differ from those on record, which call themselves ${version} too; ` +
    'give rules of your own a version of their own (docs/how-to/zone-data.md).'
  )
}

function namesOf(zones: readonly string[]): string {
  if (zones.length === 0) return 'no zone from now on'
  const named = zones.slice(0, mostNamed).join(', ')
  return zones.length > mostNamed ? `${named} and ${zones.length - mostNamed} more zones` : named
}
