/**
 * What the command line starts: `belfry server start | migrate | init`, `belfry dev`, and a Belfry in this
 * process for the demo and for tests. Each loads the configuration, has the parts composed, and stops when
 * its signal fires.
 */
import type { DevOptions } from './compose/dev.ts'
import { startDev } from './compose/dev.ts'
import { makeOwnerKey } from './compose/first-key.ts'
import { serverLogger, terminalLogger } from './compose/logging.ts'
import { type BelfryServer, orStop, startServer } from './compose/server.ts'
import { migrateStore, openStore } from './compose/store.ts'
import { loadConfig } from './config/load.ts'
import type { Config } from './config/schema.ts'

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
  /** Takes words for people; a running server logs instead. */
  readonly say: (line: string) => void
  /** Stops the server; how it stops is `drainMs` and the rest of the configuration. */
  readonly signal: AbortSignal
  /** For `init`. */
  readonly tenant?: string
  /** For `init`: takes the key. */
  readonly onReady?: (ready: Ready) => void
}

export type RunDevOptions = Omit<DevOptions, 'env'> & { readonly onReady: (ready: Ready) => void }

/** Resolves when it is done, or has stopped. Throws BelfryError, whose message says what to do. */
export async function runServer(options: RunServerOptions): Promise<undefined> {
  const { flags, env } = options
  const file = options.configFile === undefined ? {} : { file: options.configFile }
  const { config } = loadConfig({ flags, env, ...file })
  if (options.action === 'start') return serve(config, options.signal)
  if (options.action === 'migrate') return bringUpToDate(config, options)
  return initialize(config, options)
}

async function serve(config: Config, signal: AbortSignal): Promise<undefined> {
  const logger = serverLogger(config.logLevel)
  const server = await startServer({ config, logger, signal })
  const { apiUrl, opsUrl, store } = server
  logger.info({ event: 'ready', apiUrl, opsUrl, store: store.description }, 'ready')
  await stopped(signal)
  logger.info({ event: 'stopping' }, 'stopping')
  await server.stop()
  logger.info({ event: 'stopped' }, 'stopped')
}

async function bringUpToDate(config: Config, { say, signal }: RunServerOptions): Promise<undefined> {
  const applied = await migrateStore({ config, signal, log: (_, message) => say(message) })
  const words = applied.length === 0 ? '' : `Applied ${applied.join(', ')}. `
  say(`${words}The schema is up to date.`)
}

async function initialize(config: Config, options: RunServerOptions): Promise<undefined> {
  const { say, signal, tenant = 'main' } = options
  const store = await openStore({ config, signal, log: (_, message) => say(message) })
  try {
    const made = await makeOwnerKey(store.db, tenant, 'init')
    const words = made.tenantCreated
      ? `Made the tenant ${tenant} and`
      : `The tenant ${tenant} was there; made`
    say(`${words} an API key. It is shown this once.`)
    options.onReady?.({ url: `http://${config.host}:${config.port}`, apiKey: made.key })
  } finally {
    await store.close()
  }
}

export async function runDev(options: RunDevOptions): Promise<undefined> {
  const { out, signal } = options
  const dev = await startDev({ ...options, env: process.env })
  options.onReady(dev)
  for (const line of dev.welcome) out(line)
  await stopped(signal)
  out('Stopping …')
  await dev.stop()
}

/** Resolves when the signal fires. */
function stopped(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve()
    else signal.addEventListener('abort', () => resolve(), { once: true })
  })
}

export interface StartedBelfry extends Ready {
  readonly opsUrl: string
  /** Of its embedded Postgres, or as it was given: other processes of this user may share it. */
  readonly databaseUrl: string
  stop(): Promise<void>
}

/** A whole Belfry in this process, with a tenant and a key of its own: for the demo and for tests. */
export async function startBelfry(options: {
  flags: Readonly<Record<string, unknown>>
  signal?: AbortSignal
}): Promise<StartedBelfry> {
  const { config } = loadConfig({ flags: options.flags })
  const server = await startServer({ ...options, config, logger: terminalLogger(config.logLevel) })
  const { key } = await orStop(server, makeOwnerKey(server.store.db, 'main', 'first'))
  const databaseUrl = config.databaseUrl ?? socketUrl(server.store.connection)
  const { apiUrl: url = '', opsUrl } = server
  return { url, opsUrl, databaseUrl, apiKey: key, stop: () => server.stop() }
}

function socketUrl({ user, host, port, database }: BelfryServer['store']['connection']): string {
  return `postgres://${user}@localhost:${port}/${database}?host=${encodeURIComponent(host ?? '')}`
}
