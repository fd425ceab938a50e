// The firing transaction against real Postgres with a clock that the test moves: what it writes, and what it
// refuses.
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { shardOf } from '../../packages/server/src/domain/shard.ts'
import type {
  Firing,
  FireResult,
  PlannedOccurrence,
  TimerFire,
} from '../../packages/server/src/ports/firing.ts'
import type { HeldShard, Leadership } from '../../packages/server/src/ports/leadership.ts'
import { createPostgresFiring } from '../../packages/server/src/postgres/firing.ts'
import { createPostgresLeadership } from '../../packages/server/src/postgres/leadership.ts'
import { createSchedulingFixture, newId, type SchedulingFixture } from '../support/scheduling.ts'

const t0 = Date.UTC(2026, 5, 1, 12)
const termMs = 15_000
const nodeId = newId()
const node = { id: nodeId, host: 'h', version: '0' }

let fixture: SchedulingFixture
let firing: Firing
let leadership: Leadership
let terms: readonly HeldShard[]

let nowMs = t0
const setNow = (ms: number): Promise<void> => {
  nowMs = ms
  return fixture.database.setNow(new Date(ms))
}
/** A fire that was decided with the right time. */
const fire = (held: readonly HeldShard[], fires: readonly TimerFire[], errorMs = 0): Promise<FireResult> =>
  firing.fire(nodeId, held, fires, { nowMs: nowMs + errorMs, toleranceMs: 1_000 })

function ran(scheduledForMs: number, more: Partial<PlannedOccurrence> = {}): PlannedOccurrence {
  const outcome = { outcome: 'ran', reason: null, detail: null, missedCount: 1 } as const
  return { scheduledForMs, dueAtMs: scheduledForMs, ...outcome, runId: newId(), tag: 1, ...more }
}

function fireOf(scheduleId: string, more: Partial<TimerFire> = {}): TimerFire {
  return {
    scheduleId,
    shard: shardOf(scheduleId),
    gen: 1,
    version: 1,
    expectedDueAtMs: t0,
    next: { scheduledForMs: t0 + 10_000, dueAtMs: t0 + 10_000 },
    plain: true,
    occurrences: [ran(t0)],
    ...more,
  }
}

beforeAll(async () => {
  fixture = await createSchedulingFixture()
  await fixture.database.useVirtualNow(new Date(t0))
  const db = fixture.database.open()
  firing = createPostgresFiring(db)
  leadership = createPostgresLeadership(db)
})
afterAll(() => fixture.drop())

beforeEach(async () => {
  await setNow(t0)
  terms = (await leadership.renew(node, termMs)).held
})
afterEach(async () => {
  await leadership.resign(nodeId)
  await fixture.database.sql(
    'TRUNCATE belfry.timer, belfry.occurrence, belfry.run, belfry.ready, belfry.delayed',
  )
})

