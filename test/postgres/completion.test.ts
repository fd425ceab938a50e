// Ends of attempts: fenced, whole, repeatable, and never against a cancel.
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { createPostgresRunStore } from '../../packages/server/src/postgres/run-store.ts'
import type { ClaimedRun } from '../../packages/server/src/ports/run-queue.ts'
import {
  createRunningFixture,
  newId,
  retriedEnd,
  type RunningFixture,
  succeededEnd,
  type TestJob,
} from '../support/running.ts'

let fixture: RunningFixture
let job: TestJob
let sessionId: string

beforeAll(async () => {
  fixture = await createRunningFixture()
  job = await fixture.addJob({ priority: 7 })
})
afterAll(() => fixture.drop())
beforeEach(async () => {
  await fixture.database.sql('DELETE FROM belfry.ready')
  sessionId = await fixture.openSession()
})

async function claimed(count: number): Promise<readonly ClaimedRun[]> {
  await fixture.addRuns(job, count)
  const shares = [{ queue: 'default', minTag: -Infinity, limit: count }]
  const { runs } = await fixture.queue.claim({
    sessionId,
    shares,
    routes: ['http'],
    deadlineMarginMs: 1_000,
  })
  expect(runs).toHaveLength(count)
  return runs
}

async function claimedOne(): Promise<ClaimedRun> {
  const [run] = await claimed(1)
  if (run === undefined) throw new Error('nothing was claimed')
  return run
}

describe('an applied end', () => {
  test('removes the run from ready and leaves one attempt that says all', async () => {
    const run = await claimedOne()
    const { applied, nowMs } = await fixture.store.complete(sessionId, [succeededEnd(run)])
    expect(applied).toEqual([{ runId: run.runId, runState: 'succeeded' }])
    expect(Math.abs(nowMs - Date.now())).toBeLessThan(60_000)
    expect(await fixture.place(run.runId)).toMatchObject({ place: 'ended', run_state: 'succeeded' })
    expect(await fixture.attempts(run.runId)).toMatchObject([
      {
        number: 1,
        outcome: 'succeeded',
        lease_epoch: 1,
        session_id: sessionId,
        http_status: 200,
        response: 'ok',
      },
    ])
  })

  test('that is to be retried moves to delayed with everything that the next claim needs', async () => {
    const run = await claimedOne()
    const before = Date.now()
    const { applied } = await fixture.store.complete(sessionId, [retriedEnd(run)])
    expect(applied).toEqual([{ runId: run.runId, runState: null }])
    const [row] = await fixture.database.sql<
      Record<string, unknown> & { due_at: Date; run_id: string; shard: number }
    >('SELECT * FROM belfry.delayed WHERE run_id = $1', [run.runId])
    expect(row).toMatchObject({
      tenant_id: fixture.tenantId,
      job_id: job.id,
      job_version: 1,
      queue: 'default',
      handler: 'http',
      priority: 0,
      timeout_ms: 60_000,
      attempt: 1,
      crash_count: 0,
      failure_count: 1,
      lease_epoch: '2',
    })
    expect(row?.shard).toBe(Number.parseInt(run.runId.slice(-2), 16) & 63)
    expect(Math.abs((row?.due_at.getTime() ?? 0) - before - 60_000)).toBeLessThan(5_000)
    const [attempt] = await fixture.attempts(run.runId)
    expect(attempt?.retry_at?.getTime()).toBe(row?.due_at.getTime())
  })

  test.each([
    ['crash', { crash_count: 1, failure_count: 0 }],
    ['failure', { crash_count: 0, failure_count: 1 }],
    ['nothing', { crash_count: 0, failure_count: 0 }],
  ] as const)('counts as %s', async (countAs, counts) => {
    const run = await claimedOne()
    await fixture.store.complete(sessionId, [retriedEnd(run, { countAs })])
    expect(await fixture.place(run.runId)).toMatchObject({ place: 'delayed', attempt: 1, ...counts })
  })

  test('of a batch of 500 mixed ends is each its own', async () => {
    const runs = await claimed(500)
    const ends = runs.map((run, index) => (index % 2 === 0 ? succeededEnd(run) : retriedEnd(run)))
    const { applied } = await fixture.store.complete(sessionId, ends)
    expect(applied).toHaveLength(500)
    const [count] = await fixture.database.sql<{ delayed: number; ended: number; ready: number }>(
      `SELECT (SELECT count(*)::int FROM belfry.delayed WHERE run_id = ANY ($1)) AS delayed,
              (SELECT count(*)::int FROM belfry.attempt WHERE run_id = ANY ($1)
                AND run_state = 'succeeded') AS ended,
              (SELECT count(*)::int FROM belfry.ready) AS ready`,
      [runs.map((run) => run.runId)],
    )
    expect(count).toEqual({ delayed: 250, ended: 250, ready: 0 })
  })

  test('keeps text of any kind: quotes, braces, backslashes, emoji, line breaks', async () => {
    const run = await claimedOne()
    const response = '{"a": "x\\"y", \'b\'}, NULL, \u{1F514}\r\n\\N \\u0041'
    await fixture.store.complete(sessionId, [succeededEnd(run, { response })])
    expect((await fixture.attempts(run.runId))[0]?.response).toBe(response)
  })
})

