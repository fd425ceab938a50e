/**
 * The parts of a Belfry process on an open store, each made once and handed to those who need it: engine,
 * API, gate of workers, hints, outbound calls. What is started and stopped when is up to who asked for them
 * (server.ts, embedded.ts).
 */
import type { Logger } from 'pino'
import { systemClock } from '../adapters/system/clock.ts'
import { createRedisHints } from '../adapters/redis/redis-hints.ts'
import type { RedisLink } from '../adapters/redis/redis-link.ts'
import { createSystemIds, systemRandom } from '../adapters/system/ids.ts'
import { openZoneSource, zoneDataOnDisk, zoneDirectories } from '../adapters/zones/zone-source.ts'
import { connectionShares } from '../config/connection-shares.ts'
import type { Config } from '../config/schema.ts'
import { createCalendarShelf } from '../engine/calendar-shelf.ts'
import type { DatabaseClock } from '../engine/database-clock.ts'
import { createDatabaseClock } from '../engine/database-clock.ts'
import type { FairTags } from '../engine/fair-tags.ts'
import { createFairTags } from '../engine/fair-tags.ts'
import { createLocalHints } from '../engine/local-hints.ts'
import { createNodeFacts, type NodeFacts } from '../engine/node-facts.ts'
import { createRunPace } from '../engine/run-pace.ts'
import type { RunWatcher } from '../engine/run-watcher.ts'
import { createRunWatcher } from '../engine/run-watcher.ts'
import type { WatchedRuns } from '../engine/watched-runs.ts'
import { createWatchedRuns, tellingEnds, tellingLines } from '../engine/watched-runs.ts'
import type { WorkerGate, WorkerGateOptions } from '../engine/workers/worker-gate.ts'
import { createWorkerGate } from '../engine/workers/worker-gate.ts'
import type { Api, ApiOptions } from '../http/api.ts'
import { createApi } from '../http/api.ts'
import type { Catalog } from '../ports/catalog.ts'
import type { Authenticator } from '../ports/credentials.ts'
import type { EgressAgent } from '../ports/egress.ts'
import type { EventSink } from '../ports/event-sink.ts'
import type { Hints } from '../ports/hints.ts'
import type { Ids } from '../ports/ids.ts'
import type { DirectIntake } from '../ports/run-intake.ts'
import type { WorkerStore } from '../ports/worker-store.ts'
import { createPostgresCatalog } from '../postgres/catalog/catalog.ts'
import { createKeyDirectory } from '../postgres/catalog/key-store.ts'
import type { Database } from '../postgres/database.ts'
import { createDirectIntake } from '../postgres/direct-intake.ts'
import { createPostgresHints } from '../postgres/hints.ts'
import { createSchemaCheck } from '../postgres/migrate.ts'
import { checkWritable } from '../postgres/writable.ts'
import type { PoolStats } from '../postgres/pool.ts'
import { createPostgresQueueProgress } from '../postgres/queue-progress.ts'
import { createPostgresRunQueue } from '../postgres/run-queue.ts'
import { createPostgresRunWatchStore } from '../postgres/run-watch-store.ts'
import { createPostgresRunStore } from '../postgres/run-store.ts'
import { createPostgresWorkerStore } from '../postgres/worker-store.ts'
import { createAuthenticator, keyMint } from '../security/credentials.ts'
import { createEgress } from '../security/egress/egress.ts'
import { createEventLog } from '../telemetry/event-log.ts'
import { createEventFanOut } from '../telemetry/fan-out.ts'
import type { Metrics } from '../telemetry/metrics.ts'
import type { ReadinessCheck, StatusReport } from '../telemetry/ops-server.ts'
import type { Engine, FunctionWork } from './engine.ts'
import { createEngine } from './engine.ts'
import { type Links, openLinks } from './links.ts'
import { type OpenReplica, openReplica } from './replica.ts'
import { statusReports } from './status-reports.ts'
import { redisSpace } from './timing.ts'
import type { Store } from './store.ts'
import { version } from './version.ts'

export interface Parts {
  readonly engine: Engine
  readonly checks: readonly ReadinessCheck[]
  readonly reports: readonly StatusReport[]
  readonly hints: Startable
  /** To be started before all else here. */
  readonly links: Links
  /** Of `databaseReadUrl`, where this process has the role `api`. */
  readonly replica: OpenReplica | undefined
  readonly egress: EgressAgent
  readonly tags: FairTags
  readonly ids: Ids
  readonly events: EventSink
  readonly workers: WorkerStore
  /** Undefined where this process has no role `api`. */
  readonly catalog: Catalog | undefined
  /** Undefined where this process has no role `api`. */
  readonly directIntake: DirectIntake | undefined
  /** Undefined where this process has no role `api`. */
  readonly createApi: (() => Promise<Api>) | undefined
}

