// Reads a compiled zone-data tree (the system's /usr/share/zoneinfo, or one that the generator is given). All
// files are read at once, so that an upgrade of the system's package cannot mix two releases inside a running
// process.

import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import type { ZoneFiles } from './zone-bundle.ts'

/** Where systems keep the tree; the first that is there counts. */
export const SYSTEM_ZONE_DIRECTORIES: readonly string[] = [
  '/usr/share/zoneinfo',
  '/usr/lib/zoneinfo',
  '/usr/share/lib/zoneinfo',
  '/etc/zoneinfo',
]

const ZONE_NAME = /^[A-Z][A-Za-z0-9_+-]*(?:\/[A-Za-z][A-Za-z0-9_+-]*){0,2}$/
/** A placeholder, no zone. */
const PLACEHOLDER = 'Factory'
const MAX_DEPTH = 3
const MAX_FILE_BYTES = 65_536

/** The release of the data in a tree, or undefined when the tree does not say (or is not there). */
export function readZoneVersion(directory: string): string | undefined {
  const inSource = /^# version (\d{4}[a-z]+)/.exec(readText(join(directory, 'tzdata.zi')) ?? '')
  if (inSource) return inSource[1]
  return /^(\d{4}[a-z]+)\s*$/.exec(readText(join(directory, '+VERSION')) ?? '')?.[1]
}

/** Every zone file of a tree by name; throws only for an unreadable root. */
export function readZoneDirectory(directory: string, version: string): ZoneFiles {
  const files = new Map<string, Uint8Array>()
  walk(directory, '', 1, files)
  return { version, files }
}

function walk(root: string, prefix: string, depth: number, files: Map<string, Uint8Array>): void {
  for (const entry of readdirSync(join(root, prefix), { withFileTypes: true })) {
    const name = prefix === '' ? entry.name : `${prefix}/${entry.name}`
    if (!ZONE_NAME.test(name) || name === PLACEHOLDER) continue
    if (entry.isDirectory()) {
      if (depth < MAX_DEPTH) walk(root, name, depth + 1, files)
      continue
    }
    // Links to files are followed, since many systems keep aliases so; links to folders could go round in
    // circles.
    const stats = statSync(join(root, name), { throwIfNoEntry: false })
    if (!stats?.isFile() || stats.size > MAX_FILE_BYTES) continue
    const bytes = readFileSync(join(root, name))
    if (bytes.toString('latin1', 0, 4) === 'TZif') files.set(name, bytes)
  }
}

function readText(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    // Not there, or not ours to read: the tree then tells no version and is not used.
    return undefined
  }
}
