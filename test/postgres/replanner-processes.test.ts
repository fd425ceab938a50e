// Replans among several processes on a real database: at once, beside ones with older data, past what fails
// and what somebody else holds.
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
import { fixedZone, removeZoneTrees, zonesOf } from '../support/zone-trees.ts'

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

describe('several processes', () => {
  test('at once move each schedule once', async () => {
    await makeReplanner(db, old).replanner.runOnce()
    const ids = await addZoned(fixture, { zone: berlin, zones: old, afterMs: nowMs, count: 120 })
    const nodes = Array.from({ length: 3 }, () =>
      makeReplanner(fixture.database.open(), later, { batchSize: 7 }),
    )
    const looked = await Promise.all(nodes.map(({ replanner }) => replanner.runOnce()))
    // one that finds the replan taken by another has nothing to do; whoever is left finishes it
    const rest = await nodes[0]?.replanner.runOnce()
    expect(looked.reduce((sum, count) => sum + count, rest ?? 0)).toBe(ids.length)
    for (const id of ids)
      expect(await zonedRow(fixture, id)).toMatchObject({ gen: 2, version: 2, zone_data_version: '2098b' })
    expect(await replans()).toMatchObject([{ state: 'done', done: 120, moved: 120 }])
    const changed = nodes.flatMap(({ events }) => events).filter(({ name }) => name === 'zone_data_changed')
    expect(changed).toHaveLength(1)
  })

  test('with older data change nothing, and say so', async () => {
    await makeReplanner(db, later).replanner.runOnce()
    const id = await add(berlin, { zones: later })
    const before = await zonedRow(fixture, id)
    const { replanner, events } = makeReplanner(db, old)
    expect(await replanner.runOnce()).toBe(0)
    expect(await zonedRow(fixture, id)).toEqual(before)
    expect(events).toMatchObject([
      { name: 'zone_data_differs', payload: { version: '2098a', newest: '2098b', zones: [berlin] } },
    ])
    const newest = await fixture.database.sql('SELECT max(data_version) AS newest FROM belfry.zone_data')
    expect(newest).toEqual([{ newest: '2098b' }])
  })

  test('with older data leave an open replan to those that are new enough', async () => {
    await makeReplanner(db, old).replanner.runOnce()
    const [id = ''] = await addZoned(fixture, { zone: berlin, zones: old, afterMs: nowMs })
    await makeReplanner(dying(db, 'replanning_take'), later)
      .replanner.runOnce()
      .catch(() => undefined)
    expect(await replans()).toMatchObject([{ state: 'pending' }])
    expect(await makeReplanner(db, old).replanner.runOnce()).toBe(0)
    expect(await replans()).toMatchObject([{ state: 'pending' }])
    expect(await makeReplanner(db, later).replanner.runOnce()).toBe(1)
    expect(await zonedRow(fixture, id)).toMatchObject({ scheduled_for: at('2026-01-16T07:00') })
  })

  test('of which an older one fires: what it computed is computed again', async () => {
    await makeReplanner(db, old).replanner.runOnce()
    const id = await add(berlin)
    await makeReplanner(db, later).replanner.runOnce()
    const due = at('2026-01-16T07:00')
    await fixture.database.setNow(new Date(due.getTime() + 1_000))
    const node = fixture.node({ zones: old })
    await node.start()
    await until('the older node to fire', async () => (await fixture.occurrences(id)).length > 0)
    await node.stop()
    // 08:00 of the same day, by the old rules
    const wrong = { scheduled_for: at('2026-01-16T08:00'), zone_data_version: '2098a' }
    expect(await zonedRow(fixture, id)).toMatchObject(wrong)

    expect(await makeReplanner(db, later).replanner.runOnce()).toBe(1)
    const right = { scheduled_for: at('2026-01-17T07:00'), zone_data_version: '2098b' }
    expect(await zonedRow(fixture, id)).toMatchObject(right)
    expect(await replans()).toMatchObject([{ state: 'done', done: 2, moved: 2 }])
  })

  test('with newer data still supersede a replan that is not done', async () => {
    await makeReplanner(db, old).replanner.runOnce()
    const id = await add(berlin)
    await makeReplanner(dying(db, 'replanning_take'), later)
      .replanner.runOnce()
      .catch(() => undefined)
    const { replanner, events } = makeReplanner(db, berlinAt('2098c', 3))
    expect(await replanner.runOnce()).toBe(1)
    expect(await zonedRow(fixture, id)).toMatchObject({ scheduled_for: at('2026-01-16T06:00') })
    expect(await replans()).toMatchObject([
      { to_version: '2098b', state: 'superseded', done: 0 },
      { to_version: '2098c', from_version: '2098a', state: 'done', done: 1 },
    ])
    expect(namesOf(events).filter((name) => name === 'replan_ended')).toHaveLength(2)
  })
})