describe('a fire', () => {
  test('writes occurrence, run and ready row, and moves the timer', async () => {
    const id = await fixture.addSchedule({ scheduledForMs: t0 })
    await setNow(t0 + 7)
    const wanted = fireOf(id)
    const result = await fire(terms, [wanted])
    const [occurrence] = wanted.occurrences
    expect(result).toMatchObject({ movedScheduleIds: [id], nowMs: t0 + 7 })
    expect(result.heldShards).toHaveLength(64)
    const runId = occurrence?.runId
    const once = { outcome: 'ran', reason: null, missedCount: 1, waits: false }
    const which = { scheduleId: id, scheduledForMs: t0, dueAtMs: t0, runId, queue: 'default' }
    expect(result.fired).toEqual([{ ...which, ...once }])
    const [run] = await fixture.database.sql('SELECT * FROM belfry.run')
    expect(run).toMatchObject({
      id: runId,
      schedule_id: id,
      source: 'schedule',
      input: { hello: 'world' },
      job_version: 1,
    })
    expect(run?.['scheduled_for']).toEqual(new Date(t0))
    const [ready] = await fixture.database.sql('SELECT * FROM belfry.ready')
    expect(ready).toMatchObject({
      run_id: runId,
      tag: 1,
      attempt: 0,
      handler: 'http',
      timeout_ms: 60_000,
      session_id: null,
    })
    const [timer] = await fixture.database.sql('SELECT * FROM belfry.timer')
    expect(timer).toMatchObject({ last_run_id: runId, gen: '1' })
    expect(timer?.['due_at']).toEqual(new Date(t0 + 10_000))
    const [row] = await fixture.occurrences(id)
    expect(row).toMatchObject({ outcome: 'ran', reason: null, missed_count: '1', run_id: runId })
  })

  test('without a next time ends the timer and completes the schedule', async () => {
    const id = await fixture.addSchedule({ scheduledForMs: t0, spec: { at: new Date(t0).toISOString() } })
    await fire(terms, [fireOf(id, { next: null })])
    expect(await fixture.count('timer')).toBe(0)
    expect(await fixture.count('run')).toBe(1)
    const [schedule] = await fixture.database.sql(
      'SELECT state, version, gen::int FROM belfry.schedule WHERE id = $1',
      [id],
    )
    // The version is the ETag: what a reader saw has changed.
    expect(schedule).toEqual({ state: 'completed', version: 2, gen: 2 })
  })

  test('is one transaction for many timers, and only the right ones move', async () => {
    const seeds = Array.from({ length: 50 }, (_, i) =>
      fixture.addSchedule({ scheduledForMs: i % 2 === 0 ? t0 : t0 + 1 }),
    )
    const all = await Promise.all(seeds)
    const result = await fire(
      terms,
      all.map((id) => fireOf(id)),
    )
    expect(result.movedScheduleIds).toHaveLength(25)
    expect(await fixture.count('occurrence')).toBe(25)
    expect(await fixture.count('ready')).toBe(25)
  })

  test('keeps to the microsecond where a due instant has one', async () => {
    const id = await fixture.addSchedule({ scheduledForMs: t0 })
    const at = ['2026-06-01 11:59:59.123457+00', '2026-06-01 11:00:00+00']
    await fixture.database.sql('UPDATE belfry.timer SET due_at = $1, scheduled_for = $2', at)
    const fine = t0 - 1_000 + 123.457
    expect((await fire(terms, [fireOf(id, { expectedDueAtMs: fine + 0.001 })])).movedScheduleIds).toEqual([])
    expect((await fire(terms, [fireOf(id, { expectedDueAtMs: fine })])).movedScheduleIds).toEqual([id])
  })

  test('records missed planned times with their reason and number', async () => {
    const id = await fixture.addSchedule({ scheduledForMs: t0 - 50_000 })
    const missed = { outcome: 'missed', reason: 'catch_up_latest', runId: null } as const
    const occurrences = [ran(t0 - 50_000, { ...missed, missedCount: 4 }), ran(t0 - 10_000, missed), ran(t0)]
    await fire(terms, [fireOf(id, { expectedDueAtMs: t0 - 50_000, occurrences })])
    expect((await fixture.occurrences(id)).map((row) => [row.outcome, row.reason, row.missed_count])).toEqual(
      [
        ['missed', 'catch_up_latest', '4'],
        ['missed', 'catch_up_latest', '1'],
        ['ran', null, '1'],
      ],
    )
    expect(await fixture.count('run')).toBe(1)
  })
})

