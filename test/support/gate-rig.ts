// The gate with a database of its own: jobs with limits, runs put in as requests put them (by the statement
// of the API, so that they come to stand behind the gate), gatekeepers, and a worker played by hand. Looks
// are SQL as the superuser.
import type { Concurrency, RateLimit } from '@belfry/contract'
import type { concurrencySchema, rateLimitSchema } from '@belfry/contract'
import { jobDefinitionSchema } from '@belfry/contract'
import type { z } from 'zod'
import { createGatekeeper, type Gatekeeper } from '../../packages/server/src/engine/gatekeeper.ts'
import type { Gate } from '../../packages/server/src/ports/gate.ts'
import type { Database } from '../../packages/server/src/postgres/database.ts'
import { createPostgresGate, type GateTimes } from '../../packages/server/src/postgres/gate/gate.ts'
import { routeOf } from '../../packages/server/src/domain/route.ts'
import { insertReadyRun } from '../../packages/server/src/postgres/statements/runs.ts'
import { realClock } from './real-clock.ts'
import type { TestDatabase } from './postgres.ts'
import {
  createRunningFixture,
  newId,
  recordEvents,
  recordHints,
  type RunningFixture,
  succeededEnd,
  testIds,
} from './running.ts'

export type GateJob = { readonly id: string; readonly tenantId: string }

export type JobLimits = {
  readonly concurrency?: z.input<typeof concurrencySchema> | null
  readonly rateLimit?: z.input<typeof rateLimitSchema> | null
  readonly url?: string
  readonly queue?: string
}

export type ReadyRow = {
  readonly run_id: string
  readonly gate: string | null
  readonly slotted: boolean
  readonly session_id: string | null
  readonly cancel_reason: string | null
}

export type GateRig = RunningFixture & {
  readonly gate: Gate
  readonly keeper: Gatekeeper
  readonly anotherGate: (times?: GateTimes) => Gate
  readonly limitedJob: (limits: JobLimits, tenantId?: string) => Promise<GateJob>
  readonly changeJob: (job: GateJob, limits: JobLimits) => Promise<void>
  readonly enqueue: (job: GateJob, count: number, options?: EnqueueOptions) => Promise<string[]>
  /** On a database of the caller's, in a transaction that then stays open until `made` resolves. */
  readonly enqueueWith: (
    db: Database,
    job: GateJob,
    count: number,
    made: () => Promise<void>,
  ) => Promise<string[]>
  readonly addPool: (tenantId: string, fields: PoolColumns) => Promise<string>
  readonly rows: () => Promise<Map<string, ReadyRow>>
  /** Runs that may start or run. */
  readonly open: (ids: readonly string[]) => Promise<string[]>
  /** Rows of `slot` that count, by limit. */
  readonly used: () => Promise<Record<string, number>>
  readonly claim: (count: number, sessionId?: string) => Promise<Claimed[]>
  readonly succeed: (runs: readonly Claimed[]) => Promise<void>
  readonly lookAll: () => Promise<number>
}

export type PoolColumns = {
  readonly name: string
  readonly slots?: number
  readonly rate?: object
  readonly host?: string
}
export type Claimed = { readonly runId: string; readonly leaseEpoch: number; readonly sessionId: string }
export type EnqueueOptions = {
  readonly input?: unknown
  readonly inputs?: readonly unknown[]
  readonly firstTag?: number
  readonly queue?: string
}

