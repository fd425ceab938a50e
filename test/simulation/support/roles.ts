// What a process of a simulated world runs: the roles of the engine on the production adapters of Postgres,
// put together as compose/engine.ts does it, with the clock, the chance, the ids and the database of the
// node. Times are short, so that a world is small: a term of 4.5 s, a lease of 4 s.
import {
  type AnnouncedQueue,
  createAnnouncedQueue,
} from '../../../packages/server/src/engine/announced-queue.ts'
import { createPostgresCallbackStore } from '../../../packages/server/src/postgres/callback-store.ts'
import { createAnnouncer } from '../../../packages/server/src/engine/announcer.ts'
import { createDatabaseClock } from '../../../packages/server/src/engine/database-clock.ts'
import { createDependencyResolver } from '../../../packages/server/src/engine/dependency-resolver.ts'
import { createElector, type Elector } from '../../../packages/server/src/engine/elector.ts'
import { createFairTags, type FairTags } from '../../../packages/server/src/engine/fair-tags.ts'
import { createGatekeeper } from '../../../packages/server/src/engine/gatekeeper.ts'
import { createRescuer } from '../../../packages/server/src/engine/rescuer.ts'
import { createResolver } from '../../../packages/server/src/engine/resolver.ts'
import { createScheduler } from '../../../packages/server/src/engine/scheduler.ts'
import { createWorker } from '../../../packages/server/src/engine/worker.ts'
import type { AnnouncementInbox, Announcements } from '../../../packages/server/src/ports/announcements.ts'
import type { EventSink } from '../../../packages/server/src/ports/event-sink.ts'
import type { Firing } from '../../../packages/server/src/ports/firing.ts'
import type { Hints } from '../../../packages/server/src/ports/hints.ts'
import type { Ids } from '../../../packages/server/src/ports/ids.ts'
import type { RunQueue } from '../../../packages/server/src/ports/run-queue.ts'
import type { RunStore } from '../../../packages/server/src/ports/run-store.ts'
import type { Service } from '../../../packages/server/src/ports/service.ts'
import type { ZoneSource } from '../../../packages/server/src/ports/zones.ts'
import { createPostgresDependencies } from '../../../packages/server/src/postgres/dependencies.ts'
import { createPostgresEventBus } from '../../../packages/server/src/postgres/event-bus.ts'
import { createPostgresFiring } from '../../../packages/server/src/postgres/firing.ts'
import { createPostgresGate } from '../../../packages/server/src/postgres/gate/gate.ts'
import { createPostgresLeadership } from '../../../packages/server/src/postgres/leadership.ts'
import { createPostgresOverdueRuns } from '../../../packages/server/src/postgres/overdue-runs.ts'
import { createPostgresQueueProgress } from '../../../packages/server/src/postgres/queue-progress.ts'
import { createPostgresReadyWindows } from '../../../packages/server/src/postgres/ready-windows.ts'
import {
  createPostgresAnnouncedRuns,
  createPostgresRunQueue,
} from '../../../packages/server/src/postgres/run-queue.ts'
import { createPostgresRunStore } from '../../../packages/server/src/postgres/run-store.ts'
import { createPostgresTimerIndex } from '../../../packages/server/src/postgres/timer-index.ts'
import { createPostgresWorkflowResolving } from '../../../packages/server/src/postgres/workflow-resolving.ts'
import type { Chance } from './chance.ts'
import type { SimNode } from './node.ts'
import type { Target } from './target.ts'
import type { World } from './world.ts'

export type Role = 'scheduler' | 'worker' | 'resolver' | 'gatekeeper'

export const times = {
  termMs: 4_500,
  leaseMs: 4_000,
  heartbeatMs: 1_500,
  leaseMarginMs: 800,
  rescueMs: 1_500,
  minPollMs: 150,
  maxPollMs: 3_000,
  /** Where runs are announced: as in production, since each queue is claimed directly once a second. */
  announcedPollMs: 1_000,
  horizonMs: 6_000,
} as const

/** Of each worker. */
/** Of each worker. */
export const slots = 4

/** Parts that a test breaks, to see that the simulation finds it. */
export interface Breakage {
  readonly elector?: (elector: Elector) => Elector
  readonly firing?: (firing: Firing, node: SimNode) => Firing
  readonly store?: (store: RunStore, node: SimNode) => RunStore
  readonly queue?: (queue: RunQueue, node: SimNode, target: Target) => RunQueue
  readonly announcing?: BrokenAnnouncing
}

/** On a carrier that does nothing wrong. */
export interface BrokenAnnouncing {
  readonly inbox: (inbox: AnnouncementInbox) => AnnouncementInbox
  /** What is claimed from directly. */
  readonly queue: (queue: RunQueue) => RunQueue
  /** When what was announced is announced again. */
  readonly againMs: number
}

export interface RolesOptions {
  readonly world: World
  readonly node: SimNode
  readonly hints: Hints
  readonly target: Target
  readonly zones: ZoneSource
  readonly broken: Breakage
  /** Undefined where runs are not announced. */
  readonly announcements: Announcements | undefined
}

export interface Process {
  readonly node: SimNode
  readonly elector: Elector | undefined
  readonly start: () => Promise<void>
  /** As at SIGTERM. */
  readonly stop: () => Promise<void>
}

type Parts = ReturnType<typeof partsOf>

