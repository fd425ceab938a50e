// Policies look at the tenant of a row. The rows here are of one's own tenant and name a thing of another, by
// raw SQL as the app role: by the keys of the cold tables they are refused, and from those of the hot ones,
// which have no such keys, the engine makes nothing.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createPostgresBackfilling } from '../../packages/server/src/postgres/backfilling.ts'
import { createPostgresFiring } from '../../packages/server/src/postgres/firing.ts'
import { asRole, asRoleCommitted } from '../support/as-role.ts'
import {
  createRunningFixture,
  newId,
  type RunningFixture,
  succeededEnd,
  type TestJob,
} from '../support/running.ts'

let fixture: RunningFixture
let own: string
let other: string
/** Of the other tenant. */
let job: TestJob
let sessionId: string

beforeAll(async () => {
  fixture = await createRunningFixture()
  own = await fixture.addTenant()
  other = await fixture.addTenant()
  const handler = { kind: 'http', url: 'http://target.invalid/secret', method: 'POST' } as const
  job = await fixture.addJob({ handler: { ...handler, headers: { authorization: 'Bearer victim' } } }, other)
  sessionId = await fixture.openSession()
})
afterAll(() => fixture.drop())

const asOwn = (text: string, params: readonly unknown[]) =>
  asRoleCommitted(fixture.database.connection, 'belfry_app', own, text, params)

