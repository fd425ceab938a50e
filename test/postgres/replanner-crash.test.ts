// The process ends between any two steps of a replan: at every point of its way to the database, one after
// the other, each time with another process that goes on. Whatever the point, every schedule moves exactly
// once in the end, and the counts agree with what is there.
import { afterAll, beforeAll, expect, test } from 'vitest'
import { dyingDatabase, ProcessEnded } from '../support/backfilling.ts'
import { realClock } from '../support/real-clock.ts'
import { addZoned, makeReplanner, zonedRow } from '../support/replanning.ts'
import { createSchedulingFixture, type SchedulingFixture } from '../support/scheduling.ts'
import { fixedZone, removeZoneTrees, zonesOf } from '../support/zone-trees.ts'

const zone = 'Europe/Berlin'
const now = new Date('2026-01-15T12:00:00Z')
/** Three batches of two, and the last that finds nothing. */
const schedules = 5
const batchSize = 2
/** More points than the whole has: past the last, nobody dies. */
const mostPoints = 200

const berlinAt = (version: string, hours: number) =>
  zonesOf({ version, zones: [zone], altered: { [zone]: fixedZone(hours) } })
const old = berlinAt('2098a', 1)
const later = berlinAt('2098b', 2)

let fixture: SchedulingFixture

beforeAll(async () => {
  fixture = await createSchedulingFixture()
  await fixture.database.useVirtualNow(now)
})
afterAll(async () => {
  await fixture.drop()
  removeZoneTrees()
})

async function arranged(): Promise<string[]> {
  await fixture.database.sql(
    'TRUNCATE belfry.zone_data, belfry.replan, belfry.timer, belfry.schedule CASCADE',
  )
  await makeReplanner(fixture.database.open({ maxConnections: 1 }), old).replanner.runOnce()
  return addZoned(fixture, { zone, zones: old, afterMs: now.getTime(), count: schedules })
}

/** So many processes live so long; those after them do not end. */
function* lives(lifetime: number, count: number): Generator<number, undefined> {
  for (let life = 0; life < count; life++) yield lifetime
  return undefined
}

/** Each process lives up to so many points, and a new one follows it; answers how many ended. */
async function workOff(lifetimes: Iterator<number, undefined>): Promise<number> {
  const db = fixture.database.open({ maxConnections: 2 })
  try {
    let deaths = 0
    for (let process = 0; process < 2 * mostPoints; process++) {
      const lifetime = lifetimes.next().value ?? Number.POSITIVE_INFINITY
      const { replanner } = makeReplanner(dyingDatabase(db, lifetime), later, { batchSize })
      const died: boolean = await replanner.runOnce().then(
        () => false,
        (error: unknown) => {
          if (hasEnded(error)) return true
          throw error
        },
      )
      if (died) deaths++
      else if (await isDone()) return deaths
      else await realClock.sleep(5)
    }
    throw new Error('the replan does not end')
  } finally {
    await db.close()
  }
}

/** For a moment the database may still believe that the dead process lives, and hold what it held. */
async function isDone(): Promise<boolean> {
  const rows = await fixture.database.sql("SELECT FROM belfry.replan WHERE state <> 'done'")
  return rows.length === 0
}

/** Within a transaction the connection goes with it, and the error comes as that of the connection. */
function hasEnded(error: unknown): boolean {
  return error instanceof ProcessEnded || (error instanceof Error && error.cause instanceof ProcessEnded)
}

async function check(ids: readonly string[], what: string): Promise<void> {
  for (const id of ids) {
    const moved = { gen: 2, timer_gen: 2, version: 2, zone_data_version: '2098b' }
    expect(await zonedRow(fixture, id), what).toMatchObject({
      ...moved,
      scheduled_for: new Date('2026-01-16T07:00:00Z'),
    })
  }
  const replans = await fixture.database.sql(
    `SELECT state, total::int AS total, done::int AS done, moved::int AS moved, failed::int AS failed
     FROM belfry.replan`,
  )
  const counts = { total: schedules, done: schedules, moved: schedules, failed: 0 }
  expect(replans, what).toEqual([{ state: 'done', ...counts }])
}

test('one process ends at any point, another goes on', async () => {
  for (let point = 1; point <= mostPoints; point++) {
    const ids = await arranged()
    const deaths = await workOff(lives(point, 1))
    await check(ids, `a process ended at point ${point}`)
    if (deaths > 0) continue
    expect(point).toBeGreaterThan(50)
    return
  }
  throw new Error(`the replan has more than ${mostPoints} points`)
})

test('every process ends after some points, and the work is done', async () => {
  for (const lifetime of [37, 45]) {
    const ids = await arranged()
    expect(
      await workOff(lives(lifetime, mostPoints)),
      `processes that live ${lifetime} points`,
    ).toBeGreaterThan(1)
    await check(ids, `processes that live ${lifetime} points`)
  }
})
