// Newer zone data on a real database: what moves and what does not, what is due, what is never lost or fired
// for the past, what cannot be evaluated, and thousands at once.
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { ZoneSource } from '../../packages/server/src/ports/zones.ts'
import type { Database } from '../../packages/server/src/postgres/database.ts'
import {
  addZoned,
  berlin,
  berlinAt,
  makeReplanner,
  readReplans,
  tokyo,
  zonedRow,
} from '../support/replanning.ts'
import { createSchedulingFixture, type SchedulingFixture, until } from '../support/scheduling.ts'
import { removeZoneTrees, zonesOf } from '../support/zone-trees.ts'

const hourMs = 3_600_000
/** 09:00 in Berlin is 08:00 UTC, with the old data. */
const now = new Date('2026-01-15T12:00:00Z')
const nowMs = now.getTime()

let old: ZoneSource
let later: ZoneSource
let fixture: SchedulingFixture
let db: Database

beforeAll(() => {
  old = berlinAt('2098a', 1)
  later = berlinAt('2098b', 2)
})
afterAll(removeZoneTrees)
beforeEach(async () => {
  fixture = await createSchedulingFixture()
  await fixture.database.useVirtualNow(now)
  db = fixture.database.open()
})
afterEach(() => fixture.drop())

const add = async (zone: string, more: Partial<Parameters<typeof addZoned>[1]> = {}): Promise<string> => {
  const [id = ''] = await addZoned(fixture, { zone, zones: old, afterMs: nowMs, ...more })
  return id
}
const at = (text: string): Date => new Date(`${text}Z`)
const replans = () => readReplans(fixture)
const namesOf = (events: readonly { name: string }[]) => events.map(({ name }) => name)

describe('a scheduler that comes with newer data', () => {
  test('moves the future times of the zones whose rules differ, and nothing else', async () => {
    await makeReplanner(db, old).replanner.runOnce()
    const moves = await add(berlin)
    const stays = await Promise.all([add(tokyo), add('UTC'), add(berlin, { spec: everyHour })])
    const before = await Promise.all(stays.map((id) => zonedRow(fixture, id)))

    const { replanner, events, hints } = makeReplanner(db, later)
    expect(await replanner.runOnce()).toBe(2)

    expect(await zonedRow(fixture, moves)).toEqual({
      zone_data_version: '2098b',
      gen: 2,
      timer_gen: 2,
      version: 2,
      state: 'active',
      scheduled_for: at('2026-01-16T07:00'),
      due_at: at('2026-01-16T07:00'),
    })
    const [inTokyo, inUtc, hourly] = await Promise.all(stays.map((id) => zonedRow(fixture, id)))
    expect([inTokyo, inUtc]).toEqual(before.slice(0, 2))
    expect(hourly).toEqual({ ...before[2], zone_data_version: '2098b' })
    const counts = { total: 2, done: 2, moved: 1, failed: 0 }
    expect(await replans()).toEqual([
      {
        subject: berlin,
        state: 'done',
        from_version: '2098a',
        to_version: '2098b',
        ...counts,
        error: null,
      },
    ])
    expect(namesOf(events)).toEqual([
      'zone_data_changed',
      'replan_started',
      'replan_advanced',
      'replan_ended',
    ])
    expect(events[0]?.payload).toMatchObject({ fromVersion: '2098a', toVersion: '2098b', zones: [berlin] })
    expect(events[3]?.payload).toMatchObject({
      ...counts,
      kind: 'zone',
      subject: berlin,
      tenantId: null,
      fromVersion: '2098a',
      toVersion: '2098b',
      state: 'done',
      requestedAtMs: nowMs,
    })
    expect(hints).toEqual([{ topic: 'replans', key: 'asked' }])
    expect(replanner.zoneData()).toMatchObject({ kind: 'newer', changed: [berlin] })
  })

  test('tells the shard of a time that is near, so that it is not slept through', async () => {
    await makeReplanner(db, old).replanner.runOnce()
    const id = await add(berlin, { spec: { cron: '1 15 * * *', dialect: 'unix' } })
    const { replanner, hints } = makeReplanner(db, berlinAt('2098c', 3))
    await replanner.runOnce()
    expect((await zonedRow(fixture, id)).scheduled_for).toEqual(at('2026-01-15T12:01'))
    const shard = String(Number.parseInt(id.slice(-2), 16) & 63)
    expect(hints).toContainEqual({ topic: 'timers', key: shard })
  })

  test('finds nothing to do a second time, in few statements', async () => {
    await makeReplanner(db, old).replanner.runOnce()
    await add(berlin, { count: 3 })
    await makeReplanner(db, later).replanner.runOnce()
    const again = makeReplanner(db, later)
    expect(await again.replanner.runOnce()).toBe(0)
    expect(again.events).toEqual([])
    expect(again.replanner.zoneData()).toEqual({ kind: 'same', differing: [] })
    expect(await replans()).toHaveLength(1)
  })

  test('records only what changed when there are no schedules to look at', async () => {
    await makeReplanner(db, old).replanner.runOnce()
    await makeReplanner(db, later).replanner.runOnce()
    expect(await replans()).toEqual([])
    const rows = await fixture.database.sql(
      'SELECT zone, data_version, changed_in FROM belfry.zone_data ORDER BY zone',
    )
    expect(rows).toContainEqual({ zone: berlin, data_version: '2098b', changed_in: '2098b' })
    expect(rows).toContainEqual({ zone: tokyo, data_version: '2098b', changed_in: '2098a' })
  })
})

