// Schedules of a changed zone that have no timer, or one that stays: what a batch may write, and that it
// waits for nobody.
import pg from 'pg'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import type { ZoneSource } from '../../packages/server/src/ports/zones.ts'
import { addZoned, berlin, berlinAt, makeReplanner, zonedRow } from '../support/replanning.ts'
import { createSchedulingFixture, type SchedulingFixture } from '../support/scheduling.ts'
import { removeZoneTrees } from '../support/zone-trees.ts'

const now = new Date('2026-01-15T12:00:00Z')
const everyHour = { cron: '0 * * * *', dialect: 'unix' }
let old: ZoneSource
let later: ZoneSource
let fixture: SchedulingFixture

beforeAll(() => {
  old = berlinAt('2098a', 1)
  later = berlinAt('2098b', 2)
})
afterAll(removeZoneTrees)
beforeEach(async () => {
  fixture = await createSchedulingFixture()
  await fixture.database.useVirtualNow(now)
})
afterEach(() => fixture.drop())

const add = async (spec?: object): Promise<string> => {
  const seed = { zone: berlin, zones: old, afterMs: now.getTime(), ...(spec === undefined ? {} : { spec }) }
  const [id = ''] = await addZoned(fixture, seed)
  return id
}
const noTimer = (id: string) => fixture.database.sql('DELETE FROM belfry.timer WHERE schedule_id = $1', [id])
const timingSince = async (id: string) => {
  const [row] = await fixture.database.sql<{ at: Date }>(
    'SELECT timing_since AS at FROM belfry.schedule WHERE id = $1',
    [id],
  )
  return row?.at.toISOString()
}

test('timing_since is counted anew only where a time has changed', async () => {
  await makeReplanner(fixture.database.open(), old).replanner.runOnce()
  const [moves, stays, idle] = [await add(), await add(everyHour), await add()]
  await noTimer(idle)
  await fixture.database.setNow(new Date('2026-01-15T12:10:00Z'))
  await makeReplanner(fixture.database.open(), later).replanner.runOnce()
  const all = await Promise.all([moves, stays, idle].map((id) => zonedRow(fixture, id)))
  expect(all.map((row) => row.zone_data_version)).toEqual(['2098b', '2098b', '2098b'])
  expect(await Promise.all([moves, stays, idle].map(timingSince))).toEqual([
    '2026-01-15T12:10:00.000Z',
    now.toISOString(),
    now.toISOString(),
  ])
})

test('one without a timer that somebody holds is not waited for, and found again', async () => {
  const db = fixture.database.open()
  await makeReplanner(db, old).replanner.runOnce()
  const [idle, moves] = [await add(), await add()]
  await noTimer(idle)
  const holder = new pg.Client(fixture.database.adminConnection)
  await holder.connect()
  try {
    await holder.query('BEGIN')
    await holder.query('SELECT FROM belfry.schedule WHERE id = $1 FOR UPDATE', [idle])
    await makeReplanner(db, later).replanner.runOnce()
    expect(await zonedRow(fixture, moves)).toMatchObject({ zone_data_version: '2098b', gen: 2 })
    expect(await zonedRow(fixture, idle)).toMatchObject({ zone_data_version: '2098a' })
    await holder.query('ROLLBACK')
  } finally {
    await holder.end()
  }
  await makeReplanner(db, later).replanner.runOnce()
  expect(await zonedRow(fixture, idle)).toMatchObject({ zone_data_version: '2098b', gen: 1 })
})

test('one that is paused while its page is worked on is left as it is', async () => {
  const db = fixture.database.open()
  await makeReplanner(db, old).replanner.runOnce()
  const [idle, moves] = [await add(), await add()]
  await noTimer(idle)
  // between the page and the locks: the page names it, and then it is paused
  const pausing: typeof db = {
    ...db,
    transaction: (scope, work) =>
      db.transaction(scope, (tx) =>
        work({
          ...tx,
          async query(statement, params) {
            const rows = await tx.query(statement, params)
            if (statement.name === 'replanning_page_of_zone')
              await fixture.database.sql(`UPDATE belfry.schedule SET state = 'paused' WHERE id = $1`, [idle])
            return rows
          },
        }),
      ),
  }
  const { replanner } = makeReplanner(pausing, later)
  await replanner.runOnce()
  expect(await zonedRow(fixture, moves)).toMatchObject({ zone_data_version: '2098b' })
  expect(await zonedRow(fixture, idle)).toMatchObject({ zone_data_version: '2098a', state: 'paused' })
})
