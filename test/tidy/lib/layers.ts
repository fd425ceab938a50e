// The layer table of ARCHITECTURE.md as data: which folder is which layer, and what each layer may import.
// Dependencies point inwards only:
//
//   contract <- domain <- ports <- engine <- {postgres, adapters, security, telemetry, http, config}
//            <- compose <- main
//   sdk -> contract      ui -> contract
//   evaluator (server/src/schedule.ts, a library of its own) -> contract, domain, ports, adapters
//   cli -> contract, sdk, evaluator, and the server only when a command needs it
//
// The outer siblings in the braces never import each other; what they share goes through a port.

const inner = ['contract', 'domain', 'ports', 'engine'] as const
const outer = ['postgres', 'adapters', 'security', 'telemetry', 'http', 'config'] as const

export type Layer =
  | (typeof inner)[number]
  | (typeof outer)[number]
  | 'compose'
  | 'main'
  | 'evaluator'
  | 'sdk'
  | 'cli'
  | 'ui'

const within = [...inner, ...outer, 'compose'] as const

/** What a layer may import besides itself. */
export const mayImport: Readonly<Record<Layer, readonly Layer[]>> = {
  contract: [],
  domain: ['contract'],
  ports: ['contract', 'domain'],
  engine: ['contract', 'domain', 'ports'],
  postgres: inner,
  adapters: inner,
  security: inner,
  telemetry: inner,
  http: inner,
  config: inner,
  compose: [...inner, ...outer],
  // Only compose knows the adapters.
  main: within.filter((layer) => layer !== 'adapters'),
  evaluator: ['contract', 'domain', 'ports', 'adapters'],
  sdk: ['contract'],
  cli: ['contract', 'sdk', 'evaluator'],
  ui: ['contract'],
}

/** Allowed only as `await import(…)` or `import type`, so that the importing side stays light. */
export const mayImportLazily: Readonly<Partial<Record<Layer, readonly Layer[]>>> = { cli: ['main'] }

/**
 * Layers held to a short list of packages from outside; the others may use what their package.json names.
 * Those of the domain are pure: computation on what they are given.
 */
export const mayUsePackages: Readonly<Partial<Record<Layer, readonly string[]>>> = {
  contract: ['zod'],
  domain: ['ipaddr.js'],
  ports: [],
  engine: [],
  evaluator: [],
}

/** Node modules that a pure layer may use: computation only, no input or output. */
export const pureNodeModules: readonly string[] = ['node:crypto', 'node:buffer', 'node:util', 'node:assert']
export const pureLayers: readonly Layer[] = ['contract', 'domain']

const packageLayers: Readonly<Record<string, Layer>> = {
  '@belfry/contract': 'contract',
  '@belfry/sdk': 'sdk',
  '@belfry/server': 'main',
  '@belfry/ui': 'ui',
  belfry: 'cli',
}

/** The layer of one of our own packages when it is imported by name. */
export function layerOfPackage(specifier: string): Layer | undefined {
  if (specifier === '@belfry/server/schedule') return 'evaluator'
  const name = specifier.startsWith('@')
    ? specifier.split('/').slice(0, 2).join('/')
    : specifier.split('/')[0]
  return packageLayers[name ?? '']
}

const serverFolders: ReadonlySet<string> = new Set(within)

function isServerFolder(name: string): name is (typeof within)[number] {
  return serverFolders.has(name)
}

/** The layer of a file: undefined outside packages/<name>/src, 'unknown' for a folder without a row. */
export function layerOf(path: string): Layer | 'unknown' | undefined {
  const [, name, rest] = /^packages\/([^/]+)\/src\/(.+)$/.exec(path) ?? []
  if (name === undefined || rest === undefined) return undefined
  if (name !== 'server') return packageLayers[name === 'cli' ? 'belfry' : `@belfry/${name}`] ?? 'unknown'
  const head = rest.split('/')[0]?.replace(/\.ts$/, '') ?? ''
  if (rest === 'schedule.ts') return 'evaluator'
  if (!rest.includes('/')) return head === 'compose' ? 'compose' : 'main'
  return isServerFolder(head) ? head : 'unknown'
}
