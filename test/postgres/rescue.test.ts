// Runs whose worker is gone, or whose deadline passed: found, judged and ended once, whoever else is at them.
// The loop around it: rescuer-service.test.ts.
import pg from 'pg'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { ClaimedRun } from '../../packages/server/src/ports/run-queue.ts'
import type { RunStore } from '../../packages/server/src/ports/run-store.ts'
import { rescueRig } from '../support/rescue-rig.ts'
import { createRunningFixture, type RunningFixture, succeededEnd, type TestJob } from '../support/running.ts'

let fixture: RunningFixture
let job: TestJob
let once: TestJob
const { rescuer, claim, expire, lostRun } = rescueRig(() => fixture)

beforeAll(async () => {
  fixture = await createRunningFixture()
  job = await fixture.addJob({ queue: 'many' })
  once = await fixture.addJob({ queue: 'once', delivery: 'at_most_once' })
})
afterAll(() => fixture.drop())
beforeEach(async () => {
  await fixture.database.sql('TRUNCATE belfry.ready, belfry.session')
})

const passDeadline = (runId: string) =>
  fixture.database.sql("UPDATE belfry.ready SET deadline = now() - interval '1 s' WHERE run_id = $1", [runId])

describe('a lost session', () => {
  test('incident 25: its run goes back with a pause, as a crash, not as a failed attempt', async () => {
    const run = await lostRun(job)
    const { runOnce, events, hints } = rescuer()
    expect(await runOnce()).toBe(1)
    expect(await fixture.place(run.runId)).toMatchObject({
      place: 'delayed',
      attempt: 1,
      crash_count: 1,
      failure_count: 0,
      lease_epoch: 2,
    })
    expect(await fixture.attempts(run.runId)).toMatchObject([
      { outcome: 'lost', run_state: null, error_code: 'worker_lost', lease_epoch: 1 },
    ])
    expect(events.of('runs_rescued')).toEqual([{ count: 1, reason: 'session_lost', requeued: 1, failed: 0 }])
    expect(events.of('session_lost')).toHaveLength(1)
    expect(hints.published).toEqual([
      { topic: 'timers', key: String(Number.parseInt(run.runId.slice(-2), 16) & 63) },
    ])
  })

  test('an at-most-once run ends: nobody knows what it did, and nobody tries again', async () => {
    const run = await lostRun(once)
    const { runOnce, events } = rescuer()
    await runOnce()
    expect(await fixture.attempts(run.runId)).toMatchObject([
      { outcome: 'lost', run_state: 'failed', reason: 'outcome_unknown', retry_at: null },
    ])
    expect(events.of('runs_rescued')).toEqual([{ count: 1, reason: 'session_lost', requeued: 0, failed: 1 }])
  })

  test('the third crash quarantines', async () => {
    const run = await lostRun(job)
    await fixture.database.sql('UPDATE belfry.ready SET crash_count = 2 WHERE run_id = $1', [run.runId])
    await rescuer().runOnce()
    expect(await fixture.attempts(run.runId)).toMatchObject([{ run_state: 'failed', reason: 'quarantined' }])
  })

  test('a run whose cancel was asked for is canceled, not tried again', async () => {
    const run = await lostRun(job)
    await fixture.database.sql('UPDATE belfry.ready SET cancel_requested_at = now() WHERE run_id = $1', [
      run.runId,
    ])
    await rescuer().runOnce()
    expect(await fixture.attempts(run.runId)).toMatchObject([
      { outcome: 'lost', run_state: 'canceled', reason: 'canceled_by_request' },
    ])
  })

  test('its runs are found also when the rescuer that ended it died before it came to them', async () => {
    const run = await lostRun(job)
    await fixture.store.endExpiredSessions()
    expect(await rescuer().runOnce()).toBe(1)
    expect(await fixture.place(run.runId)).toMatchObject({ place: 'delayed' })
  })

  test('a definition that cannot be read does not keep its runs from being ended', async () => {
    const broken = await fixture.addJob({ queue: 'broken' })
    const run = await lostRun(broken)
    await fixture.database.sql(
      `UPDATE belfry.job_version SET definition = '{"handler": 1}' WHERE job_id = $1`,
      [broken.id],
    )
    await rescuer().runOnce()
    expect(await fixture.attempts(run.runId)).toMatchObject([
      { run_state: 'failed', reason: 'outcome_unknown' },
    ])
  })
})

