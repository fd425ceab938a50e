// What tests of the scheduling half share: a database with a tenant and a job, schedules and delayed runs put
// there by hand, schedulers with their electors as a process would have them, and a look at what was written.
// SQL here arranges and looks, as the superuser.
import type { OverlapPolicy } from '@belfry/contract'
import { createSystemIds, systemRandom } from '../../packages/server/src/adapters/system/ids.ts'
import { openZoneSource } from '../../packages/server/src/adapters/zones/zone-source.ts'
import { createDatabaseClock } from '../../packages/server/src/engine/database-clock.ts'
import { createElector, type Elector } from '../../packages/server/src/engine/elector.ts'
import { createFairTags } from '../../packages/server/src/engine/fair-tags.ts'
import { createLocalHints, type LocalHints } from '../../packages/server/src/engine/local-hints.ts'
import {
  createScheduler,
  type Scheduler,
  type SchedulerOptions,
} from '../../packages/server/src/engine/scheduler.ts'
import type { Clock } from '../../packages/server/src/ports/clock.ts'
import type { EventSink } from '../../packages/server/src/ports/event-sink.ts'
import type { Firing, SchedulePlan } from '../../packages/server/src/ports/firing.ts'
import type { Leadership } from '../../packages/server/src/ports/leadership.ts'
import type { ZoneSource } from '../../packages/server/src/ports/zones.ts'
import type { TimerIndex } from '../../packages/server/src/ports/timer-index.ts'
import { createPostgresFiring } from '../../packages/server/src/postgres/firing.ts'
import { createPostgresLeadership } from '../../packages/server/src/postgres/leadership.ts'
import { createPostgresQueueProgress } from '../../packages/server/src/postgres/queue-progress.ts'
import { createPostgresTimerIndex } from '../../packages/server/src/postgres/timer-index.ts'
import { createTestDatabase, type TestDatabase } from './postgres.ts'
import { realClock } from './real-clock.ts'

export const ids = createSystemIds()
export const zones = openZoneSource()
export const newId = (): string => ids.uuidv7(Date.now())

/** A UUIDv7 of the given shard: the low six bits of the last byte. */
export const idInShard = (shard: number): string =>
  `${newId().slice(0, 34)}${shard.toString(16).padStart(2, '0')}`

export type RecordedEvent = { readonly name: string; readonly payload: unknown }

export type TestNode = {
  readonly elector: Elector
  readonly scheduler: Scheduler
  readonly hints: LocalHints
  readonly events: RecordedEvent[]
  readonly start: () => Promise<void>
  readonly stop: () => Promise<void>
}

export type NodeOptions = {
  readonly clock?: Clock
  readonly termMs?: number
  readonly leadership?: Leadership
  readonly timers?: TimerIndex
  readonly firing?: Firing
  readonly hints?: LocalHints
  /** Zone data of the process. Default: that of this machine. */
  readonly zones?: ZoneSource
} & Partial<Pick<SchedulerOptions, 'horizonMs' | 'maxTimers' | 'maxBatch'>>

export type ScheduleSeed = {
  readonly id?: string
  readonly spec?: object
  /** Epoch ms. */
  readonly scheduledForMs: number
  readonly dueAtMs?: number
  readonly catchUp?: Partial<SchedulePlan['catchUp']>
  readonly overlap?: OverlapPolicy
  readonly jitterMs?: number
  readonly flexibleWindowMs?: number
  readonly runLimit?: number
  readonly afterCompletion?: 'keep' | 'delete'
  /** Epoch ms. */
  readonly sleepUntilMs?: number
  readonly sleepReason?: string
  readonly tenantId?: string
  readonly jobId?: string
}

export type OccurrenceRow = {
  readonly schedule_id: string
  readonly scheduled_for: Date
  readonly outcome: string
  readonly reason: string | null
  readonly detail: string | null
  readonly missed_count: string
  readonly run_id: string | null
}

export type SchedulingFixture = {
  readonly database: TestDatabase
  readonly leadership: Leadership
  readonly tenantId: string
  readonly jobId: string
  readonly node: (options?: NodeOptions) => TestNode
  readonly addSchedule: (seed: ScheduleSeed) => Promise<string>
  readonly addDelayed: (seed: { dueAtMs: number; id?: string; attempt?: number }) => Promise<string>
  readonly occurrences: (scheduleId: string) => Promise<OccurrenceRow[]>
  readonly count: (table: 'occurrence' | 'run' | 'ready' | 'delayed' | 'timer') => Promise<number>
  readonly drop: () => Promise<void>
}

export async function createSchedulingFixture(): Promise<SchedulingFixture> {
  const database = await createTestDatabase()
  const [tenantId, jobId] = [newId(), newId()]
  await database.sql(`INSERT INTO belfry.tenant (id, name) VALUES ($1, 'acme')`, [tenantId])
  await database.sql(
    `INSERT INTO belfry.job (id, tenant_id, name, handler, queue, priority, attempt_timeout_ms, definition)
     VALUES ($1, $2, 'report', 'http', 'default', 0, 60000, '{}')`,
    [jobId, tenantId],
  )
  const nodes: TestNode[] = []
  return {
    database,
    leadership: createPostgresLeadership(database.open()),
    tenantId,
    jobId,
    node: (options = {}) => {
      const node = createNode(database, options)
      nodes.push(node)
      return node
    },
    addSchedule: (seed) => addSchedule(database, { tenantId, jobId, ...seed }),
    addDelayed: (seed) => addDelayed(database, { tenantId, jobId, ...seed }),
    occurrences: (scheduleId) =>
      database.sql<OccurrenceRow>(
        `SELECT schedule_id, scheduled_for, outcome, reason, detail, missed_count, run_id
         FROM belfry.occurrence WHERE schedule_id = $1 ORDER BY scheduled_for`,
        [scheduleId],
      ),
    count: async (table) => {
      const rows = await database.sql<{ count: number }>(`SELECT count(*)::int AS count FROM belfry.${table}`)
      return rows[0]?.count ?? 0
    },
    drop: async () => {
      await Promise.all(nodes.map((node) => node.stop()))
      await database.drop()
    },
  }
}

