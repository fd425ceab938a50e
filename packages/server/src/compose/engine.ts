/**
 * Puts the engine's roles together on one store: which services a process runs follows from its `roles`. The
 * order matters. Start: the pruner before all that fires, so that what fires finds its partitions. Stop:
 * shards are given up first, so that others fire while this process still drains its runs.
 */
import { hostname } from 'node:os'
import type { Config } from '../config/schema.ts'
import { functionLane } from '../domain/route.ts'
import type { AnnouncedQueue } from '../engine/announced-queue.ts'
import type { Announcer } from '../engine/announcer.ts'
import type { EventRelay } from '../engine/event-relay.ts'
import type { Backfiller } from '../engine/backfiller.ts'
import { createBackfiller } from '../engine/backfiller.ts'
import type { DatabaseClock } from '../engine/database-clock.ts'
import { createDatabaseClock } from '../engine/database-clock.ts'
import type { Elector } from '../engine/elector.ts'
import { createDependencyResolver } from '../engine/dependency-resolver.ts'
import { createElector } from '../engine/elector.ts'
import type { FairTags } from '../engine/fair-tags.ts'
import type { Gatekeeper } from '../engine/gatekeeper.ts'
import { createGatekeeper } from '../engine/gatekeeper.ts'
import { createPruner } from '../engine/pruner.ts'
import type { NodeFacts } from '../engine/node-facts.ts'
import type { Replanner } from '../engine/replanner.ts'
import { createReplanner } from '../engine/replanner.ts'
import { createRescuer } from '../engine/rescuer.ts'
import type { Resolver } from '../engine/resolver.ts'
import { createResolver } from '../engine/resolver.ts'
import type { RunPace } from '../engine/run-pace.ts'
import { createScheduler } from '../engine/scheduler.ts'
import type { WatchedRuns } from '../engine/watched-runs.ts'
import { tellingEnds } from '../engine/watched-runs.ts'
import type { Worker } from '../engine/worker.ts'
import { createWorker } from '../engine/worker.ts'
import type { Announcements } from '../ports/announcements.ts'
import type { AuditNotes } from '../ports/audit.ts'
import type { CalendarShelf } from '../ports/calendars.ts'
import type { Clock } from '../ports/clock.ts'
import type { EgressAgent } from '../ports/egress.ts'
import type { EventSink } from '../ports/event-sink.ts'
import type { Handler } from '../ports/handler.ts'
import type { Hints } from '../ports/hints.ts'
import type { Ids } from '../ports/ids.ts'
import type { LeaseKeeper } from '../ports/lease-keeper.ts'
import type { Random } from '../ports/random.ts'
import type { RunStore, SessionOwner } from '../ports/run-store.ts'
import type { SecretSource } from '../ports/secrets.ts'
import type { Service } from '../ports/service.ts'
import type { WorkerStore } from '../ports/worker-store.ts'
import type { ZoneSource } from '../ports/zones.ts'
import type { Database } from '../postgres/database.ts'
import { createPostgresBackfilling } from '../postgres/backfilling.ts'
import { createPostgresDependencies } from '../postgres/dependencies.ts'
import { createPostgresFiring } from '../postgres/firing.ts'
import { createPostgresGate } from '../postgres/gate/gate.ts'
import { createPostgresMaintenance } from '../postgres/maintenance.ts'
import { createPostgresReplans } from '../postgres/replans.ts'
import { createPostgresOverdueRuns } from '../postgres/overdue-runs.ts'
import { createPostgresRunQueue } from '../postgres/run-queue.ts'
import { createPostgresRunStore } from '../postgres/run-store.ts'
import { createPostgresWorkflowResolving } from '../postgres/workflow-resolving.ts'
import { auditServices } from './auditing.ts'
import { openAnnouncements, openAnnouncer, openWorkerQueue } from './announcing.ts'
import { openArrivals, openEventRelay } from './eventing.ts'
import type { Callbacks } from './callbacks.ts'
import type { Containers } from './containers.ts'
import type { Links } from './links.ts'
import { openNodeReporter } from './nodes.ts'
import { openHandlers } from './handlers.ts'
import { createTiming } from './timing.ts'
import { version } from './version.ts'

export interface EngineParts {
  readonly config: Config
  readonly db: Database
  /** For heartbeats and elections: a busy pool must not cost a worker its runs or a scheduler its shards. */
  readonly leases: Database
  readonly clock: Clock
  readonly random: Random
  readonly ids: Ids
  readonly events: EventSink
  readonly hints: Hints
  readonly tags: FairTags
  readonly zones: ZoneSource
  /** Of the process. */
  readonly shelf: CalendarShelf
  /** Default: estimated. */
  readonly databaseClock?: DatabaseClock | undefined
  readonly links: Links
  /** Tells this installation from others, beside Postgres. */
  readonly installation: string
  /** Runs that somebody follows. */
  readonly watched: WatchedRuns
  /** What this process tells of itself. */
  readonly facts: NodeFacts
  readonly pace: RunPace
  readonly egress: EgressAgent
  readonly secrets: SecretSource
  readonly audit: AuditNotes
  readonly callbacks: Callbacks
  readonly workers: WorkerStore
  /** Whether the worker calls HTTP targets. */
  readonly callsHttp: boolean
  /** Functions that are executed here. */
  readonly functions?: FunctionWork | undefined
}

