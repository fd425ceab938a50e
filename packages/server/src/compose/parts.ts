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
import { quotaDefaults } from '../config/quota-fields.ts'
import type { Config } from '../config/schema.ts'
import type { AuditNoteKeeper } from '../engine/audit-notes.ts'
import { createCalendarShelf } from '../engine/calendar-shelf.ts'
import type { DatabaseClock } from '../engine/database-clock.ts'
import { createDatabaseClock } from '../engine/database-clock.ts'
import type { FairTags } from '../engine/fair-tags.ts'
import { createFairTags } from '../engine/fair-tags.ts'
import { createLocalHints } from '../engine/local-hints.ts'
import { createNodeFacts, type NodeFacts } from '../engine/node-facts.ts'
import { createRunPace } from '../engine/run-pace.ts'
import { directQuotas, withQuotas } from '../engine/quotas/quota-catalog.ts'
import { withLogQuota } from '../engine/quotas/log-quota.ts'
import { createQuotaKeeper, type QuotaKeeper } from '../engine/quotas/quota-keeper.ts'
import { createWatchedRuns, tellingLines } from '../engine/watched-runs.ts'
import type { Api, ApiOptions } from '../http/api.ts'
import type { Catalog } from '../ports/catalog.ts'
import type { Authenticator } from '../ports/credentials.ts'
import type { EgressAgent } from '../ports/egress.ts'
import type { EventSink } from '../ports/event-sink.ts'
import type { Hints } from '../ports/hints.ts'
import type { Ids } from '../ports/ids.ts'
import type { DirectIntake } from '../ports/run-intake.ts'
import type { SecretSource } from '../ports/secrets.ts'
import type { WorkerStore } from '../ports/worker-store.ts'
import { createPostgresCatalog } from '../postgres/catalog/catalog.ts'
import { createQuotaBuckets, createQuotaLookup } from '../postgres/catalog/quota-store.ts'
import type { Database } from '../postgres/database.ts'
import { createDirectIntake } from '../postgres/direct-intake.ts'
import { createPostgresHints } from '../postgres/hints.ts'
import { createSchemaCheck } from '../postgres/migrate.ts'
import { checkWritable } from '../postgres/writable.ts'
import { createPostgresQueueProgress } from '../postgres/queue-progress.ts'
import { createPostgresWorkerStore } from '../postgres/worker-store.ts'
import { inviteMint } from '../security/session-tokens.ts'
import { createEgress } from '../security/egress/egress.ts'
import { createEventLog } from '../telemetry/event-log.ts'
import { createEventFanOut } from '../telemetry/fan-out.ts'
import type { Metrics } from '../telemetry/metrics.ts'
import type { ReadinessCheck, StatusReport } from '../telemetry/ops-server.ts'
import { openApi, openGates } from './api-parts.ts'
import { auditReport, openAuditNotes } from './auditing.ts'
import { type Callbacks, openCallbacks } from './callbacks.ts'
import type { Engine, FunctionWork } from './engine.ts'
import { createEngine } from './engine.ts'
import { containerPolicy } from './containers.ts'
import { readGauges } from './gauges.ts'
import { lambdaAccess } from './lambda.ts'
import { type Links, openLinks } from './links.ts'
import { type OpenReplica, openReplica } from './replica.ts'
import { openPeople } from './people.ts'
import { openSecrets } from './secrets.ts'
import { statusReports } from './status-reports.ts'
import { redisSpace } from './timing.ts'
import type { Store } from './store.ts'

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
  readonly quotas: QuotaKeeper
  /** To be started and stopped with the process. */
  readonly audit: AuditNoteKeeper
  readonly callbacks: Callbacks
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
  readonly secrets: SecretSource
}

