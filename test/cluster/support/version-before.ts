/**
 * The version before this one, runnable: its sources out of the history, in a folder of its own in which its
 * packages find each other, and everybody else's packages are those of this version.
 */
import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Defer } from './arena.ts'

const root = fileURLToPath(new URL('../../..', import.meta.url))
const own: Readonly<Record<string, string>> = {
  '@belfry/contract': 'contract',
  '@belfry/sdk': 'sdk',
  '@belfry/server': 'server',
  '@belfry/ui': 'ui',
  belfry: 'cli',
}

export interface VersionBefore {
  /** For `arena.start`: starts a server of it. */
  readonly under: readonly string[]
  /** Its command line, for Node. */
  readonly launcher: string
  /** Folder of its migrations. */
  readonly migrations: string
}

export function takeVersionBefore(commit: string, defer: Defer): VersionBefore {
  const directory = mkdtempSync(join(tmpdir(), 'belfry-before-'))
  defer(() => rmSync(directory, { recursive: true, force: true }))
  const script = 'git -C "$1" archive "$2" packages package.json scripts | tar -x -C "$3"'
  const taken = spawnSync('/bin/sh', ['-c', script, 'sh', root, commit, directory], { encoding: 'utf8' })
  if (taken.status !== 0) throw new Error(`the version before cannot be taken: ${taken.stderr}`)
  const modules = join(directory, 'node_modules')
  mkdirSync(join(modules, '@belfry'), { recursive: true })
  for (const name of readdirSync(join(root, 'node_modules'))) {
    if (name === '@belfry' || name === 'belfry') continue
    symlinkSync(join(root, 'node_modules', name), join(modules, name))
  }
  for (const [name, folder] of Object.entries(own))
    symlinkSync(join(directory, 'packages', folder), join(modules, name))
  const launcher = join(directory, 'packages/cli/bin/belfry.js')
  return {
    // what follows is the start of this version, of which only Node is taken
    under: ['/bin/sh', '-c', `exec "$1" '${launcher}' server start`, 'sh'],
    launcher,
    migrations: join(directory, 'packages/server/src/postgres/migrations/'),
  }
}
