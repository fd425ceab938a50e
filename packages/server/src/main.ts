/**
 * What the command line starts: `belfry server start | migrate | init`, `belfry dev`, and a Belfry in this process for the
 * demo and for tests. Each loads the configuration, composes, and stops when its signal fires.
 */
import { randomBytes } from 'node:crypto'
import { chmodSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { BelfryError } from '@belfry/contract'
import type { Scope } from '@belfry/contract'
import { destination } from 'pino'
import { systemClock } from './adapters/system/clock.ts'
import { createSystemIds } from './adapters/system/ids.ts'
import type { BelfryServer } from './compose/server.ts'
import { startServer } from './compose/server.ts'
import type { Store } from './compose/store.ts'
import { migrateStore, openStore } from './compose/store.ts'
import { version } from './compose/version.ts'
import { loadConfig } from './config/load.ts'
import type { Config } from './config/schema.ts'
import { bootstrapTenant } from './postgres/catalog/bootstrap.ts'
import { createKeyDirectory } from './postgres/catalog/key-store.ts'
import { createAuthenticator, keyMint } from './security/credentials.ts'
import { createLogger } from './telemetry/logger.ts'

/** Where a server is, and a key to speak to it. */
export interface Ready {
  readonly url: string
  readonly apiKey: string
}

export interface RunServerOptions {
  readonly action: 'start' | 'migrate' | 'init'
  /** Settings given as flags, by their name in the configuration. */
  readonly flags: Readonly<Record<string, unknown>>
  readonly configFile?: string
  readonly env: Readonly<Record<string, string | undefined>>
  readonly out: (line: string) => void
  /** Stops the server; how it stops is `drainMs` and the rest of the configuration. */
  readonly signal: AbortSignal
  /** For `init`. */
  readonly tenant?: string
  readonly onReady?: (ready: Ready) => void
}

const ownerScopes: readonly Scope[] = ['admin', 'platform']
const loopback = ['127.0.0.0/8', '::1/128']

/** Resolves when it is done, or has stopped. Throws BelfryError, whose message says what to do. */
export async function runServer(options: RunServerOptions): Promise<undefined> {
  const { flags, env, out, signal } = options
  const file = options.configFile === undefined ? {} : { file: options.configFile }
  const { config } = loadConfig({ flags, env, ...file })
  if (options.action === 'start') {
    const logger = createLogger({ level: config.logLevel, version })
    const server = await startServer({ config, logger, signal })
    logger.info({ event: 'ready', apiUrl: server.apiUrl, opsUrl: server.opsUrl, store: server.store.description }, 'ready')
    await stopped(signal)
    logger.info({ event: 'stopping' }, 'stopping')
    await server.stop()
    logger.info({ event: 'stopped' }, 'stopped')
    return
  }
  const storeOptions = { config, clock: systemClock, signal, log: (_: string, message: string) => out(message) }
  if (options.action === 'migrate') {
    const applied = await migrateStore(storeOptions)
    out(applied.length === 0 ? 'The schema is up to date.' : `Applied ${applied.join(', ')}. The schema is up to date.`)
    return
  }
  const store = await openStore(storeOptions)
  try {
    await initialize(store, config, options)
  } finally {
    await store.close()
  }
}

async function initialize(store: Store, config: Config, options: RunServerOptions): Promise<void> {
  const tenant = options.tenant ?? 'main'
  const made = await bootstrapTenant(
    { db: store.db, ids: createSystemIds(), mint: keyMint },
    { tenant, keyName: `init-${randomBytes(4).toString('hex')}`, scopes: ownerScopes },
  )
  const words = made.tenantCreated ? `Made the tenant ${tenant}` : `The tenant ${tenant} was there already; made`
  options.out(`${words}${made.tenantCreated ? ' and' : ''} an API key. It is shown this once:`)
  options.out(made.key)
  options.onReady?.({ url: `http://${config.host}:${config.port}`, apiKey: made.key })
}

/** Resolves when the signal fires. */
function stopped(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve()
    else signal.addEventListener('abort', () => resolve(), { once: true })
  })
}

export interface RunDevOptions {
  readonly dataDir?: string
  readonly port?: number
  readonly out: (line: string) => void
  readonly signal: AbortSignal
  /** Where the context `dev` is kept; named in what is printed. */
  readonly contextFile: string
  readonly onReady: (ready: Ready) => void
}

