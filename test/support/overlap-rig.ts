// A schedule that fires every ten seconds in virtual time, and a worker that the test plays with the real
// statements: claims when told, ends what it is told to. For tests of what happens to runs that meet.
import { jobDefinitionSchema } from '@belfry/contract'
import { hintTimers } from '../../packages/server/src/engine/timer-hints.ts'
import type { Catalog, CatalogTx } from '../../packages/server/src/ports/catalog.ts'
import type { ClaimedRun, RunQueue } from '../../packages/server/src/ports/run-queue.ts'
import type { AttemptEnd, RunStore } from '../../packages/server/src/ports/run-store.ts'
import { createPostgresCatalog } from '../../packages/server/src/postgres/catalog/catalog.ts'
import { createPostgresRunQueue } from '../../packages/server/src/postgres/run-queue.ts'
import { createPostgresRunStore } from '../../packages/server/src/postgres/run-store.ts'
import { succeededEnd } from './running.ts'
import {
  createSchedulingFixture,
  newId,
  type NodeOptions,
  type ScheduleSeed,
  type SchedulingFixture,
  type TestNode,
} from './scheduling.ts'
import { useVirtualTime, type VirtualTime } from './virtual-time.ts'

export const periodMs = 10_000

export type OverlapRig = {
  readonly fixture: SchedulingFixture
  readonly time: VirtualTime
  /** Who gets the hints of what the worker does. */
  readonly nodes: TestNode[]
  readonly queue: RunQueue
  readonly store: RunStore
  readonly catalog: Catalog
  /** The session of the played worker. */
  readonly sessionId: string
  /** Fires first at the start, or when it is said, then each period. */
  readonly addSchedule: (seed?: Partial<ScheduleSeed>) => Promise<string>
  readonly startNode: (options?: NodeOptions) => Promise<TestNode>
  readonly claim: () => Promise<readonly ClaimedRun[]>
  /** Ends attempts, well if nothing else is said, and gives the hints that a completer would. */
  readonly end: (runs: readonly ClaimedRun[], more?: Partial<AttemptEnd>) => Promise<number>
  readonly asTenant: <T>(work: (tx: CatalogTx) => Promise<T>) => Promise<T>
  /**
   * `0 ran running`, `10 skipped overlap`: seconds after the start, outcome, and the reason or where the run
   * stands: ready, running, waits, later, or how it ended.
   */
  readonly story: (scheduleId: string) => Promise<string[]>
  readonly runAt: (scheduleId: string, seconds: number) => Promise<string>
  readonly drop: () => Promise<void>
}

export async function createOverlapRig(startMs: number): Promise<OverlapRig> {
  const fixture = await createSchedulingFixture()
  const { database, tenantId, jobId } = fixture
  const definition = jobDefinitionSchema.parse({ handler: { kind: 'http', url: 'http://target.invalid/' } })
  await database.sql(
    `WITH job AS (UPDATE belfry.job SET definition = $3 WHERE id = $1)
     INSERT INTO belfry.job_version (job_id, version, tenant_id, definition) VALUES ($1, 1, $2, $3)`,
    [jobId, tenantId, JSON.stringify(definition)],
  )
  const time = await useVirtualTime(fixture, startMs)
  const db = database.open()
  const store = createPostgresRunStore({ db, heartbeats: db })
  const queue = createPostgresRunQueue(db)
  const catalog = createPostgresCatalog({ db })
  const sessionId = newId()
  const worker = { id: sessionId, host: 'test', version: '0', queues: ['default'], slots: 100 }
  await store.openSession(worker, 86_400_000)
  const nodes: TestNode[] = []

  return {
    fixture,
    time,
    nodes,
    queue,
    store,
    catalog,
    sessionId,
    addSchedule: (seed = {}) => {
      const scheduledForMs = seed.scheduledForMs ?? startMs
      const spec = { every: '10s', everyMs: periodMs, anchorMs: scheduledForMs }
      return fixture.addSchedule({ spec, ...seed, scheduledForMs })
    },
    async startNode(options = {}) {
      const node = fixture.node({ clock: time.clock, ...options })
      nodes.push(node)
      await node.start()
      await time.asleep()
      return node
    },
    async claim() {
      const shares = [{ queue: 'default', minTag: -Infinity, limit: 100 }]
      const claimed = await queue.claim({
        sessionId,
        shares,
        routes: ['http'],
        deadlineMarginMs: 3_600_000,
      })
      return claimed.runs
    },
    async end(runs, more = {}) {
      const ends = runs.map((run) => succeededEnd(run, more))
      const { applied, timerShards } = await store.complete(sessionId, ends)
      for (const node of nodes) hintTimers(node.hints, applied, { timerShards })
      return applied.length
    },
    asTenant: (work) => catalog.within({ tenantId, dryRun: false, readOnly: false }, work),
    story: (scheduleId) => storyOf(fixture, scheduleId, startMs),
    runAt: async (scheduleId, seconds) => {
      const rows = await fixture.occurrences(scheduleId)
      const row = rows.find((each) => each.scheduled_for.getTime() === startMs + seconds * 1_000)
      const runId = row?.run_id ?? null
      if (runId === null) throw new Error(`No run of ${seconds} s.`)
      return runId
    },
    drop: () => fixture.drop(),
  }
}

async function storyOf({ database }: SchedulingFixture, scheduleId: string, startMs: number) {
  const rows = await database.sql<{ at: Date; outcome: string; what: string; count: string }>(
    `SELECT o.scheduled_for AS at, o.outcome, o.missed_count AS count,
            coalesce(
              o.reason,
              (SELECT CASE WHEN session_id IS NULL THEN 'ready' ELSE 'running' END
               FROM belfry.ready WHERE run_id = o.run_id),
              (SELECT CASE WHEN after_run_id IS NULL THEN 'later' ELSE 'waits' END
               FROM belfry.delayed WHERE run_id = o.run_id),
              (SELECT concat_ws('/', run_state, reason) FROM belfry.attempt
               WHERE run_id = o.run_id AND run_state IS NOT NULL),
              'nowhere') AS what
     FROM belfry.occurrence o WHERE o.schedule_id = $1 ORDER BY o.scheduled_for`,
    [scheduleId],
  )
  return rows.map(({ at, outcome, what, count }) => {
    const many = count === '1' ? '' : ` x${count}`
    return `${(at.getTime() - startMs) / 1_000} ${outcome} ${what}${many}`
  })
}