describe('a refused end', () => {
  test('of another epoch, another session or an unknown run changes nothing', async () => {
    const [stale, mine, foreign] = await claimed(3)
    if (stale === undefined || mine === undefined || foreign === undefined) throw new Error('too few runs')
    const { applied } = await fixture.store.complete(sessionId, [
      succeededEnd({ ...stale, leaseEpoch: stale.leaseEpoch + 1 }),
      succeededEnd(mine),
      succeededEnd({ runId: newId(), leaseEpoch: 1 }),
    ])
    expect(applied.map((end) => end.runId)).toEqual([mine.runId])
    const other = await fixture.openSession()
    expect((await fixture.store.complete(other, [succeededEnd(foreign)])).applied).toEqual([])
    for (const run of [stale, foreign]) {
      expect(await fixture.place(run.runId)).toMatchObject({ place: 'running' })
      expect(await fixture.attempts(run.runId)).toEqual([])
    }
  })

  test('incident 7: what a worker without lease reports does not touch the run of the next one', async () => {
    const first = await claimedOne()
    await fixture.store.complete(sessionId, [
      retriedEnd(first, { retryDelayMs: 0, outcome: 'lost', countAs: 'crash' }),
    ])
    await backToReady(first.runId)
    const second = await fixture.openSession()
    const shares = [{ queue: 'default', minTag: -Infinity, limit: 1 }]
    const [again] = (
      await fixture.queue.claim({ sessionId: second, shares, routes: ['http'], deadlineMarginMs: 0 })
    ).runs
    expect(again?.leaseEpoch).toBeGreaterThan(first.leaseEpoch)
    const late = await fixture.store.complete(sessionId, [retriedEnd(first)])
    expect(late.applied).toEqual([])
    expect(await fixture.place(first.runId)).toMatchObject({ place: 'running', attempt: 2, failure_count: 0 })
    if (again === undefined) throw new Error('nothing was claimed')
    expect((await fixture.store.complete(second, [succeededEnd(again)])).applied).toHaveLength(1)
    expect((await fixture.attempts(first.runId)).map((row) => row.outcome)).toEqual(['lost', 'succeeded'])
  })
})

/** As the scheduler's release does: from delayed to ready, with the counts. */
async function backToReady(runId: string): Promise<void> {
  await fixture.database.sql(
    `WITH due AS (DELETE FROM belfry.delayed WHERE run_id = $1 RETURNING *)
     INSERT INTO belfry.ready (run_id, tenant_id, job_id, job_version, queue, handler, tag, priority,
       available_at,
       timeout_ms, lease_epoch, attempt, crash_count, failure_count)
     SELECT run_id, tenant_id, job_id, job_version, queue, handler, 1, priority, now(), timeout_ms,
       lease_epoch, attempt,
       crash_count, failure_count FROM due`,
    [runId],
  )
}

describe('an end that is sent again because its answer got lost', () => {
  test('is answered as applied, and applied once', async () => {
    const [done, retried] = await claimed(2)
    if (done === undefined || retried === undefined) throw new Error('too few runs')
    const ends = [succeededEnd(done), retriedEnd(retried)]
    const first = await fixture.store.complete(sessionId, ends)
    const second = await fixture.store.complete(sessionId, ends)
    const byId = (each: { runId: string }) => each.runId
    expect([...second.applied].map(byId).sort()).toEqual([...first.applied].map(byId).sort())
    expect(second.applied.find((end) => end.runId === done.runId)?.runState).toBe('succeeded')
    expect(await fixture.attempts(done.runId)).toHaveLength(1)
    expect(await fixture.place(retried.runId)).toMatchObject({ place: 'delayed', failure_count: 1 })
  })

  test('is not mistaken for the end that a rescuer wrote under the same epoch', async () => {
    const run = await claimedOne()
    await fixture.store.rescue([
      { ...retriedEnd(run, { outcome: 'timed_out', endedAtMs: Date.now() - 5 }), sessionId },
    ])
    const own = retriedEnd(run, { outcome: 'timed_out', endedAtMs: Date.now() })
    expect((await fixture.store.complete(sessionId, [own])).applied).toEqual([])
  })
})

