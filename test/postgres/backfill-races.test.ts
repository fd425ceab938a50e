// A planned time never runs twice, whoever else is at work: two backfills, two processes, a fire at the same
// moment. Each race is brought about, not hoped for.
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { BackfillTx, Backfilling } from '../../packages/server/src/ports/backfilling.ts'
import { createPostgresBackfilling } from '../../packages/server/src/postgres/backfilling.ts'
import type { BackfillFixture } from '../support/backfilling.ts'
import { eventually } from '../support/running.ts'
import {
  createBackfillFixture,
  firstHourMs as fromMs,
  hour,
  hours,
  range,
  timesOf,
} from '../support/backfilling.ts'

let fixture: BackfillFixture

beforeAll(async () => {
  fixture = await createBackfillFixture()
})
afterAll(() => fixture.drop())

/** Whether a promise has come to its end by now. */
function isSettled(promise: Promise<unknown> | undefined): Promise<boolean> {
  const later = new Promise<boolean>((resolve) => setImmediate(resolve, false))
  return Promise.race([Promise.resolve(promise).then(() => true), later])
}

describe('a time never runs twice', () => {
  test('two backfills of the same times, worked off by two processes at once', async () => {
    const scheduleId = await fixture.hourly()
    const wanted = { fromMs, concurrency: 3, reprocess: 'all' } as const
    const ids = [
      await fixture.backfill(scheduleId, wanted),
      await fixture.backfill(scheduleId, { ...wanted, order: 'newest_first' }),
    ]
    const processes = [fixture.backfiller({ db: fixture.database.open() }), fixture.backfiller()]
    for (let round = 0; round < 100; round++) {
      await Promise.all(processes.map((each) => each.runOnce()))
      const alive = await fixture.alive(scheduleId)
      expect(new Set(timesOf(alive)).size).toBe(alive.length)
      expect(alive.length).toBeLessThanOrEqual(6)
      if ((await Promise.all(ids.map((id) => fixture.read(id)))).every((each) => each.endedAtMs !== null))
        break
      await fixture.end(
        alive.filter((_, index) => index % 2 === round % 2).map((row) => row.run_id),
        'succeeded',
      )
    }
    const [one, two] = await Promise.all(ids.map((id) => fixture.read(id)))
    expect([one?.state, two?.state]).toEqual(['completed', 'completed'])
    for (const each of [one, two]) expect((each?.started ?? 0) + (each?.skipped ?? 0)).toBe(11)
  })

  test.each(['none', 'failed'] as const)(
    'the same with reprocess %s: one run a time in all',
    async (reprocess) => {
      const scheduleId = await fixture.hourly()
      const wanted = { fromMs, concurrency: 4, reprocess } as const
      const ids = [
        await fixture.backfill(scheduleId, wanted),
        await fixture.backfill(scheduleId, wanted),
        await fixture.backfill(scheduleId, { ...wanted, order: 'newest_first' }),
      ]
      const processes = range(3).map(() =>
        fixture.backfiller({ db: fixture.database.open({ maxConnections: 2 }) }),
      )
      for (let round = 0; round < 50; round++) {
        await Promise.all(processes.map((each) => each.runOnce()))
        await fixture.end(
          (await fixture.alive(scheduleId)).map((row) => row.run_id),
          'succeeded',
        )
        if ((await Promise.all(ids.map((id) => fixture.read(id)))).every((each) => each.endedAtMs !== null))
          break
      }
      expect(timesOf(await fixture.ran(scheduleId))).toEqual(hours(...range(11)))
    },
  )

  test('two backfills of a schedule look one after the other: the second sees the first', async () => {
    const scheduleId = await fixture.hourly()
    for (const index of range(3)) {
      await fixture.addRun(scheduleId, hour(index), { by: 'schedule', endedAs: 'succeeded' })
    }
    const wanted = { fromMs, toMs: hour(3), reprocess: 'all' } as const
    const first = { id: await fixture.backfill(scheduleId, wanted), scheduleId }
    const second = { id: await fixture.backfill(scheduleId, wanted), scheduleId }
    const { database } = fixture
    const backfilling = createPostgresBackfilling(fixture.db)
    let other: Promise<number> | undefined
    const slow: Backfilling = {
      due: async () => ({ due: other === undefined ? [first] : [], open: 2 }),
      within: (work) =>
        backfilling.within((tx) =>
          work({
            ...tx,
            async timeRecords(of, atMs) {
              const records = await tx.timeRecords(of, atMs)
              const open = createPostgresBackfilling(database.open())
              const once = { due: [[second], []].values() }
              other = fixture
                .backfiller({
                  backfilling: { ...open, due: async () => ({ due: once.due.next().value ?? [], open: 2 }) },
                })
                .runOnce()
              // it waits for the first, or it is through
              await eventually(
                async () => (await database.waiting()) === 1 || (await isSettled(other)),
                'the other to wait, or to be through',
              )
              return records
            },
          }),
        ),
    }
    expect(await fixture.backfiller({ backfilling: slow }).runOnce()).toBe(3)
    expect(await other).toBe(0)
    expect(timesOf(await fixture.alive(scheduleId))).toEqual(hours(0, 1, 2))
    expect(await fixture.read(second.id)).toMatchObject({ started: 0, skipped: 3 })
  })

  test('one backfill, stepped by two processes at the same moment: the limit holds', async () => {
    const scheduleId = await fixture.hourly()
    const id = await fixture.backfill(scheduleId, { fromMs, concurrency: 3 })
    const { database } = fixture
    const held = await database.hold(`SELECT 1 FROM belfry.backfill WHERE id = '${id}' FOR UPDATE`)
    await held.take()
    const both = [fixture.backfiller({ db: database.open() }), fixture.backfiller({ db: database.open() })]
    const steps = Promise.all(both.map((each) => each.runOnce()))
    await expect.poll(() => database.waiting()).toBe(2)
    await held.release()
    const started = await steps
    expect(started.reduce((sum, each) => sum + each, 0)).toBe(3)
    expect(timesOf(await fixture.alive(scheduleId))).toEqual(hours(0, 1, 2))
  })

  test('an occurrence that comes up between look and write keeps its run, and no other is made', async () => {
    const scheduleId = await fixture.hourly()
    const id = await fixture.backfill(scheduleId, { fromMs, toMs: hour(3), concurrency: 10 })
    const backfilling = createPostgresBackfilling(fixture.db)
    let fired: string | undefined
    const late: Backfilling = {
      ...backfilling,
      within: (work) =>
        backfilling.within((tx) => {
          const slow: BackfillTx = {
            ...tx,
            async advance(wanted) {
              fired ??= await fixture.addRun(scheduleId, hour(1), { by: 'schedule', endedAs: null })
              return tx.advance(wanted)
            },
          }
          return work(slow)
        }),
    }
    const backfiller = fixture.backfiller({ backfilling: late })
    expect(await backfiller.runOnce()).toBe(2)
    const rows = await fixture.alive(scheduleId)
    expect(timesOf(rows)).toEqual(hours(0, 1, 2))
    expect(rows[1]).toMatchObject({ run_id: fired, source: 'schedule' })
    expect(await fixture.read(id)).toMatchObject({ started: 2, skipped: 1, alive: 2 })
  })

  test.each([
    ['COMMIT', 0],
    ['ROLLBACK', 1],
  ] as const)('a fire of the same time at the same moment, which ends by %s: %i runs', async (end, runs) => {
    const scheduleId = await fixture.hourly()
    const id = await fixture.backfill(scheduleId, { fromMs, toMs: hour(1) })
    const { database } = fixture
    const fire = new pg.Client(database.adminConnection)
    await fire.connect()
    await fire.query('BEGIN')
    await fire.query(
      `INSERT INTO belfry.occurrence (schedule_id, scheduled_for, tenant_id, outcome, reason, due_at)
       VALUES ($1, $2, $3, 'skipped', 'overlap', belfry.now())`,
      [scheduleId, new Date(hour(0)), fixture.tenantId],
    )
    const step = fixture.backfiller({ db: database.open() }).runOnce()
    await expect.poll(() => database.waiting()).toBe(1)
    await fire.query(end)
    await fire.end()
    expect(await step).toBe(runs)
    expect(await fixture.ran(scheduleId)).toHaveLength(runs)
    expect(await fixture.read(id)).toMatchObject({ started: runs, skipped: 1 - runs, nextAtMs: null })
    const outcomes = (await fixture.occurrences(scheduleId)).map((row) => row.outcome)
    expect(outcomes).toEqual([end === 'COMMIT' ? 'skipped' : 'ran'])
  })

  test('a cursor that is not as it was read is refused, and nothing is written', async () => {
    const scheduleId = await fixture.hourly()
    const id = await fixture.backfill(scheduleId, { fromMs })
    const backfilling = createPostgresBackfilling(fixture.db)
    const step = backfilling.within(async (tx) => {
      const locked = await tx.lock({ id, scheduleId })
      if (locked === undefined) throw new Error('it is gone')
      const start = {
        scheduledForMs: hour(0),
        runId: crypto.randomUUID(),
        tag: 1,
        occurrence: 'insert',
      } as const
      return tx.advance({
        id,
        target: 'job',
        expectedNextAtMs: hour(1),
        nextAtMs: hour(2),
        starts: [start],
        skipped: 0,
        ended: [],
        succeeded: 0,
        failed: 0,
        canceled: 0,
        alive: 0,
        state: 'running',
        reason: null,
      })
    })
    await expect(step).rejects.toThrow(/moved on/)
    expect(await fixture.ran(scheduleId)).toEqual([])
    expect(await fixture.occurrences(scheduleId)).toEqual([])
    expect(await fixture.read(id)).toMatchObject({ started: 0, nextAtMs: hour(0) })
    await fixture.change(id, 'canceled')
  })
})

