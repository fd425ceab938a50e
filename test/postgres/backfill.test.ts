// Backfills on real Postgres: which planned times run under each `reprocess`, in which order, how many at
// once, and what people do meanwhile.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { BackfillFixture, RanRow } from '../support/backfilling.ts'
import {
  createBackfillFixture,
  firstHourMs as fromMs,
  hour,
  hours,
  noonMs,
  range,
  timesOf,
} from '../support/backfilling.ts'

let fixture: BackfillFixture

beforeAll(async () => {
  fixture = await createBackfillFixture()
})
afterAll(() => fixture.drop())

const mine = (rows: readonly RanRow[]): RanRow[] => rows.filter((row) => row.source === 'backfill')

/** Steps, with everything that is alive ended as `state` in between, until the backfill is over. */
async function workOff(id: string, scheduleId: string, state = 'succeeded'): Promise<void> {
  const backfiller = fixture.backfiller()
  for (let round = 0; round < 200; round++) {
    await backfiller.runOnce()
    if ((await fixture.read(id)).endedAtMs !== null) return
    await fixture.end(
      mine(await fixture.alive(scheduleId)).map((row) => row.run_id),
      state,
    )
  }
  throw new Error('the backfill does not end')
}

describe('which planned times run', () => {
  /** One planned time for each way to have been. */
  async function mixedPast(): Promise<string> {
    const scheduleId = await fixture.hourly()
    await missed(scheduleId, hour(1))
    await fixture.addRun(scheduleId, hour(2), { by: 'schedule', endedAs: 'succeeded' })
    await fixture.addRun(scheduleId, hour(3), { by: 'schedule', endedAs: 'failed' })
    await fixture.addRun(scheduleId, hour(4), { by: 'schedule', endedAs: 'canceled' })
    await fixture.addRun(scheduleId, hour(5), { by: 'schedule', endedAs: null })
    // failed, and mended by a trigger for that time
    await fixture.addRun(scheduleId, hour(6), { by: 'schedule', endedAs: 'failed' })
    await fixture.addRun(scheduleId, hour(6), { by: 'trigger', endedAs: 'succeeded' })
    // succeeded, and spoilt by one
    await fixture.addRun(scheduleId, hour(7), { by: 'schedule', endedAs: 'succeeded' })
    await fixture.addRun(scheduleId, hour(7), { by: 'trigger', endedAs: 'failed' })
    // an older one is alive, the newest has failed
    await fixture.addRun(scheduleId, hour(8), { by: 'trigger', endedAs: null })
    await fixture.addRun(scheduleId, hour(8), { by: 'trigger', endedAs: 'failed' })
    return scheduleId
  }
  const missed = (scheduleId: string, atMs: number) =>
    fixture.database.sql(
      `INSERT INTO belfry.occurrence (schedule_id, scheduled_for, tenant_id, outcome, reason, due_at)
       VALUES ($1, $2, $3, 'missed', 'catch_up_latest', $2)`,
      [scheduleId, new Date(atMs), fixture.tenantId],
    )

  test.each([
    ['none', hours(0, 1, 9, 10)],
    ['failed', hours(0, 1, 3, 4, 7, 9, 10)],
    ['all', hours(0, 1, 2, 3, 4, 6, 7, 9, 10)],
  ] as const)('reprocess %s', async (reprocess, expected) => {
    const scheduleId = await mixedPast()
    const id = await fixture.backfill(scheduleId, { fromMs, reprocess })
    expect((await fixture.read(id)).total).toBe(11)
    await workOff(id, scheduleId)
    const made = mine(await fixture.ran(scheduleId))
    expect(timesOf(made)).toEqual(expected)
    const backfill = await fixture.read(id)
    expect(backfill).toMatchObject({
      state: 'completed',
      started: expected.length,
      skipped: 11 - expected.length,
      alive: 0,
      succeeded: expected.length,
      failed: 0,
      canceled: 0,
      nextAtMs: null,
    })
  })

  test('a time without an occurrence gets one; what is on record of the others stays', async () => {
    const scheduleId = await mixedPast()
    const id = await fixture.backfill(scheduleId, { fromMs, reprocess: 'failed' })
    const before = await fixture.occurrences(scheduleId)
    await workOff(id, scheduleId)
    const after = await fixture.occurrences(scheduleId)
    const isNew = (row: (typeof after)[number]) =>
      !before.some((old) => old.scheduled_for.getTime() === row.scheduled_for.getTime())
    expect(after.filter((row) => !isNew(row))).toEqual(before)
    const made = new Map(mine(await fixture.ran(scheduleId)).map((row) => [row.at, row.run_id]))
    const added = after.filter(isNew)
    // hour 8 has two triggers and no occurrence, and was passed over
    expect(added.map((row) => row.scheduled_for.getTime())).toEqual(hours(0, 9, 10))
    for (const row of added) {
      expect([row.outcome, row.reason]).toEqual(['ran', null])
      expect(row.run_id).toBe(made.get(row.scheduled_for.getTime()))
    }
  })

  test('runs carry the nominal time, the lowest priority, the source and the chosen input', async () => {
    const scheduleId = await fixture.hourly()
    await fixture.backfill(scheduleId, { fromMs, toMs: hour(1) })
    await fixture.backfill(scheduleId, { fromMs: hour(1), toMs: hour(2), input: { again: true } })
    await fixture.backfiller().runOnce()
    const rows = await fixture.ran(scheduleId)
    expect(rows.map(({ at, source, priority, input }) => ({ at, source, priority, input }))).toEqual([
      { at: hour(0), source: 'backfill', priority: -100, input: { hello: 'world' } },
      { at: hour(1), source: 'backfill', priority: -100, input: { again: true } },
    ])
  })

  test('what the schedule has yet to fire is left to it', async () => {
    // its timer still stands at hour 8, by a long jitter, say
    const scheduleId = await fixture.hourly({ scheduledForMs: hour(8), dueAtMs: noonMs + 60_000 })
    for (const order of ['oldest_first', 'newest_first'] as const) {
      const id = await fixture.backfill(scheduleId, { fromMs, order, concurrency: 100 })
      await workOff(id, scheduleId)
      expect(await fixture.read(id)).toMatchObject({ state: 'completed', total: 11 })
    }
    expect(timesOf(await fixture.ran(scheduleId))).toEqual(hours(...range(8)))
  })

  test('a paused schedule has yet to fire nothing', async () => {
    const scheduleId = await fixture.hourly()
    await fixture.database.sql('DELETE FROM belfry.timer WHERE schedule_id = $1', [scheduleId])
    const id = await fixture.backfill(scheduleId, { fromMs })
    await workOff(id, scheduleId)
    expect(timesOf(await fixture.ran(scheduleId))).toEqual(hours(...range(11)))
  })

  test('many times to pass over take few steps and start nothing', async () => {
    const scheduleId = await fixture.addSchedule({
      spec: { every: '1m', everyMs: 60_000, anchorMs: 0 },
      scheduledForMs: noonMs + 60_000,
    })
    await fixture.database.sql(
      `INSERT INTO belfry.occurrence (schedule_id, scheduled_for, tenant_id, outcome, run_id, due_at)
       SELECT $1, at, $2, 'ran', gen_random_uuid(), at
       FROM generate_series($3::timestamptz, $4::timestamptz, '1 minute') AS at`,
      [scheduleId, fixture.tenantId, new Date(noonMs - 2_000 * 60_000), new Date(noonMs)],
    )
    const id = await fixture.backfill(scheduleId, { fromMs: noonMs - 2_001 * 60_000 })
    const backfiller = fixture.backfiller()
    expect(await backfiller.runOnce()).toBe(1)
    expect(await fixture.read(id)).toMatchObject({ total: 2_002, started: 1, skipped: 2_001, nextAtMs: null })
    expect(backfiller.events.of('backfill_stepped').length).toBeLessThan(15)
  })

  test('nothing to do: completed at once', async () => {
    const scheduleId = await fixture.hourly()
    const id = await fixture.backfill(scheduleId, { fromMs: hour(0) + 1, toMs: hour(1) })
    const backfiller = fixture.backfiller()
    await backfiller.runOnce()
    expect(await fixture.read(id)).toMatchObject({ state: 'completed', total: 0, started: 0, nextAtMs: null })
    expect(backfiller.events.of('backfill_ended')).toMatchObject([{ backfillId: id, state: 'completed' }])
  })

  test('the same range again runs nothing twice', async () => {
    const scheduleId = await fixture.hourly()
    for (const reprocess of ['none', 'none', 'failed'] as const) {
      const id = await fixture.backfill(scheduleId, { fromMs, reprocess })
      await workOff(id, scheduleId)
    }
    expect(timesOf(await fixture.ran(scheduleId))).toEqual(hours(...range(11)))
    await workOff(await fixture.backfill(scheduleId, { fromMs, reprocess: 'all' }), scheduleId)
    expect((await fixture.ran(scheduleId)).length).toBe(22)
  })
})