describe('a fire is refused', () => {
  test('before it is due by database time', async () => {
    const id = await fixture.addSchedule({ scheduledForMs: t0 })
    await setNow(t0 - 1)
    const result = await fire(terms, [fireOf(id)])
    expect(result).toMatchObject({ movedScheduleIds: [], fired: [], nowMs: t0 - 1 })
    expect(await fixture.count('occurrence')).toBe(0)
  })

  test('when a planned time that was decided with it is not due', async () => {
    const id = await fixture.addSchedule({ scheduledForMs: t0 - 30_000 })
    const missed = { outcome: 'missed', reason: 'catch_up_latest', runId: null } as const
    const next = { scheduledForMs: t0 + 30_000, dueAtMs: t0 + 30_000 }
    const occurrences = [ran(t0 - 30_000, missed), ran(t0 + 1)]
    const ahead = fireOf(id, { expectedDueAtMs: t0 - 30_000, occurrences, next })
    expect(await fire(terms, [ahead])).toMatchObject({ movedScheduleIds: [], changedScheduleIds: [] })
    expect(await fixture.count('occurrence')).toBe(0)
    await setNow(t0 + 1)
    expect((await fire(terms, [ahead])).movedScheduleIds).toEqual([id])
  })

  test.each([-1_001, 1_001])('when it was decided with a time that is wrong by %i ms', async (errorMs) => {
    const id = await fixture.addSchedule({ scheduledForMs: t0 })
    expect(await fire(terms, [fireOf(id)], errorMs)).toMatchObject({ movedScheduleIds: [], nowMs: t0 })
    expect((await fire(terms, [fireOf(id)], errorMs - Math.sign(errorMs))).movedScheduleIds).toEqual([id])
  })

  test('when it was decided by settings that were changed since, and says so', async () => {
    const [id, other] = [
      await fixture.addSchedule({ scheduledForMs: t0 }),
      await fixture.addSchedule({ scheduledForMs: t0 }),
    ]
    await fixture.database.sql('UPDATE belfry.schedule SET version = 2 WHERE id = $1', [id])
    const result = await fire(terms, [fireOf(id), fireOf(other)])
    expect(result).toMatchObject({ movedScheduleIds: [other], changedScheduleIds: [id] })
    expect((await fire(terms, [fireOf(id, { version: 2 })])).movedScheduleIds).toEqual([id])
  })

  test('when the term ran out, another took over, or the number is old (G8)', async () => {
    const id = await fixture.addSchedule({ scheduledForMs: t0 })
    await setNow(t0 + termMs)
    expect(await fire(terms, [fireOf(id)])).toMatchObject({
      movedScheduleIds: [],
      heldShards: [],
    })
    const other = { id: newId(), host: 'h', version: '0' }
    expect((await leadership.renew(other, termMs)).held).toHaveLength(64)
    expect(await fire(terms, [fireOf(id)])).toMatchObject({
      movedScheduleIds: [],
      heldShards: [],
    })
    await leadership.resign(other.id)
    const again = await leadership.renew(node, termMs)
    expect(await fire(terms, [fireOf(id)])).toMatchObject({
      movedScheduleIds: [],
      heldShards: [],
    })
    expect(await fixture.count('occurrence')).toBe(0)
    expect((await fire(again.held, [fireOf(id)])).movedScheduleIds).toEqual([id])
  })

  test('incident 27: when it was read before somebody fired and re-armed', async () => {
    const id = await fixture.addSchedule({ scheduledForMs: t0 })
    const first = await fire(terms, [fireOf(id)])
    const second = await fire(terms, [fireOf(id)])
    expect([first.fired.length, second.fired.length]).toEqual([1, 0])
    // Re-armed to the very same instant by an edit: the generation tells.
    const rearm = 'UPDATE belfry.timer SET due_at = $1, scheduled_for = $1, gen = 2'
    await fixture.database.sql(rearm, [new Date(t0)])
    expect((await fire(terms, [fireOf(id)])).movedScheduleIds).toEqual([])
    expect(await fixture.count('run')).toBe(1)
  })

  test('when an edit commits while the fire waits for it', async () => {
    const id = await fixture.addSchedule({ scheduledForMs: t0 })
    const editor = fixture.database.open()
    const bump = { name: 'test_bump', text: 'UPDATE belfry.timer SET gen = gen + 1 WHERE schedule_id = $1' }
    const { result } = await editor.transaction({ role: 'belfry_engine' }, async (tx) => {
      await tx.query(bump, [id])
      const fired = fire(terms, [fireOf(id)])
      await untilWaiting(1)
      return { result: fired }
    })
    expect(await result).toMatchObject({ movedScheduleIds: [], fired: [] })
    expect(await fixture.count('occurrence')).toBe(0)
  })
})

describe('exactly once', () => {
  test('incident 3: a planned time that has its row gets no second run (case limit.clock_back)', async () => {
    const id = await fixture.addSchedule({ scheduledForMs: t0 })
    await fire(terms, [fireOf(id)])
    await fixture.database.sql('UPDATE belfry.timer SET due_at = $1, scheduled_for = $1, gen = 2', [
      new Date(t0),
    ])
    const result = await fire(terms, [fireOf(id, { gen: 2 })])
    expect(result).toMatchObject({ movedScheduleIds: [id], fired: [] })
    expect(await fixture.count('run')).toBe(1)
    const [timer] = await fixture.database.sql('SELECT last_run_id FROM belfry.timer')
    expect(timer?.['last_run_id']).toEqual((await fixture.occurrences(id))[0]?.run_id)
  })

  test('twenty fires of the same timer at once: one wins', async () => {
    const id = await fixture.addSchedule({ scheduledForMs: t0 })
    const fires = Array.from({ length: 20 }, () => fire(terms, [fireOf(id)]))
    const results = await Promise.all(fires)
    expect(results.flatMap(({ fired }) => fired)).toHaveLength(1)
    expect(await fixture.count('ready')).toBe(1)
  })

  test('a connection that dies before the commit leaves nothing behind', async () => {
    const id = await fixture.addSchedule({ scheduledForMs: t0 })
    const blocker = fixture.database.open()
    const lock = { name: 'test_lock', text: 'SELECT FROM belfry.timer WHERE schedule_id = $1 FOR UPDATE' }
    let fired: Promise<unknown> | undefined
    await blocker.transaction({ role: 'belfry_engine' }, async (tx) => {
      await tx.query(lock, [id])
      fired = fire(terms, [fireOf(id)]).catch((error: unknown) => error)
      await untilWaiting(1)
      await fixture.database.sql(
        `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
         WHERE datname = current_database() AND wait_event_type = 'Lock'`,
      )
      await fired
    })
    expect(await fired).toMatchObject({ code: 'database_unavailable' })
    expect(await fixture.count('occurrence')).toBe(0)
    expect((await fire(terms, [fireOf(id)])).movedScheduleIds).toEqual([id])
  })
})