test('a schedule that fires each second, and backfills until now all the while: one run a time', async () => {
  const live = await createBackfillFixture({ realTime: true })
  try {
    const node = live.node()
    await node.start()
    const startMs = Math.ceil(Date.now() / 1_000) * 1_000 - 5_000
    const spec = { every: '1s', everyMs: 1_000, anchorMs: startMs }
    // its first five planned times were never fired, and are the backfills' to run
    const scheduleId = await live.addSchedule({ spec, scheduledForMs: startMs + 5_000 })
    const processes = [live.backfiller({ db: live.database.open() }), live.backfiller()]
    const untilMs = startMs + 11_000
    for (let count = 0; Date.now() < untilMs; count++) {
      const order = count % 2 === 0 ? 'oldest_first' : 'newest_first'
      const id = await live.backfill(scheduleId, { fromMs: startMs, order, concurrency: 100 })
      await Promise.all(processes.map((each) => each.runOnce()))
      if ((await live.read(id)).endedAtMs === null) await live.change(id, 'canceled')
    }
    await node.stop()
    const times = timesOf(await live.ran(scheduleId))
    expect(times).toEqual(range(times.length).map((second) => startMs + second * 1_000))
    expect(times.length).toBeGreaterThanOrEqual(10)
    const sources = new Set((await live.ran(scheduleId)).map((row) => row.source))
    expect([...sources].toSorted()).toEqual(['backfill', 'schedule'])
    const recorded = (await live.occurrences(scheduleId)).map((row) => [row.outcome, row.run_id])
    expect(recorded).toEqual((await live.ran(scheduleId)).map((row) => ['ran', row.run_id]))
  } finally {
    await live.drop()
  }
})