export function createProcess(roles: readonly Role[], options: RolesOptions): Process {
  const parts = partsOf(options)
  const services: Service[] = []
  const scheduling = roles.includes('scheduler') ? schedulerServices(options, parts) : undefined
  if (roles.includes('gatekeeper'))
    services.push(createGatekeeper({ ...parts, gate: createPostgresGate(parts.db) }))
  if (scheduling !== undefined) services.push(...scheduling.services)
  if (roles.includes('resolver')) services.push(...resolverServices(parts))
  if (roles.includes('worker')) services.push(workerOf(options, parts))
  return {
    node: options.node,
    elector: scheduling?.elector,
    async start() {
      for (const service of services) await service.start()
    },
    async stop() {
      for (const service of services.toReversed()) await service.stop()
      await parts.tags.close()
    },
  }
}

function partsOf({ world, node, hints, broken }: RolesOptions) {
  const { clock, db } = node
  const events: EventSink = {
    emit(name, payload) {
      if (name === 'role_failed') world.note(node.name, `role_failed ${wordsOf(payload)}`)
    },
  }
  const store = createPostgresRunStore({ db, heartbeats: db })
  const tags: FairTags = createFairTags({ clock, progress: createPostgresQueueProgress(db) })
  return {
    clock,
    db,
    hints,
    events,
    tags,
    random: { next: node.chance.fork('engine').next },
    ids: createSeededIds(node.chance.fork('ids')),
    databaseClock: createDatabaseClock(clock),
    store: broken.store?.(store, node) ?? store,
    host: 'one-host',
    version: '0',
  }
}

function wordsOf(payload: unknown): string {
  const { role, error } = payload as { readonly role: string; readonly error: unknown }
  return `${role}: ${error instanceof Error ? error.message : String(error)}`
}

function schedulerServices(options: RolesOptions, parts: Parts) {
  const { node, zones, broken, announcements } = options
  const { db, ids, clock } = parts
  const firing = createPostgresFiring(db, zones.dataVersion)
  const ownElector = createElector({
    ...parts,
    leadership: createPostgresLeadership(db),
    nodeId: ids.uuidv7(clock.nowMs()),
    termMs: times.termMs,
  })
  const elector = broken.elector?.(ownElector) ?? ownElector
  const scheduler = createScheduler({
    ...parts,
    elector,
    zones,
    horizonMs: times.horizonMs,
    timers: createPostgresTimerIndex(db),
    firing: broken.firing?.(firing, node) ?? firing,
  })
  const rescuer = createRescuer({
    ...parts,
    overdueRuns: createPostgresOverdueRuns(db),
    intervalMs: times.rescueMs,
    sweepMs: 6 * times.rescueMs,
  })
  const services: Service[] = [rescuer, elector, scheduler]
  if (announcements !== undefined) {
    const windows = createPostgresReadyWindows(db)
    const againMs = broken.announcing?.againMs
    services.push(createAnnouncer({ ...parts, announcements, elector, windows, againMs }))
  }
  return { elector, services }
}

function resolverServices(parts: Parts): readonly Service[] {
  const resolving = createPostgresWorkflowResolving(parts.db)
  const bus = createPostgresEventBus({ resolving, hints: parts.hints })
  return [
    createResolver({ ...parts, resolving, bus }),
    createDependencyResolver({ ...parts, dependencies: createPostgresDependencies(parts.db) }),
  ]
}

function workerOf({ node, target, broken, announcements }: RolesOptions, parts: Parts): Service {
  const stored = createPostgresRunQueue(parts.db)
  const queues = ['default']
  const announced = announcements && announcedQueue(broken, parts, announcements.open(queues), stored)
  const queue = announced ?? stored
  const worker = createWorker({
    ...parts,
    hints: announced?.withHints(parts.hints) ?? parts.hints,
    callbacks: createPostgresCallbackStore(parts.db),
    queue: broken.queue?.(queue, node, target) ?? queue,
    handlers: [target.handlerOf(node)],
    queues,
    settings: {
      slots,
      leaseMs: times.leaseMs,
      heartbeatMs: times.heartbeatMs,
      leaseMarginMs: times.leaseMarginMs,
      minPollMs: times.minPollMs,
      maxPollMs: announced === undefined ? times.maxPollMs : times.announcedPollMs,
      deadlineMarginMs: 5_000,
      abortGraceMs: 500,
      drainMs: 1_000,
    },
  })
  return {
    name: worker.name,
    async start() {
      await announced?.start()
      await worker.start()
    },
    stop: async () => void (await Promise.all([announced?.stop(), worker.stop()])),
  }
}

function announcedQueue(
  { announcing }: Breakage,
  parts: Parts,
  inbox: AnnouncementInbox,
  stored: RunQueue,
): AnnouncedQueue {
  return createAnnouncedQueue({
    ...parts,
    queue: announcing?.queue(stored) ?? stored,
    runs: createPostgresAnnouncedRuns(parts.db),
    inbox: announcing?.inbox(inbox) ?? inbox,
    slots,
  })
}

/** UUIDv7 of an instant, the rest of it drawn. */
export function createSeededIds(chance: Chance): Ids {
  const hex = (digits: number): string =>
    Math.floor(chance.next() * 16 ** digits)
      .toString(16)
      .padStart(digits, '0')
  return {
    uuidv7(atMs) {
      const time = Math.max(0, Math.floor(atMs)).toString(16).padStart(12, '0')
      const variant = '89ab'[chance.below(4)] ?? '8'
      return `${time.slice(0, 8)}-${time.slice(8)}-7${hex(3)}-${variant}${hex(3)}-${hex(6)}${hex(6)}`
    },
  }
}
