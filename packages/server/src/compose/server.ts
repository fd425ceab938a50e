/**
 * One Belfry process: store, engine, API and ops port (parts.ts), started and stopped as the configuration
 * says; nothing is decided here.
 *
 *   start  ops port (alive, not ready) ─► store ─► hints ─► API ─► engine ─► ready
 *   stop   not ready ─► API refuses ─► shards given up ─► runs drained, rest handed back ─► API ─► store
 *
 * A stop ends, whatever does not answer: it takes `drainMs` and a fixed margin, and gives up what is left.
 */
import type { Logger } from 'pino'
import { systemClock } from '../adapters/system/clock.ts'
import type { Config } from '../config/schema.ts'
import { loginWarning } from '../postgres/login-rights.ts'
import { createMetrics } from '../telemetry/metrics.ts'
import type { ReadinessCheck, StatusReport } from '../telemetry/ops-server.ts'
import { createOps } from '../telemetry/ops-server.ts'
import { assemble } from './parts.ts'
import type { Store } from './store.ts'
import { openStore } from './store.ts'
import type { UndoStep } from './unwind.ts'
import { unwind } from './unwind.ts'
import { version } from './version.ts'

export interface BelfryServer {
  /** Undefined where this process has no role `api`. */
  readonly apiUrl: string | undefined
  readonly opsUrl: string
  readonly store: Store
  /** Resolves when nothing of it runs any more. May be called twice. */
  stop(): Promise<void>
}

/** What a stop may take beyond the drain; service managers should wait a little longer than both. */
const stopMarginMs = 25_000
/** The embedded Postgres bounds its own stop; without it, what it was writing would have to be recovered. */
const embeddedStopMs = 45_000

/** Throws BelfryError (see `openStore`, and `in_use` for a port); nothing stays open then. */
export async function startServer(options: {
  config: Config
  logger: Logger
  signal?: AbortSignal
}): Promise<BelfryServer> {
  const { config, logger } = options
  const metrics = createMetrics({ version })
  const starting = { name: 'started', check: () => Promise.reject(new Error('the server is still starting')) }
  const checks: ReadinessCheck[] = [starting]
  const reports: StatusReport[] = []
  const ops = createOps({ version, metrics, checks, reports })
  const undo: UndoStep[] = []
  const stopAll = () => unwind(undo, { clock: systemClock, logger, budgetMs: config.drainMs + stopMarginMs })
  try {
    // before the store, which may be waited for: a supervisor must see that the process lives
    const opsUrl = await ops.listen({ host: config.opsHost, port: config.opsPort })
    undo.push({ name: 'the ops port', undo: () => ops.close() })
    const store = await openStore({ ...options, log: (level, message) => logger[level](message) })
    const closing = { name: 'the store', undo: () => store.close() }
    undo.push(config.databaseUrl === undefined ? { ...closing, leastMs: embeddedStopMs } : closing)
    const warning = await loginWarning(store.db)
    if (warning !== undefined) logger.warn({ event: 'login_rights' }, warning)
    const parts = assemble(config, logger, store, metrics)
    undo.push({ name: 'outbound calls', undo: () => parts.egress.close() })
    undo.push({ name: 'the links beside Postgres', undo: () => parts.links.close() })
    undo.push({ name: 'the replica', undo: async () => parts.replica?.close() })
    parts.hints.start()
    undo.push({ name: 'the listener for hints', undo: () => parts.hints.close() })
    await parts.links.start()
    parts.replica?.start()
    await parts.audit.start()
    undo.push({ name: 'the notes of the audit', undo: () => parts.audit.stop() })
    const api = await parts.createApi?.()
    if (api !== undefined) undo.push({ name: 'the API', undo: () => api.close() })
    const apiUrl = await api?.listen({ host: config.host, port: config.port })
    if (apiUrl !== undefined) parts.callbacks.listensAt(apiUrl)
    undo.push({ name: 'the engine', undo: () => parts.engine.stop() })
    await parts.engine.start()
    checks.splice(0, 1, ...parts.checks)
    reports.push(...parts.reports)
    let stopping: Promise<void> | undefined
    const stop = (): Promise<void> => {
      ops.drain()
      api?.drain()
      stopping ??= stopAll()
      return stopping
    }
    return { apiUrl, opsUrl, store, stop }
  } catch (error) {
    await stopAll()
    throw error
  }
}

/** For what a caller does right after the start: a server that it cannot use must not stay. */
export async function orStop<T>(server: BelfryServer, work: Promise<T>): Promise<T> {
  try {
    return await work
  } catch (error) {
    await server.stop()
    throw error
  }
}