/** The process ends when it comes to a statement of this name. */
function dying(db: Database, name: string): Database {
  return {
    ...db,
    transaction: (scope, work) =>
      db.transaction(scope, (tx) =>
        work({
          query: (statement, params) =>
            statement.name === name
              ? Promise.reject(new Error('the process ended'))
              : tx.query(statement, params),
          atEnd: tx.atEnd,
        }),
      ),
  }
}

test('a batch that fails holds up no other replan, and is tried again later', async () => {
  await makeReplanner(db, old).replanner.runOnce()
  const [first, second] = await Promise.all([add(berlin), add(tokyo)])
  const both = zonesOf({
    version: '2098b',
    zones: [berlin, tokyo],
    altered: { [berlin]: fixedZone(2), [tokyo]: fixedZone(8) },
  })
  const faulty: Database = {
    ...db,
    transaction: (scope, work) =>
      db.transaction(scope, (tx) =>
        work({
          query: (statement, params) =>
            statement.name === 'replanning_page_of_zone' && params[0] === berlin
              ? Promise.reject(new Error('something about Berlin'))
              : tx.query(statement, params),
          atEnd: tx.atEnd,
        }),
      ),
  }
  const { replanner } = makeReplanner(faulty, both)
  await until('the other one to be done', async () => {
    await replanner.runOnce().catch(() => undefined)
    return (await zonedRow(fixture, second)).gen === 2
  })
  expect(await zonedRow(fixture, first)).toMatchObject({ gen: 1 })
  expect(await replans()).toMatchObject([{ subject: berlin }, { subject: tokyo }])
  await makeReplanner(db, both).replanner.runOnce()
  expect(await zonedRow(fixture, first)).toMatchObject({ gen: 1 })
  await fixture.database.setNow(new Date(nowMs + 60_000))
  await makeReplanner(db, both).replanner.runOnce()
  expect(await zonedRow(fixture, first)).toMatchObject({ gen: 2 })
})

describe('a schedule that somebody else holds', () => {
  test('is waited for alone, and the cursor does not pass it', async () => {
    await makeReplanner(db, old).replanner.runOnce()
    const ids = (await addZoned(fixture, { zone: berlin, zones: old, afterMs: nowMs, count: 5 })).sort()
    const [, , held = ''] = ids
    const lock = await fixture.database.hold(
      `SELECT 1 FROM belfry.timer WHERE schedule_id = '${held}' FOR UPDATE`,
    )
    await lock.take()
    const running = makeReplanner(db, later).replanner.runOnce()
    await until('the replan to wait for it', async () => (await fixture.database.waiting()) > 0)
    const rows = await Promise.all(ids.map((id) => zonedRow(fixture, id)))
    expect(rows.map(({ gen }) => gen)).toEqual([2, 2, 1, 1, 1])
    await lock.release()
    expect(await running).toBe(5)
    for (const id of ids) expect(await zonedRow(fixture, id)).toMatchObject({ gen: 2 })
  })
})