type Startable = Hints & { start(): void; close(): Promise<void> }

/** What differs between a server and a Belfry inside a program. */
export interface AssembleOptions {
  /** Functions that this process executes. */
  readonly functions?: ((parts: FunctionParts) => FunctionWork) | undefined
  /** Whether this process calls HTTP targets, where it has the role `worker`. Default true. */
  readonly callsHttp?: boolean
  /** Default: estimated. */
  readonly databaseClock?: DatabaseClock | undefined
  /** Default: by API key. */
  readonly authenticator?: Authenticator | undefined
  readonly limits?: ApiOptions['limits']
}

/** What functions in this process lean on. */
export interface FunctionParts {
  readonly workers: WorkerStore
}

export function assemble(
  config: Config,
  logger: Logger,
  store: Store,
  metrics: Metrics,
  options: AssembleOptions = {},
): Parts {
  const { leases, api, db } = openPools(config, store)
  const ids = createSystemIds()
  const facts = createNodeFacts(systemClock)
  const events = openEvents(logger, store, metrics, facts)
  const pace = createRunPace()
  const links = openLinks(config, events)
  const hints = openHints(config, store, db ?? api ?? leases, ids.uuidv7(systemClock.nowMs()), links.redis)
  const egress = openEgress(config)
  // not on the connections of the API: a request waits for it while it holds one
  const progress = createPostgresQueueProgress(db ?? leases)
  const tags = createFairTags({ clock: systemClock, progress })
  const { zones, zonesOnDisk } = openZones(config)
  const shelf = createCalendarShelf()
  const shared = { ids, hints, egress, events, tags, zones }
  const watched = createWatchedRuns({ hints, clock: systemClock })
  const workers = tellingLines(createPostgresWorkerStore(db ?? api ?? leases), watched)
  const timing = { shelf, watched, links, config, clock: systemClock, random: systemRandom }
  const engine = createEngine({
    ...shared,
    ...timing,
    installation: store.installation,
    facts,
    pace,
    databaseClock: options.databaseClock,
    db: db ?? leases,
    leases,
    callsHttp: options.callsHttp ?? true,
    functions: options.functions?.({ workers }),
  })
  const gate = openGate(config, {
    ...shared,
    events: pace.counting('functions', events),
    workers,
    watched,
    databaseClock: options.databaseClock ?? createDatabaseClock(systemClock),
    db: db ?? api ?? leases,
    leases,
  })
  const replica = openReplica(config, leases, events)
  const catalog = api && createPostgresCatalog({ db: api, dataVersion: zones.dataVersion, shelf, replica })
  readGauges(metrics, [leases, api, db], engine)
  const { limits, authenticator } = options
  const asked = { retentionDays: config.retentionDays, limits, authenticator }
  return {
    engine,
    checks: readinessChecks(leases),
    reports: statusReports({ db: leases, engine, links, replica, zones, zonesOnDisk }),
    replica,
    hints,
    links,
    egress,
    tags,
    ids,
    events,
    workers,
    catalog,
    directIntake: api && createDirectIntake(api),
    createApi:
      api && catalog && (() => openApi({ db: api, catalog }, metrics, logger, { ...shared, ...asked, gate })),
  }
}

interface Pools {
  /** Few connections that nothing busy shares. */
  readonly leases: Database
  /** Undefined where this process has no role `api`. */
  readonly api: Database | undefined
  /** Undefined where nothing but the API needs the database. */
  readonly db: Database | undefined
}

function openPools(config: Config, store: Store): Pools {
  const { api, engine } = connectionShares(config)
  return {
    leases: store.db,
    api: api === 0 ? undefined : store.open('api', api),
    db: engine === 0 ? undefined : store.open('engine', engine),
  }
}

function openEvents(logger: Logger, store: Store, metrics: Metrics, facts: NodeFacts): EventSink {
  const events = createEventFanOut([createEventLog(logger), metrics.events, facts.events], (error) =>
    logger.error({ err: error }, 'a listener of events failed'),
  )
  store.onRestart((reason) => events.emit('database_restarted', { reason }))
  store.onMoved((move) => events.emit('database_moved', move))
  return events
}