describe("a row that names another tenant's job, schedule or run", () => {
  const insertReady = (runId: string, queue: string) =>
    asOwn(
      `INSERT INTO belfry.ready (run_id, tenant_id, job_id, job_version, queue, handler, tag, priority,
         available_at, timeout_ms) VALUES ($1, $2, $3, 1, $4, 'http', 1, 0, now(), 1000)`,
      [runId, own, job.id, queue],
    )
  const claim = async (queue: string) => {
    const shares = [{ queue, minTag: -Infinity, limit: 10 }]
    const asked = { sessionId, shares, routes: ['http'] as const, deadlineMarginMs: 0 }
    return (await fixture.queue.claim(asked)).runs
  }
  const definitionsOf = (runs: Awaited<ReturnType<typeof claim>>) =>
    fixture.store.definitions(
      runs.map((run) => ({ tenantId: run.tenantId, jobId: run.jobId, version: run.jobVersion })),
    )

  test('job_version and schedule: refused by their keys', async () => {
    const version = `INSERT INTO belfry.job_version (job_id, version, tenant_id, definition)
      VALUES ($1, 2, $2, '{}')`
    await expect(asOwn(version, [job.id, own])).rejects.toThrow(/job_version_job/)
    const schedule = `INSERT INTO belfry.schedule (id, tenant_id, name, job_id, spec, zone, zone_data_version,
      catch_up, overlap) VALUES ($1, $2, 'theirs', $3, '{}', 'UTC', '1', '{}', 'skip')`
    await expect(asOwn(schedule, [newId(), own, job.id])).rejects.toThrow(/schedule_of_job/)
    const mine = await fixture.addJob({}, own)
    const scheduleId = newId()
    await asOwn(schedule, [scheduleId, own, mine.id])
    const move = 'UPDATE belfry.schedule SET job_id = $1 WHERE id = $2'
    await expect(asOwn(move, [job.id, scheduleId])).rejects.toThrow(/schedule_of_job/)
  })

  test('ready: claimed without a definition, which no worker can run', async () => {
    await insertReady(newId(), 'stolen')
    const runs = await claim('stolen')
    expect(runs).toHaveLength(1)
    expect(await definitionsOf(runs)).toEqual([])
    await fixture.database.sql('UPDATE belfry.ready SET session_id = $1, settled_by = $1 WHERE run_id = $2', [
      newId(),
      runs[0]?.runId,
    ])
    const stuck = (await fixture.store.stuckRuns(null, 1_000)).runs.find(
      (run) => run.runId === runs[0]?.runId,
    )
    expect([stuck?.cause, stuck?.delivery]).toEqual(['session_lost', 'at_most_once'])
  })

  test('delayed: the same after its release', async () => {
    const runId = newId()
    await asOwn(
      `INSERT INTO belfry.delayed (run_id, tenant_id, job_id, job_version, due_at, shard, queue, handler,
         priority, timeout_ms, lease_epoch, attempt, crash_count)
       VALUES ($1, $2, $3, 1, now(), 0, 'stolen-later', 'http', 0, 1, 0, 0, 0)`,
      [runId, own, job.id],
    )
    const firing = createPostgresFiring(fixture.database.open())
    expect((await firing.release([{ runId, tag: 1 }])).releasedRunIds).toEqual([runId])
    const runs = await claim('stolen-later')
    expect(runs.map((run) => run.runId)).toEqual([runId])
    expect(await definitionsOf(runs)).toEqual([])
  })

  test('timer: does not fire, and is not taken for a changed one either', async () => {
    const scheduleId = newId()
    const scheduledForMs = Date.now() - 1_000
    await fixture.database.sql(
      `INSERT INTO belfry.schedule (id, tenant_id, name, job_id, spec, zone, zone_data_version, catch_up,
         overlap)
       VALUES ($1, $2, 'paused', $3, '{}', 'UTC', '1', '{}', 'skip')`,
      [scheduleId, other, job.id],
    )
    await asOwn(
      `INSERT INTO belfry.timer (schedule_id, tenant_id, due_at, scheduled_for, gen, shard)
       VALUES ($1, $2, $3, $3, 1, 7)`,
      [scheduleId, own, new Date(scheduledForMs)],
    )
    const nodeId = newId()
    await fixture.database.sql(
      `UPDATE belfry.shard_term SET owner_id = $1, term = 1, expires_at = now() + interval '1 hour'
       WHERE shard = 7`,
      [nodeId],
    )
    const ran = { outcome: 'ran', reason: null, detail: null } as const
    const occurrence = { scheduledForMs, dueAtMs: scheduledForMs, ...ran }
    const fire = {
      scheduleId,
      shard: 7,
      gen: 1,
      version: 1,
      expectedDueAtMs: scheduledForMs,
      next: null,
      plain: true,
      occurrences: [{ ...occurrence, missedCount: 1, runId: newId(), tag: 1 }],
    }
    const firing = createPostgresFiring(fixture.database.open())
    const assumed = { nowMs: Date.now(), toleranceMs: 60_000 }
    const result = await firing.fire(nodeId, [{ shard: 7, term: 1 }], [fire], assumed)
    expect(result).toMatchObject({ fired: [], movedScheduleIds: [], changedScheduleIds: [], heldShards: [7] })
    const left = await fixture.database.sql('SELECT state FROM belfry.schedule WHERE id = $1', [scheduleId])
    expect(left).toEqual([{ state: 'active' }])
  })

  test('backfill: refused by its key; extra_run: tells nothing of the run that it names', async () => {
    const [theirs, mine] = [newId(), newId()]
    const { id: myJobId } = await fixture.addJob({}, own)
    for (const [id, tenantId, jobId] of [
      [theirs, other, job.id],
      [mine, own, myJobId],
    ]) {
      await fixture.database.sql(
        `INSERT INTO belfry.schedule (id, tenant_id, name, job_id, spec, zone, zone_data_version, catch_up,
           overlap)
         VALUES ($1, $2, $3, $4, '{}', 'UTC', '1', '{}', 'skip')`,
        [id, tenantId, `of-${id}`, jobId],
      )
    }
    const insert = `INSERT INTO belfry.backfill (id, tenant_id, schedule_id, shard, from_at, to_at,
        time_order, concurrency, reprocess, timing, total, alive)
      VALUES ($1, $2, $3, 0, now() - interval '1 day', now(), 'oldest_first', 4, 'none', '{}', 1, 1)`
    await expect(asOwn(insert, [newId(), own, theirs])).rejects.toThrow(/backfill_schedule/)
    const backfillId = newId()
    await asOwn(insert, [backfillId, own, mine])
    const [runId = ''] = await fixture.addRuns(job, 1, { queue: 'theirs-too' })
    await asOwn(
      `INSERT INTO belfry.extra_run (tenant_id, schedule_id, scheduled_for, run_id, backfill_id)
       VALUES ($1, $2, now(), $3, $4)`,
      [own, mine, runId, backfillId],
    )
    const backfilling = createPostgresBackfilling(fixture.database.open())
    const locked = await backfilling.within((tx) => tx.lock({ id: backfillId, scheduleId: mine ?? '' }))
    expect(locked?.runs).toEqual([{ runId, endedAs: 'unknown' }])
  })

  test("run and attempt: show nothing of the other's, and change nothing there", async () => {
    const [theirs = ''] = await fixture.addRuns(job, 1, { queue: 'theirs' })
    const insertRun = `INSERT INTO belfry.run (id, tenant_id, job_id, job_version, source, queue, priority,
        due_at)
      VALUES ($1, $2, $3, 1, 'manual', 'q', 0, now())`
    const mine = newId()
    await asOwn(insertRun, [mine, own, job.id])
    const definition = `SELECT v.definition FROM belfry.run r LEFT JOIN belfry.job_version v
      ON v.job_id = r.job_id AND v.version = r.job_version WHERE r.id = $1`
    expect(await asRole(fixture.database.connection, 'belfry_app', own, definition, [mine])).toEqual([
      { definition: null },
    ])
    await asOwn(
      `INSERT INTO belfry.attempt (run_id, number, tenant_id, lease_epoch, outcome, run_state, started_at)
       VALUES ($1, 0, $2, 0, 'canceled', 'canceled', now())`,
      [theirs, own],
    )
    expect(
      await asRole(
        fixture.database.connection,
        'belfry_app',
        other,
        'SELECT 1 FROM belfry.attempt WHERE run_id = $1',
        [theirs],
      ),
    ).toEqual([])
    const [run] = await claim('theirs')
    expect(run?.runId).toBe(theirs)
    const { applied } = await fixture.store.complete(sessionId, [
      succeededEnd({ runId: theirs, leaseEpoch: run?.leaseEpoch ?? 0 }),
    ])
    expect(applied).toEqual([{ runId: theirs, runState: 'succeeded' }])
  })
})
