// What surrounds a backfill on real Postgres: how soon it goes on, what it does to the fair order, what is
// left of it when history is pruned.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createTagClock, type TagRequest } from '../../packages/server/src/domain/fair-queue.ts'
import { backfillHint } from '../../packages/server/src/engine/backfill-hints.ts'
import { createLocalHints } from '../../packages/server/src/engine/local-hints.ts'
import { createPruner } from '../../packages/server/src/engine/pruner.ts'
import { createPostgresMaintenance } from '../../packages/server/src/postgres/maintenance.ts'
import type { BackfillFixture } from '../support/backfilling.ts'
import {
  createBackfillFixture,
  firstHourMs,
  hour,
  hours,
  noonMs,
  range,
  timesOf,
} from '../support/backfilling.ts'
import { realClock, realRandom } from '../support/real-clock.ts'
import { eventually, recordEvents } from '../support/running.ts'

const dayMs = 86_400_000

let fixture: BackfillFixture

beforeAll(async () => {
  fixture = await createBackfillFixture()
})
afterAll(() => fixture.drop())

test('goes on within a moment of a hint, not with the next look of its own', async () => {
  const hints = createLocalHints()
  const backfiller = fixture.backfiller({ hints })
  await backfiller.start()
  const scheduleId = await fixture.hourly()
  const id = await fixture.backfill(scheduleId, { fromMs: firstHourMs, concurrency: 2 })
  const startedMs = performance.now()
  hints.publish(backfillHint(scheduleId))
  for (let wave = 0; wave < 6; wave++) {
    const alive = await eventually(async () => {
      const rows = await fixture.alive(scheduleId)
      return rows.length === Math.min(2, 11 - 2 * wave) ? rows : undefined
    }, `wave ${wave}`)
    await fixture.end(
      alive.map((row) => row.run_id),
      'succeeded',
    )
    hints.publish(backfillHint(scheduleId))
  }
  await eventually(async () => (await fixture.read(id)).state === 'completed', 'the end')
  // seven looks of its own would have taken a minute
  expect(performance.now() - startedMs).toBeLessThan(10_000)
  await backfiller.stop()
})

describe('fair order', () => {
  test('fresh runs of the same tenant and of others come before those of a backfill', async () => {
    const scheduleId = await fixture.hourly()
    const id = await fixture.backfill(scheduleId, { fromMs: firstHourMs, concurrency: 100 })
    const tags = createTagClock()
    tags.observeClaimed('default', 40)
    const shared = { ready: async () => undefined, next: (request: TagRequest) => tags.next(request) }
    expect(await fixture.backfiller({ tags: shared }).runOnce()).toBe(11)
    const [row] = await fixture.database.sql<{ lowest: number }>(
      `SELECT min(tag) AS lowest FROM belfry.ready JOIN belfry.run ON run.id = ready.run_id
       WHERE run.schedule_id = $1`,
      [scheduleId],
    )
    const fresh = (tenantId: string) => tags.next({ queue: 'default', tenantId, weight: 1, priority: 0 })
    // a hundred fresh runs one after the other, and still
    const own = range(100).map(() => fresh(fixture.tenantId))
    expect(own[0]).toBe(41)
    expect(fresh('another')).toBe(41)
    expect(row?.lowest).toBeGreaterThan(Math.max(...own))
    await fixture.change(id, 'canceled')
  })
})

describe('what the pruner leaves', () => {
  const pruner = () =>
    createPruner({
      maintenance: createPostgresMaintenance(fixture.db),
      clock: realClock,
      random: realRandom,
      events: recordEvents(),
      retentionDays: 30,
    })
  const count = async (table: string, scheduleId: string): Promise<number> => {
    const rows = await fixture.database.sql<{ count: number }>(
      `SELECT count(*)::int AS count FROM belfry.${table} WHERE schedule_id = $1`,
      [scheduleId],
    )
    return rows[0]?.count ?? 0
  }

  test('planned times before the kept days get no occurrence, but runs', async () => {
    const scheduleId = await fixture.addSchedule({
      spec: { every: '1d', everyMs: dayMs, anchorMs: 0 },
      scheduledForMs: noonMs + dayMs,
    })
    const fromMs = noonMs - 40 * dayMs
    await fixture.backfill(scheduleId, { fromMs, concurrency: 100 })
    expect(await fixture.backfiller().runOnce()).toBe(40)
    expect(await count('extra_run', scheduleId)).toBe(40)
    const recorded = (await fixture.occurrences(scheduleId)).map((row) => row.scheduled_for.getTime())
    expect(recorded).toHaveLength(31)
    expect(recorded[0]).toBe(Math.floor(noonMs / dayMs) * dayMs - 30 * dayMs)
    expect(await pruner().runOnce()).toBe(true)
    expect(await count('occurrence', scheduleId)).toBe(31)
  })

  test('rows go with the history that they tell of, but never those of what is alive or open', async () => {
    const scheduleId = await fixture.hourly()
    const ended = await fixture.backfill(scheduleId, { fromMs: firstHourMs, toMs: hour(2) })
    const open = await fixture.backfill(scheduleId, { fromMs: hour(5), toMs: hour(8), concurrency: 1 })
    const backfiller = fixture.backfiller()
    await backfiller.runOnce()
    const alive = await fixture.alive(scheduleId)
    expect(timesOf(alive)).toEqual(hours(0, 1, 5))
    await fixture.end(
      alive.slice(0, 2).map((row) => row.run_id),
      'succeeded',
    )
    await backfiller.runOnce()
    expect(await fixture.read(ended)).toMatchObject({ state: 'completed' })

    await fixture.database.setNow(new Date(noonMs + 29 * dayMs))
    await pruner().runOnce()
    expect(await fixture.read(ended)).toMatchObject({ state: 'completed', succeeded: 2 })
    expect(await count('extra_run', scheduleId)).toBe(3)

    await fixture.database.setNow(new Date(noonMs + 32 * dayMs))
    await pruner().runOnce()
    await expect(fixture.read(ended)).rejects.toThrow('no backfill')
    expect(await fixture.read(open)).toMatchObject({ state: 'running', alive: 1 })
    expect(await count('extra_run', scheduleId)).toBe(1)
    await fixture.database.setNow(new Date(noonMs))
  })
})