const everyHour = { cron: '0 * * * *', dialect: 'unix' }

describe('the first start that keeps a record', () => {
  test('replans what older data computed, and nothing of its own', async () => {
    const stale = await add(berlin)
    const own = await add(berlin, { zones: later })
    const before = await zonedRow(fixture, own)
    const { replanner, events } = makeReplanner(db, later)
    expect(await replanner.runOnce()).toBe(1)
    expect(await zonedRow(fixture, stale)).toMatchObject({ scheduled_for: at('2026-01-16T07:00'), gen: 2 })
    expect(await zonedRow(fixture, own)).toEqual(before)
    expect(namesOf(events)).not.toContain('zone_data_changed')
  })
})

describe('what is due', () => {
  const due = at('2026-01-16T08:00')

  test('is left, fires once, and goes on by the new rules', async () => {
    await makeReplanner(db, old).replanner.runOnce()
    const id = await add(berlin)
    await fixture.database.setNow(new Date(due.getTime() + 60_000))
    const { replanner } = makeReplanner(db, later)
    expect(await replanner.runOnce()).toBe(0)
    expect(await zonedRow(fixture, id)).toMatchObject({ scheduled_for: due, gen: 1, timer_gen: 1 })
    expect(await replans()).toMatchObject([{ state: 'running', done: 0 }])

    const node = fixture.node({ zones: later })
    await node.start()
    await until('the due time to fire', async () => (await fixture.occurrences(id)).length > 0)
    await node.stop()
    expect((await fixture.occurrences(id)).map((row) => row.scheduled_for)).toEqual([due])
    expect(await zonedRow(fixture, id)).toMatchObject({ scheduled_for: at('2026-01-17T07:00') })

    await fixture.database.setNow(new Date(due.getTime() + 120_000))
    expect(await replanner.runOnce()).toBe(1)
    expect(await zonedRow(fixture, id)).toMatchObject({ zone_data_version: '2098b', gen: 1 })
    expect(await replans()).toMatchObject([{ state: 'done', done: 1, moved: 0 }])
  })

  test('is left also while it waits for its jitter', async () => {
    await makeReplanner(db, old).replanner.runOnce()
    const id = await add(berlin, { jitterMs: hourMs })
    const before = await zonedRow(fixture, id)
    await fixture.database.setNow(new Date((before.scheduled_for?.getTime() ?? 0) + 1))
    await makeReplanner(db, later).replanner.runOnce()
    expect(await zonedRow(fixture, id)).toEqual(before)
  })
})

