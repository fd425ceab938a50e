// A schedule is paused when its last runs failed, as many as it was told to take: which runs count, who ends
// them, and what happens when several do so at once, beside a fire, or over a long history.
import pg from 'pg'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { createRescuer } from '../../packages/server/src/engine/rescuer.ts'
import { createPostgresRunStore } from '../../packages/server/src/postgres/run-store.ts'
import { findFailed, lockTimersOf } from '../../packages/server/src/postgres/statements/failure-pauses.ts'
import { walkIndexes } from '../../packages/server/src/postgres/statements/transaction.ts'
import { realClock } from '../support/real-clock.ts'
import {
  createRunningFixture,
  eventually,
  recordEvents,
  recordHints,
  retriedEnd,
  type RunningFixture,
  succeededEnd,
  testHandler,
  testIds,
  type TestJob,
} from '../support/running.ts'
import { workerRigs } from '../support/worker-rig.ts'

let fixture: RunningFixture
let job: TestJob
const rigs = workerRigs(() => fixture)
beforeAll(async () => {
  fixture = await createRunningFixture()
  job = await fixture.addJob({ retry: { maxAttempts: 1 } as TestJob['definition']['retry'] })
})
beforeEach(async () => {
  await fixture.database.sql('TRUNCATE belfry.ready, belfry.session')
})
afterEach(() => rigs.stopAll())
afterAll(() => fixture.drop())

const sql = <Row extends pg.QueryResultRow>(text: string, params: readonly unknown[] = []) =>
  fixture.database.sql<Row>(text, params)

/** Planned next for 2030; answers its id. */
async function schedule(failures: number | null, more: { state?: string; of?: TestJob } = {}) {
  const of = more.of ?? job
  const id = testIds.uuidv7(Date.now())
  await sql(
    `WITH made AS (
       INSERT INTO belfry.schedule (id, tenant_id, name, job_id, spec, zone, zone_data_version, catch_up,
         overlap, pause_after_failures, state, created_at)
       VALUES ($1, $2, $3, $4, '{}', 'UTC', '1', '{}', 'allow', $5, $6, now() - interval '1 day'))
     INSERT INTO belfry.timer (schedule_id, tenant_id, due_at, scheduled_for, gen, shard)
     VALUES ($1, $2, '2030-01-01', '2030-01-01', 1, belfry.shard_of($1))`,
    [id, of.tenantId, `s-${id}`, of.id, failures, more.state ?? 'active'],
  )
  return id
}

type Run = { readonly runId: string; readonly leaseEpoch: number; readonly sessionId: string }
let lastMs = Date.now() - 3_600_000

/** A run of the schedule, held by a session; each is made after the one before. */
async function running(scheduleId: string, more: { source?: string; sessionId?: string } = {}): Promise<Run> {
  lastMs += 10
  const runId = testIds.uuidv7(lastMs)
  const sessionId = more.sessionId ?? (await fixture.openSession())
  await sql(
    `WITH made AS (
       INSERT INTO belfry.run (id, tenant_id, job_id, job_version, schedule_id, scheduled_for, source, queue,
         priority, due_at, created_at)
       VALUES ($1, $2, $3, 1, $4, now(), $5, 'default', 0, now(), $6))
     INSERT INTO belfry.ready (run_id, tenant_id, job_id, job_version, queue, handler, tag, priority,
       available_at, timeout_ms, lease_epoch, attempt, session_id, settled_by, claimed_at, deadline)
     VALUES ($1, $2, $3, 1, 'default', 'http', 1, 0, now(), 60000, 1, 1, $7, $7, now(),
       now() + interval '1 h')`,
    [runId, fixture.tenantId, job.id, scheduleId, more.source ?? 'schedule', new Date(lastMs), sessionId],
  )
  return { runId, leaseEpoch: 1, sessionId }
}

const failed = { outcome: 'failed', runState: 'failed', reason: 'attempts_exhausted' } as const
const fail = (run: Run) => fixture.store.complete(run.sessionId, [succeededEnd(run, failed)])
const succeed = (run: Run) => fixture.store.complete(run.sessionId, [succeededEnd(run)])