/** The functions of a tenant, as a worker of its own serves them. */
export interface FunctionWork {
  readonly handler: Handler
  readonly owner: SessionOwner
  readonly queues: readonly string[]
  readonly slots: number
  readonly keeper: LeaseKeeper
}

export interface Engine {
  start(): Promise<void>
  /** Gives up shards, drains and hands back runs, then stops the rest. */
  stop(): Promise<void>
  /** Undefined where this process is no worker. */
  readonly worker: Worker | undefined
  /** Undefined where this process is no scheduler. */
  readonly scheduling: Pick<Scheduling, 'elector' | 'replanner' | 'backfiller' | 'relay'> | undefined
  /** Undefined where this process neither schedules nor works. */
  readonly gatekeeper: Gatekeeper | undefined
  /** Undefined where this process does not move workflow runs on. */
  readonly resolver: Resolver | undefined
  /** Both undefined where runs are not announced. */
  readonly announcing: {
    readonly announcer: Announcer | undefined
    readonly announced: AnnouncedQueue | undefined
  }
  readonly databaseClock: DatabaseClock
}

export function createEngine(parts: EngineParts): Engine {
  const { config } = parts
  const databaseClock = parts.databaseClock ?? createDatabaseClock(parts.clock)
  const nodeId = parts.ids.uuidv7(parts.clock.nowMs())
  const announcements = openAnnouncements(parts)
  const shared = { ...parts, announcements, databaseClock, nodeId, host: hostname(), version }
  const store = tellingEnds(createPostgresRunStore({ db: parts.db, heartbeats: parts.leases }), parts.watched)
  const scheduling = config.roles.includes('scheduler') ? schedulerServices(shared) : undefined
  const resolves = config.roles.includes('scheduler') || config.roles.includes('resolver')
  const { resolver, services: resolvers } = resolves ? openResolvers(parts) : noResolvers
  const firing = [...(scheduling?.services ?? []), ...resolvers]
  const works = config.roles.includes('scheduler') || config.roles.includes('worker')
  const gatekeeper = works ? createGatekeeper({ ...parts, gate: createPostgresGate(parts.db) }) : undefined
  const upkeep = [...upkeepServices(parts, store), ...(gatekeeper === undefined ? [] : [gatekeeper])]
  const executes = config.roles.includes('worker') && parts.callsHttp
  const handlers = executes ? openHandlers(parts) : undefined
  const queues = config.workerQueues.includes('*') ? '*' : config.workerQueues
  const supply = handlers?.shared.length
    ? openWorkerQueue(parts, announcements, queues, config.workerSlots)
    : undefined
  const worker =
    supply &&
    handlers &&
    createWorker({
      ...shared,
      ...supply,
      callbacks: parts.callbacks.store,
      events: parts.pace.counting('servers', parts.events),
      store,
      handlers: handlers.shared,
      queues,
      settings: workerSettings(config),
    })
  const containerWorker =
    handlers?.containers && openContainerWorker({ ...shared, store }, handlers.containers)
  const { functions } = parts
  const functionWorker = functions && openFunctionWorker({ ...shared, store }, functions)
  const reporter = openNodeReporter({ ...parts, databaseClock }, nodeId, worker)

  return {
    worker: worker ?? containerWorker ?? functionWorker,
    scheduling,
    gatekeeper,
    resolver,
    announcing: { announcer: scheduling?.announcer, announced: supply?.announced },
    databaseClock,
    async start() {
      for (const service of [...upkeep, ...firing]) await service.start()
      await supply?.announced?.start()
      handlers?.containers?.start()
      await Promise.all([worker?.start(), containerWorker?.start(), functionWorker?.start()])
      await reporter.start()
    },
    async stop() {
      for (const service of firing.toReversed()) await service.stop()
      // what was announced here and not claimed is for others now, not when all has drained
      const workers = [worker, containerWorker, functionWorker]
      await Promise.all([supply?.announced?.stop(), ...workers.map((each) => each?.stop())])
      await parts.tags.close()
      await Promise.all([...upkeep, reporter].map((service) => service.stop()))
      await Promise.all([handlers?.close(), functions?.handler.close(), functions?.keeper.close()])
    },
  }
}

type OwnWorkerParts = EngineParts &
  Pick<SchedulerParts, 'databaseClock' | 'host' | 'version'> & { readonly store: RunStore }

