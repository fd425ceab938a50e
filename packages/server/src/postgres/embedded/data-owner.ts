/**
 * At most one Belfry process owns a data directory. Node has no file locks, so ownership is announced:
 *
 *   1. write `<dataDir>/postgres-owner/<pid>-<random>.json` (a name that is never used twice)
 *   2. then look at every other announcement there
 *   3. dead ones are deleted (their names are unique, so no live one can be deleted by mistake)
 *   4. a live one: withdraw our own, wait a random moment, try again a few times; then fail and name its pid
 *
 * Because everybody announces before looking, of two processes at least one sees the other: two never both
 * own it. A process killed with -9 leaves a file whose pid and start time no longer match, which proves it
 * stale.
 */
import { randomBytes } from 'node:crypto'
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { BelfryError } from '@belfry/contract'
import type { Liveness, ProcessIdentity } from './process-identity.ts'
import { livenessOf, ownIdentity } from './process-identity.ts'

export type DataOwnership = { readonly release: () => void }

const attempts = 6

/**
 * Makes this process the owner of `dataDir`. Throws BelfryError `in_use` naming the pid that owns it.
 * `foreignIsAlive` judges owners in another pid namespace (a container sharing the volume), which pids
 * cannot.
 */
export async function ownDataDirectory(
  dataDir: string,
  foreignIsAlive: () => Promise<boolean>,
): Promise<DataOwnership> {
  const directory = join(dataDir, 'postgres-owner')
  mkdirSync(directory, { recursive: true, mode: 0o700 })
  for (let attempt = 1; ; attempt += 1) {
    const mine = announce(directory)
    const other = await liveOther(directory, mine, foreignIsAlive)
    if (other === undefined) return { release: () => rmSync(join(directory, mine), { force: true }) }
    rmSync(join(directory, mine), { force: true })
    if (attempt >= attempts) throw inUse(dataDir, other)
    await sleep(20 + Math.random() * 100)
  }
}

/**
 * Who owns a data directory now; undefined where nobody does, or nobody can tell. Only looks. `certain` is
 * false for one in another pid namespace, of which only the boot is known.
 */
export function findDataOwner(
  dataDir: string,
): { readonly pid: number; readonly certain: boolean } | undefined {
  const directory = join(dataDir, 'postgres-owner')
  let names: string[]
  try {
    names = readdirSync(directory)
  } catch {
    return undefined
  }
  const found = names
    .flatMap((name) => (name.endsWith('.json') ? (readIdentity(join(directory, name)) ?? []) : []))
    .map((identity) => ({ pid: identity.pid, liveness: livenessOf(identity) }))
  const owner =
    found.find(({ liveness }) => liveness === 'alive') ?? found.find(({ liveness }) => liveness === 'unknown')
  return owner === undefined ? undefined : { pid: owner.pid, certain: owner.liveness === 'alive' }
}

function announce(directory: string): string {
  const name = `${process.pid}-${randomBytes(6).toString('hex')}.json`
  const temporary = join(directory, `${name}.new`)
  writeFileSync(temporary, JSON.stringify(ownIdentity()), { mode: 0o600 })
  renameSync(temporary, join(directory, name))
  return name
}

async function liveOther(
  directory: string,
  mine: string,
  foreignIsAlive: () => Promise<boolean>,
): Promise<ProcessIdentity | undefined> {
  for (const name of readdirSync(directory)) {
    if (name === mine || !name.endsWith('.json')) continue
    const path = join(directory, name)
    const identity = readIdentity(path)
    if (identity === undefined) continue
    const liveness: Liveness = livenessOf(identity)
    if (liveness === 'alive') return identity
    if (liveness === 'unknown' && (await foreignIsAlive())) return identity
    rmSync(path, { force: true })
  }
  return undefined
}

/** Undefined when the file is gone. A damaged file (full disk) names nobody and counts as a dead owner. */
function readIdentity(path: string): ProcessIdentity | undefined {
  let text: string
  try {
    text = readFileSync(path, 'utf8')
  } catch {
    return undefined
  }
  try {
    const value = JSON.parse(text) as Partial<ProcessIdentity>
    return { pid: Number(value.pid), start: String(value.start), scope: String(value.scope) }
  } catch {
    return { pid: 0, start: '', scope: '' }
  }
}

function inUse(dataDir: string, owner: ProcessIdentity): BelfryError {
  const message =
    `The data directory ${dataDir} is in use by Belfry process ${owner.pid}. ` +
    'Stop that process, or start this one with another --data-dir, or give both one DATABASE_URL.'
  return new BelfryError('in_use', message)
}
