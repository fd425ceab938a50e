/**
 * The private directory (mode 0700) of the embedded server's unix socket. Its mode is the access control:
 * the server trusts whoever can open the socket. It lies in the data directory when the path fits the 100
 * bytes that every system allows for a socket, else in a short directory under the temporary one, whose
 * path is recorded in `<dataDir>/postgres-socket` and used again after a restart.
 */
import { randomBytes } from 'node:crypto'
import { lstatSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { RunAs } from './unprivileged.ts'
import { makePrivateDirectory } from './unprivileged.ts'

const maxSocketPathBytes = 100

export function socketPath(directory: string, port: number): string {
  return join(directory, `.s.PGSQL.${port}`)
}

/** The directory that an earlier start used, or the one that a start would use; nothing is created. */
export function recordedSocketDirectory(dataDir: string): string {
  try {
    return readFileSync(recordOf(dataDir), 'utf8').trim()
  } catch {
    return join(dataDir, 'postgres-run')
  }
}

/** Creates (or finds again) the socket directory for a server on `port`. */
export function prepareSocketDirectory(dataDir: string, port: number, runAs: RunAs): string {
  const inside = join(dataDir, 'postgres-run')
  if (fits(inside, port)) {
    rmSync(recordOf(dataDir), { force: true })
    makePrivateDirectory(inside, runAs)
    return inside
  }
  const recorded = recordedSocketDirectory(dataDir)
  if (recorded !== inside && fits(recorded, port) && isPrivateTo(recorded, runAs)) return recorded
  const base =
    [tmpdir(), '/tmp'].find((directory) => fits(join(directory, 'belfry-00000000'), port)) ?? '/tmp'
  const fresh = join(base, `belfry-${randomBytes(4).toString('hex')}`)
  makePrivateDirectory(fresh, runAs)
  writeFileSync(recordOf(dataDir), `${fresh}\n`, { mode: 0o600 })
  return fresh
}

/** Removes a directory under the temporary one after a clean stop. The one in the data directory stays. */
export function discardSocketDirectory(dataDir: string, directory: string): void {
  if (directory === join(dataDir, 'postgres-run')) return
  rmSync(directory, { recursive: true, force: true })
  rmSync(recordOf(dataDir), { force: true })
}

function recordOf(dataDir: string): string {
  return join(dataDir, 'postgres-socket')
}

function fits(directory: string, port: number): boolean {
  return Buffer.byteLength(socketPath(directory, port)) <= maxSocketPathBytes
}

function isPrivateTo(directory: string, runAs: RunAs): boolean {
  const info = lstatSync(directory, { throwIfNoEntry: false })
  const uid = runAs?.uid ?? process.getuid?.()
  return info !== undefined && info.isDirectory() && info.uid === uid && (info.mode & 0o077) === 0
}
