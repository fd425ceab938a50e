/**
 * The data directory of the embedded server (`<dataDir>/postgres`): made once by initdb, configured at
 * every start. initdb works in a directory of another name that is renamed when it is complete and on disk,
 * so a kill in the middle never leaves half a cluster under the real name. Callers own the data directory
 * (data-owner.ts).
 */
import { spawn } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import {
  appendFileSync,
  closeSync,
  existsSync,
  fsyncSync,
  openSync,
  readdirSync,
  readFileSync,
} from 'node:fs'
import { realpathSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { BelfryError } from '@belfry/contract'
import type { Binaries } from './binaries.ts'
import type { RunAs } from './unprivileged.ts'
import { giveTree, makePrivateDirectory, replaceFile, spawnAs } from './unprivileged.ts'

export type Settings = Readonly<Record<string, string | number>>

/** Environment of every Postgres process: nothing of ours, above all no PG* variable. */
export const serverEnvironment = { PATH: '/usr/local/bin:/usr/bin:/bin', LC_ALL: 'C', TZ: 'UTC' }

/**
 * For a laptop: a small footprint, and every promise about durability kept (fsync and full pages stay on).
 */
const defaultSettings: Settings = {
  shared_buffers: '128MB',
  max_connections: 100,
  fsync: 'on',
  full_page_writes: 'on',
  synchronous_commit: 'on',
  wal_compression: 'on',
  min_wal_size: '80MB',
  max_wal_size: '1GB',
  checkpoint_timeout: '10min',
  autovacuum_naptime: '20s',
  jit: 'off',
  random_page_cost: 1.1,
  timezone: 'UTC',
  log_timezone: 'UTC',
  log_line_prefix: '%m [%p] %q%u@%d ',
  log_checkpoints: 'off',
  idle_in_transaction_session_timeout: '10min',
}

const hostAccess = `# Written by Belfry. The socket directory is private (0700), so its users are trusted.
local all all trust
host all all 127.0.0.1/32 scram-sha-256
host all all ::1/128 scram-sha-256
`

/** Runs initdb unless the cluster is there already. Returns true when it was made now. */
export async function ensureCluster(clusterDir: string, binaries: Binaries, runAs: RunAs): Promise<boolean> {
  discardHalfMade(clusterDir)
  if (existsSync(clusterDir)) {
    checkVersion(clusterDir, binaries.major)
    giveTree(clusterDir, runAs)
    return false
  }
  const temporary = `${clusterDir}.initdb-${process.pid}-${randomBytes(4).toString('hex')}`
  makePrivateDirectory(temporary, runAs)
  await runInitdb(binaries, temporary, runAs)
  writeFileSync(join(temporary, 'pg_hba.conf'), hostAccess)
  appendFileSync(join(temporary, 'postgresql.conf'), "\ninclude 'belfry.conf'\n")
  writeSettings(temporary, {})
  for (const name of ['pg_hba.conf', 'postgresql.conf', '.']) syncToDisk(join(temporary, name))
  renameSync(temporary, clusterDir)
  syncToDisk(dirname(clusterDir))
  return true
}

/** Writes `belfry.conf`: the defaults above, with `settings` over them. */
export function writeSettings(clusterDir: string, settings: Settings): void {
  const lines = Object.entries({ ...defaultSettings, ...settings }).map(
    ([name, value]) =>
      `${settingName(name)} = '${String(value).replaceAll("'", "''").replaceAll('\n', ' ')}'`,
  )
  const path = join(clusterDir, 'belfry.conf')
  const text = `# Written by Belfry at every start; ALTER SYSTEM overrides it.\n${lines.join('\n')}\n`
  replaceFile(path, text, statSync(clusterDir))
}

/**
 * A name for the processes of this cluster: it stands in their titles, so leftovers can be told from
 * strangers.
 */
export function clusterName(clusterDir: string): string {
  return `belfry_${createHash('sha256').update(realpathSync(clusterDir)).digest('hex').slice(0, 12)}`
}

function settingName(name: string): string {
  if (/^[a-z_.]+$/.test(name)) return name
  throw new BelfryError('invalid_config', `"${name}" is not the name of a Postgres setting.`)
}

/**
 * What a killed start left. Nobody else works on this data directory, so all of it is dead, except that the
 * initdb of the killed Belfry may still write: it fails as its files vanish. What cannot be removed now is
 * removed at the next start.
 */
function discardHalfMade(clusterDir: string): void {
  const parent = dirname(clusterDir)
  for (const name of readdirSync(parent)) {
    if (!name.startsWith('postgres.initdb-')) continue
    try {
      rmSync(join(parent, name), { recursive: true, force: true, maxRetries: 5, retryDelay: 100 })
    } catch {
      // Under another name than the real cluster's it does no harm.
    }
  }
}

function checkVersion(clusterDir: string, major: number): void {
  const file = join(clusterDir, 'PG_VERSION')
  const found = existsSync(file) ? readFileSync(file, 'utf8').trim() : undefined
  if (found === String(major)) return
  const what = found === undefined ? 'is not a Postgres data directory' : `was made by Postgres ${found}`
  const message =
    `${clusterDir} ${what}, and this Belfry brings Postgres ${major}. ` +
    'Use another --data-dir, or move the data over with pg_dumpall.'
  throw new BelfryError('invalid_config', message)
}

async function runInitdb(binaries: Binaries, directory: string, runAs: RunAs): Promise<void> {
  const collation = ['--locale=C', '--locale-provider=builtin', '--builtin-locale=C.UTF-8']
  const args = [
    '-D',
    directory,
    '-U',
    'postgres',
    '-A',
    'trust',
    '-E',
    'UTF8',
    ...collation,
    '--no-instructions',
  ]
  const child = spawn(binaries.initdb, args, {
    cwd: '/',
    env: serverEnvironment,
    stdio: ['ignore', 'pipe', 'pipe'],
    ...spawnAs(runAs),
  })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (chunk: Buffer) => {
      output = (output + chunk.toString()).slice(-4000)
    })
  }
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once('error', reject)
    child.once('close', resolve)
  })
  if (code === 0) return
  rmSync(directory, { recursive: true, force: true })
  throw new BelfryError('database_unavailable', `initdb failed (exit ${code}):\n${output.trim()}`)
}

function syncToDisk(path: string): void {
  const descriptor = openSync(path, 'r')
  try {
    fsyncSync(descriptor)
  } finally {
    closeSync(descriptor)
  }
}