describe('order and number', () => {
  test.each([
    ['oldest_first', range(11)],
    ['newest_first', range(11).toReversed()],
  ] as const)('%s, never more than the limit alive', async (order, indexes) => {
    const scheduleId = await fixture.hourly()
    await fixture.backfill(scheduleId, { fromMs, order, concurrency: 3 })
    const backfiller = fixture.backfiller()
    const seen: number[] = []
    for (let round = 0; round < 30; round++) {
      await backfiller.runOnce()
      const alive = await fixture.alive(scheduleId)
      expect(alive.length).toBe(Math.min(3, 11 - round))
      const fresh = alive.filter((row) => !seen.includes(row.at))
      const inOrder = order === 'oldest_first' ? fresh : fresh.toReversed()
      seen.push(...timesOf(inOrder))
      const first = alive[0]
      if (first === undefined) break
      // one ends, one begins
      await fixture.end([first.run_id], 'succeeded')
    }
    expect(seen).toEqual(hours(...indexes))
  })

  test('how they ended is counted, and an answer is right before the next step', async () => {
    const scheduleId = await fixture.hourly()
    const id = await fixture.backfill(scheduleId, { fromMs, toMs: hour(4), concurrency: 4 })
    await fixture.backfiller().runOnce()
    const [one, two, three, four] = (await fixture.alive(scheduleId)).map((row) => row.run_id)
    await fixture.end([one ?? ''], 'succeeded')
    await fixture.end([two ?? ''], 'failed')
    await fixture.end([three ?? ''], 'canceled')
    const counts = { started: 4, skipped: 0, alive: 1, succeeded: 1, failed: 1, canceled: 1 }
    expect(await fixture.read(id)).toMatchObject({ ...counts, state: 'running' })
    await fixture.backfiller().runOnce()
    expect(await fixture.read(id)).toMatchObject({ ...counts, state: 'running' })
    await fixture.end([four ?? ''], 'succeeded')
    await fixture.backfiller().runOnce()
    expect(await fixture.read(id)).toMatchObject({ ...counts, alive: 0, succeeded: 2, state: 'completed' })
  })

  test('a run that waits for its next attempt is alive', async () => {
    const scheduleId = await fixture.hourly()
    const id = await fixture.backfill(scheduleId, { fromMs, toMs: hour(2), concurrency: 1 })
    await fixture.backfiller().runOnce()
    await fixture.database.sql(
      `WITH gone AS (
         DELETE FROM belfry.ready WHERE run_id = (SELECT id FROM belfry.run WHERE schedule_id = $1)
         RETURNING *)
       INSERT INTO belfry.delayed (run_id, tenant_id, job_id, job_version, due_at, shard, queue, handler,
         priority, timeout_ms, lease_epoch, attempt, crash_count)
       SELECT run_id, tenant_id, job_id, job_version, belfry.now(), 0, queue, handler, priority, timeout_ms,
         2, 1, 0
       FROM gone`,
      [scheduleId],
    )
    expect(await fixture.backfiller().runOnce()).toBe(0)
    expect(await fixture.read(id)).toMatchObject({ alive: 1, started: 1 })
  })
})