type Standing = {
  state: string
  paused_reason: string | null
  version: number
  gen: number
  paused: boolean
  timers: number
}
async function standing(id: string): Promise<Standing | undefined> {
  const [row] = await sql<Standing>(
    `SELECT state, paused_reason, version, gen::int, paused_at IS NOT NULL AS paused,
       (SELECT count(*)::int FROM belfry.timer WHERE schedule_id = id) AS timers
     FROM belfry.schedule WHERE id = $1`,
    [id],
  )
  return row
}
const active = { state: 'active', paused_reason: null, version: 1, gen: 1, paused: false, timers: 1 }

describe('who has no such limit', () => {
  test('ends its failed runs without its locks', async () => {
    const [free, limited] = [await schedule(null), await schedule(1)]
    const db = fixture.database.open()
    let locks = 0
    const counting: typeof db = {
      ...db,
      transaction(scope, work) {
        return db.transaction(scope, (tx) =>
          work({
            ...tx,
            query(statement, params) {
              if (statement.name === lockTimersOf.name) locks++
              return tx.query(statement, params)
            },
          }),
        )
      },
    }
    const store = createPostgresRunStore({ db: counting, heartbeats: db })
    const end = (run: Run) => store.complete(run.sessionId, [succeededEnd(run, failed)])
    const byHand = await end(await running(limited, { source: 'manual' }))
    const ended = await end(await running(free))
    expect([byHand.applied.length, ended.applied.length, locks]).toEqual([1, 1, 0])
    expect((await end(await running(limited))).paused).toHaveLength(1)
    expect(locks).toBe(1)
  })
})

describe('the last runs failed', () => {
  test('and it is paused, with the reason, in a new generation, without a timer', async () => {
    const id = await schedule(3)
    for (let n = 0; n < 2; n++) {
      expect((await fail(await running(id))).paused).toEqual([])
      expect(await standing(id)).toEqual(active)
    }
    const third = await fail(await running(id))
    expect(third.paused).toEqual([{ scheduleId: id, tenantId: fixture.tenantId, failures: 3 }])
    expect(await standing(id)).toEqual({
      state: 'paused',
      paused_reason: 'The last 3 runs failed.',
      version: 2,
      gen: 2,
      paused: true,
      timers: 0,
    })
  })

  test('one is enough where one is the limit', async () => {
    const id = await schedule(1)
    await fail(await running(id))
    expect(await standing(id)).toMatchObject({ state: 'paused', paused_reason: 'The last run failed.' })
  })

  test('in one batch, of several schedules', async () => {
    const [one, two, free] = [await schedule(2), await schedule(2), await schedule(null)]
    const sessionId = await fixture.openSession()
    const runs: Run[] = []
    for (const id of [one, two, free, one, two, free]) runs.push(await running(id, { sessionId }))
    const ends = runs.map((run) => succeededEnd(run, failed))
    const { paused } = await fixture.store.complete(sessionId, ends)
    expect(new Set(paused.map(({ scheduleId }) => scheduleId))).toEqual(new Set([one, two]))
    expect(await standing(free)).toEqual(active)
  })

  test('a planned time that was due and unfired goes on record with the resume', async () => {
    const id = await schedule(1)
    await sql(
      `UPDATE belfry.timer SET scheduled_for = '2026-01-01', due_at = '2026-01-01' WHERE schedule_id = $1`,
      [id],
    )
    await fail(await running(id))
    const [row] = await sql<{ paused_from: Date }>('SELECT paused_from FROM belfry.schedule WHERE id = $1', [
      id,
    ])
    expect(row?.paused_from).toEqual(new Date(Date.UTC(2026, 0, 1) - 1))
  })
})