describe('a time that the new rules put into the past', () => {
  const morning = new Date('2026-01-16T07:30:00Z')

  test('fires when it was to, and is not fired for the past', async () => {
    await makeReplanner(db, old).replanner.runOnce()
    const [daily, once] = await Promise.all([
      add(berlin),
      add(berlin, { spec: { at: '2026-01-16T09:00:00' } }),
    ])
    await fixture.database.setNow(morning)
    await makeReplanner(db, later).replanner.runOnce()
    for (const id of [daily, once]) {
      const row = await zonedRow(fixture, id)
      expect(row).toMatchObject({ scheduled_for: at('2026-01-16T08:00'), zone_data_version: '2098b', gen: 1 })
      expect(await fixture.occurrences(id)).toEqual([])
    }
  })

  test('is awaited also where something else than the timing was edited since it', async () => {
    await makeReplanner(db, old).replanner.runOnce()
    const id = await add(berlin)
    // as an edit of the description at 08:15 leaves it
    await fixture.database.sql(
      `WITH s AS (
         UPDATE belfry.schedule SET description = 'x', gen = gen + 1, version = version + 1, updated_at = $2
         WHERE id = $1 RETURNING id, gen
       )
       UPDATE belfry.timer SET gen = s.gen FROM s WHERE schedule_id = s.id`,
      [id, at('2026-01-16T07:15')],
    )
    await fixture.database.setNow(morning)
    await makeReplanner(db, later).replanner.runOnce()
    expect(await zonedRow(fixture, id)).toMatchObject({ scheduled_for: at('2026-01-16T08:00'), gen: 2 })
  })

  test.each(['timing_since', 'resumed_at'])('is over where it came before %s', async (column) => {
    await makeReplanner(db, old).replanner.runOnce()
    const id = await add(berlin)
    await fixture.database.sql(`UPDATE belfry.schedule SET ${column} = $2 WHERE id = $1`, [
      id,
      at('2026-01-16T07:15'),
    ])
    await fixture.database.setNow(morning)
    await makeReplanner(db, later).replanner.runOnce()
    expect(await zonedRow(fixture, id)).toMatchObject({ scheduled_for: at('2026-01-17T07:00'), gen: 2 })
  })

  test('is over where it has fired', async () => {
    await makeReplanner(db, old).replanner.runOnce()
    const id = await add(berlin)
    await fixture.database.sql(
      `INSERT INTO belfry.occurrence (schedule_id, scheduled_for, tenant_id, outcome, reason, due_at)
       VALUES ($1, $2, $3, 'skipped', 'overlap', $2)`,
      [id, at('2026-01-16T07:10'), fixture.tenantId],
    )
    await fixture.database.setNow(morning)
    await makeReplanner(db, later).replanner.runOnce()
    expect(await zonedRow(fixture, id)).toMatchObject({ scheduled_for: at('2026-01-17T07:00'), gen: 2 })
  })
})

test('a schedule of which no time is left is completed, or deleted where it is to be', async () => {
  await makeReplanner(db, old).replanner.runOnce()
  const [kept, deleted] = await Promise.all([add(berlin), add(berlin)])
  await fixture.database.sql('UPDATE belfry.schedule SET end_at = $1', [at('2026-01-16T08:30')])
  await fixture.database.sql(`UPDATE belfry.schedule SET after_completion = 'delete' WHERE id = $1`, [
    deleted,
  ])
  await makeReplanner(db, berlinAt('2098b', -1)).replanner.runOnce()
  for (const id of [kept, deleted])
    expect(await zonedRow(fixture, id)).toMatchObject({ state: 'completed', scheduled_for: null, gen: 2 })
  const gone = await fixture.database.sql('SELECT id FROM belfry.schedule WHERE deleted_at IS NOT NULL')
  expect(gone).toEqual([{ id: deleted }])
  expect(await replans()).toMatchObject([{ done: 2, moved: 2 }])
})

test('a schedule that the new data cannot evaluate keeps its time, and is named', async () => {
  await makeReplanner(db, old).replanner.runOnce()
  const id = await add(berlin)
  const before = await zonedRow(fixture, id)
  const without = zonesOf({ version: '2098b', zones: [tokyo] })
  const { replanner, events } = makeReplanner(db, without)
  await replanner.runOnce()
  expect(await zonedRow(fixture, id)).toEqual({ ...before, zone_data_version: '2098b' })
  const [row] = await replans()
  expect(row).toMatchObject({ state: 'done', done: 1, moved: 0, failed: 1 })
  expect(row).toMatchObject({ error: expect.stringContaining(`schedule ${id}: `) as string })
  expect(events.at(-1)).toMatchObject({ name: 'replan_ended', payload: { failed: 1 } })
  expect(await makeReplanner(db, without).replanner.runOnce()).toBe(0)
})

test('five thousand schedules are moved in batches, while others in the zone are made', async () => {
  await makeReplanner(db, old).replanner.runOnce()
  await addZoned(fixture, { zone: berlin, zones: old, afterMs: nowMs, count: 5_000 })
  const { replanner, events } = makeReplanner(db, later)
  const [looked] = await Promise.all([replanner.runOnce(), add(berlin, { zones: later })])
  expect(looked).toBe(5_000)
  expect(namesOf(events).filter((name) => name === 'replan_advanced')).toHaveLength(25)
  expect(await replans()).toMatchObject([{ state: 'done', total: 5_000, done: 5_000, moved: 5_000 }])
  const left = await fixture.database.sql(
    `SELECT s.id FROM belfry.schedule s JOIN belfry.timer t ON t.schedule_id = s.id
     WHERE s.zone_data_version <> '2098b' OR t.scheduled_for <> $1 OR t.gen <> s.gen`,
    [at('2026-01-16T07:00')],
  )
  expect(left).toEqual([])
})