const readinessChecks = (db: Database): readonly ReadinessCheck[] => [
  { name: 'database', check: () => db.ping() },
  { name: 'database_takes_writes', check: () => checkWritable(db) },
  { name: 'schema', check: createSchemaCheck(db) },
]

function openZones({ zoneDirectory }: Config) {
  const directories = zoneDirectories(zoneDirectory)
  return { zones: openZoneSource(directories), zonesOnDisk: () => zoneDataOnDisk(directories) }
}

function openWatcher(
  db: Database,
  shared: { readonly hints: Hints; readonly events: EventSink },
): RunWatcher {
  const store = createPostgresRunWatchStore(db)
  return createRunWatcher({ ...shared, clock: systemClock, random: systemRandom, store })
}

function openEgress(config: Config): EgressAgent {
  return createEgress({
    allowCidrs: config.egressAllow,
    denyCidrs: config.egressDeny,
    allowPorts: config.egressPorts,
    clock: systemClock,
    connectionsPerOrigin: Math.max(256, config.workerSlots),
  })
}

function openGate(
  { leaseMs, heartbeatMs }: Config,
  parts: Pick<WorkerGateOptions, 'ids' | 'hints' | 'events' | 'tags' | 'workers' | 'databaseClock'> & {
    readonly db: Database
    readonly leases: Database
    readonly watched: WatchedRuns
  },
): WorkerGate {
  const { db, leases, watched } = parts
  return createWorkerGate({
    ...parts,
    clock: systemClock,
    random: systemRandom,
    leaseMs,
    heartbeatMs,
    queue: createPostgresRunQueue(db),
    store: tellingEnds(createPostgresRunStore({ db, heartbeats: leases }), watched),
  })
}

function openApi(
  { db, catalog }: { readonly db: Database; readonly catalog: Catalog },
  metrics: Metrics,
  logger: Logger,
  shared: Pick<
    ApiOptions,
    'ids' | 'egress' | 'tags' | 'zones' | 'gate' | 'events' | 'limits' | 'retentionDays'
  > & {
    readonly hints: Hints
    readonly authenticator?: Authenticator | undefined
  },
): Promise<Api> {
  return createApi({
    ...shared,
    version,
    logger,
    catalog,
    watcher: openWatcher(db, shared),
    authenticator:
      shared.authenticator ??
      createAuthenticator({ directory: createKeyDirectory({ db }), clock: systemClock }),
    mint: keyMint,
    observer: metrics.requests,
  })
}

function openHints(
  config: Config,
  store: Store,
  db: Database,
  senderId: string,
  redis: RedisLink | undefined,
): Startable {
  const { connection } = store
  const timing = { clock: systemClock, random: systemRandom }
  const byDatabase =
    config.databaseHints === 'local'
      ? { ...createLocalHints(), start: () => {}, close: async () => {} }
      : createPostgresHints({ ...timing, db, connection, senderId })
  if (redis === undefined) return byDatabase
  const prefix = redisSpace(config, store)
  return createRedisHints({ ...timing, redis, otherwise: byDatabase, senderId, prefix })
}

function readGauges(metrics: Metrics, pools: readonly (Database | undefined)[], engine: Engine): void {
  metrics.readConnections(() => {
    const all = pools.flatMap((pool) => pool?.stats() ?? [])
    const sum = (of: (stats: PoolStats) => number) => all.reduce((total, stats) => total + of(stats), 0)
    return {
      open: sum((each) => each.open),
      idle: sum((each) => each.idle),
      waiting: sum((each) => each.waiting),
    }
  })
  const { worker, scheduling, gatekeeper, resolver } = engine
  metrics.readSkew(() => engine.databaseClock.skewMs())
  if (gatekeeper !== undefined) metrics.readGate(gatekeeper.stats)
  if (resolver !== undefined) metrics.readWorkflows(resolver.stats)
  readAnnouncing(metrics, engine)
  if (scheduling !== undefined) metrics.readBackfills(scheduling.backfiller.stats)
  if (scheduling?.relay !== undefined) metrics.readEventsLag(scheduling.relay.lagMs)
  if (worker === undefined) return
  metrics.readSlots(() => {
    const { slots, busy } = worker.stats()
    return { used: busy, free: Math.max(0, slots - busy) }
  })
}

function readAnnouncing(metrics: Metrics, { announcing: { announcer, announced } }: Engine): void {
  if (announcer === undefined && announced === undefined) return
  metrics.readAnnouncing(() => ({
    ...(announcer?.stats() ?? { window: 0, unclaimed: 0 }),
    ...(announced?.stats() ?? { waiting: 0, silentQueues: 0 }),
  }))
}