export function createNode(database: TestDatabase, options: NodeOptions): TestNode {
  const db = database.open()
  const clock = options.clock ?? realClock
  const recorded: RecordedEvent[] = []
  const events: EventSink = { emit: (name, payload) => recorded.push({ name, payload }) }
  const databaseClock = createDatabaseClock(clock)
  const hints = options.hints ?? createLocalHints()
  const elector = createElector({
    clock,
    random: systemRandom,
    events,
    databaseClock,
    leadership: options.leadership ?? createPostgresLeadership(db),
    hints,
    nodeId: newId(),
    host: 'same-host',
    version: '0.0.0',
    termMs: options.termMs ?? 15_000,
  })
  const { horizonMs = 60_000, maxTimers = 50_000, maxBatch = 500 } = options
  const scheduler = createScheduler({
    clock,
    random: systemRandom,
    events,
    databaseClock,
    elector,
    timers: options.timers ?? createPostgresTimerIndex(db),
    firing: options.firing ?? createPostgresFiring(db, (options.zones ?? zones).dataVersion),
    zones: options.zones ?? zones,
    ids,
    hints,
    tags: createFairTags({ clock, progress: createPostgresQueueProgress(db) }),
    horizonMs,
    maxTimers,
    maxBatch,
  })
  return {
    elector,
    scheduler,
    hints,
    events: recorded,
    start: async () => {
      await elector.start()
      await scheduler.start()
    },
    stop: async () => {
      await scheduler.stop()
      await elector.stop()
    },
  }
}

const defaultCatchUp = { policy: 'latest', windowMs: 86_400_000, maxRuns: 100 }

async function addSchedule(
  database: TestDatabase,
  seed: ScheduleSeed & { tenantId: string; jobId: string },
): Promise<string> {
  const id = seed.id ?? newId()
  const due = seed.dueAtMs ?? seed.scheduledForMs
  await database.sql(
    `WITH made AS (
       INSERT INTO belfry.schedule
         (id, tenant_id, name, job_id, spec, zone, zone_data_version, jitter_ms, catch_up, overlap,
          flexible_window_ms, run_limit, after_completion, sleep_until, sleep_reason, input)
       VALUES ($1, $2, $3, $4, $5, 'UTC', $6, $7, $8, $9, $12, $13, $14, $15, $16, '{"hello":"world"}'))
     INSERT INTO belfry.timer (schedule_id, tenant_id, due_at, scheduled_for, gen, shard)
     VALUES ($1, $2, $10, $11, 1, belfry.shard_of($1))`,
    [
      id,
      seed.tenantId,
      `s-${id}`,
      seed.jobId,
      seed.spec ?? { every: '10s', everyMs: 10_000, anchorMs: seed.scheduledForMs },
      zones.dataVersion,
      seed.jitterMs ?? 0,
      { ...defaultCatchUp, ...seed.catchUp },
      seed.overlap ?? 'allow',
      new Date(due),
      new Date(seed.scheduledForMs),
      seed.flexibleWindowMs ?? 0,
      seed.runLimit ?? null,
      seed.afterCompletion ?? 'keep',
      seed.sleepUntilMs === undefined ? null : new Date(seed.sleepUntilMs),
      seed.sleepReason ?? null,
    ],
  )
  return id
}

async function addDelayed(
  database: TestDatabase,
  seed: { tenantId: string; jobId: string; dueAtMs: number; id?: string; attempt?: number },
): Promise<string> {
  const id = seed.id ?? newId()
  await database.sql(
    `WITH made AS (
       INSERT INTO belfry.run (id, tenant_id, job_id, job_version, source, queue, priority, due_at)
       VALUES ($1, $2, $3, 1, 'manual', 'default', 0, $4))
     INSERT INTO belfry.delayed
       (run_id, tenant_id, job_id, job_version, due_at, shard, queue, handler, priority, timeout_ms,
        lease_epoch, attempt, crash_count, failure_count)
     VALUES ($1, $2, $3, 1, $4, belfry.shard_of($1), 'default', 'http', 0, 60000, 7, $5, 1, 2)`,
    [id, seed.tenantId, seed.jobId, new Date(seed.dueAtMs), seed.attempt ?? 3],
  )
  return id
}

/** Resolves when `holds` does; fails with `what` after the deadline. */
export async function until(
  what: string,
  holds: () => boolean | Promise<boolean>,
  deadlineMs = 20_000,
): Promise<void> {
  const endMs = performance.now() + deadlineMs
  while (!(await holds())) {
    if (performance.now() > endMs) throw new Error(`not within ${deadlineMs} ms: ${what}`)
    await realClock.sleep(5)
  }
}
