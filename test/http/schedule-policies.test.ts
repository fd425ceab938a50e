// Settings of a schedule beside its timing: what is taken, what an edit of them moves and what it leaves
// alone, how a limit ends and starts anew, and a stored timing that nobody can read.
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { startScheduledApi, type ScheduledApi } from '../support/scheduled-api.ts'

let t: ScheduledApi
const start = Date.parse('2026-06-01T12:00:00.000Z')
beforeAll(async () => {
  t = await startScheduledApi(start)
})
afterAll(() => t.close())

let nowMs = start
/** Each test begins at a full hour of its own, with everything that was due fired. */
beforeEach(async () => {
  await t.database.sql('DELETE FROM belfry.timer')
  const toHourMs = 3_600_000 - ((nowMs - start) % 3_600_000)
  await pass(toHourMs)
})
const pass = async (ms: number) => {
  await t.go(ms)
  nowMs += ms
}
const at = (ms: number) => new Date(nowMs + ms).toISOString()
const get = async (id: string) => (await t.call('GET', `/v1/schedules/${id}`)).body
const timers = (id: string) =>
  t.database.sql<{ scheduled_for: Date; due_at: Date }>(
    'SELECT scheduled_for, due_at FROM belfry.timer WHERE schedule_id = $1',
    [id],
  )
/** Ends whatever is alive, so that no run stands in the way of the next. */
const endRuns = () => t.database.sql('DELETE FROM belfry.ready')

describe('what is taken', () => {
  it('defaults are said in the answer', async () => {
    expect(await get(await t.make({ every: '1h' }))).toMatchObject({
      jitterMs: 0,
      flexibleWindowMs: 0,
      catchUp: { policy: 'latest', windowMs: 365 * 86_400_000, maxRuns: 100 },
      overlap: 'skip',
      runLimit: null,
      runCount: 0,
      pauseAfterFailures: null,
      afterCompletion: 'keep',
      resumedAt: null,
      sleepUntil: null,
      sleepReason: null,
    })
  })

  it('another pauseAfterFailures counts from now on, and is no resume', async () => {
    const id = await t.make({ every: '1h', pauseAfterFailures: 2 })
    const columns = () =>
      t.database.sql<{ resumed_at: Date | null; failures_since: Date | null }>(
        'SELECT resumed_at, failures_since FROM belfry.schedule WHERE id = $1',
        [id],
      )
    expect(await columns()).toEqual([{ resumed_at: null, failures_since: null }])
    expect((await t.patch(id, { pauseAfterFailures: 3 })).body.resumedAt).toBeNull()
    const editedAt = new Date(nowMs)
    expect(await columns()).toEqual([{ resumed_at: null, failures_since: editedAt }])
    await pass(60_000)
    await t.patch(id, { description: 'the same limit' })
    expect(await columns()).toEqual([{ resumed_at: null, failures_since: editedAt }])
    await t.act(id, 'pause')
    await t.act(id, 'resume')
    expect(await columns()).toEqual([{ resumed_at: new Date(nowMs), failures_since: new Date(nowMs) }])
  })

  it.each(['skip', 'allow', 'buffer_one', 'buffer_all', 'cancel_other', 'terminate_other'])(
    'overlap %s, by create and by update, in lists too',
    async (overlap) => {
      const settings = { overlap, runLimit: 7, pauseAfterFailures: 3, afterCompletion: 'delete' }
      const id = await t.make({ every: '1h', flexibleWindowMs: 60_000, ...settings })
      expect(await get(id)).toMatchObject({ ...settings, flexibleWindowMs: 60_000 })
      const other = await t.make({ every: '1h' })
      expect((await t.patch(other, settings)).body).toMatchObject(settings)
      const { body } = await t.call('GET', '/v1/schedules?limit=2')
      expect(body.items).toMatchObject([settings, settings])
    },
  )

  it.each([
    [{ jitterMs: 1, flexibleWindowMs: 1 }, '/flexibleWindowMs'],
    [{ flexibleWindowMs: 86_400_001 }, '/flexibleWindowMs'],
    [{ flexibleWindowMs: null }, '/flexibleWindowMs'],
    [{ runLimit: 0 }, '/runLimit'],
    [{ runLimit: 1_000_001 }, '/runLimit'],
    [{ pauseAfterFailures: 101 }, '/pauseAfterFailures'],
    [{ pauseAfterFailures: 1.5 }, '/pauseAfterFailures'],
    [{ afterCompletion: 'drop' }, '/afterCompletion'],
    [{ overlap: 'queue' }, '/overlap'],
  ])('%j is refused by create and by update', async (settings, pointer) => {
    const refusal = { status: 400, code: 'invalid_request', errors: [{ pointer }] }
    const body = { name: 'refused', job: 'work', every: '1h', ...settings }
    expect((await t.call('POST', '/v1/schedules', { body })).body).toMatchObject(refusal)
    expect((await t.patch(await t.make({ every: '1h' }), settings)).body).toMatchObject(refusal)
  })

  it('a jitter is refused beside a flexible window that is there, until that is taken away', async () => {
    const id = await t.make({ every: '1h', flexibleWindowMs: 60_000 })
    const refused = await t.patch(id, { jitterMs: 1_000 })
    expect(refused.body).toMatchObject({ status: 400, code: 'invalid_schedule' })
    expect(refused.body.errors[0]).toMatchObject({ pointer: '/flexibleWindowMs' })
    expect(refused.body.errors[0]?.message).toContain('set one of them to 0')
    expect((await t.patch(id, { jitterMs: 1_000, flexibleWindowMs: 0 })).status).toBe(200)
  })
})

