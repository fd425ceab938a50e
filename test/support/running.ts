// What tests of the running half share: a database with a tenant and jobs, ready runs put there by hand, a
// handler that does as it is told, and events kept in a list. SQL here arranges and looks, as the superuser.
import type { Database } from '../../packages/server/src/postgres/database.ts'
import { randomBytes } from 'node:crypto'
import type { EngineEventName, EngineEvents, JobDefinition } from '@belfry/contract'
import { jobDefinitionSchema } from '@belfry/contract'
import type { EventSink } from '../../packages/server/src/ports/event-sink.ts'
import type { Handler, HandlerRequest, HandlerResult } from '../../packages/server/src/ports/handler.ts'
import type { Hint, Hints } from '../../packages/server/src/ports/hints.ts'
import type { Ids } from '../../packages/server/src/ports/ids.ts'
import type { RunQueue } from '../../packages/server/src/ports/run-queue.ts'
import type { OverdueRuns } from '../../packages/server/src/ports/overdue-runs.ts'
import type { AttemptEnd, RunStore } from '../../packages/server/src/ports/run-store.ts'
import { createPostgresOverdueRuns } from '../../packages/server/src/postgres/overdue-runs.ts'
import { createPostgresRunQueue } from '../../packages/server/src/postgres/run-queue.ts'
import { createPostgresRunStore } from '../../packages/server/src/postgres/run-store.ts'
import { createTestDatabase, type TestDatabase } from './postgres.ts'

/** UUIDv7 of an instant. */
export const testIds: Ids = {
  uuidv7(atMs) {
    const bytes = randomBytes(16)
    bytes.writeUIntBE(Math.floor(atMs), 0, 6)
    bytes[6] = 0x70 | ((bytes[6] ?? 0) & 0x0f)
    bytes[8] = 0x80 | ((bytes[8] ?? 0) & 0x3f)
    return bytes.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')
  },
}

export const newId = (): string => testIds.uuidv7(Date.now())

export type AttemptRow = {
  readonly number: number
  readonly outcome: string
  readonly run_state: string | null
  readonly reason: string | null
  readonly lease_epoch: number
  readonly session_id: string | null
  readonly error_code: string | null
  readonly error_message: string | null
  readonly http_status: number | null
  readonly response: string | null
  readonly retry_at: Date | null
}

export type Place = {
  readonly place: 'ready' | 'running' | 'delayed' | 'ended' | 'nowhere'
  readonly attempt: number
  readonly crash_count: number
  readonly failure_count: number
  readonly lease_epoch: number
  readonly run_state: string | null
}

export type RunningFixture = {
  readonly database: TestDatabase
  readonly db: Database
  readonly tenantId: string
  readonly queue: RunQueue
  readonly store: RunStore
  readonly overdueRuns: OverdueRuns
  readonly addTenant: (weight?: number) => Promise<string>
  readonly addJob: (definition?: Partial<JobDefinition>, tenantId?: string) => Promise<TestJob>
  readonly addRuns: (job: TestJob, count: number, ready?: ReadyOptions) => Promise<string[]>
  readonly openSession: (leaseMs?: number) => Promise<string>
  readonly attempts: (runId: string) => Promise<AttemptRow[]>
  readonly place: (runId: string) => Promise<Place>
  readonly drop: () => Promise<void>
}

export type TestJob = {
  readonly id: string
  readonly tenantId: string
  readonly definition: JobDefinition
}

export type ReadyOptions = {
  readonly queue?: string
  readonly firstTag?: number
  readonly input?: unknown
  readonly scheduledFor?: Date
}

export async function createRunningFixture(): Promise<RunningFixture> {
  const database = await createTestDatabase()
  const db = database.open()
  const heartbeats = database.open({ maxConnections: 1 })
  const store = createPostgresRunStore({ db, heartbeats })

  const addTenant = async (weight = 1) => {
    const id = newId()
    await database.sql('INSERT INTO belfry.tenant (id, name, weight) VALUES ($1, $2, $3)', [
      id,
      `t-${id}`,
      weight,
    ])
    return id
  }
  const tenantId = await addTenant()
  return {
    database,
    db,
    tenantId,
    store,
    overdueRuns: createPostgresOverdueRuns(db),
    queue: createPostgresRunQueue(db),
    addTenant,
    addJob: async (definition = {}, tenant = tenantId) => {
      const id = newId()
      const handler = { kind: 'http', url: 'http://target.invalid/' }
      const full = jobDefinitionSchema.parse({ handler, ...definition })
      await database.sql(
        `WITH job AS (
           INSERT INTO belfry.job (id, tenant_id, name, handler, queue, priority, attempt_timeout_ms,
             definition)
           VALUES ($1, $2, $3, 'http', $4, $5, $6, $7) RETURNING id, tenant_id, definition)
         INSERT INTO belfry.job_version (job_id, version, tenant_id, definition) SELECT id, 1, tenant_id,
           definition FROM job`,
        [id, tenant, `job-${id}`, full.queue, full.priority, full.attemptTimeoutMs, JSON.stringify(full)],
      )
      return { id, tenantId: tenant, definition: full }
    },
    addRuns: (job, count, ready) => addRuns(database, job, count, ready ?? {}),
    openSession: async (leaseMs = 60_000) => {
      const id = newId()
      await store.openSession({ id, host: 'test', version: '0', queues: ['default'], slots: 10 }, leaseMs)
      return id
    },
    attempts: (runId) =>
      database.sql<AttemptRow>(
        `SELECT number, outcome, run_state, reason, lease_epoch::int, session_id, error_code,
                error_message, http_status,
                response, retry_at
         FROM belfry.attempt WHERE run_id = $1 ORDER BY number`,
        [runId],
      ),
    place: (runId) => placeOf(database, runId),
    drop: database.drop,
  }
}

