// The process ends between any two steps of a backfill: at every point of its way to the database, one after
// the other, each time with another process that goes on. Whatever the point, every planned time has exactly
// one run in the end, and the counts agree with what is there.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { BackfillFixture } from '../support/backfilling.ts'
import {
  createBackfillFixture,
  dyingDatabase,
  firstHourMs as fromMs,
  ProcessEnded,
} from '../support/backfilling.ts'

const hourMs = 3_600_000
/** Planned times in the range; the second has run, and the third was missed. */
const planned = 5
const expected = [0, 2, 3, 4].map((index) => fromMs + index * hourMs)
/** More points than one run of the whole has: past the last, nobody dies. */
const mostPoints = 200

let fixture: BackfillFixture

beforeAll(async () => {
  fixture = await createBackfillFixture()
})
afterAll(() => fixture.drop())

async function arranged(): Promise<{ scheduleId: string; id: string }> {
  const scheduleId = await fixture.hourly()
  await fixture.addRun(scheduleId, fromMs + hourMs, { by: 'schedule', endedAs: 'succeeded' })
  await fixture.database.sql(
    `INSERT INTO belfry.occurrence (schedule_id, scheduled_for, tenant_id, outcome, reason, due_at)
     VALUES ($1, $2, $3, 'missed', 'catch_up_latest', $2)`,
    [scheduleId, new Date(fromMs + 2 * hourMs), fixture.tenantId],
  )
  const toMs = fromMs + planned * hourMs
  return { scheduleId, id: await fixture.backfill(scheduleId, { fromMs, toMs, concurrency: 2 }) }
}

/**
 * Works the backfill off; each process lives up to `lifetime` points, and a new one follows it. Between
 * rounds one run ends, as in a worker that knows nothing of this. Answers how many processes ended.
 */
async function workOff(
  { scheduleId, id }: { scheduleId: string; id: string },
  lifetimes: Iterator<number>,
): Promise<number> {
  const process = () => {
    const next = lifetimes.next()
    return fixture.backfiller({ db: dyingDatabase(fixture.db, next.done === true ? Infinity : next.value) })
  }
  let present = process()
  let deaths = 0
  for (let round = 0; round < 2 * mostPoints; round++) {
    try {
      await present.runOnce()
      if ((await fixture.read(id)).endedAtMs !== null) return deaths
    } catch (error) {
      if (!hasEnded(error)) throw error
      deaths++
      present = process()
    }
    const [first] = (await fixture.alive(scheduleId)).map((row) => row.run_id)
    if (first !== undefined) await fixture.end([first], 'succeeded')
  }
  throw new Error('the backfill does not end')
}

/** Within a transaction the connection goes with it, and the error comes as that of the connection. */
function hasEnded(error: unknown): boolean {
  return error instanceof ProcessEnded || (error instanceof Error && error.cause instanceof ProcessEnded)
}

async function check({ scheduleId, id }: { scheduleId: string; id: string }, what: string): Promise<void> {
  const made = (await fixture.ran(scheduleId)).filter((row) => row.source === 'backfill')
  expect(
    made.map((row) => row.at),
    what,
  ).toEqual(expected)
  expect(await fixture.read(id), what).toMatchObject({
    state: 'completed',
    total: planned,
    started: 4,
    skipped: 1,
    alive: 0,
    nextAtMs: null,
    succeeded: 4,
    failed: 0,
    canceled: 0,
  })
  const outcomes = (await fixture.occurrences(scheduleId)).map((row) => row.outcome)
  expect(outcomes, what).toEqual(['ran', 'ran', 'missed', 'ran', 'ran'])
  const [left] = await fixture.database.sql<{ count: number }>(
    `SELECT count(*)::int AS count FROM belfry.extra_run
     WHERE backfill_id = $1 AND (ended_as IS NULL OR run_id NOT IN (SELECT id FROM belfry.run))`,
    [id],
  )
  expect(left?.count, what).toBe(0)
}

const once = (lifetime: number): Iterator<number> => [lifetime].values()

describe('a process that ends', () => {
  test('at any one point: nothing is lost and nothing runs twice', { timeout: 120_000 }, async () => {
    let points = 0
    for (let point = 1; point <= mostPoints; point++) {
      const subject = await arranged()
      const deaths = await workOff(subject, once(point))
      await check(subject, `the process ended at point ${point}`)
      if (deaths === 0) break
      points++
    }
    // every transaction has a beginning, two points a statement, one before and one after its commit
    expect(points).toBeGreaterThan(40)
    expect(points).toBeLessThan(mostPoints)
  })

  test('again and again, every one after a few points more', { timeout: 120_000 }, async () => {
    for (const growth of [1, 2, 3]) {
      const subject = await arranged()
      const growing = (function* () {
        for (let lifetime = 1; ; lifetime += growth) yield lifetime
      })()
      expect(await workOff(subject, growing)).toBeGreaterThan(5)
      await check(subject, `each process lived ${growth} points longer than the one before`)
    }
  })
})