describe('an edit', () => {
  it('of policies alone moves no time, and null takes limits away', async () => {
    const id = await t.make({ every: '10m' })
    const [before] = await timers(id)
    await pass(120_000)
    const settings = { overlap: 'buffer_all', runLimit: 5, pauseAfterFailures: 2, afterCompletion: 'delete' }
    const edited = await t.patch(id, { ...settings, catchUp: { windowMs: 60_000 } })
    expect(edited.body).toMatchObject({ ...settings, nextAt: before?.scheduled_for.toISOString() })
    expect(await timers(id)).toEqual([before])
    const cleared = await t.patch(id, { runLimit: null, pauseAfterFailures: null })
    expect(cleared.body).toMatchObject({ runLimit: null, pauseAfterFailures: null, overlap: 'buffer_all' })
    expect(await timers(id)).toEqual([before])
  })

  it('of the flexible window moves the start, each by the same, and keeps the planned time', async () => {
    const id = await t.make({ every: '1h' })
    expect((await t.patch(id, { flexibleWindowMs: 1_800_000 })).body.nextAt).toBe(at(3_600_000))
    const [timer] = await timers(id)
    const delayMs = (timer?.due_at.getTime() ?? 0) - (timer?.scheduled_for.getTime() ?? 0)
    expect(delayMs).toBeGreaterThan(0)
    expect(delayMs).toBeLessThan(1_800_000)
    await pass(3_600_000 + delayMs)
    expect(await t.runsOf(id)).toBe(1)
    const [next] = await timers(id)
    expect((next?.due_at.getTime() ?? 0) - (next?.scheduled_for.getTime() ?? 0)).toBe(delayMs)
  })

  it('of a rule for clock changes takes away one of the two, or both', async () => {
    const id = await t.make({ cron: '30 2 * * 1', dst: { gap: 'skip', overlap: 'both' }, dayMatch: 'and' })
    expect((await t.patch(id, { dst: { gap: null } })).body).toMatchObject({ dst: { overlap: 'both' } })
    expect((await t.patch(id, { dst: { overlap: null } })).body).toMatchObject({ dst: null })
    expect((await t.patch(id, { dst: { gap: 'skip' } })).body).toMatchObject({ dst: { gap: 'skip' } })
    expect((await t.patch(id, { dst: null, dayMatch: null })).body).toMatchObject({
      dst: null,
      dayMatch: null,
    })
    const preview = { scheduleId: id, dst: { gap: null, overlap: 'first' } }
    expect((await t.call('POST', '/v1/schedules/preview', { body: preview })).status).toBe(200)
    const fresh = { cron: '30 2 * * *', dst: { gap: null } }
    expect((await t.call('POST', '/v1/schedules/preview', { body: fresh })).status).toBe(200)
  })
})

