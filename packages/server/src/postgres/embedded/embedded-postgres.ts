/**
 * The embedded Postgres of `belfry dev` and of `belfry server` without DATABASE_URL: a real server, as a
 * child process, on a unix socket in a private directory (and on loopback when a port is asked for), data
 * in `<dataDir>/postgres`.
 *
 *   start   1 own the data directory: one Belfry process (data-owner.ts)
 *           2 binaries (binaries.ts)
 *           3 leftovers of an unclean death are made safe (leftovers.ts)
 *           4 cluster, by initdb the first time (cluster.ts)
 *           5 postmaster (postmaster.ts)
 *           6 database, role, password (access.ts)
 *   life    a postmaster that ends unasked (kill -9, out of memory) is started again with backoff: 3 and 5
 *   stop    fast shutdown, bounded; then the data directory is released
 *
 * If Belfry dies, the postmaster is stopped by its watchdog (postmaster.ts); if that was killed as well, it
 * stays as an orphan, harmless but idle, until the next start on the data directory stops it. Never two on
 * one.
 */
import { existsSync, mkdirSync, realpathSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { BelfryError } from '@belfry/contract'
import type { EmbeddedConnection, ServerLogger } from './access.ts'
import { prepareAccess, tcpPassword } from './access.ts'
import type { BinariesOptions } from './binaries.ts'
import { findBinaries } from './binaries.ts'
import type { Settings } from './cluster.ts'
import { ensureCluster, writeSettings } from './cluster.ts'
import { ownDataDirectory } from './data-owner.ts'
import { answers, clearLeftovers } from './leftovers.ts'
import type { Postmaster, PostmasterExit, PostmasterOptions } from './postmaster.ts'
import { startPostmaster, stopPostmaster } from './postmaster.ts'
import { openServerLog } from './server-log.ts'
import { discardSocketDirectory, prepareSocketDirectory } from './socket-directory.ts'
import { recordedSocketDirectory, socketPath } from './socket-directory.ts'
import { chooseRunAs, ensureReachable, sharedUserWarning } from './unprivileged.ts'

export type EmbeddedPostgresOptions = {
  readonly dataDir: string
  readonly log: ServerLogger
  /** Listen on 127.0.0.1 at this port as well, with a password (`tcp.passwordFile`). Default: socket only. */
  readonly port?: number | undefined
  /** Postgres settings over Belfry's defaults, for example `{ shared_buffers: '1GB' }`. */
  readonly settings?: Settings | undefined
  /** Where binaries come from; for tests. */
  readonly binaries?: BinariesOptions | undefined
}

export type EmbeddedExit = PostmasterExit & { readonly expected: boolean }

export type EmbeddedPostgres = {
  /** For the running server: the login role `belfry`, which owns nothing. */
  readonly connection: EmbeddedConnection
  /** For migrations: the superuser `postgres`. */
  readonly adminConnection: EmbeddedConnection
  /** Only when `port` was given. */
  readonly tcp: { readonly host: string; readonly port: number; readonly passwordFile: string } | undefined
  /** True when this start made the cluster. */
  readonly created: boolean
  /** Of the present postmaster; changes when it is started again. */
  readonly pid: number
  /**
   * Fast shutdown; resolves when the process has ended and the data directory is free. May be called twice.
   */
  readonly stop: () => Promise<void>
  /**
   * Called at each end of a postmaster; `expected` is false when nobody asked for it (it is started again).
   */
  readonly onExit: (callback: (exit: EmbeddedExit) => void) => void
}

const defaultPort = 5432
const fastStopMs = 30_000
const firstBackoffMs = 100
const maxBackoffMs = 10_000
const stableAfterMs = 60_000

/**
 * Starts the embedded server and waits until it takes connections. Throws BelfryError `in_use` (another
 * Belfry has the data directory), `invalid_config` (platform, permissions, version), `database_full` or
 * `database_unavailable`.
 */
export async function startEmbeddedPostgres(options: EmbeddedPostgresOptions): Promise<EmbeddedPostgres> {
  // As root, another user must be able to walk through what is made here; it can list and read nothing.
  mkdirSync(options.dataDir, { recursive: true, mode: process.getuid?.() === 0 ? 0o711 : 0o700 })
  const dataDir = realpathSync(options.dataDir)
  const port = options.port ?? defaultPort
  const foreignIsAlive = () => answers(socketPath(recordedSocketDirectory(dataDir), port))
  const ownership = await ownDataDirectory(dataDir, foreignIsAlive)
  try {
    return await startOwned(dataDir, port, options, ownership.release)
  } catch (error) {
    ownership.release()
    throw error
  }
}

async function startOwned(
  dataDir: string,
  port: number,
  options: EmbeddedPostgresOptions,
  release: () => void,
): Promise<EmbeddedPostgres> {
  const clusterDir = join(dataDir, 'postgres')
  const runAs = chooseRunAs(clusterDir)
  const warning = sharedUserWarning(runAs, !existsSync(clusterDir))
  if (warning !== undefined) options.log('warn', warning)
  ensureReachable(dataDir, runAs)
  const binaries = findBinaries(runAs, options.binaries)
  const orphan = await clearLeftovers(clusterDir)
  if (orphan !== undefined)
    options.log('warn', `Stopped an orphaned Postgres (pid ${orphan}) of an earlier run.`)
  const created = await ensureCluster(clusterDir, binaries, runAs)
  writeSettings(clusterDir, options.settings ?? {})
  const socketDir = prepareSocketDirectory(dataDir, port, runAs)
  const serverLog = openServerLog(dataDir)
  const stopping = new AbortController()
  const supervised = await supervise(
    {
      postgres: binaries.postgres,
      clusterDir,
      socketDir,
      port,
      loopback: options.port !== undefined,
      runAs,
      log: serverLog,
      signal: stopping.signal,
      onSlowStart: (elapsedMs) =>
        options.log('info', `Postgres is still recovering (${Math.round(elapsedMs / 1000)} s); waiting.`),
    },
    options.log,
  ).catch((error: unknown) => {
    serverLog.close()
    throw error
  })

  const stop = once(async () => {
    stopping.abort()
    await supervised.stop()
    serverLog.close()
    discardSocketDirectory(dataDir, socketDir)
    release()
  })
  const adminConnection = { host: socketDir, port, user: 'postgres', database: 'belfry' }
  const password = options.port === undefined ? undefined : tcpPassword(dataDir)
  try {
    await prepareAccess({ ...adminConnection, database: 'postgres' }, password?.value)
  } catch (error) {
    await stop()
    throw error
  }
  return {
    connection: { ...adminConnection, user: 'belfry' },
    adminConnection,
    tcp: password && { host: '127.0.0.1', port, passwordFile: password.file },
    created,
    get pid() {
      return supervised.pid()
    },
    stop,
    onExit: supervised.onExit,
  }
}

type Supervised = {
  readonly pid: () => number
  readonly stop: () => Promise<void>
  readonly onExit: EmbeddedPostgres['onExit']
}

/** Keeps one postmaster running until `stop`. */
async function supervise(options: PostmasterOptions, log: ServerLogger): Promise<Supervised> {
  let current: Postmaster | undefined = await startPostmaster(options)
  let pid = current.pid
  const callbacks: ((exit: EmbeddedExit) => void)[] = []
  const atProcessExit = () => current?.kill('SIGINT')
  process.once('exit', atProcessExit)

  const keepRunning = async () => {
    let backoffMs = firstBackoffMs
    while (current !== undefined) {
      const startedAt = performance.now()
      const exit = await current.exited
      current = undefined
      const expected = options.signal.aborted
      for (const callback of callbacks) callback({ ...exit, expected })
      if (expected) return
      log(
        'error',
        `Postgres (pid ${pid}) ended unasked (${exit.signal ?? `exit ${exit.code}`}); starting it again.`,
      )
      if (performance.now() - startedAt > stableAfterMs) backoffMs = firstBackoffMs
      while (current === undefined) {
        await sleep(backoffMs * (0.5 + Math.random() / 2), undefined, { signal: options.signal }).catch(
          () => undefined,
        )
        if (options.signal.aborted) return
        backoffMs = Math.min(backoffMs * 2, maxBackoffMs)
        current = await restart(options, log)
      }
      pid = current.pid
    }
  }
  const life = keepRunning()
  const stop = async () => {
    if (current !== undefined) await stopPostmaster(current, fastStopMs)
    await life
    process.off('exit', atProcessExit)
  }
  return { pid: () => pid, stop, onExit: (callback) => void callbacks.push(callback) }
}

async function restart(options: PostmasterOptions, log: ServerLogger): Promise<Postmaster | undefined> {
  try {
    await clearLeftovers(options.clusterDir)
    const postmaster = await startPostmaster(options)
    log('info', `Postgres runs again (pid ${postmaster.pid}).`)
    return postmaster
  } catch (error) {
    if (!(error instanceof BelfryError && error.code === 'shutting_down')) {
      log(
        'error',
        `Postgres could not be started again: ${error instanceof Error ? error.message : String(error)}`,
      )
    }
    return undefined
  }
}

function once(action: () => Promise<void>): () => Promise<void> {
  let running: Promise<void> | undefined
  return () => {
    running ??= action()
    return running
  }
}