async function addRuns(
  database: TestDatabase,
  job: TestJob,
  count: number,
  options: ReadyOptions,
): Promise<string[]> {
  const ids = Array.from({ length: count }, newId)
  const { definition } = job
  await database.sql(
    `WITH made AS (
       INSERT INTO belfry.run (id, tenant_id, job_id, job_version, scheduled_for, source, queue, priority,
         input, due_at)
       SELECT id, $2, $3, 1, $4, 'manual', $5, 0, $6::jsonb, belfry.now() FROM unnest($1::uuid[]) AS id
       RETURNING id)
     INSERT INTO belfry.ready (run_id, tenant_id, job_id, job_version, queue, handler, tag, priority,
       available_at, timeout_ms)
     SELECT id, $2, $3, 1, $5, 'http', $7::float8 + place - 1, 0, belfry.now(), $8
     FROM unnest($1::uuid[]) WITH ORDINALITY AS each (id, place)`,
    [
      ids,
      job.tenantId,
      job.id,
      options.scheduledFor ?? null,
      options.queue ?? definition.queue,
      JSON.stringify(options.input ?? null),
      options.firstTag ?? 1,
      definition.attemptTimeoutMs,
    ],
  )
  return ids
}

async function placeOf(database: TestDatabase, runId: string): Promise<Place> {
  const rows = await database.sql<Place>(
    `SELECT CASE WHEN session_id IS NULL THEN 'ready' ELSE 'running' END AS place, attempt, crash_count,
      failure_count,
            lease_epoch::int, NULL AS run_state FROM belfry.ready WHERE run_id = $1
     UNION ALL
     SELECT 'delayed', attempt, crash_count, failure_count, lease_epoch::int, NULL FROM belfry.delayed
       WHERE run_id = $1
     UNION ALL
     SELECT 'ended', number, 0, 0, lease_epoch::int, run_state FROM belfry.attempt
     WHERE run_id = $1 AND run_state IS NOT NULL`,
    [runId],
  )
  const [row, second] = rows
  if (second !== undefined) throw new Error(`Run ${runId} stands in two places: ${JSON.stringify(rows)}`)
  return (
    row ?? { place: 'nowhere', attempt: 0, crash_count: 0, failure_count: 0, lease_epoch: 0, run_state: null }
  )
}

/** An end that says: succeeded. */
export function succeededEnd(
  run: { runId: string; leaseEpoch: number },
  more: Partial<AttemptEnd> = {},
): AttemptEnd {
  return {
    runId: run.runId,
    leaseEpoch: run.leaseEpoch,
    outcome: 'succeeded',
    runState: 'succeeded',
    reason: null,
    retryDelayMs: null,
    countAs: 'nothing',
    startedAtMs: Date.now() - 10,
    endedAtMs: Date.now(),
    errorCode: null,
    errorMessage: null,
    httpStatus: 200,
    response: 'ok',
    responseTruncated: false,
    ...more,
  }
}

/** An end that says: failed, again in a minute. */
export function retriedEnd(
  run: { runId: string; leaseEpoch: number },
  more: Partial<AttemptEnd> = {},
): AttemptEnd {
  const failed = { outcome: 'failed', runState: null, retryDelayMs: 60_000, countAs: 'failure' } as const
  return succeededEnd(run, { ...failed, httpStatus: 500, errorCode: 'http_status', ...more })
}

export type RecordedEvents = EventSink & {
  readonly of: <Name extends EngineEventName>(name: Name) => EngineEvents[Name][]
}

export function recordEvents(): RecordedEvents {
  const seen: { name: EngineEventName; payload: unknown }[] = []
  return {
    emit: (name, payload) => void seen.push({ name, payload }),
    of: (name) => seen.filter((each) => each.name === name).map((each) => each.payload as never),
  }
}

export type RecordedHints = Hints & { readonly published: Hint[] }

export function recordHints(): RecordedHints {
  const published: Hint[] = []
  const listeners = new Set<(hint: Hint) => void>()
  return {
    published,
    publish(hint) {
      published.push(hint)
      for (const listener of listeners) listener(hint)
    },
    subscribe(listener) {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
  }
}

export type TestHandler = Handler & { readonly requests: HandlerRequest[] }

/** Calls `answer` for each request and keeps what it was asked. */
export function testHandler(
  answer: (request: HandlerRequest) => Promise<HandlerResult> | HandlerResult,
): TestHandler {
  const requests: HandlerRequest[] = []
  return {
    kind: 'http',
    requests,
    execute: async (request) => {
      requests.push(request)
      return answer(request)
    },
    close: async () => {},
  }
}

export const success: HandlerResult = { outcome: 'succeeded', httpStatus: 200, response: 'done' }

/** A handler's answer that comes when the signal fires, as a good handler's does. */
export function untilAborted(request: HandlerRequest): Promise<HandlerResult> {
  return new Promise((resolve) => {
    request.signal.addEventListener('abort', () => {
      resolve({
        outcome: 'failed',
        retryable: true,
        error: { code: 'aborted', message: 'The signal fired.' },
      })
    })
  })
}

/** Waits for a condition, by looking at it again and again; fails after `limitMs`. */
export async function eventually<T>(
  look: () => Promise<T | undefined | false> | T | undefined | false,
  what: string,
  limitMs = 10_000,
): Promise<T> {
  const deadline = performance.now() + limitMs
  for (;;) {
    const seen = await look()
    if (seen !== undefined && seen !== false) return seen
    if (performance.now() > deadline) throw new Error(`Waited ${limitMs} ms in vain for: ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
}
