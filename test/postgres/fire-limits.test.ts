// What ends a schedule, puts it to sleep or delays it, as the firing transaction writes it down: on real
// Postgres in virtual time.
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { flexibleDelayMs } from '../../packages/server/src/domain/schedule/jitter.ts'
import { createOverlapRig, type OverlapRig, periodMs } from '../support/overlap-rig.ts'
import { until } from '../support/scheduling.ts'

const t0 = Date.UTC(2026, 0, 1)
let rig: OverlapRig
beforeEach(async () => {
  rig = await createOverlapRig(t0)
})
afterEach(() => rig.drop())

const pass = (seconds: number) => rig.time.pass(seconds * 1_000)

type ScheduleRow = { state: string; run_count: number; gen: number; version: number; deleted: boolean }
async function schedule(id: string): Promise<ScheduleRow | undefined> {
  const rows = await rig.fixture.database.sql<ScheduleRow>(
    `SELECT state, run_count, gen::int, version, deleted_at IS NOT NULL AS deleted
     FROM belfry.schedule WHERE id = $1`,
    [id],
  )
  return rows[0]
}

describe('a limit of runs', () => {
  test('completes the schedule with the run that reaches it, and the scheduler forgets it', async () => {
    const id = await rig.addSchedule({ runLimit: 2 })
    const node = await rig.startNode()
    await pass(5)
    expect(await schedule(id)).toMatchObject({ state: 'active', run_count: 1, version: 1 })
    await pass(30)
    expect(await rig.story(id)).toEqual(['0 ran ready', '10 ran ready'])
    expect(await schedule(id)).toEqual({
      state: 'completed',
      run_count: 2,
      gen: 2,
      version: 2,
      deleted: false,
    })
    expect(await rig.fixture.count('timer')).toBe(0)
    expect(node.scheduler.stats().timers).toBe(0)
    expect(node.events.some(({ name }) => name === 'fire_refused')).toBe(false)
  })

  test('counts what started, not what was skipped', async () => {
    const id = await rig.addSchedule({ runLimit: 2, overlap: 'skip' })
    await rig.startNode()
    await pass(25)
    expect(await schedule(id)).toMatchObject({ state: 'active', run_count: 1 })
    await rig.end(await rig.claim())
    await pass(10)
    expect(await rig.story(id)).toEqual([
      '0 ran succeeded',
      '10 skipped overlap',
      '20 skipped overlap',
      '30 ran ready',
    ])
    expect(await schedule(id)).toMatchObject({ state: 'completed', run_count: 2 })
  })

  test('of several that are due at once the first ones run, and the others say why they do not', async () => {
    const scheduledForMs = t0 - 40_000
    const id = await rig.addSchedule({ runLimit: 2, catchUp: { policy: 'all' }, scheduledForMs })
    await rig.startNode()
    await until('the fire', async () => (await rig.story(id)).length === 5)
    expect(await rig.story(id)).toEqual([
      '-40 ran ready',
      '-30 ran ready',
      ...[-20, -10, 0].map((seconds) => `${seconds} skipped run_limit`),
    ])
    expect(await schedule(id)).toMatchObject({ state: 'completed', run_count: 2 })
  })

  test('a run that waits for the one before it counts as started', async () => {
    const id = await rig.addSchedule({ runLimit: 2, overlap: 'buffer_all' })
    await rig.startNode()
    await pass(35)
    expect(await rig.story(id)).toEqual(['0 ran ready', '10 ran waits'])
    await rig.end(await rig.claim())
    await pass(1)
    expect((await rig.story(id))[1]).toBe('10 ran ready')
  })
})

describe('a schedule that has fired for the last time', () => {
  test.each(['keep', 'delete'] as const)('%s', async (afterCompletion) => {
    const at = new Date(t0 + 5_000).toISOString()
    const single = await rig.addSchedule({ spec: { at }, scheduledForMs: t0 + 5_000, afterCompletion })
    const limited = await rig.addSchedule({ runLimit: 1, afterCompletion })
    await rig.startNode()
    await pass(6)
    for (const id of [single, limited]) {
      expect(await schedule(id)).toMatchObject({
        state: 'completed',
        deleted: afterCompletion === 'delete',
        version: 2,
      })
      expect(await rig.story(id)).toHaveLength(1)
    }
  })
})

describe('sleep', () => {
  test('planned times before its end are on record as asleep, with the reason', async () => {
    const id = await rig.addSchedule({ sleepUntilMs: t0 + 20_000, sleepReason: 'a move' })
    await rig.startNode()
    await pass(21)
    expect(await rig.story(id)).toEqual(['0 skipped asleep', '10 skipped asleep', '20 ran ready'])
    expect((await rig.fixture.occurrences(id)).map(({ detail }) => detail)).toEqual([
      'a move',
      'a move',
      null,
    ])
  })

  test('one that is set while the fire is decided ahead counts', async () => {
    const id = await rig.addSchedule()
    await rig.startNode()
    await pass(5)
    await rig.fixture.database.sql(
      'UPDATE belfry.schedule SET sleep_until = $1, version = version + 1 WHERE id = $2',
      [new Date(t0 + 10_001), id],
    )
    await pass(20)
    expect(await rig.story(id)).toEqual(['0 ran ready', '10 skipped asleep', '20 ran ready'])
  })

  test('it does not replace, cancel or line up anything', async () => {
    const id = await rig.addSchedule({ overlap: 'terminate_other', sleepUntilMs: t0 + 20_000 })
    const other = await rig.addSchedule({ overlap: 'buffer_one', sleepUntilMs: t0 + 20_000 })
    const run = await rig.fixture.addDelayed({ dueAtMs: t0 + 86_400_000 })
    await rig.fixture.database.sql('UPDATE belfry.timer SET last_run_id = $1', [run])
    await rig.startNode()
    await pass(12)
    expect(await rig.story(id)).toEqual(['0 skipped asleep', '10 skipped asleep'])
    expect(await rig.story(other)).toEqual(['0 skipped asleep', '10 skipped asleep'])
    expect(await rig.fixture.count('delayed')).toBe(1)
  })
})

describe('a flexible window', () => {
  test('every planned time starts later by one delay, and keeps its nominal time', async () => {
    const id = await rig.addSchedule({ flexibleWindowMs: 9_000, scheduledForMs: t0 })
    const delayMs = flexibleDelayMs(id, t0, 9_000, null)
    await rig.fixture.database.sql('UPDATE belfry.timer SET due_at = $1', [new Date(t0 + delayMs)])
    const node = await rig.startNode()
    await pass(35)
    const rows = await rig.fixture.database.sql<{ due_at: Date; scheduled_for: Date; fired_at: Date }>(
      'SELECT due_at, scheduled_for, fired_at FROM belfry.occurrence ORDER BY scheduled_for',
    )
    expect(rows.length).toBeGreaterThanOrEqual(3)
    rows.forEach((row, n) => {
      expect(row.scheduled_for.getTime()).toBe(t0 + n * periodMs)
      expect(row.due_at.getTime() - row.scheduled_for.getTime()).toBe(delayMs)
      expect(row.fired_at.getTime() - row.due_at.getTime()).toBeLessThan(2)
    })
    expect(node.events.some(({ name }) => name === 'fire_refused')).toBe(false)
  })
})
