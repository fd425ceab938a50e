// What tests of backfills share: the scheduling fixture with backfills made as the API makes them,
// backfillers as a process would have them, runs that end when a test says so, and a look at what ran for
// each time. Besides that a database that dies at a given point.
import type { BackfillState } from '@belfry/contract'
import { systemRandom } from '../../packages/server/src/adapters/system/ids.ts'
import { compileStored } from '../../packages/server/src/domain/stored-schedule.ts'
import type { Backfiller, BackfillerOptions } from '../../packages/server/src/engine/backfiller.ts'
import { createBackfiller } from '../../packages/server/src/engine/backfiller.ts'
import type { WantedBackfill } from '../../packages/server/src/engine/catalog/backfill-maker.ts'
import { backfillDefaults, startBackfill } from '../../packages/server/src/engine/catalog/backfill-maker.ts'
import { createFairTags } from '../../packages/server/src/engine/fair-tags.ts'
import { createLocalHints } from '../../packages/server/src/engine/local-hints.ts'
import type { BackfillRecord, BackfillStore } from '../../packages/server/src/ports/backfills.ts'
import { createPostgresBackfilling } from '../../packages/server/src/postgres/backfilling.ts'
import { createPostgresCatalog } from '../../packages/server/src/postgres/catalog/catalog.ts'
import type { Database } from '../../packages/server/src/postgres/database.ts'
import { createPostgresFiring } from '../../packages/server/src/postgres/firing.ts'
import { createPostgresQueueProgress } from '../../packages/server/src/postgres/queue-progress.ts'
import { realClock } from './real-clock.ts'
import type { RecordedEvents } from './running.ts'
import { recordEvents } from './running.ts'
import type { ScheduleSeed, SchedulingFixture } from './scheduling.ts'
import { createSchedulingFixture, ids, newId, zones } from './scheduling.ts'

const hourMs = 3_600_000
/** The settable clock of these tests stands here at first. */
export const noonMs = Date.UTC(2026, 2, 10, 12)
/** Planned times at each full hour; the first is that of ten hours ago. */
export const firstHourMs = noonMs - 10 * hourMs
export const hour = (index: number): number => firstHourMs + index * hourMs
export const hours = (...indexes: number[]): number[] => indexes.map(hour)
export const range = (count: number): number[] => Array.from({ length: count }, (_, index) => index)
export const timesOf = (rows: readonly RanRow[]): number[] => rows.map((row) => row.at)

export type TestBackfiller = Backfiller & { readonly events: RecordedEvents }

/** A run of a schedule for a planned time, whoever made it, and where it stands. */
export type RanRow = {
  readonly at: number
  readonly run_id: string
  readonly source: string
  readonly queue: string
  readonly priority: number
  readonly input: unknown
  /** Null while it waits or runs. */
  readonly ended_as: string | null
}

export type BackfillFixture = Omit<SchedulingFixture, 'drop'> & {
  readonly db: Database
  /** A schedule for each full hour, whose timer stands at the next one. */
  readonly hourly: (more?: Partial<ScheduleSeed>) => Promise<string>
  readonly backfiller: (options?: Partial<BackfillerOptions> & { db?: Database }) => TestBackfiller
  /** As the API makes one; answers its id. */
  readonly backfill: (
    scheduleId: string,
    wanted: Partial<WantedBackfill> & Pick<WantedBackfill, 'fromMs'>,
  ) => Promise<string>
  readonly read: (id: string) => Promise<BackfillRecord>
  /** In one transaction of the API, for the fixture's tenant. */
  readonly within: <T>(work: (backfills: BackfillStore) => Promise<T>) => Promise<T>
  readonly change: (id: string, to: BackfillState, reason?: string) => Promise<void>
  /** A run for a planned time, by the schedule itself or by a trigger, that ended like this or is alive. */
  readonly addRun: (
    scheduleId: string,
    atMs: number,
    run: { by: 'schedule' | 'trigger'; endedAs: string | null },
  ) => Promise<string>
  readonly end: (runIds: readonly string[], state: string) => Promise<void>
  /** Runs of a schedule by planned time, then by age. */
  readonly ran: (scheduleId: string) => Promise<RanRow[]>
  /** Those that are alive. */
  readonly alive: (scheduleId: string) => Promise<RanRow[]>
  readonly drop: () => Promise<void>
}

const allShards = Array.from({ length: 64 }, (_, shard) => ({ shard, term: 1 }))

