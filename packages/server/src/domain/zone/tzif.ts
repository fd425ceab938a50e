// Pure parser of TZif (RFC 9636), the compiled form of the zone data: bytes in, a table of offset changes
// out. Only the 64-bit part (version 2 and later) is read; the 32-bit part before it ends in 2038 and is
// skipped. Files with leap seconds (the `right/` tree) are refused: Belfry counts POSIX time.

import { parsePosixRule, type PosixRule } from './posix-rule.ts'
import { refuse, type Result, succeed } from './result.ts'

/**
 * `offsetsMs[i]` holds from `changesMs[i]` on; before the first change `initialOffsetMs` holds. East is
 * positive.
 */
export type ZoneTable = {
  readonly initialOffsetMs: number
  readonly changesMs: readonly number[]
  readonly offsetsMs: readonly number[]
  readonly rule: PosixRule | null
}

const MAGIC = 0x545a6966
const HEADER_BYTES = 44
const TYPE_BYTES = 6

type Header = {
  readonly version: number
  readonly utcFlags: number
  readonly standardFlags: number
  readonly leapSeconds: number
  readonly changes: number
  readonly types: number
  readonly nameBytes: number
}

/** The error says in a few words what is wrong with the bytes. */
export function parseTzif(bytes: Uint8Array): Result<ZoneTable, string> {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const first = readHeader(view, 0)
  if (!first) return refuse('not a TZif file: the header is missing')
  if (first.version < 0x32) return refuse('a version 1 TZif file: 64-bit data is missing')
  const secondAt = HEADER_BYTES + bodyBytes(first, 4)
  const header = readHeader(view, secondAt)
  if (!header) return refuse('the second header is missing')
  const bodyAt = secondAt + HEADER_BYTES
  const footerAt = bodyAt + bodyBytes(header, 8)
  if (footerAt > view.byteLength) return refuse('the file ends inside its data')
  if (header.leapSeconds > 0) return refuse('the file counts leap seconds')
  if (header.types === 0) return refuse('the file has no local time type')
  const table = readChanges(view, bodyAt, header)
  if (typeof table === 'string') return refuse(table)
  const footer = readFooter(bytes.subarray(footerAt))
  if (footer === undefined) return refuse('the footer is not closed')
  if (footer === '') return succeed({ ...table, rule: null })
  const rule = parsePosixRule(footer)
  return rule ? succeed({ ...table, rule }) : refuse(`the footer rule cannot be read: ${footer}`)
}

function readHeader(view: DataView, at: number): Header | undefined {
  if (at + HEADER_BYTES > view.byteLength || view.getUint32(at) !== MAGIC) return undefined
  return {
    version: view.getUint8(at + 4),
    utcFlags: view.getUint32(at + 20),
    standardFlags: view.getUint32(at + 24),
    leapSeconds: view.getUint32(at + 28),
    changes: view.getUint32(at + 32),
    types: view.getUint32(at + 36),
    nameBytes: view.getUint32(at + 40),
  }
}

function bodyBytes(header: Header, timeBytes: number): number {
  return (
    header.changes * (timeBytes + 1) +
    header.types * TYPE_BYTES +
    header.nameBytes +
    header.leapSeconds * (timeBytes + 4) +
    header.standardFlags +
    header.utcFlags
  )
}

function readChanges(view: DataView, bodyAt: number, header: Header): Omit<ZoneTable, 'rule'> | string {
  const indexAt = bodyAt + header.changes * 8
  const typesAt = indexAt + header.changes
  const changesMs: number[] = []
  const offsetsMs: number[] = []
  let previousMs = Number.NEGATIVE_INFINITY
  for (let i = 0; i < header.changes; i++) {
    const typeIndex = view.getUint8(indexAt + i)
    if (typeIndex >= header.types) return 'a change names a local time type that is not there'
    const timeMs = readSeconds64(view, bodyAt + i * 8) * 1_000
    if (timeMs <= previousMs) return 'the changes are not in time order'
    previousMs = timeMs
    changesMs.push(timeMs)
    offsetsMs.push(view.getInt32(typesAt + typeIndex * TYPE_BYTES) * 1_000)
  }
  return { initialOffsetMs: view.getInt32(typesAt) * 1_000, changesMs, offsetsMs }
}

function readSeconds64(view: DataView, at: number): number {
  return view.getInt32(at) * 4_294_967_296 + view.getUint32(at + 4)
}

function readFooter(bytes: Uint8Array): string | undefined {
  const newline = 0x0a
  if (bytes[0] !== newline) return undefined
  const end = bytes.indexOf(newline, 1)
  return end < 0 ? undefined : String.fromCharCode(...bytes.subarray(1, end))
}