/**
 * Everything in one process on the embedded Postgres, for a person at a terminal. Jobs may call this machine, and a taken
 * default port is replaced by a free one. Settings come from the environment too.
 */
export async function runDev(options: RunDevOptions): Promise<undefined> {
  const { out, signal } = options
  const given = { ...(options.dataDir && { dataDir: options.dataDir }), ...(options.port !== undefined && { port: options.port }) }
  const { config, sources } = loadConfig({ flags: given, env: process.env })
  const mayCall = sources.egressAllow === 'default' ? loopback : config.egressAllow
  const logLevel = sources.logLevel === 'default' ? 'warn' : config.logLevel
  const logger = createLogger({ level: logLevel, version, destination: destination({ fd: 2, sync: true }) })
  const wanted = { ...config, egressAllow: mayCall }
  const server = await startServer({ config: wanted, logger, signal }).catch((error: unknown) => {
    const portTaken = error instanceof BelfryError && error.code === 'in_use' && /port|address/i.test(error.message)
    if (!portTaken || sources.port !== 'default') throw error
    out(`Port ${config.port} or ${config.opsPort} is taken; taking free ones.`)
    return startServer({ config: { ...wanted, port: 0, opsPort: 0 }, logger, signal })
  })
  const url = server.apiUrl ?? ''
  const apiKey = await developerKey(server, config.dataDir)
  options.onReady({ url, apiKey })
  for (const line of welcome(server, mayCall, options.contextFile)) out(line)
  await stopped(signal)
  out('Stopping …')
  await server.stop()
}

function welcome(server: BelfryServer, mayCall: readonly string[], contextFile: string): string[] {
  return [
    `Belfry ${version} is up.`,
    `  API      ${server.apiUrl}   (OpenAPI: ${server.apiUrl}/v1/openapi.json)`,
    `  Health   ${server.opsUrl}/readyz   (metrics: ${server.opsUrl}/metrics)`,
    `  Data     ${server.store.description}`,
    `  Key      in the context "dev" (${contextFile}), which is current now`,
    `  Targets  public addresses, and ${mayCall.join(', ')}`,
    '',
    'Next, in another terminal:',
    '  npx belfry schedule create hello --every 10s --http POST http://localhost:8080/',
    '  npx belfry run list',
    '',
    'Ctrl-C stops it.',
  ]
}

/** The key of the last time, if it still works, else a new one; kept beside the data, for this user only. */
async function developerKey(server: BelfryServer, dataDir: string): Promise<string> {
  const path = join(dataDir, 'dev-key')
  const { db } = server.store
  const known = readIfThere(path)
  if (known !== undefined) {
    const authenticator = createAuthenticator({ directory: createKeyDirectory({ db }), clock: systemClock })
    if ((await authenticator.authenticate(known)) !== undefined) return known
  }
  const keyName = `dev-${randomBytes(4).toString('hex')}`
  const parts = { db, ids: createSystemIds(), mint: keyMint }
  const { key } = await bootstrapTenant(parts, { tenant: 'dev', keyName, scopes: ownerScopes })
  writeFileSync(path, `${key}\n`, { mode: 0o600 })
  chmodSync(path, 0o600)
  return key
}

function readIfThere(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8').trim()
  } catch {
    return undefined
  }
}

/** A whole Belfry in this process, with a tenant and a key of its own: for the demo and for tests. */
export async function startBelfry(options: {
  flags: Readonly<Record<string, unknown>>
  signal?: AbortSignal
}): Promise<Ready & { readonly opsUrl: string; stop(): Promise<void> }> {
  const { config } = loadConfig({ flags: options.flags })
  const logger = createLogger({ level: config.logLevel, version, destination: destination({ fd: 2, sync: true }) })
  const server = await startServer({ ...options, config, logger })
  const parts = { db: server.store.db, ids: createSystemIds(), mint: keyMint }
  const { key } = await bootstrapTenant(parts, { tenant: 'main', keyName: 'first', scopes: ownerScopes })
  return { url: server.apiUrl ?? '', opsUrl: server.opsUrl, apiKey: key, stop: server.stop }
}