describe('a cancel that was asked for while the run ran', () => {
  const ask = (runId: string) =>
    fixture.database.sql('UPDATE belfry.ready SET cancel_requested_at = now() WHERE run_id = $1', [runId])

  test('wins over a retry, though the worker had not heard of it', async () => {
    const run = await claimedOne()
    await ask(run.runId)
    const { applied } = await fixture.store.complete(sessionId, [retriedEnd(run)])
    expect(applied).toEqual([{ runId: run.runId, runState: 'canceled' }])
    expect(await fixture.attempts(run.runId)).toMatchObject([
      { outcome: 'failed', run_state: 'canceled', reason: 'canceled_by_request', retry_at: null },
    ])
    expect(await fixture.place(run.runId)).toMatchObject({ place: 'ended' })
  })

  test('does not take back a success', async () => {
    const run = await claimedOne()
    await ask(run.runId)
    await fixture.store.complete(sessionId, [succeededEnd(run)])
    expect(await fixture.place(run.runId)).toMatchObject({ run_state: 'succeeded' })
  })

  test('reaches the worker with the renewal; the run is not handed back but ends', async () => {
    const [asked, other] = await claimed(2)
    if (asked === undefined || other === undefined) throw new Error('too few runs')
    await ask(asked.runId)
    expect(await fixture.store.renewSession(sessionId, 60_000)).toMatchObject({
      alive: true,
      cancelRunIds: [asked.runId],
    })
    const { handedBackRunIds } = await fixture.store.handBack(sessionId, [asked, other])
    expect(handedBackRunIds).toEqual([other.runId])
    expect(await fixture.place(other.runId)).toMatchObject({ place: 'ready', attempt: 0, lease_epoch: 1 })
    expect(await fixture.place(asked.runId)).toMatchObject({ place: 'ended', run_state: 'canceled' })
    expect(await fixture.attempts(asked.runId)).toMatchObject([
      { number: 0, outcome: 'canceled', reason: 'canceled_by_request', error_code: 'canceled' },
    ])
    expect(await fixture.store.handBack(sessionId, [asked, other])).toMatchObject({ handedBackRunIds: [] })
    expect(await fixture.attempts(asked.runId)).toHaveLength(1)
  })

  test('does not end a run by a stale hand back', async () => {
    const run = await claimedOne()
    await ask(run.runId)
    await fixture.store.handBack(sessionId, [{ ...run, leaseEpoch: run.leaseEpoch + 1 }])
    await fixture.store.handBack(await fixture.openSession(), [run])
    expect(await fixture.place(run.runId)).toMatchObject({ place: 'running' })
  })
})

describe('a session', () => {
  test('that ran out is not renewed, not even a moment later', async () => {
    const id = await fixture.openSession(60_000)
    await fixture.database.sql('UPDATE belfry.session SET expires_at = now() WHERE id = $1', [id])
    expect(await fixture.store.renewSession(id, 60_000)).toMatchObject({ alive: false })
  })

  test('that is closed is gone, or left to the rescuer at once if it still holds runs', async () => {
    const empty = await fixture.openSession()
    await fixture.store.closeSession(empty)
    const run = await claimedOne()
    await fixture.store.closeSession(sessionId)
    const rows = await fixture.database.sql<{ id: string }>(
      'SELECT id FROM belfry.session WHERE id = ANY ($1)',
      [[empty, sessionId]],
    )
    expect(rows.map((row) => row.id)).toEqual([sessionId])
    expect((await fixture.store.endExpiredSessions()).sessionIds).toContain(sessionId)
    await fixture.store.settleClaims(10_000)
    expect((await fixture.store.stuckRuns(null, 10)).runs.map((each) => each.runId)).toEqual([run.runId])
  })

  test('tells which runs it holds', async () => {
    const runs = await claimed(3)
    const held = await fixture.store.heldRuns(sessionId)
    expect(held.map((run) => run.runId).sort()).toEqual(runs.map((run) => run.runId).sort())
    expect(held[0]).toMatchObject({ leaseEpoch: 1, queue: 'default' })
  })
})

describe('several who write the same runs at once', () => {
  test('never wait for each other in a circle, whatever order each has them in', async () => {
    const db = fixture.database.open({ maxConnections: 6 })
    const store = createPostgresRunStore({ db, heartbeats: db })
    for (let round = 0; round < 8; round++) {
      const runs = (await claimed(300)).toSorted((a, b) => (a.runId < b.runId ? -1 : 1))
      const back = runs.toReversed()
      const lost = { outcome: 'lost', runState: 'failed', reason: 'outcome_unknown' } as const
      const writes = await Promise.allSettled([
        store.complete(
          sessionId,
          back.map((run) => succeededEnd(run)),
        ),
        store.rescue(runs.map((run) => ({ ...succeededEnd(run, lost), sessionId }))),
        store.handBack(sessionId, back),
      ])
      expect(writes.filter((each) => each.status === 'rejected')).toEqual([])
      await fixture.database.sql('DELETE FROM belfry.ready')
    }
  })
})