/** Stopping one takes SIGTERM, its grace, SIGKILL and its removal. */
const containerGraceMs = 15_000

/** What it runs is not announced: not every worker has an engine. */
function openContainerWorker(parts: OwnWorkerParts, { handler, slots }: Containers): Worker {
  const { config } = parts
  return createWorker({
    ...parts,
    callbacks: parts.callbacks.store,
    events: parts.pace.counting('servers', parts.events),
    queue: createPostgresRunQueue(parts.db),
    handlers: [handler],
    queues: config.workerQueues.includes('*') ? '*' : config.workerQueues,
    settings: { ...workerSettings(config), slots, abortGraceMs: containerGraceMs },
  })
}

/** Its runs are not announced: it claims directly. */
function openFunctionWorker(parts: OwnWorkerParts, functions: FunctionWork): Worker {
  const { tenantId } = functions.owner
  return createWorker({
    ...parts,
    callbacks: parts.callbacks.store,
    events: parts.pace.counting('functions', parts.events),
    queue: createPostgresRunQueue(parts.db),
    handlers: [functions.handler],
    owner: functions.owner,
    keeper: functions.keeper,
    queues: functions.queues,
    laneOf: (queue) => functionLane(queue, tenantId),
    settings: { ...workerSettings(parts.config), slots: functions.slots },
  })
}

interface Resolvers {
  readonly resolver: Resolver | undefined
  /** In the order of their start. */
  readonly services: readonly Service[]
}

const noResolvers: Resolvers = { resolver: undefined, services: [] }

function openResolvers(parts: EngineParts): Resolvers {
  const resolving = createPostgresWorkflowResolving(parts.db)
  const { bus, hints, services } = openArrivals(parts, resolving)
  const resolver = createResolver({ ...parts, resolving, bus })
  const dependencies = createPostgresDependencies(parts.db)
  const dependents = createDependencyResolver({ ...parts, hints, dependencies })
  return { resolver, services: [resolver, dependents, ...services] }
}

/** What keeps house; none of it needs a shard of its own. */
function upkeepServices(parts: EngineParts, store: RunStore): readonly Service[] {
  const { config, db } = parts
  const services: Service[] = []
  if (config.roles.includes('scheduler')) {
    services.push(
      createRescuer({
        ...parts,
        store,
        overdueRuns: createPostgresOverdueRuns(db),
        callbacks: parts.callbacks.store,
        intervalMs: config.rescueMs,
        sweepMs: 6 * config.rescueMs,
      }),
      createPruner({
        ...parts,
        maintenance: createPostgresMaintenance(db),
        retentionDays: config.retentionDays,
      }),
    )
  }
  return services
}

interface Scheduling {
  /** In the order of their start. */
  readonly services: readonly Service[]
  readonly elector: Elector
  readonly replanner: Replanner
  readonly backfiller: Backfiller
  readonly announcer: Announcer | undefined
  /** Undefined where nobody listens beside Belfry. */
  readonly relay: EventRelay | undefined
}

type SchedulerParts = EngineParts & {
  readonly databaseClock: DatabaseClock
  /** Of the process, a new one each time. */
  readonly nodeId: string
  readonly host: string
  readonly version: string
  /** Where Kafka or SQS carry the run queue. */
  readonly announcements: Announcements | undefined
}

/** The elector first: it says which shards the scheduler may act for. */
function schedulerServices(parts: SchedulerParts): Scheduling {
  const { nodeId } = parts
  const firing = createPostgresFiring(parts.db, parts.zones.dataVersion, parts.shelf)
  const timing = createTiming({ ...parts, redis: parts.links.redis })
  const elector = createElector({
    ...parts,
    leadership: timing.leadership,
    nodeId,
    termMs: parts.config.termMs,
  })
  const scheduler = createScheduler({
    ...parts,
    elector,
    timers: timing.timers,
    firing,
  })
  const backfiller = createBackfiller({
    ...parts,
    elector,
    backfilling: createPostgresBackfilling(parts.db),
    firing,
    retentionDays: parts.config.retentionDays,
  })
  const replanner = createReplanner({
    ...parts,
    nodeId,
    store: createPostgresReplans(parts.db, parts.shelf),
  })
  const announcer = openAnnouncer(parts, parts.announcements, elector)
  const services: Service[] = [elector, scheduler, backfiller, replanner, ...timing.services(elector)]
  if (announcer !== undefined) services.push(announcer)
  const relay = openEventRelay(parts, elector)
  if (relay !== undefined) services.push(relay)
  services.push(...auditServices(parts, elector))
  return { services, elector, replanner, backfiller, announcer, relay }
}

function workerSettings(config: Config) {
  return {
    slots: config.workerSlots,
    leaseMs: config.leaseMs,
    heartbeatMs: config.heartbeatMs,
    leaseMarginMs: Math.min(6_000, config.leaseMs / 5),
    drainMs: config.drainMs,
  }
}
