// What every run queue must do, whatever carries it: the claim is committed, fenced, in fair order,
// exclusive, and only for the living. An adapter's test calls this with a way to make the queue on the
// fixture's database.
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { QueueShare, ReadyCursor, RunQueue } from '../../packages/server/src/ports/run-queue.ts'
import { createRunningFixture, newId, type RunningFixture, type TestJob } from '../support/running.ts'

export function describeRunQueue(
  name: string,
  makeQueue: (fixture: RunningFixture) => RunQueue | Promise<RunQueue>,
): void {
  describe(`run queue: ${name}`, () => {
    let fixture: RunningFixture
    let queue: RunQueue
    let job: TestJob
    let sessionId: string

    beforeAll(async () => {
      fixture = await createRunningFixture()
      queue = await makeQueue(fixture)
      job = await fixture.addJob({ attemptTimeoutMs: 5_000 })
    })
    afterAll(() => fixture.drop())
    beforeEach(async () => {
      await fixture.database.sql('DELETE FROM belfry.ready')
      sessionId = await fixture.openSession()
    })

    const share = (more: Partial<QueueShare> = {}): QueueShare => ({
      queue: 'default',
      minTag: -Infinity,
      limit: 100,
      ...more,
    })
    const claim = (shares: readonly QueueShare[] = [share()], session = sessionId) =>
      queue.claim({ sessionId: session, shares, routes: ['http'], deadlineMarginMs: 1_000 })
    const readyNames = async () => (await queue.readyQueues(null)).found.map((each) => each.queue).sort()
    const floodQueues = (count: number) =>
      fixture.database.sql(
        `INSERT INTO belfry.ready (run_id, tenant_id, job_id, job_version, queue, handler, tag, priority,
           available_at, timeout_ms)
         SELECT gen_random_uuid(), $1, $2, 1, 'flood-' || n, 'http', n, 0, now(), 1000
         FROM generate_series(1, $3::int) AS n`,
        [fixture.tenantId, job.id, count],
      )
    const ids = (runs: readonly { runId: string }[]) => runs.map((run) => run.runId)

    test('an empty queue answers no runs, and the time', async () => {
      const { runs, alive, nowMs } = await claim()
      expect(runs).toEqual([])
      expect(alive).toBe(true)
      expect(Math.abs(nowMs - Date.now())).toBeLessThan(60_000)
    })

    test('answers everything that an attempt needs', async () => {
      const scheduledFor = new Date('2026-03-01T02:30:00.000Z')
      const [runId] = await fixture.addRuns(job, 1, { input: { a: [1, 'ü'] }, firstTag: 4.5, scheduledFor })
      const { runs, nowMs } = await claim()
      expect(runs).toEqual([
        {
          runId,
          tenantId: fixture.tenantId,
          jobId: job.id,
          jobVersion: 1,
          queue: 'default',
          tag: 4.5,
          priority: 0,
          attempt: 1,
          crashCount: 0,
          failures: 0,
          leaseEpoch: 1,
          timeoutMs: 5_000,
          overdue: null,
          runDeadlineMs: null,
          scheduledForMs: scheduledFor.getTime(),
          dueAtMs: expect.any(Number) as unknown,
          availableAtMs: expect.any(Number) as unknown,
          backfillOf: null,
          claim: 0,
          input: { a: [1, 'ü'] },
        },
      ])
      expect(runs[0]?.availableAtMs).toBeLessThanOrEqual(nowMs)
    })

    test('the lowest tags come first, in order, up to the limit', async () => {
      const late = await fixture.addRuns(job, 3, { firstTag: 50 })
      const early = await fixture.addRuns(job, 3, { firstTag: 10 })
      expect(ids((await claim([share({ limit: 4 })])).runs)).toEqual([...early, late[0]])
      expect(ids((await claim()).runs)).toEqual(late.slice(1))
    })

    test('incident 35: a run is claimed once, also by many at the same instant', async () => {
      const all = await fixture.addRuns(job, 200)
      const claims = await Promise.all(Array.from({ length: 8 }, () => claim([share({ limit: 50 })])))
      const taken = claims.flatMap((each) => ids(each.runs))
      expect(taken.length).toBe(new Set(taken).size)
      const rest = ids((await claim([share({ limit: 500 })])).runs)
      expect([...taken, ...rest].sort()).toEqual([...all].sort())
    })

    test('each claim raises the epoch and the number of the attempt, and sets the deadline', async () => {
      const [runId = ''] = await fixture.addRuns(job, 1)
      const first = await claim()
      await fixture.store.handBack(sessionId, first.runs)
      const [again] = (await claim()).runs
      expect(again?.leaseEpoch).toBe((first.runs[0]?.leaseEpoch ?? 0) + 1)
      expect(again?.attempt).toBe(1)
      const [row] = await fixture.database.sql<{ ms: number }>(
        `SELECT extract(epoch FROM deadline - claimed_at)::float8 * 1000 AS ms FROM belfry.ready
          WHERE run_id = $1`,
        [runId],
      )
      expect(row?.ms).toBeCloseTo(6_000, 0)
    })

    test('a session that ran out, or never was, claims nothing and is told so', async () => {
      await fixture.addRuns(job, 1)
      await fixture.database.sql(
        "UPDATE belfry.session SET expires_at = now() - interval '1 ms' WHERE id = $1",
        [sessionId],
      )
      expect(await claim()).toMatchObject({ runs: [], alive: false })
      expect(await claim([share()], newId())).toMatchObject({ runs: [], alive: false })
      expect((await claim([share()], await fixture.openSession())).runs).toHaveLength(1)
    })

    test('the low-water mark leaves out what lies before it', async () => {
      const runs = await fixture.addRuns(job, 5, { firstTag: 1 })
      expect(ids((await claim([share({ minTag: 3 })])).runs)).toEqual(runs.slice(2))
      expect(ids((await claim()).runs)).toEqual(runs.slice(0, 2))
    })

    test('a claim may end at a tag: what stands from there on stays', async () => {
      const runs = await fixture.addRuns(job, 5, { firstTag: 1 })
      expect(ids((await claim([share({ minTag: 2, maxTag: 4 })])).runs)).toEqual(runs.slice(1, 3))
      expect(ids((await claim([share({ minTag: 4, maxTag: 4 })])).runs)).toEqual([])
      expect(ids((await claim()).runs)).toEqual([runs[0], ...runs.slice(3)])
    })

    test('several queues at once, each with its own share and mark; other queues stay', async () => {
      const a = await fixture.addRuns(job, 3, { queue: 'a' })
      const b = await fixture.addRuns(job, 3, { queue: 'b', firstTag: 1_000 })
      await fixture.addRuns(job, 1, { queue: 'c' })
      const { runs } = await claim([
        share({ queue: 'a', limit: 2 }),
        share({ queue: 'b', limit: 5, minTag: 1_001 }),
      ])
      expect(ids(runs)).toEqual([...a.slice(0, 2), ...b.slice(1)])
      expect(await readyNames()).toEqual(['a', 'b', 'c'])
    })

    test('runs of a handler that the worker does not have stay', async () => {
      await fixture.addRuns(job, 1)
      const none = await queue.claim({ sessionId, shares: [share()], routes: [], deadlineMarginMs: 0 })
      expect(none).toMatchObject({ runs: [], alive: true })
    })

    test('a queue whose runs are all claimed is not ready', async () => {
      await fixture.addRuns(job, 2)
      expect(await readyNames()).toEqual(['default'])
      await claim()
      expect(await queue.readyQueues(null)).toEqual({ found: [], next: null })
    })

    test('a look shows whose the queues are, and the weight of each tenant', async () => {
      const heavy = await fixture.addTenant(3)
      await fixture.addRuns(job, 2)
      await fixture.addRuns(await fixture.addJob({}, heavy), 1)
      const { found, next } = await queue.readyQueues(null)
      expect(found).toHaveLength(2)
      expect(found).toContainEqual({ queue: 'default', tenantId: fixture.tenantId, weight: 1 })
      expect(found).toContainEqual({ queue: 'default', tenantId: heavy, weight: 3 })
      expect(next).toBeNull()
    })

    test('however many queues a tenant names, each look shows every tenant, and in the end all', async () => {
      await floodQueues(10_000)
      const other = await fixture.addTenant()
      await fixture.addRuns(await fixture.addJob({}, other), 1, { queue: 'zzz' })
      const seen = new Set<string>()
      const cursors: (ReadyCursor | null)[] = [null]
      for (const cursor of cursors) {
        const { found, next } = await queue.readyQueues(cursor)
        expect(found.length).toBeLessThanOrEqual(1_000)
        expect(found).toContainEqual({ queue: 'zzz', tenantId: other, weight: 1 })
        for (const each of found) seen.add(each.queue)
        if (next !== null) cursors.push(next)
      }
      expect(seen.size).toBe(10_001)
    })

    test('however many tenants there are, looks come to all of them', async () => {
      const tenants = await Promise.all(Array.from({ length: 130 }, () => fixture.addTenant()))
      for (const tenant of tenants) await fixture.addRuns({ ...job, tenantId: tenant }, 1)
      const first = await queue.readyQueues(null)
      const second = await queue.readyQueues(first.next)
      const seen = [...first.found, ...second.found].map((each) => each.tenantId)
      expect([...seen].sort()).toEqual([...tenants].sort())
      expect(second.next).toBeNull()
    })

    test('a claim that finds nothing locks nothing, and so writes nothing', async () => {
      // a row lock leaves the number of its transaction in the row
      const locker = async () =>
        (
          await fixture.database.sql<{ xmax: string }>(
            'SELECT xmax::text FROM belfry.session WHERE id = $1',
            [sessionId],
          )
        )[0]?.xmax
      expect((await claim()).alive).toBe(true)
      expect(await locker()).toBe('0')
      await fixture.addRuns(job, 1)
      expect((await claim()).runs).toHaveLength(1)
      expect(await locker()).not.toBe('0')
    })
  })
}