export async function createGateRig(times: GateTimes = {}): Promise<GateRig> {
  const running = await createRunningFixture()
  const { database, tenantId } = running
  const db = database.open()
  const gate = createPostgresGate(db, times)
  const keeper = createGatekeeper({
    gate,
    clock: realClock,
    random: { next: () => 0.5 },
    events: recordEvents(),
    hints: recordHints(),
  })
  const session = await running.openSession(600_000)
  const rows = async () => {
    const found = await database.sql<ReadyRow>(
      'SELECT run_id, gate, slotted, session_id, cancel_reason FROM belfry.ready',
    )
    return new Map(found.map((row) => [row.run_id, row]))
  }
  return {
    ...running,
    gate,
    keeper,
    anotherGate: (more = times) => createPostgresGate(database.open(), more),
    limitedJob: (limits, tenant = tenantId) => insertJob(database, tenant, limits),
    changeJob: (job, limits) => changeJob(database, job, limits),
    enqueue: (job, count, options) => enqueue(db, job, count, options ?? {}),
    enqueueWith: (own, job, count, made) => enqueue(own, job, count, {}, made),
    async addPool(tenant, { name, slots, rate, host }) {
      const id = newId()
      await database.sql(
        'INSERT INTO belfry.pool (id, tenant_id, name, slots, rate, host) VALUES ($1, $2, $3, $4, $5, $6)',
        [id, tenant, name, slots ?? null, rate === undefined ? null : JSON.stringify(rate), host ?? null],
      )
      return id
    },
    rows,
    async open(ids) {
      const found = await rows()
      return ids.filter((id) => found.get(id)?.gate === null)
    },
    async used() {
      const found = await database.sql<{ limit_key: string; used: number }>(
        'SELECT limit_key, sum(weight)::int AS used FROM belfry.slot WHERE NOT freed GROUP BY limit_key',
      )
      return Object.fromEntries(found.map((row) => [row.limit_key, row.used]))
    },
    async claim(count, sessionId = session) {
      const shares = [{ queue: 'default', minTag: -Infinity, limit: count }]
      const { runs } = await running.queue.claim({
        sessionId,
        shares,
        routes: ['http'],
        deadlineMarginMs: 1_000,
      })
      return runs.map(({ runId, leaseEpoch }) => ({ runId, leaseEpoch, sessionId }))
    },
    async succeed(runs) {
      for (const run of runs) await running.store.complete(run.sessionId, [succeededEnd(run)])
    },
    lookAll: () => keeper.runOnce(),
  }
}

function definitionOf({ concurrency = null, rateLimit = null, url, queue }: JobLimits) {
  return jobDefinitionSchema.parse({
    handler: { kind: 'http', url: url ?? 'http://target.invalid/' },
    concurrency: concurrency as Concurrency | null,
    rateLimit: rateLimit as RateLimit | null,
    ...(queue === undefined ? {} : { queue }),
  })
}

async function insertJob(database: TestDatabase, tenantId: string, limits: JobLimits): Promise<GateJob> {
  const id = newId()
  const definition = definitionOf(limits)
  await database.sql(
    `WITH job AS (
       INSERT INTO belfry.job (id, tenant_id, name, handler, queue, priority, attempt_timeout_ms, definition)
       VALUES ($1, $2, $3, 'http', $4, 0, 60000, $5) RETURNING id, tenant_id, definition)
     INSERT INTO belfry.job_version (job_id, version, tenant_id, definition)
     SELECT id, 1, tenant_id, definition FROM job`,
    [id, tenantId, `job-${id}`, definition.queue, JSON.stringify(definition)],
  )
  return { id, tenantId }
}

async function changeJob(database: TestDatabase, job: GateJob, limits: JobLimits): Promise<void> {
  const definition = JSON.stringify(definitionOf(limits))
  await database.sql('UPDATE belfry.job SET definition = $2 WHERE id = $1', [job.id, definition])
}

async function enqueue(
  db: Database,
  job: GateJob,
  count: number,
  { input, inputs, firstTag = 1, queue = 'default' }: EnqueueOptions,
  made?: () => Promise<void>,
): Promise<string[]> {
  const route = routeOf(
    { kind: 'http', url: 'http://target.invalid/', method: 'POST', headers: {} },
    job.tenantId,
  )
  const startedMs = Date.now()
  const now = new Date(startedMs).toISOString()
  const ids: string[] = []
  await db.transaction({ role: 'belfry_app', tenantId: job.tenantId }, async (tx) => {
    for (let place = 0; place < count; place++) {
      const id = testIds.uuidv7(startedMs + place)
      const given = inputs === undefined ? input : inputs[place]
      const text = given === undefined ? null : JSON.stringify(given)
      const common = [
        id,
        job.id,
        1,
        null,
        'manual',
        queue,
        0,
        text,
        now,
        null,
        route,
        60_000,
        null,
        null,
      ] as const
      await tx.query(insertReadyRun, [...common, firstTag + place])
      ids.push(id)
    }
    await made?.()
  })
  return ids
}
