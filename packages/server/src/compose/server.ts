/**
 * One Belfry process: store, engine, API and ops port, put together as the configuration says. The only file
 * that knows every adapter's neighbour; nothing is decided here.
 *
 *   start  store ─► hints ─► ops port ─► API ─► engine
 *   stop   not ready ─► API refuses ─► shards given up ─► runs drained, rest handed back ─► API ─► store
 */
import type { Logger } from 'pino'
import { systemClock } from '../adapters/system/clock.ts'
import { createSystemIds, systemRandom } from '../adapters/system/ids.ts'
import { openZoneSource } from '../adapters/zones/zone-source.ts'
import type { Config } from '../config/schema.ts'
import { createTagClock } from '../domain/fair-queue.ts'
import { createLocalHints } from '../engine/local-hints.ts'
import type { Api } from '../http/api.ts'
import { createApi } from '../http/api.ts'
import type { EgressAgent } from '../ports/egress.ts'
import type { EventSink } from '../ports/event-sink.ts'
import type { Hints } from '../ports/hints.ts'
import { createPostgresCatalog } from '../postgres/catalog/catalog.ts'
import { createKeyDirectory } from '../postgres/catalog/key-store.ts'
import type { Database } from '../postgres/database.ts'
import { openDatabase } from '../postgres/database.ts'
import { createPostgresHints } from '../postgres/hints.ts'
import { createAuthenticator, keyMint } from '../security/credentials.ts'
import { createEgress } from '../security/egress/egress.ts'
import { createEventLog } from '../telemetry/event-log.ts'
import { createEventFanOut } from '../telemetry/fan-out.ts'
import type { Metrics } from '../telemetry/metrics.ts'
import { createMetrics } from '../telemetry/metrics.ts'
import type { Ops } from '../telemetry/ops-server.ts'
import { createOps } from '../telemetry/ops-server.ts'
import type { Engine } from './engine.ts'
import { createEngine } from './engine.ts'
import type { Store } from './store.ts'
import { openStore } from './store.ts'
import { version } from './version.ts'

export interface BelfryServer {
  /** Undefined where this process has no role `api`. */
  readonly apiUrl: string | undefined
  readonly opsUrl: string
  readonly store: Store
  /** Resolves when nothing of it runs any more. May be called twice. */
  stop(): Promise<void>
}

/** Throws BelfryError (see `openStore`, and `in_use` for a port); nothing stays open then. */
export async function startServer(options: {
  config: Config
  logger: Logger
  signal?: AbortSignal
}): Promise<BelfryServer> {
  const { config, logger } = options
  const store = await openStore({
    ...options,
    log: (level, message) => logger[level](message),
  })
  const parts = assemble(config, logger, store)
  const undo = [() => store.close(), () => parts.heartbeats.close(), () => parts.egress.close()]
  try {
    parts.hints.start()
    undo.push(() => parts.hints.close())
    const opsUrl = await parts.ops.listen({ host: config.opsHost, port: config.opsPort })
    undo.push(() => parts.ops.close())
    const api = config.roles.includes('api') ? await parts.createApi() : undefined
    if (api !== undefined) undo.push(() => api.close())
    const apiUrl = await api?.listen({ host: config.host, port: config.port })
    await parts.engine.start()
    undo.push(() => parts.engine.stop())
    let stopping: Promise<void> | undefined
    const stop = (): Promise<void> => {
      parts.ops.drain()
      api?.drain()
      stopping ??= unwind(undo, logger)
      return stopping
    }
    return { apiUrl, opsUrl, store, stop }
  } catch (error) {
    await unwind(undo, logger)
    throw error
  }
}

/**
 * Undoes the start, last step first. A step that fails is logged and does not keep the others from being
 * undone.
 */
async function unwind(undo: (() => Promise<void>)[], logger: Logger): Promise<void> {
  for (const step of undo.splice(0).reverse()) {
    await step().catch((error: unknown) => logger.error({ err: error }, 'a part did not stop cleanly'))
  }
}

interface Parts {
  readonly engine: Engine
  readonly ops: Ops
  readonly hints: Startable
  readonly heartbeats: Database
  readonly egress: EgressAgent
  createApi(): Promise<Api>
}

type Startable = Hints & { start(): void; close(): Promise<void> }

function assemble(config: Config, logger: Logger, store: Store): Parts {
  const { db } = store
  const ids = createSystemIds()
  const metrics = createMetrics({ version })
  const events = createEventFanOut([createEventLog(logger), metrics.events], (error) =>
    logger.error({ err: error }, 'a listener of events failed'),
  )
  store.onRestart((reason) => events.emit('database_restarted', { reason }))
  const heartbeats = openDatabase({
    connection: store.connection,
    clock: systemClock,
    maxConnections: 1,
    applicationName: 'belfry-heartbeat',
    preparedStatements: config.databasePreparedStatements,
  })
  const hints = openHints(config, store, ids.uuidv7(systemClock.nowMs()))
  const egress = createEgress({
    allowCidrs: config.egressAllow,
    denyCidrs: config.egressDeny,
    allowPorts: config.egressPorts,
    clock: systemClock,
    connectionsPerOrigin: Math.max(256, config.workerSlots),
  })
  const shared = { ids, hints, egress, events, tags: createTagClock(), zones: openZoneSource() }
  const engine = createEngine({ ...shared, config, db, heartbeats, clock: systemClock, random: systemRandom })
  readGauges(metrics, db, engine)
  const ops = createOps({ metrics, checks: [{ name: 'database', check: () => db.ping() }] })
  return { engine, ops, hints, heartbeats, egress, createApi: () => openApi(db, metrics, logger, shared) }
}

function openApi(
  db: Database,
  metrics: Metrics,
  logger: Logger,
  shared: Pick<Parameters<typeof createApi>[0], 'ids' | 'hints' | 'egress' | 'tags' | 'zones'> & {
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

function openHints(config: Config, store: Store, senderId: string): Startable {
  if (config.databaseHints === 'local') {
    return { ...createLocalHints(), start: () => {}, close: async () => {} }
  }
  return createPostgresHints({
    db: store.db,
    connection: store.connection,
    clock: systemClock,
    random: systemRandom,
    senderId,
  })
}

function readGauges(metrics: Metrics, db: Database, engine: Engine): void {
  metrics.readConnections(db.stats)
  const { worker } = engine
  if (worker === undefined) return
  metrics.readSlots(() => {
    const { slots, busy } = worker.stats()
    return { used: busy, free: Math.max(0, slots - busy) }
  })
}