export function assemble(
  config: Config,
  logger: Logger,
  store: Store,
  metrics: Metrics,
  options: AssembleOptions = {},
): Parts {
  const base = openBase(config, logger, store, metrics)
  const { pools, shared, secrets, callbacks, workers, watched, quotas, pace, shelf, links, zonesOnDisk } =
    base
  const { leases, api, db } = pools
  const { events, hints, egress, tags, ids, audit, zones } = shared
  const timing = { shelf, watched, links, config, clock: systemClock, random: systemRandom }
  const engine = createEngine({
    ...shared,
    ...timing,
    secrets: secrets.source,
    callbacks,
    workers,
    installation: store.installation,
    facts: base.facts,
    pace,
    databaseClock: options.databaseClock,
    db: db ?? leases,
    leases,
    callsHttp: options.callsHttp ?? true,
    functions: options.functions?.({ workers, secrets: secrets.source }),
  })
  const replica = openReplica(config, leases, events)
  const catalog =
    api &&
    withQuotas(
      createPostgresCatalog({ db: api, dataVersion: zones.dataVersion, shelf, replica }),
      quotas,
      zones,
    )
  readGauges(metrics, [leases, api, db], engine)
  return {
    engine,
    checks: [...readinessChecks(leases), secrets.check],
    reports: [
      ...statusReports({ db: leases, engine, links, replica, zones, zonesOnDisk }),
      secrets.report,
      auditReport(config, leases),
    ],
    replica,
    hints,
    links,
    egress,
    tags,
    ids,
    events,
    workers,
    catalog,
    quotas,
    audit,
    callbacks,
    directIntake: api && catalog && directQuotas(createDirectIntake(api), catalog, quotas),
    createApi: api && catalog && apiOf({ config, logger, metrics, options, base, api, catalog }),
  }
}

type Base = ReturnType<typeof openBase>

/** What engine and API both lean on. */
function openBase(config: Config, logger: Logger, store: Store, metrics: Metrics) {
  const pools = openPools(config, store)
  const { leases, api, db } = pools
  const any = db ?? api ?? leases
  const ids = createSystemIds()
  const facts = createNodeFacts(systemClock)
  const events = openEvents(logger, store, metrics, facts)
  const links = openLinks(config, events)
  const hints = openHints(config, store, any, ids.uuidv7(systemClock.nowMs()), links.redis)
  const egress = openEgress(config)
  // not on the connections of the API: a request waits for it while it holds one
  const progress = createPostgresQueueProgress(db ?? leases)
  const tags = createFairTags({ clock: systemClock, progress })
  const audit = openAuditNotes({ db: any, clock: systemClock, random: systemRandom, events })
  const { zones, zonesOnDisk } = openZones(config)
  const watched = createWatchedRuns({ hints, clock: systemClock })
  const quotas = createQuotaKeeper({
    defaults: quotaDefaults(config.quotas),
    // not on the connections of the API, for the same reason
    buckets: createQuotaBuckets(db ?? leases),
    clock: systemClock,
  })
  const withQuota = withLogQuota(createPostgresWorkerStore(any), quotas, createQuotaLookup(db ?? leases))
  return {
    pools,
    shared: { ids, hints, egress, events, tags, zones, audit },
    facts,
    pace: createRunPace(),
    links,
    secrets: openSecrets({ config, egress, clock: systemClock, db: any, leases }),
    callbacks: openCallbacks(config, any),
    zonesOnDisk,
    shelf: createCalendarShelf(),
    watched,
    quotas,
    workers: tellingLines(withQuota, watched),
  }
}

interface ApiParts {
  readonly config: Config
  readonly logger: Logger
  readonly metrics: Metrics
  readonly options: AssembleOptions
  readonly base: Base
  readonly api: Database
  readonly catalog: Catalog
}

/** The gates are made at once, the API when it is asked for. */
function apiOf({ config, logger, metrics, options, base, api, catalog }: ApiParts): () => Promise<Api> {
  const { pools, shared, secrets, callbacks, pace, workers, watched, quotas } = base
  const { egress, ids, audit, events } = shared
  const gates = openGates(config, {
    ...shared,
    secrets: secrets.source,
    callbacks: callbacks.store,
    countedEvents: pace.counting('functions', events),
    workers,
    watched,
    databaseClock: options.databaseClock ?? createDatabaseClock(systemClock),
    db: pools.db ?? api,
    leases: pools.leases,
  })
  const { limits, authenticator } = options
  const people =
    authenticator === undefined
      ? openPeople(config, { db: api, catalog, egress, ids, notes: audit, clock: systemClock })
      : undefined
  const asked = {
    people,
    invites: inviteMint,
    trustedProxies: config.trustedProxies,
    retentionDays: config.retentionDays,
    limits,
    authenticator,
    quotas,
    vault: secrets.vault,
    lambda: lambdaAccess(config),
    containers: containerPolicy(config),
  }
  return () => openApi({ db: api, catalog }, metrics, logger, { ...shared, ...asked, ...gates })
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

function openEgress(config: Config): EgressAgent {
  return createEgress({
    allowCidrs: config.egressAllow,
    denyCidrs: config.egressDeny,
    allowPorts: config.egressPorts,
    clock: systemClock,
    connectionsPerOrigin: Math.max(256, config.workerSlots),
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