describe('what people do meanwhile', () => {
  test('pause and resume: nothing starts in between, and it goes on where it was', async () => {
    const scheduleId = await fixture.hourly()
    const id = await fixture.backfill(scheduleId, { fromMs, concurrency: 2 })
    const backfiller = fixture.backfiller()
    await backfiller.runOnce()
    await fixture.change(id, 'paused', 'too loud')
    const alive = await fixture.alive(scheduleId)
    await fixture.end(
      alive.map((row) => row.run_id),
      'succeeded',
    )
    expect(await backfiller.runOnce()).toBe(0)
    const paused = await fixture.read(id)
    expect(paused).toMatchObject({ state: 'paused', reason: 'too loud', started: 2, alive: 0, succeeded: 2 })
    expect(paused.nextAtMs).toBe(hour(2))
    await fixture.change(id, 'running')
    expect(await backfiller.runOnce()).toBe(2)
    expect(timesOf(await fixture.alive(scheduleId))).toEqual(hours(2, 3))
    expect((await fixture.read(id)).reason).toBeNull()
  })

  test('cancel: no further ones; what was alive is still counted when it ends', async () => {
    const scheduleId = await fixture.hourly()
    const id = await fixture.backfill(scheduleId, { fromMs, concurrency: 2 })
    const backfiller = fixture.backfiller()
    await backfiller.runOnce()
    await fixture.change(id, 'canceled', 'enough')
    expect(await backfiller.runOnce()).toBe(0)
    const [one, two] = (await fixture.alive(scheduleId)).map((row) => row.run_id)
    await fixture.end([one ?? ''], 'succeeded')
    await fixture.end([two ?? ''], 'failed')
    expect(await backfiller.runOnce()).toBe(0)
    expect(await fixture.read(id)).toMatchObject({
      state: 'canceled',
      reason: 'enough',
      started: 2,
      alive: 0,
      succeeded: 1,
      failed: 1,
    })
    const [row] = await fixture.database.sql<{ open: number }>(
      'SELECT count(*)::int AS open FROM belfry.extra_run WHERE backfill_id = $1 AND ended_as IS NULL',
      [id],
    )
    expect(row?.open).toBe(0)
  })

  test('an edit changes none of its planned times; queue and input are as they are now', async () => {
    const scheduleId = await fixture.hourly()
    await fixture.backfill(scheduleId, { fromMs, toMs: hour(4), concurrency: 2 })
    const backfiller = fixture.backfiller()
    await backfiller.runOnce()
    await fixture.database.sql(
      `UPDATE belfry.schedule SET spec = '{"every":"7m","everyMs":420000,"anchorMs":0}', input = '"new"',
         gen = gen + 1, version = version + 1 WHERE id = $1`,
      [scheduleId],
    )
    await fixture.database.sql(`UPDATE belfry.job SET queue = 'elsewhere' WHERE id = $1`, [fixture.jobId])
    await fixture.end(
      (await fixture.alive(scheduleId)).map((row) => row.run_id),
      'succeeded',
    )
    expect(await backfiller.runOnce()).toBe(2)
    const rows = await fixture.alive(scheduleId)
    expect(timesOf(rows)).toEqual(hours(2, 3))
    expect(rows.map(({ queue, input }) => [queue, input])).toEqual([
      ['elsewhere', 'new'],
      ['elsewhere', 'new'],
    ])
    expect(backfiller.events.of('runs_enqueued').at(-1)).toMatchObject({ queue: 'elsewhere', count: 2 })
    await fixture.database.sql(`UPDATE belfry.job SET queue = 'default' WHERE id = $1`, [fixture.jobId])
  })

  test('a schedule that is deleted ends its backfills, with the reason', async () => {
    const scheduleId = await fixture.hourly()
    const id = await fixture.backfill(scheduleId, { fromMs, concurrency: 2 })
    const backfiller = fixture.backfiller()
    await backfiller.runOnce()
    await fixture.database.sql('UPDATE belfry.schedule SET deleted_at = belfry.now() WHERE id = $1', [
      scheduleId,
    ])
    const alive = await fixture.alive(scheduleId)
    await fixture.end([alive[0]?.run_id ?? ''], 'succeeded')
    expect(await backfiller.runOnce()).toBe(0)
    expect(await fixture.read(id)).toMatchObject({
      state: 'canceled',
      reason: 'The schedule was deleted.',
      alive: 1,
      succeeded: 1,
    })
    expect(backfiller.events.of('backfill_ended')).toMatchObject([{ backfillId: id, state: 'canceled' }])
  })

  test('one that cannot be evaluated rests, says so, and holds up no other', async () => {
    const [broken, sound] = [await fixture.hourly(), await fixture.hourly()]
    const id = await fixture.backfill(broken, { fromMs, toMs: hour(1) })
    await fixture.backfill(sound, { fromMs, toMs: hour(1) })
    await fixture.database.sql(
      `UPDATE belfry.backfill SET timing = timing || '{"spec": {"x": 1}}' WHERE id = $1`,
      [id],
    )
    const backfiller = fixture.backfiller()
    expect(await backfiller.runOnce()).toBe(1)
    expect(timesOf(await fixture.ran(sound))).toEqual([hour(0)])
    expect(await fixture.ran(broken)).toEqual([])
    const faults = backfiller.events.of('role_failed')
    expect(faults.map(({ role }) => role)).toEqual(['backfiller'])
    expect(String(faults[0]?.error)).toContain(id)
    await fixture.change(id, 'canceled')
  })
})
