/**
 * `belfry dev`: everything in one process on the embedded Postgres, for a person at a terminal. Jobs may call
 * this machine, a taken default port is replaced by a free one, and the key of the last time is used again.
 */
import { chmodSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { BelfryError } from '@belfry/contract'
import { loadConfig } from '../config/load.ts'
import type { Config } from '../config/schema.ts'
import { keyWorks, makeOwnerKey } from './first-key.ts'
import { terminalLogger } from './logging.ts'
import type { BelfryServer } from './server.ts'
import { orStop, startServer } from './server.ts'
import { version } from './version.ts'

const loopback = ['127.0.0.0/8', '::1/128']

export interface Dev {
  readonly url: string
  readonly apiKey: string
  /** What to tell the person: where things are, what to type next. */
  readonly welcome: readonly string[]
  stop(): Promise<void>
}

export interface DevOptions {
  readonly dataDir?: string
  readonly port?: number
  readonly env: Readonly<Record<string, string | undefined>>
  readonly signal: AbortSignal
  readonly out: (line: string) => void
  /** Where the context `dev` is kept; named in the welcome. */
  readonly contextFile: string
}

/** Throws BelfryError, as `startServer`. */
export async function startDev(options: DevOptions): Promise<Dev> {
  const flags = { dataDir: options.dataDir, port: options.port }
  const { config, sources } = loadConfig({ flags, env: options.env })
  const wanted: Config = {
    ...config,
    egressAllow: sources.egressAllow === 'default' ? loopback : config.egressAllow,
    logLevel: sources.logLevel === 'default' ? 'warn' : config.logLevel,
    // whoever chooses a port has another Belfry, or something else, on the usual ones
    opsPort: sources.port !== 'default' && sources.opsPort === 'default' ? 0 : config.opsPort,
  }
  const portsAreDefaults = sources.port === 'default' && sources.opsPort === 'default'
  const server = await startAnywhere(wanted, portsAreDefaults, options)
  const url = server.apiUrl ?? ''
  const apiKey = await orStop(server, keyOfLastTime(server, config.dataDir))
  return { url, apiKey, welcome: welcome(server, wanted, options.contextFile), stop: () => server.stop() }
}

async function startAnywhere(config: Config, mayMove: boolean, options: DevOptions): Promise<BelfryServer> {
  const logger = terminalLogger(config.logLevel)
  const { signal } = options
  try {
    return await startServer({ config, logger, signal })
  } catch (error) {
    const portTaken = error instanceof BelfryError && error.code === 'in_use' && isAddressFault(error.cause)
    if (!portTaken || !mayMove) throw error
    options.out(`Port ${config.port} or ${config.opsPort} is taken; taking free ones.`)
    return startServer({ config: { ...config, port: 0, opsPort: 0 }, logger, signal })
  }
}

function isAddressFault(cause: unknown): boolean {
  return cause instanceof Error && 'code' in cause && cause.code === 'EADDRINUSE'
}

function welcome(server: BelfryServer, config: Config, contextFile: string): string[] {
  return [
    `Belfry ${version} is up.`,
    `  API      ${server.apiUrl}   (OpenAPI: ${server.apiUrl}/v1/openapi.json)`,
    `  Health   ${server.opsUrl}/readyz   (metrics: ${server.opsUrl}/metrics)`,
    `  Data     ${server.store.description}`,
    `  Key      in the context "dev" (${contextFile}), which is current now`,
    `  Targets  public addresses, and ${config.egressAllow.join(', ')}`,
    '',
    'Next, in another terminal:',
    '  npx belfry schedule create hello --every 10s --http POST http://localhost:8080/',
    '  npx belfry run list',
    '',
    'Ctrl-C stops it.',
  ]
}

/** Kept beside the data, for this user only; a new one where it is gone or does not work any more. */
async function keyOfLastTime(server: BelfryServer, dataDir: string): Promise<string> {
  const path = join(dataDir, 'dev-key')
  const { db } = server.store
  const known = readIfThere(path)
  if (known !== undefined && (await keyWorks(db, known))) return known
  const { key } = await makeOwnerKey(db, 'dev', 'dev')
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