describe('what does not count', () => {
  test('a success or a cancel in between begins anew', async () => {
    const id = await schedule(2)
    await fail(await running(id))
    await succeed(await running(id))
    await fail(await running(id))
    const canceled = await running(id)
    const end = succeededEnd(canceled, { outcome: 'canceled', runState: 'canceled', reason: 'overlap' })
    await fixture.store.complete(canceled.sessionId, [end])
    await fail(await running(id))
    expect(await standing(id)).toEqual(active)
    await fail(await running(id))
    expect(await standing(id)).toMatchObject({ state: 'paused' })
  })

  test('an attempt that is tried again is no failed run', async () => {
    const id = await schedule(1)
    const run = await running(id)
    await fixture.store.complete(run.sessionId, [retriedEnd(run)])
    expect(await standing(id)).toEqual(active)
  })

  test('runs that are alive are passed over', async () => {
    const id = await schedule(2)
    await fail(await running(id))
    for (let n = 0; n < 5; n++) await running(id)
    const last = await running(id)
    expect(await standing(id)).toEqual(active)
    await fail(last)
    expect(await standing(id)).toMatchObject({ state: 'paused' })
  })

  test.each(['trigger', 'backfill'])('a run that came by %s', async (source) => {
    const id = await schedule(2)
    await fail(await running(id))
    await fail(await running(id, { source }))
    expect(await standing(id)).toEqual(active)
    await fail(await running(id))
    expect(await standing(id)).toMatchObject({ state: 'paused' })
  })

  test('runs from before it was resumed, or told another number', async () => {
    const id = await schedule(2)
    await fail(await running(id))
    const before = await running(id)
    await sql('UPDATE belfry.schedule SET failures_since = $2 WHERE id = $1', [id, new Date(lastMs + 5)])
    await fail(before)
    await fail(await running(id))
    expect(await standing(id)).toEqual(active)
    await fail(await running(id))
    expect(await standing(id)).toMatchObject({ state: 'paused' })
  })

  test.each(['paused', 'completed'])('a schedule that is %s stays so', async (state) => {
    const id = await schedule(1, { state })
    expect((await fail(await running(id))).paused).toEqual([])
    expect(await standing(id)).toMatchObject({ state, version: 1, paused_reason: null })
  })

  test('a run that names the schedule of another tenant', async () => {
    const id = await schedule(1, { of: await fixture.addJob({}, await fixture.addTenant()) })
    expect((await fail(await running(id))).paused).toEqual([])
    expect(await standing(id)).toEqual(active)
  })
})

describe('who ends the run', () => {
  test('a worker tells of it and hints, once it is on record', async () => {
    const id = await schedule(2)
    const handler = testHandler(() => ({
      outcome: 'failed',
      retryable: false,
      error: { code: 'http_status', message: 'It said 404.' },
    }))
    const rig = await rigs.start(handler)
    for (let n = 0; n < 2; n++) {
      const { runId } = await running(id)
      await sql(
        `UPDATE belfry.ready SET session_id = NULL, settled_by = NULL, claimed_at = NULL, deadline = NULL
         WHERE run_id = $1`,
        [runId],
      )
      await eventually(async () => (await fixture.place(runId)).place === 'ended', 'the run to fail')
    }
    const [told] = await eventually(() => {
      const events = rig.events.of('schedule_paused')
      return events.length > 0 && events
    }, 'the pause to be told')
    expect(told).toEqual({ scheduleId: id, tenantId: fixture.tenantId, failures: 2 })
    const shard = String(Number.parseInt(id.slice(-2), 16) & 63)
    expect(rig.hints.published).toContainEqual({ topic: 'timers', key: shard })
  })

  test.each([
    ['an at-most-once run, whose outcome nobody knows', 'at_most_once', 0, 'outcome_unknown'],
    ['a run that killed its third worker', 'at_least_once', 2, 'quarantined'],
  ] as const)('the rescuer: %s', async (_, delivery, crashes, reason) => {
    const lost = await fixture.addJob({ delivery })
    const id = await schedule(1)
    const run = await running(id)
    await sql('UPDATE belfry.ready SET job_id = $2, crash_count = $3 WHERE run_id = $1', [
      run.runId,
      lost.id,
      crashes,
    ])
    await sql('UPDATE belfry.session SET expires_at = now() WHERE id = $1', [run.sessionId])
    const events = recordEvents()
    const random = { next: () => 0.5 }
    const { store, overdueRuns } = fixture
    const parts = { store, overdueRuns, hints: recordHints(), clock: realClock, random, events }
    await createRescuer(parts).runOnce()
    expect(await fixture.attempts(run.runId)).toMatchObject([{ run_state: 'failed', reason }])
    expect(await standing(id)).toMatchObject({ state: 'paused', paused_reason: 'The last run failed.' })
    expect(events.of('schedule_paused')).toEqual([
      { scheduleId: id, tenantId: fixture.tenantId, failures: 1 },
    ])
  })
})

