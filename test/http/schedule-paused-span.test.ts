// What a pause passed over, where backfills have put some of it on record meanwhile: the rows that the pause
// leaves stand for exactly the planned times that have none, whatever ends the paused span.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { TestApi } from '../support/api.ts'
import { type BackfillApi, iso, startBackfillApi } from '../support/backfill-api.ts'

const minuteMs = 60_000
let rig: BackfillApi
let t: TestApi
/** A full minute, a little after which the next schedule is made and paused. */
let startMs = Date.UTC(2026, 2, 10, 12)
beforeAll(async () => {
  rig = await startBackfillApi()
  t = rig.t
})
afterAll(() => t.close())

const minute = (index: number): number => startMs + index * minuteMs
/** Times of the plan in the paused span. */
const spanMinutes = 600

/** A schedule of each minute that is paused for the span; back at its end. */
async function paused(timing: object = { every: '1m', startAt: '2026-01-01T00:00:00Z' }): Promise<string> {
  startMs += 24 * 60 * minuteMs
  await t.database.useVirtualNow(new Date(startMs + 30_000))
  await rig.newSchedule(timing)
  const { status } = await t.call('POST', `/v1/schedules/${rig.scheduleId}/pause`, { body: { reason: 'x' } })
  expect(status).toBe(200)
  await t.database.useVirtualNow(new Date(minute(spanMinutes) + 30_000))
  return rig.scheduleId
}

/** Runs for the minutes [first, last) of the span. */
async function backfilled(first: number, last: number): Promise<void> {
  await rig.started({ from: iso(minute(first)), to: iso(minute(last)), concurrency: 100 })
  await rig.backfiller.runOnce()
}

type Row = {
  readonly at: Date
  readonly outcome: string
  readonly reason: string | null
  readonly count: number
}
const rowsOf = (id: string): Promise<Row[]> =>
  t.database.sql<Row>(
    `SELECT scheduled_for AS at, outcome, reason, missed_count::int AS count FROM belfry.occurrence
     WHERE schedule_id = $1 ORDER BY scheduled_for`,
    [id],
  )
const sumsOf = (rows: readonly Row[]) =>
  rows.filter(({ count }) => count > 1).map(({ at, count }) => [(at.getTime() - startMs) / minuteMs, count])
const countOf = (rows: readonly Row[]) => rows.reduce((sum, { count }) => sum + count, 0)
const ranIn = (rows: readonly Row[]) => rows.filter(({ outcome }) => outcome === 'ran').length

describe('after a backfill while it was paused', () => {
  it('of the first times, a resume sums up from the first one without a row', async () => {
    const id = await paused()
    await backfilled(1, 3)
    expect((await t.call('POST', `/v1/schedules/${id}/resume`, { body: {} })).status).toBe(200)
    const rows = await rowsOf(id)
    expect(sumsOf(rows)).toEqual([[3, 548]])
    expect([countOf(rows), ranIn(rows)]).toEqual([spanMinutes, 2])
  })

  it('of times in the middle and of the newest, the sum leaves them out', async () => {
    const id = await paused()
    await backfilled(1, 11)
    await backfilled(100, 140)
    await backfilled(590, 601)
    expect((await t.call('POST', `/v1/schedules/${id}/resume`, { body: {} })).status).toBe(200)
    const rows = await rowsOf(id)
    expect(sumsOf(rows)).toEqual([[11, 500]])
    expect([countOf(rows), ranIn(rows)]).toEqual([spanMinutes, 61])
  })

  it('of all but the newest times, nothing is summed up', async () => {
    const id = await paused({ every: '10m', startAt: '2026-01-01T00:00:00Z' })
    await backfilled(1, 200)
    expect((await t.call('POST', `/v1/schedules/${id}/resume`, { body: {} })).status).toBe(200)
    const rows = await rowsOf(id)
    expect(rows.map(({ outcome, count }) => `${outcome} ${count}`)).toEqual([
      ...Array.from({ length: 19 }, () => 'ran 1'),
      ...Array.from({ length: 41 }, () => 'skipped 1'),
    ])
  })

  it('of all but one of the older times, that one gets a row of its own', async () => {
    const id = await paused({ every: '10m', startAt: '2026-01-01T00:00:00Z' })
    await backfilled(1, 100)
    expect((await t.call('POST', `/v1/schedules/${id}/resume`, { body: {} })).status).toBe(200)
    const rows = await rowsOf(id)
    expect([countOf(rows), rows.length, ranIn(rows)]).toEqual([60, 60, 9])
  })

  it('a deletion and an edit of the timing leave the same', async () => {
    for (const end of ['delete', 'edit']) {
      const id = await paused()
      await backfilled(1, 3)
      const answer =
        end === 'delete'
          ? await t.call('DELETE', `/v1/schedules/${id}`)
          : await t.call('PATCH', `/v1/schedules/${id}`, { body: { every: '1h' } })
      expect(answer.status).toBeLessThan(300)
      const rows = await rowsOf(id)
      expect(sumsOf(rows)).toEqual([[3, 548]])
      expect(countOf(rows)).toBe(spanMinutes)
    }
  })

  it('a cron plan in a zone counts the same', async () => {
    const id = await paused({ cron: '* * * * *', zone: 'Europe/Berlin' })
    await backfilled(1, 3)
    await backfilled(4, 7)
    expect((await t.call('POST', `/v1/schedules/${id}/resume`, { body: {} })).status).toBe(200)
    const rows = await rowsOf(id)
    expect(sumsOf(rows)).toEqual([[3, 545]])
    expect(countOf(rows)).toBe(spanMinutes)
  })
})

it('a step of a backfill at the same moment comes before the resume or sees its rows', async () => {
  const id = await paused()
  await rig.started({ from: iso(minute(1)), to: iso(minute(3)), concurrency: 10 })
  const [resumed] = await Promise.all([
    t.call('POST', `/v1/schedules/${id}/resume`, { body: {} }),
    rig.backfiller.runOnce(),
  ])
  expect(resumed.status).toBe(200)
  const rows = await rowsOf(id)
  const [[at, count] = []] = sumsOf(rows)
  // the sum of the first case, or the one that nothing was on record for
  expect([`3 548`, `1 550`]).toContain(`${at} ${count}`)
})

it.each(['terminate_other', 'cancel_other', 'skip', 'buffer_one'])(
  '%s: a run that a backfill made meanwhile is none that the next planned time minds',
  async (overlap) => {
    const id = await paused({ every: '1m', startAt: '2026-01-01T00:00:00Z', overlap })
    await backfilled(spanMinutes, spanMinutes + 1)
    const [alive = ''] = await rig.aliveRuns()
    expect(alive).not.toBe('')
    expect((await t.call('POST', `/v1/schedules/${id}/resume`, { body: {} })).status).toBe(200)
    const [timer] = await t.database.sql<{ last_run_id: string | null }>(
      'SELECT last_run_id FROM belfry.timer WHERE schedule_id = $1',
      [id],
    )
    expect(timer).toEqual({ last_run_id: null })
    await rig.worker.claim(alive)
    await rig.worker.end(alive, { outcome: 'succeeded', state: 'succeeded' })
  },
)