describe('a fire under way', () => {
  test('is not overtaken, even when the term runs out meanwhile; the own renewal does not wait', async () => {
    const id = await fixture.addSchedule({ scheduledForMs: t0 })
    const blocker = fixture.database.open()
    const lock = { name: 'test_lock', text: 'SELECT FROM belfry.timer WHERE schedule_id = $1 FOR UPDATE' }
    const other = { id: newId(), host: 'h', version: '0' }
    let fired: Promise<FireResult> | undefined
    await blocker.transaction({ role: 'belfry_engine' }, async (tx) => {
      await tx.query(lock, [id])
      fired = fire(terms, [fireOf(id)])
      await untilWaiting(1)
      expect((await leadership.renew(node, termMs)).held).toHaveLength(64)
      await setNow(t0 + termMs)
      expect((await leadership.renew(other, termMs)).held).toEqual([])
    })
    expect(await fired).toMatchObject({ movedScheduleIds: [id] })
    expect((await leadership.renew(other, termMs)).held).toHaveLength(64)
    await leadership.resign(other.id)
  })
})

describe('overlap skip', () => {
  const next = (n: number) => ({ scheduledForMs: t0 + n * 10_000, dueAtMs: t0 + n * 10_000 })

  async function fireTwice(between: (runId: string) => Promise<unknown>): Promise<string | undefined> {
    const id = await fixture.addSchedule({ scheduledForMs: t0, overlap: 'skip' })
    const first = await fire(terms, [fireOf(id, { next: next(1) })])
    await between(first.fired[0]?.runId ?? '')
    await setNow(t0 + 10_000)
    const occurrences = [ran(t0 + 10_000)]
    await fire(terms, [fireOf(id, { expectedDueAtMs: t0 + 10_000, next: next(2), occurrences })])
    const rows = await fixture.occurrences(id)
    return rows[1]?.reason ?? rows[1]?.outcome
  }

  test('while the last run waits or runs', async () => {
    expect(await fireTwice(() => Promise.resolve())).toBe('overlap')
    expect(await fixture.count('run')).toBe(1)
  })

  test('while the last run waits for its next attempt', async () => {
    const move = `WITH gone AS (DELETE FROM belfry.ready RETURNING *)
      INSERT INTO belfry.delayed (run_id, tenant_id, job_id, job_version, due_at, shard, queue, handler,
        priority, timeout_ms, lease_epoch, attempt, crash_count)
      SELECT run_id, tenant_id, job_id, job_version, belfry.now(), 0, queue, handler,
        priority, timeout_ms, 1, 1, 0
      FROM gone`
    expect(await fireTwice(() => fixture.database.sql(move))).toBe('overlap')
  })

  test('no longer when the last run has ended', async () => {
    expect(await fireTwice(() => fixture.database.sql('DELETE FROM belfry.ready'))).toBe('ran')
    expect(await fixture.count('run')).toBe(2)
  })
})

describe('plans', () => {
  test('tell all that a fire needs; schedules that are gone are left out', async () => {
    const id = await fixture.addSchedule({ scheduledForMs: t0, jitterMs: 500, overlap: 'skip' })
    const [plan, more] = await firing.plans([id, newId()])
    expect(more).toBeUndefined()
    expect(plan).toEqual({
      target: 'job',
      scheduleId: id,
      tenantId: fixture.tenantId,
      gen: 1,
      version: 1,
      spec: { every: '10s', everyMs: 10_000, anchorMs: t0 },
      zone: 'UTC',
      startAtMs: null,
      endAtMs: null,
      calendars: [],
      onExcluded: 'skip',
      jitterMs: 500,
      flexibleWindowMs: 0,
      runLimit: null,
      sleepUntilMs: null,
      sleepReason: null,
      catchUp: { policy: 'latest', windowMs: 86_400_000, maxRuns: 100 },
      overlap: 'skip',
      queue: 'default',
      priority: 0,
      tenantWeight: 1,
    })
  })
})

/** Waits until so many connections of this database wait for a lock. */
async function untilWaiting(count: number): Promise<void> {
  const sql = `SELECT count(*)::int AS count FROM pg_stat_activity
               WHERE datname = current_database() AND wait_event_type = 'Lock'`
  const endMs = performance.now() + 10_000
  for (;;) {
    const [row] = await fixture.database.sql<{ count: number }>(sql)
    if ((row?.count ?? 0) >= count) return
    if (performance.now() > endMs) throw new Error('nobody waits for a lock')
  }
}