/** On the settable clock, unless `realTime` is asked for. */
export async function createBackfillFixture(options: { realTime?: boolean } = {}): Promise<BackfillFixture> {
  const fixture = await createSchedulingFixture()
  if (options.realTime !== true) await fixture.database.useVirtualNow(new Date(noonMs))
  const { database, tenantId, jobId } = fixture
  const db = database.open()
  const catalog = createPostgresCatalog({ db })
  const access = { tenantId, dryRun: false, readOnly: false }
  const started: Backfiller[] = []
  const ran = (scheduleId: string): Promise<RanRow[]> => database.sql<RanRow>(ranRows, [scheduleId])
  const within: BackfillFixture['within'] = (work) => catalog.within(access, (tx) => work(tx.backfills))

  return {
    ...fixture,
    db,
    within,
    ran,
    hourly: (more = {}) =>
      fixture.addSchedule({
        spec: { every: '1h', everyMs: hourMs, anchorMs: 0 },
        scheduledForMs: noonMs + hourMs,
        ...more,
      }),
    alive: async (scheduleId) => (await ran(scheduleId)).filter((row) => row.ended_as === null),
    backfiller(options = {}) {
      const backfiller = makeBackfiller(options.db ?? db, options)
      started.push(backfiller)
      return backfiller
    },
    backfill: (scheduleId, wanted) =>
      catalog.within(access, async (tx) => {
        const schedule = await tx.schedules.find(scheduleId)
        if (schedule === undefined) throw new Error(`no schedule ${scheduleId}`)
        const compiled = compileStored({ ...schedule, scheduleId }, zones)
        if (!compiled.ok) throw new Error(compiled.error)
        const parts = { backfills: tx.backfills, ids, nowMs: await tx.nowMs(), times: compiled.value }
        const whole = { ...backfillDefaults, toMs: null, ...wanted }
        return (await startBackfill(parts, schedule, whole)).id
      }),
    read: async (id) => {
      const found = await within((backfills) => backfills.find(id))
      if (found === undefined) throw new Error(`no backfill ${id}`)
      return found
    },
    change: (id, to, reason) =>
      within(async (backfills) => {
        await backfills.lock(id)
        await backfills.change(id, { to, reason: reason ?? null })
      }),
    async addRun(scheduleId, atMs, { by, endedAs }) {
      const runId = newId()
      await database.sql(insertRun, [runId, tenantId, jobId, scheduleId, new Date(atMs), by])
      await database.sql(by === 'schedule' ? insertOccurrence : insertExtra, [
        scheduleId,
        new Date(atMs),
        tenantId,
        runId,
      ])
      if (endedAs !== null) await endRuns(database, [runId], endedAs)
      return runId
    },
    end: (runIds, state) => endRuns(database, runIds, state),
    async drop() {
      await Promise.all(started.map((each) => each.stop()))
      await fixture.drop()
    },
  }
}

/** One that holds every shard. */
export function makeBackfiller(db: Database, options: Partial<BackfillerOptions> = {}): TestBackfiller {
  const events = recordEvents()
  const clock = options.clock ?? realClock
  const backfiller = createBackfiller({
    clock,
    random: systemRandom,
    events,
    elector: { heldShards: () => allShards, subscribe: () => () => undefined },
    backfilling: createPostgresBackfilling(db),
    firing: createPostgresFiring(db),
    zones,
    ids,
    hints: createLocalHints(),
    tags: createFairTags({ clock, progress: createPostgresQueueProgress(db) }),
    ...options,
  })
  return { ...backfiller, events }
}

const insertRun = `
  WITH made AS (
    INSERT INTO belfry.run (id, tenant_id, job_id, job_version, schedule_id, scheduled_for, source, queue,
      priority, due_at)
    VALUES ($1, $2, $3, 1, $4, $5, $6, 'default', 0, belfry.now()))
  INSERT INTO belfry.ready (run_id, tenant_id, job_id, job_version, queue, handler, tag, priority,
    available_at, timeout_ms)
  VALUES ($1, $2, $3, 1, 'default', 'http', 1, 0, belfry.now(), 60000)`
const insertOccurrence = `
  INSERT INTO belfry.occurrence (schedule_id, scheduled_for, tenant_id, outcome, run_id, due_at)
  VALUES ($1, $2, $3, 'ran', $4, $2)`
const insertExtra = `
  INSERT INTO belfry.extra_run (schedule_id, scheduled_for, tenant_id, run_id) VALUES ($1, $2, $3, $4)`

/** Ends runs as a worker does: out of `ready` together with the attempt that says how. */
async function endRuns(
  database: SchedulingFixture['database'],
  runIds: readonly string[],
  state: string,
): Promise<void> {
  await database.sql(
    `WITH gone AS (
       DELETE FROM belfry.ready WHERE run_id = ANY($1::uuid[]) RETURNING run_id, tenant_id)
     INSERT INTO belfry.attempt (run_id, number, tenant_id, lease_epoch, outcome, run_state, started_at)
     SELECT run_id, 1, tenant_id, 1, CASE WHEN $2 = 'canceled' THEN 'canceled' ELSE $2 END, $2, belfry.now()
     FROM gone`,
    [runIds, state],
  )
}

const ranRows = `
  SELECT extract(epoch FROM run.scheduled_for)::float8 * 1000 AS at, run.id AS run_id, run.source, run.queue,
    run.priority, run.input, past.run_state AS ended_as
  FROM belfry.run
  LEFT JOIN belfry.attempt AS past ON past.run_id = run.id AND past.run_state IS NOT NULL
  WHERE run.schedule_id = $1 ORDER BY run.scheduled_for, run.id`

/** A process that ends: every query of its fails from then on, and what was not committed never happens. */
export class ProcessEnded extends Error {
  /** As Postgres says when an operator ends a connection: no fault of the rows. */
  readonly code = '57P01'
}

export type DyingDatabase = Database & {
  /** Points that were passed; the process is gone at the one that was asked for. */
  readonly passed: () => number
}

/**
 * Ends the process at the `last` point that it comes to. Points are the beginning of a transaction, the
 * moment before and after each statement, before the commit, and after it: where the commit happened and
 * nobody was told.
 */
export function dyingDatabase(db: Database, last: number): DyingDatabase {
  let points = 0
  const point = (): void => {
    points++
    if (points >= last) throw new ProcessEnded(`the process ended at point ${last}`)
  }
  return {
    ...db,
    passed: () => points,
    async run(scope, statement, params) {
      point()
      const rows = await db.run(scope, statement, params)
      point()
      return rows
    },
    async transaction(scope, work) {
      point()
      const result = await db.transaction(scope, async (tx) => {
        const done = await work({
          async query(statement, params) {
            point()
            const rows = await tx.query(statement, params)
            point()
            return rows
          },
          atEnd: tx.atEnd,
        })
        point()
        return done
      })
      point()
      return result
    },
  }
}
