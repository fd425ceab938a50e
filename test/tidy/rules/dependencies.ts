// What the lock file may bring in: packages of the registry only, each held by its SHA-512, none that comes
// from git, an address or a file, and no install script outside the list. `npm audit signatures` asks the
// registry besides, where one can be reached.
import { type Rule, type SourceFile, type Violation, violation } from '../lib/source-file.ts'

/** Scripts that are not run: what they would do is not needed. */
const refusedScripts: ReadonlySet<string> = new Set([
  // of bullmq, a peer in the benchmarks, which works without it
  'msgpackr-extract',
])

type Entry = {
  readonly version?: string
  readonly integrity?: string
  readonly resolved?: string
  readonly link?: boolean
  readonly hasInstallScript?: boolean
} & Partial<Record<(typeof rangeFields)[number], Readonly<Record<string, string>>>>
type Lock = { readonly packages?: Readonly<Record<string, Entry>> }
const rangeFields = ['dependencies', 'devDependencies', 'optionalDependencies', 'peerDependencies'] as const

/** A range of versions, or a name in the registry for one; nothing with an address or a path in it. */
const ofRegistry = /^(npm:(@[\w.-]+\/)?[\w.-]+@)?[\w.^~<>=|*\s-]*$/

const isOwn = (path: string): boolean => path === '' || path.startsWith('packages/')
const nameOf = (path: string): string =>
  path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length)

function faultsOf(path: string, entry: Entry, allowed: ReadonlySet<string>): string[] {
  const faults: string[] = []
  for (const field of rangeFields)
    for (const [name, range] of Object.entries(entry[field] ?? {}))
      if (!ofRegistry.test(range)) faults.push(`${name} "${range}" is not a version of the registry`)
  if (isOwn(path) || entry.link === true) return faults
  const hashes = (entry.integrity ?? '').split(' ')
  if (!hashes.every((hash) => /^sha512-[\w+/]{86}==$/.test(hash))) faults.push('has no SHA-512')
  if (entry.resolved !== undefined) faults.push(`comes from ${entry.resolved}, not by its name`)
  if (entry.version === undefined) faults.push('has no version')
  const name = nameOf(path)
  if (entry.hasInstallScript === true && !allowed.has(name) && !refusedScripts.has(name))
    faults.push('has an install script; see allowScripts in package.json')
  return faults
}

function lockFaults(file: SourceFile, allowed: ReadonlySet<string>): Violation[] {
  const { packages = {} } = JSON.parse(file.text) as Lock
  return Object.entries(packages).flatMap(([path, entry]) =>
    faultsOf(path, entry, allowed).map((fault) =>
      violation(file, Math.max(0, file.text.indexOf(`"${path}": {`)), `${path || 'the root'}: ${fault}`),
    ),
  )
}

export const dependencies: Rule = {
  name: 'dependencies from the registry only, held by their hash, with no install script outside the list',
  check: (files) => {
    const root = files.find((file) => file.path === 'package.json')
    const { allowScripts = {} } = JSON.parse(root?.text ?? '{}') as { allowScripts?: Record<string, boolean> }
    const allowed = new Set(Object.keys(allowScripts).filter((name) => allowScripts[name] === true))
    const lock = files.find((file) => file.path === 'package-lock.json')
    return lock === undefined ? [] : lockFaults(lock, allowed)
  },
}
