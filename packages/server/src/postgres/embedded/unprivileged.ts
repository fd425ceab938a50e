/**
 * Postgres refuses to run as root. When Belfry is started by root, the embedded server runs as an
 * unprivileged user: the owner of an existing data directory, else `postgres`, else `belfry`, else `nobody`,
 * else the first ordinary user of /etc/passwd. Whoever runs as that user is let in by the socket as a
 * superuser of the store, so the last two, who are others as well, come with a warning. Started by anybody
 * else, it runs as that user and this file changes nothing.
 */
import { spawnSync } from 'node:child_process'
import { chmodSync, chownSync, lchownSync, lstatSync, mkdirSync, readdirSync, readFileSync } from 'node:fs'
import { renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { BelfryError } from '@belfry/contract'

/** Whom the server runs as; `undefined` means: as this process. */
export type RunAs = { readonly uid: number; readonly gid: number; readonly name: string } | undefined

/** Users that exist for a database, or for Belfry. */
const ownUsers = ['postgres', '_postgres', 'belfry']

/** Picks the user for the server whose data lies (or will lie) in `clusterDir`. */
export function chooseRunAs(clusterDir: string): RunAs {
  if (process.getuid?.() !== 0) return undefined
  const users = passwdUsers()
  const owner = statSync(clusterDir, { throwIfNoEntry: false })
  if (owner !== undefined && owner.uid !== 0) {
    const known = users.find((user) => user.uid === owner.uid)
    return { uid: owner.uid, gid: owner.gid, name: known?.name ?? `uid ${owner.uid}` }
  }
  const named = [...ownUsers, 'nobody'].map((name) => users.find((user) => user.name === name))
  const chosen = named.find((user) => user !== undefined) ?? users[0]
  if (chosen === undefined) {
    const message =
      'Postgres does not run as root, and /etc/passwd names no other user. ' +
      'Create one (useradd --system postgres), start Belfry as an ordinary user, or set DATABASE_URL.'
    throw new BelfryError('invalid_config', message)
  }
  return chosen
}

/**
 * What to say about a user that others run as too; undefined where there is nothing to say. Whose data
 * directory is there already is the choice of whoever made it, but for `nobody`.
 */
export function sharedUserWarning(runAs: RunAs, isNew: boolean): string | undefined {
  if (runAs === undefined || ownUsers.includes(runAs.name) || !(isNew || runAs.name === 'nobody'))
    return undefined
  return (
    `Belfry runs as root, so its Postgres runs as the user ${runAs.name}, and every other process of that ` +
    'user may read and change the store. Make a user for it (useradd --system belfry) before the first ' +
    'start, or start Belfry as an ordinary user.'
  )
}

/** Spawn options that make a child run as that user. */
export function spawnAs(runAs: RunAs): { uid?: number; gid?: number } {
  return runAs === undefined ? {} : { uid: runAs.uid, gid: runAs.gid }
}

/** Creates a directory with mode 0700 that belongs to the server's user. */
export function makePrivateDirectory(path: string, runAs: RunAs): void {
  mkdirSync(path, { recursive: true, mode: 0o700 })
  if (runAs !== undefined) chownSync(path, runAs.uid, runAs.gid)
  chmodSync(path, 0o700)
}

/**
 * Replaces a file in a directory that belongs to the server's user. Root must not follow a link that this
 * user may have put in the way, so the new file is created exclusively under another name and renamed.
 */
export function replaceFile(
  path: string,
  text: string,
  owner: { readonly uid: number; readonly gid: number },
): void {
  const fresh = `${path}.new`
  rmSync(fresh, { force: true })
  writeFileSync(fresh, text, { mode: 0o600, flag: 'wx' })
  lchownSync(fresh, owner.uid, owner.gid)
  renameSync(fresh, path)
}

/** Gives a tree to the server's user (links themselves, never what they point to). */
export function giveTree(path: string, runAs: RunAs): void {
  if (runAs === undefined) return
  const info = lstatSync(path)
  if (info.isSymbolicLink()) return
  if (info.uid !== runAs.uid || info.gid !== runAs.gid) lchownSync(path, runAs.uid, runAs.gid)
  if (!info.isDirectory()) return
  for (const name of readdirSync(path)) giveTree(join(path, name), runAs)
}

/**
 * Makes sure that the server's user can walk into `directory`. Only `directory` itself is opened (mode + x
 * for others, which shows no names and no contents); a closed directory above it belongs to somebody else,
 * so that is an error.
 */
export function ensureReachable(directory: string, runAs: RunAs): void {
  if (runAs === undefined || canEnter(directory, runAs)) return
  if (canEnter(dirname(directory), runAs)) {
    chmodSync(directory, (statSync(directory).mode & 0o7777) | 0o011)
    if (canEnter(directory, runAs)) return
  }
  const message =
    `Belfry runs as root, so its Postgres runs as the user ${runAs.name}, who cannot enter ${directory}. ` +
    'Choose a directory that this user can reach (for example --data-dir /var/lib/belfry), ' +
    'or start Belfry as an ordinary user.'
  throw new BelfryError('invalid_config', message)
}

function canEnter(directory: string, runAs: NonNullable<RunAs>): boolean {
  const probe = spawnSync('/bin/sh', ['-c', 'cd -- "$1"', 'sh', directory], {
    cwd: '/',
    stdio: 'ignore',
    timeout: 10_000,
    ...spawnAs(runAs),
  })
  return probe.status === 0
}

function passwdUsers(): NonNullable<RunAs>[] {
  let text: string
  try {
    text = readFileSync('/etc/passwd', 'utf8')
  } catch {
    return []
  }
  return text.split('\n').flatMap((line) => {
    const [name, , uid, gid] = line.split(':')
    const user = { name: name ?? '', uid: Number(uid), gid: Number(gid) }
    return name && uid && gid && user.uid > 0 && user.gid > 0 ? [user] : []
  })
}