describe('a deadline', () => {
  test('that passed under a live session is a timeout; the late completion is refused', async () => {
    await fixture.addRuns(job, 1)
    const sessionId = await fixture.openSession()
    const [run] = await claim(sessionId, job)
    if (run === undefined) throw new Error('nothing was claimed')
    await passDeadline(run.runId)
    const { runOnce, events } = rescuer()
    await runOnce()
    expect(await fixture.place(run.runId)).toMatchObject({
      place: 'delayed',
      crash_count: 0,
      failure_count: 1,
    })
    expect(events.of('runs_rescued')).toMatchObject([{ reason: 'deadline', requeued: 1 }])
    expect((await fixture.store.complete(sessionId, [succeededEnd(run)])).applied).toEqual([])
    expect(await fixture.attempts(run.runId)).toMatchObject([
      { outcome: 'timed_out', error_code: 'deadline_passed' },
    ])
  })

  test('that was canceled and that its worker does not stop is ended; the worker has lost it', async () => {
    const sessionId = await fixture.openSession()
    await fixture.addRuns(job, 2)
    const [young, old] = await claim(sessionId, job, 2)
    if (young === undefined || old === undefined) throw new Error('nothing was claimed')
    await fixture.database.sql(
      `UPDATE belfry.ready SET cancel_requested_at = now() - CASE WHEN run_id = $1 THEN interval '61 s'
         ELSE interval '30 s' END`,
      [old.runId],
    )
    const { runOnce, events } = rescuer()
    expect(await runOnce()).toBe(1)
    expect(await fixture.attempts(old.runId)).toMatchObject([
      { outcome: 'canceled', run_state: 'canceled', reason: 'canceled_by_request', error_code: 'canceled' },
    ])
    expect(events.of('runs_rescued')).toMatchObject([{ reason: 'cancel_ignored', count: 1, requeued: 0 }])
    const { applied } = await fixture.store.complete(sessionId, [succeededEnd(old), succeededEnd(young)])
    expect(applied).toEqual([{ runId: young.runId, runState: 'succeeded' }])
  })
})

describe('healthy runs', () => {
  test('incident 21: a run of 47 minutes whose worker still answers is left alone', async () => {
    await fixture.addRuns(job, 1)
    const sessionId = await fixture.openSession()
    const [run] = await claim(sessionId, job)
    await fixture.database.sql(
      `UPDATE belfry.ready SET claimed_at = now() - interval '47 minutes',
        deadline = now() + interval '13 minutes'`,
    )
    await fixture.database.sql("UPDATE belfry.session SET started_at = now() - interval '1 hour'")
    await fixture.store.renewSession(sessionId, 30_000)
    const { runOnce, events } = rescuer()
    expect(await runOnce()).toBe(0)
    expect(await fixture.place(run?.runId ?? '')).toMatchObject({ place: 'running', attempt: 1 })
    expect(events.of('session_lost')).toEqual([])
  })

  test('incident 15: 10,000 healthy runs that sort first do not hide the lost ones', async () => {
    const healthy = '00000000-0000-7000-8000-000000000001'
    await fixture.store.openSession({ id: healthy, host: 'h', version: '0', queues: [], slots: 1 }, 3_600_000)
    await fixture.database.sql(
      `INSERT INTO belfry.ready (run_id, tenant_id, job_id, job_version, queue, handler, tag, priority,
        available_at,
         timeout_ms, lease_epoch, attempt, session_id, settled_by, claimed_at, deadline)
       SELECT gen_random_uuid(), $1, $2, 1, 'many', 'http', n, 0, now(), 1000, 1, 1, $3, $3, now(),
         now() + interval '1 day'
       FROM generate_series(1, 10000) AS n`,
      [fixture.tenantId, job.id, healthy],
    )
    await fixture.addRuns(job, 30)
    const sessionId = await fixture.openSession()
    const lost = await claim(sessionId, job, 30)
    await expire(sessionId)
    expect(await rescuer(fixture.store, 10).runOnce()).toBe(30)
    for (const run of lost) expect(await fixture.place(run.runId)).toMatchObject({ place: 'delayed' })
    expect(await fixture.store.heldRuns(healthy)).toHaveLength(10_000)
  })
})