describe('a run limit', () => {
  /** Runs until it is completed by its limit. */
  async function spent(more: object = {}): Promise<string> {
    const id = await t.make({ every: '10m', overlap: 'allow', runLimit: 2, ...more })
    await pass(600_000)
    await pass(600_000)
    await endRuns()
    return id
  }

  it('completes after so many runs, and tells how many there were', async () => {
    const id = await t.make({ every: '10m', overlap: 'allow', runLimit: 2 })
    await pass(600_000)
    expect(await get(id)).toMatchObject({ state: 'active', runCount: 1 })
    await pass(600_000)
    expect(await get(id)).toMatchObject({ state: 'completed', runCount: 2, nextAt: null })
    await pass(600_000)
    expect(await t.runsOf(id)).toBe(2)
  })

  it('another one counts from 0, and the same one changes nothing', async () => {
    const id = await t.make({ every: '10m', overlap: 'allow', runLimit: 5 })
    await pass(600_000)
    const same = await t.patch(id, { runLimit: 5 })
    expect([same.body.runCount, same.headers['etag']]).toEqual([1, '"1"'])
    expect((await t.patch(id, { runLimit: 6 })).body).toMatchObject({ runLimit: 6, runCount: 0 })
    expect((await t.patch(id, { runLimit: null })).body).toMatchObject({ runLimit: null, runCount: 0 })
  })

  it('another one lets a schedule that the limit completed go on, strictly after now', async () => {
    const id = await spent()
    await pass(60_000)
    const more = await t.patch(id, { runLimit: 3 })
    expect(more.body).toMatchObject({ state: 'active', runCount: 0, nextAt: at(540_000) })
    await pass(540_000)
    expect(await t.runsOf(id)).toBe(3)
    expect((await t.patch(await spent(), { runLimit: null })).body).toMatchObject({ state: 'active' })
  })

  it('another one leaves it completed where no time is left', async () => {
    const id = await spent({ endAt: at(1_500_000) })
    await pass(600_000)
    expect((await t.patch(id, { runLimit: 3 })).body).toMatchObject({ state: 'completed', runLimit: 3 })
    expect(await timers(id)).toEqual([])
  })

  it('does not wake what something else completed', async () => {
    const id = await t.make({ at: at(60_000), runLimit: 5 })
    await pass(60_000)
    expect((await t.patch(id, { runLimit: 6 })).body).toMatchObject({ state: 'completed', nextAt: null })
  })

  it('a new timing lets it go on, with a new count', async () => {
    const edited = await t.patch(await spent(), { every: '20m' })
    expect(edited.body).toMatchObject({ state: 'active', runCount: 0, runLimit: 2 })
  })

  it('an edit of anything else leaves it completed', async () => {
    const edited = await t.patch(await spent(), { description: 'done', overlap: 'skip' })
    expect(edited.body).toMatchObject({ state: 'completed', runCount: 2, description: 'done' })
  })
})

describe('after completion', () => {
  it('delete: it is gone, its history stays, its name is free', async () => {
    const body = { name: 'once', at: at(60_000), afterCompletion: 'delete' }
    const id = await t.make(body)
    await pass(60_000)
    expect((await t.call('GET', `/v1/schedules/${id}`)).status).toBe(404)
    expect(await t.ledger(id)).toEqual([`${at(0).slice(11, 19)} ran`])
    await t.make({ ...body, at: at(60_000) })
  })

  it('keep is the default: it stays as completed', async () => {
    const id = await t.make({ at: at(60_000) })
    await pass(60_000)
    expect(await get(id)).toMatchObject({ state: 'completed', afterCompletion: 'keep' })
  })
})

describe('a stored timing that this version cannot read', () => {
  async function damaged(): Promise<string> {
    const id = await t.make({ every: '1h' })
    const sql = `UPDATE belfry.schedule SET spec = '{"moon": "full"}' WHERE id = $1`
    await t.database.sql(sql, [id])
    return id
  }

  it('is said in the words of the answer, and in lists', async () => {
    const id = await damaged()
    const words = 'Cannot be read: the stored timing {"moon":"full"} is none that is known'
    expect(await get(id)).toMatchObject({ words, at: null, every: null, cron: null, warnings: [] })
    expect((await t.call('GET', '/v1/schedules?limit=1')).body.items).toMatchObject([{ id, words }])
  })

  it('is a clear fault where it would be needed, and stays as it was where it is not', async () => {
    const id = await damaged()
    const fault = { status: 400, code: 'invalid_schedule', errors: [{ pointer: '' }] }
    const zone = await t.patch(id, { zone: 'Europe/Berlin' })
    expect(zone.body).toMatchObject(fault)
    expect(zone.body.detail).toContain('give the schedule a new one: "at", "every" or "cron"')
    expect((await t.act(id, 'skip')).body).toMatchObject(fault)
    const preview = { scheduleId: id, count: 1 }
    expect((await t.call('POST', '/v1/schedules/preview', { body: preview })).body).toMatchObject(fault)
    expect((await t.patch(id, { description: 'odd', overlap: 'allow' })).status).toBe(200)
    expect((await t.act(id, 'pause')).body).toMatchObject({ state: 'paused' })
    expect((await t.act(id, 'resume')).body).toMatchObject(fault)
    const sql = 'SELECT spec FROM belfry.schedule WHERE id = $1'
    expect(await t.database.sql(sql, [id])).toEqual([{ spec: { moon: 'full' } }])
  })

  it('is mended by a new one, also where it is due, and deleted like any other', async () => {
    const id = await damaged()
    await pass(3_700_000)
    const preview = { scheduleId: id, every: '2h' }
    const previewed = await t.call('POST', '/v1/schedules/preview', { body: preview })
    expect(previewed.body).toMatchObject({ before: [], after: expect.any(Array) as unknown })
    expect((await t.patch(id, { every: '2h' })).body).toMatchObject({ every: '2h', words: 'Every 2 hours' })
    expect((await t.call('DELETE', `/v1/schedules/${await damaged()}`)).status).toBe(204)
  })
})
