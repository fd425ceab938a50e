// Trees of zone data for tests: the bundled release under another name, with some zones altered, and a writer
// of TZif files for rules that no release has.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { BUNDLED_ZONES_BASE64 } from '../../packages/server/src/adapters/zones/bundled-zones.generated.ts'
import { unpackZones } from '../../packages/server/src/adapters/zones/zone-bundle.ts'
import { openZoneSource } from '../../packages/server/src/adapters/zones/zone-source.ts'
import type { ZoneSource } from '../../packages/server/src/ports/zones.ts'

const bundle = unpackZones(BUNDLED_ZONES_BASE64)
const made: string[] = []

export function bundledFile(zone: string): Uint8Array {
  const bytes = bundle.files.get(zone)
  if (bytes === undefined) throw new Error(`the bundled data has no ${zone}`)
  return bytes
}

export type ZoneTree = {
  readonly version: string
  /** Other rules for some zones; null takes a zone away. */
  readonly altered?: Readonly<Record<string, Uint8Array | null>>
  /** Default: all that are bundled. */
  readonly zones?: readonly string[]
}

/** A directory as systems have it; `removeZoneTrees` removes it. */
export function makeZoneTree({ version, altered = {}, zones }: ZoneTree): string {
  const root = mkdtempSync(join(tmpdir(), 'belfry-zones-'))
  made.push(root)
  const names = new Set([...(zones ?? bundle.files.keys()), 'UTC', ...Object.keys(altered)])
  for (const name of names) {
    const bytes = name in altered ? altered[name] : bundledFile(name)
    if (bytes === null || bytes === undefined) continue
    mkdirSync(dirname(join(root, name)), { recursive: true })
    writeFileSync(join(root, name), bytes)
  }
  writeFileSync(join(root, 'tzdata.zi'), `# version ${version}\n`)
  return root
}

/** What a process uses that finds such a tree. */
export function zonesOf(tree: ZoneTree): ZoneSource {
  const source = openZoneSource({ directories: [makeZoneTree(tree)] })
  if (source.source !== 'system') throw new Error(`the tree ${tree.version} was not taken`)
  return source
}

export function removeZoneTrees(): void {
  for (const root of made.splice(0)) rmSync(root, { recursive: true, force: true })
}

export type ZoneChange = { readonly atMs: number; readonly offsetMs: number }

/** A version 2 file: an offset, changes of it, and the rule that goes on after the last one. */
export function tzif(initialOffsetMs: number, changes: readonly ZoneChange[], footer: string): Uint8Array {
  const offsets = [initialOffsetMs, ...changes.map(({ offsetMs }) => offsetMs)]
  const header = (counts: readonly number[]): Buffer => {
    const bytes = Buffer.alloc(44)
    bytes.write('TZif2', 'latin1')
    // UTC flags, standard flags, leap seconds, changes, types, bytes of names
    counts.forEach((count, index) => bytes.writeUInt32BE(count, 20 + index * 4))
    return bytes
  }
  const times = Buffer.alloc(changes.length * 8)
  changes.forEach(({ atMs }, index) => times.writeBigInt64BE(BigInt(Math.floor(atMs / 1_000)), index * 8))
  const indexes = Buffer.from(changes.map((_, index) => index + 1))
  const types = Buffer.alloc(offsets.length * 6)
  offsets.forEach((offsetMs, index) => types.writeInt32BE(offsetMs / 1_000, index * 6))
  const names = Buffer.from('LMT\0', 'latin1')
  const empty = [header([0, 0, 0, 0, 1, 1]), Buffer.alloc(6), Buffer.alloc(1)]
  const body = [header([0, 0, 0, changes.length, offsets.length, names.length]), times, indexes, types, names]
  return Buffer.concat([...empty, ...body, Buffer.from(`\n${footer}\n`, 'latin1')])
}

/** A zone that is so many hours ahead of UTC for ever. */
export const fixedZone = (hours: number): Uint8Array => tzif(hours * 3_600_000, [], `<LMT>${-hours}`)

/** A bundled file with another rule for the time after its last listed change. */
export function withFooter(zone: string, footer: string): Uint8Array {
  const bytes = Buffer.from(bundledFile(zone))
  const at = bytes.lastIndexOf('\n', bytes.length - 2)
  return Buffer.concat([bytes.subarray(0, at), Buffer.from(`\n${footer}\n`, 'latin1')])
}