describe('at the same instant', () => {
  test('incident 41: two rescuers make one transition and one attempt', async () => {
    await fixture.addRuns(job, 50)
    const sessionId = await fixture.openSession()
    const lost = await claim(sessionId, job, 50)
    await expire(sessionId)
    const both = [rescuer(), rescuer()]
    const counts = await Promise.all(both.map((each) => each.runOnce()))
    expect(counts.reduce((sum, count) => sum + count, 0)).toBe(50)
    expect(both.flatMap((each) => each.events.of('session_lost'))).toHaveLength(1)
    for (const run of lost) {
      expect(await fixture.attempts(run.runId)).toHaveLength(1)
      expect(await fixture.place(run.runId)).toMatchObject({ crash_count: 1 })
    }
  })

  test('incident 39: a run that succeeds while the rescuer is at it stands as succeeded', async () => {
    const run = await lostRun(job)
    const store: RunStore = {
      ...fixture.store,
      async rescue(ends) {
        await fixture.store.complete(ends[0]?.sessionId ?? '', [succeededEnd(run)])
        return fixture.store.rescue(ends)
      },
    }
    const { runOnce, events } = rescuer(store)
    expect(await runOnce()).toBe(0)
    expect(await fixture.attempts(run.runId)).toMatchObject([
      { outcome: 'succeeded', run_state: 'succeeded' },
    ])
    expect(await fixture.place(run.runId)).toMatchObject({ place: 'ended' })
    expect(events.of('runs_rescued')).toEqual([])
  })

  test('incident 23: late heartbeat, rescue and completion at once have one outcome', async () => {
    await fixture.addRuns(job, 100)
    const sessions = await Promise.all(Array.from({ length: 10 }, () => fixture.openSession()))
    const held: { sessionId: string; run: ClaimedRun }[] = []
    for (const sessionId of sessions) {
      for (const run of await claim(sessionId, job, 10)) held.push({ sessionId, run })
      await expire(sessionId)
    }
    const completions = sessions.map((sessionId) => {
      const runs = held.filter((each) => each.sessionId === sessionId).map((each) => each.run)
      return fixture.store.complete(
        sessionId,
        runs.map((run) => succeededEnd(run)),
      )
    })
    const renewals = sessions.map((sessionId) => fixture.store.renewSession(sessionId, 30_000))
    const [rescued, applied, renewed] = await Promise.all([
      rescuer().runOnce(),
      Promise.all(completions),
      Promise.all(renewals),
    ])
    expect(renewed.map((each) => each.alive)).toEqual(Array(10).fill(false))
    const succeeded = applied.flatMap((each) => each.applied).length
    expect(succeeded + rescued + (await rescuer().runOnce())).toBe(100)
    for (const { run } of held) {
      const attempts = await fixture.attempts(run.runId)
      expect(attempts).toHaveLength(1)
      const place = await fixture.place(run.runId)
      expect(place.place).toBe(attempts[0]?.outcome === 'succeeded' ? 'ended' : 'delayed')
    }
  })

  test('a renewal under way wins whole: the session is passed over and lives on', async () => {
    const sessionId = await fixture.openSession()
    const client = new pg.Client(fixture.database.adminConnection)
    await client.connect()
    try {
      await client.query('BEGIN')
      await client.query("UPDATE belfry.session SET expires_at = now() + interval '1 minute' WHERE id = $1", [
        sessionId,
      ])
      expect((await fixture.store.endExpiredSessions()).sessionIds).toEqual([])
      await client.query('COMMIT')
    } finally {
      await client.end()
    }
    expect(await fixture.store.renewSession(sessionId, 30_000)).toMatchObject({ alive: true })
  })
})