describe('at the same time', () => {
  test('two that end a failed run each: one of them pauses', async () => {
    const id = await schedule(2)
    const runs = [await running(id), await running(id)]
    const timer = await fixture.database.hold(
      `SELECT 1 FROM belfry.timer WHERE schedule_id = '${id}' FOR UPDATE`,
    )
    await timer.take()
    const both = runs.map(fail)
    await eventually(async () => (await fixture.database.waiting()) === 2, 'both to wait for the timer')
    await timer.release()
    const paused = (await Promise.all(both)).flatMap((each) => each.paused)
    expect(paused).toHaveLength(1)
    expect(await standing(id)).toMatchObject({ state: 'paused', version: 2 })
  })

  test('an end waits for a fire before it takes the run, so neither waits in a circle', async () => {
    const id = await schedule(1)
    const run = await running(id)
    const fire = new pg.Client(fixture.database.adminConnection)
    await fire.connect()
    try {
      await fire.query('BEGIN')
      await fire.query('SELECT 1 FROM belfry.timer WHERE schedule_id = $1 FOR UPDATE', [id])
      const ending = fail(run)
      await eventually(async () => (await fixture.database.waiting()) === 1, 'the end to wait')
      // as a fire does that ends the run before it
      const taken = 'SELECT 1 FROM belfry.ready WHERE run_id = $1 FOR UPDATE NOWAIT'
      expect((await fire.query(taken, [run.runId])).rowCount).toBe(1)
      await fire.query('COMMIT')
      expect((await ending).paused).toHaveLength(1)
    } finally {
      await fire.end()
    }
  })
})

test('a long history is not read: as many runs as count, by index', async () => {
  const id = await schedule(3)
  await sql(
    `INSERT INTO belfry.run (id, tenant_id, job_id, job_version, schedule_id, source, queue, priority, due_at)
     SELECT (left(belfry.uuid_floor(now() - n * interval '1 s')::text, 24) || lpad(to_hex(n), 12, '0'))::uuid,
       $1, $2, 1, $3, 'schedule', 'default', 0, now()
     FROM generate_series(1, 5000) AS n`,
    [fixture.tenantId, job.id, id],
  )
  await sql(
    `INSERT INTO belfry.attempt (run_id, number, tenant_id, lease_epoch, outcome, run_state, started_at)
     SELECT id, 1, tenant_id, 1, 'failed', 'failed', now() FROM belfry.run WHERE schedule_id = $1`,
    [id],
  )
  type Plan = { 'Relation Name'?: string; 'Actual Rows': number; 'Actual Loops': number; Plans?: Plan[] }
  const read = (plan: Plan): number =>
    (/^(?:run|attempt)_/.test(plan['Relation Name'] ?? '') ? plan['Actual Rows'] * plan['Actual Loops'] : 0) +
    (plan.Plans ?? []).reduce((sum, part) => sum + read(part), 0)
  const client = new pg.Client(fixture.database.adminConnection)
  await client.connect()
  try {
    await client.query('BEGIN')
    await client.query(walkIndexes.text)
    const { rows } = await client.query<{ 'QUERY PLAN': [{ Plan: Plan }] }>(
      `EXPLAIN (ANALYZE, FORMAT JSON) ${findFailed.text}`,
      [[id]],
    )
    await client.query('ROLLBACK')
    const plan = rows[0]?.['QUERY PLAN'][0].Plan
    expect(plan === undefined ? Number.NaN : read(plan)).toBeLessThanOrEqual(8)
  } finally {
    await client.end()
  }
})
