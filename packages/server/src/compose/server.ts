/**
 * One Belfry process: store, engine, API and ops port, put together as the configuration says. The only file
 * that knows every adapter's neighbour; nothing is decided here.
 *
 *   start  ops port (alive, not ready) ─► store ─► hints ─► API ─► engine ─► ready
 *   stop   not ready ─► API refuses ─► shards given up ─► runs drained, rest handed back ─► API ─► store
 *
 * A stop ends, whatever does not answer: it takes `drainMs` and a fixed margin, and gives up what is left.
 */
import type { Logger } from 'pino'
import { systemClock } from '../adapters/system/clock.ts'
import { createSystemIds, systemRandom } from '../adapters/system/ids.ts'
import { openZoneSource } from '../adapters/zones/zone-source.ts'
import { connectionShares } from '../config/connection-shares.ts'
import type { Config } from '../config/schema.ts'
import { createDatabaseClock } from '../engine/database-clock.ts'
import { createFairTags } from '../engine/fair-tags.ts'
import { createLocalHints } from '../engine/local-hints.ts'
import { createWorkerGate } from '../engine/workers/worker-gate.ts'
import type { Api } from '../http/api.ts'
import { createApi } from '../http/api.ts'
import type { EgressAgent } from '../ports/egress.ts'
import type { EventSink } from '../ports/event-sink.ts'
import type { Hints } from '../ports/hints.ts'
import { createPostgresCatalog } from '../postgres/catalog/catalog.ts'
import { createKeyDirectory } from '../postgres/catalog/key-store.ts'
import type { Database } from '../postgres/database.ts'
import { createPostgresHints } from '../postgres/hints.ts'
import { loginWarning } from '../postgres/login-rights.ts'
import { createSchemaCheck } from '../postgres/migrate.ts'
import { checkWritable } from '../postgres/writable.ts'
import type { PoolStats } from '../postgres/pool.ts'
import { createPostgresQueueProgress } from '../postgres/queue-progress.ts'
import { createPostgresRunQueue } from '../postgres/run-queue.ts'
import { createPostgresRunStore } from '../postgres/run-store.ts'
import { createPostgresWorkerStore } from '../postgres/worker-store.ts'
import { createAuthenticator, keyMint } from '../security/credentials.ts'
import { createEgress } from '../security/egress/egress.ts'
import { createEventLog } from '../telemetry/event-log.ts'
import { createEventFanOut } from '../telemetry/fan-out.ts'
import type { Metrics } from '../telemetry/metrics.ts'
import { createMetrics } from '../telemetry/metrics.ts'
import type { ReadinessCheck } from '../telemetry/ops-server.ts'
import { createOps } from '../telemetry/ops-server.ts'
import type { Engine } from './engine.ts'
import { createEngine } from './engine.ts'
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
  const ops = createOps({ metrics, checks })
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
    parts.hints.start()
    undo.push({ name: 'the listener for hints', undo: () => parts.hints.close() })
    const api = await parts.createApi?.()
    if (api !== undefined) undo.push({ name: 'the API', undo: () => api.close() })
    const apiUrl = await api?.listen({ host: config.host, port: config.port })
    undo.push({ name: 'the engine', undo: () => parts.engine.stop() })
    await parts.engine.start()
    checks.splice(0, 1, ...parts.checks)
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

interface Parts {
  readonly engine: Engine
  readonly checks: readonly ReadinessCheck[]
  readonly hints: Startable
  readonly egress: EgressAgent
  /** Undefined where this process has no role `api`. */
  readonly createApi: (() => Promise<Api>) | undefined
}

type Startable = Hints & { start(): void; close(): Promise<void> }

function assemble(config: Config, logger: Logger, store: Store, metrics: Metrics): Parts {
  const shares = connectionShares(config)
  const leases = store.db
  const api = shares.api === 0 ? undefined : store.open('api', shares.api)
  const db = shares.engine === 0 ? undefined : store.open('engine', shares.engine)
  const ids = createSystemIds()
  const events = createEventFanOut([createEventLog(logger), metrics.events], (error) =>
    logger.error({ err: error }, 'a listener of events failed'),
  )
  store.onRestart((reason) => events.emit('database_restarted', { reason }))
  const hints = openHints(config, store, db ?? api ?? leases, ids.uuidv7(systemClock.nowMs()))
  const egress = createEgress({
    allowCidrs: config.egressAllow,
    denyCidrs: config.egressDeny,
    allowPorts: config.egressPorts,
    clock: systemClock,
    connectionsPerOrigin: Math.max(256, config.workerSlots),
  })
  // not on the connections of the API: a request waits for it while it holds one
  const progress = createPostgresQueueProgress(db ?? leases)
  const tags = createFairTags({ clock: systemClock, progress })
  const shared = { ids, hints, egress, events, tags, zones: openZoneSource() }
  const timing = { clock: systemClock, random: systemRandom }
  const engine = createEngine({ ...shared, ...timing, config, db: db ?? leases, leases })
  const gate = createWorkerGate({
    ...shared,
    ...timing,
    leaseMs: config.leaseMs,
    heartbeatMs: config.heartbeatMs,
    databaseClock: createDatabaseClock(systemClock),
    queue: createPostgresRunQueue(db ?? api ?? leases),
    store: createPostgresRunStore({ db: db ?? api ?? leases, heartbeats: leases }),
    workers: createPostgresWorkerStore(db ?? api ?? leases),
  })
  const pools = [leases, api, db].filter((each) => each !== undefined)
  readGauges(metrics, pools, engine)
  return {
    engine,
    checks: [
      { name: 'database', check: () => leases.ping() },
      { name: 'database_takes_writes', check: () => checkWritable(leases) },
      { name: 'schema', check: createSchemaCheck(leases) },
    ],
    hints,
    egress,
    createApi: api && (() => openApi(api, metrics, logger, { ...shared, gate })),
  }
}

function openApi(
  db: Database,
  metrics: Metrics,
  logger: Logger,
  shared: Pick<Parameters<typeof createApi>[0], 'ids' | 'hints' | 'egress' | 'tags' | 'zones' | 'gate'> & {
    events: EventSink
  },
): Promise<Api> {
  return createApi({
    ...shared,
    version,
    logger,
    catalog: createPostgresCatalog({ db }),
    authenticator: createAuthenticator({ directory: createKeyDirectory({ db }), clock: systemClock }),
    mint: keyMint,
    observer: metrics.requests,
  })
}

function openHints(config: Config, store: Store, db: Database, senderId: string): Startable {
  if (config.databaseHints === 'local') {
    return { ...createLocalHints(), start: () => {}, close: async () => {} }
  }
  return createPostgresHints({
    db,
    connection: store.connection,
    clock: systemClock,
    random: systemRandom,
    senderId,
  })
}

function readGauges(metrics: Metrics, pools: readonly Database[], engine: Engine): void {
  metrics.readConnections(() => {
    const all = pools.map((pool) => pool.stats())
    const sum = (of: (stats: PoolStats) => number) => all.reduce((total, stats) => total + of(stats), 0)
    return {
      open: sum((each) => each.open),
      idle: sum((each) => each.idle),
      waiting: sum((each) => each.waiting),
    }
  })
  const { worker } = engine
  if (worker === undefined) return
  metrics.readSlots(() => {
    const { slots, busy } = worker.stats()
    return { used: busy, free: Math.max(0, slots - busy) }
  })
}
