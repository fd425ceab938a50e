// The preview of a backfill, that is, its dry run: what it counts, which times it shows, what it says about
// what it cannot know, and that it stores nothing.
import type { Backfill, BackfillPreview } from '@belfry/contract'
import { maxPreviewedTimes } from '@belfry/contract'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { TestApi } from '../support/api.ts'
import { backfillOf, type BackfillApi, iso, startBackfillApi } from '../support/backfill-api.ts'
import { hour, hours, noonMs, range } from '../support/backfilling.ts'

let rig: BackfillApi
let t: TestApi
beforeAll(async () => {
  rig = await startBackfillApi()
  t = rig.t
})
afterAll(() => t.close())
beforeEach(() => rig.newSchedule())

describe('a preview', () => {
  const preview = async (body: object): Promise<Backfill & { preview: BackfillPreview }> => {
    const before = await t.counts()
    t.hints.length = 0
    const answer = await rig.create(body, { query: '?dryRun=true' })
    expect([answer.status, answer.body.detail ?? '']).toEqual([201, ''])
    expect(await t.counts()).toEqual(before)
    expect(t.hints).toEqual([])
    const backfill = backfillOf(answer)
    if (backfill.preview === null) throw new Error('a dry run has a preview')
    return { ...backfill, preview: backfill.preview }
  }

  it.each([
    ['none', hours(5, 6, 7, 8, 9, 10)],
    ['failed', hours(1, 2, 5, 6, 7, 8, 9, 10)],
    ['all', hours(0, 1, 2, 4, 5, 6, 7, 8, 9, 10)],
  ] as const)('counts by what is on record, and shows which would run: %s', async (reprocess, expected) => {
    await rig.past('succeeded', 'failed', 'canceled', 'alive', 'succeeded')
    const { total, preview: found } = await preview({ from: iso(hour(0)), reprocess })
    expect(total).toBe(11)
    expect(found).toMatchObject({
      exact: true,
      looked: 11,
      wouldRun: expected.length,
      without: 6,
      excluded: 0,
      leftToSchedule: 0,
      alive: 1,
      succeeded: 2,
      failed: 1,
      canceled: 1,
      unknown: 0,
      notes: [],
    })
    expect([found.first, found.last]).toEqual([expected.map(iso), []])
  })

  it('shows both ends of a long range, in the order of the calendar, whatever its own', async () => {
    const { preview: found } = await preview({ from: '2026-02-20T00:00:00Z', order: 'newest_first' })
    expect(found.first.slice(0, 2)).toEqual(['2026-02-20T00:00:00.000Z', '2026-02-20T01:00:00.000Z'])
    expect(found.last).toEqual(hours(...range(11).slice(1)).map(iso))
  })

  it('says that it looked at some only, and counts at least', async () => {
    await rig.newSchedule({ every: '1m', startAt: '2026-01-01T00:00:00Z' })
    const startedMs = performance.now()
    const { total, preview: found } = await preview({ from: '2026-02-15T00:00:00Z' })
    expect(performance.now() - startedMs).toBeLessThan(5_000)
    expect(total).toBe((noonMs - Date.UTC(2026, 1, 15)) / 60_000 + 1)
    expect(found).toMatchObject({ exact: false, looked: maxPreviewedTimes, wouldRun: maxPreviewedTimes })
    expect(found.first[0]).toBe('2026-02-15T00:00:00.000Z')
    expect(found.last.at(-1)).toBe(iso(noonMs))
  })

  it('says what is no longer on record, and that the schedule is paused', async () => {
    await t.call('POST', `/v1/schedules/${rig.scheduleId}/pause`)
    const { preview: found } = await preview({ from: '2026-01-20T00:00:00Z', to: '2026-01-21T00:00:00Z' })
    expect(found.notes).toEqual([
      expect.stringMatching(/kept for 30 days: what ran before 2026-02-08 is no longer on record/),
      expect.stringMatching(/paused; a backfill runs all the same/),
    ])
  })

  it('tells what calendars leave out, and the backfill leaves it out', async () => {
    // from 04:00 to 06:00: the third and the fourth hour
    const body = { name: 'maintenance', windows: [{ cron: '0 4 * * *', minutes: 120 }] }
    const { body: calendar } = await t.call('POST', '/v1/calendars', { body })
    await rig.newSchedule({ every: '1h', startAt: '2026-01-01T00:00:00Z', skipOn: ['maintenance'] })
    const { total, preview: found } = await preview({ from: iso(hour(0)) })
    expect([total, found.excluded, found.wouldRun]).toEqual([11, 2, 9])
    const first = hours(0, 1, 4, 5, 6, 7, 8, 9, 10).map(iso)
    expect([found.first, found.last]).toEqual([first, []])

    const { id } = await rig.started({ from: iso(hour(0)), concurrency: 3 })
    await rig.backfiller.runOnce()
    expect(await rig.get(id)).toMatchObject({ started: 3, skipped: 2, nextAt: iso(hour(5)) })
    // the calendar as it is when a run is made: the window moves to 08:00
    const change = { windows: [{ cron: '0 8 * * *', minutes: 60 }] }
    const changed = await t.call('PATCH', `/v1/calendars/${calendar.id}`, { body: change })
    expect(changed.status).toBe(200)
    for (let wave = 0; wave < 3; wave++) {
      for (const runId of await rig.aliveRuns()) {
        await rig.worker.claim(runId)
        await rig.worker.end(runId)
      }
      await rig.backfiller.runOnce()
    }
    expect(await rig.get(id)).toMatchObject({ state: 'completed', started: 8, skipped: 3 })
    const rows = await t.database.sql<{ at: Date }>(
      'SELECT scheduled_for AS at FROM belfry.run WHERE schedule_id = $1 ORDER BY 1',
      [rig.scheduleId],
    )
    expect(rows.map(({ at }) => at.getTime())).toEqual(hours(0, 1, 4, 5, 7, 8, 9, 10))
  })

  it('says that there is nothing', async () => {
    const { total, preview: found } = await preview({ from: iso(hour(0) + 1), to: iso(hour(1)) })
    expect([total, found.wouldRun, found.first, found.last]).toEqual([0, 0, [], []])
    expect(found.notes).toEqual(['No planned time lies in this range.'])
  })
})
