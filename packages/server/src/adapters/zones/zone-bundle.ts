// The form in which a release of the zone data travels inside the package: one Brotli-compressed,
// base64-coded block.
//
//   4 bytes        length of the index, big-endian
//   index          JSON: {"version": "2026f", "files": [[byteLength, name, alias…], …]}
//   file, file, …  TZif data in the order of the index, each distinct content once
//
// `scripts/generate-zones.ts` packs it; the bundled source unpacks it at its first use.

import { brotliCompressSync, brotliDecompressSync, constants } from 'node:zlib'

/** TZif bytes by zone name; links share their bytes. */
export type ZoneFiles = { readonly version: string; readonly files: ReadonlyMap<string, Uint8Array> }

type BundleIndex = { readonly version: string; readonly files: readonly (readonly [number, ...string[]])[] }

const LENGTH_BYTES = 4

export function packZones(zones: ZoneFiles): string {
  const groups = new Map<string, { bytes: Uint8Array; names: string[] }>()
  for (const [name, bytes] of [...zones.files].sort(([a], [b]) => (a < b ? -1 : 1))) {
    const content = Buffer.from(bytes).toString('latin1')
    const group = groups.get(content)
    if (group) group.names.push(name)
    else groups.set(content, { bytes, names: [name] })
  }
  const contents = [...groups.values()]
  const index: BundleIndex = {
    version: zones.version,
    files: contents.map(({ bytes, names }) => [bytes.length, ...names]),
  }
  const indexBytes = Buffer.from(JSON.stringify(index))
  const length = Buffer.alloc(LENGTH_BYTES)
  length.writeUInt32BE(indexBytes.length)
  const raw = Buffer.concat([length, indexBytes, ...contents.map(({ bytes }) => bytes)])
  const packed = brotliCompressSync(raw, {
    params: {
      [constants.BROTLI_PARAM_QUALITY]: constants.BROTLI_MAX_QUALITY,
      [constants.BROTLI_PARAM_LGWIN]: constants.BROTLI_MAX_WINDOW_BITS,
    },
  })
  return packed.toString('base64')
}

export function unpackZones(base64: string): ZoneFiles {
  const raw = brotliDecompressSync(Buffer.from(base64, 'base64'))
  const indexEnd = LENGTH_BYTES + raw.readUInt32BE(0)
  const index = JSON.parse(raw.toString('utf8', LENGTH_BYTES, indexEnd)) as BundleIndex
  const files = new Map<string, Uint8Array>()
  let at = indexEnd
  for (const [byteLength, ...names] of index.files) {
    const bytes = raw.subarray(at, at + byteLength)
    for (const name of names) files.set(name, bytes)
    at += byteLength
  }
  return { version: index.version, files }
}
