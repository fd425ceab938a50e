// Schedules over the API, on virtual time: what is planned first, what an edit moves, pause, resume, trigger,
// history.
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { jitterMs } from '../../packages/server/src/domain/schedule/jitter.ts'
import { httpJob, startTestApi, type TestApi } from '../support/api.ts'

let t: TestApi
const start = Date.parse('2026-06-01T12:00:00.123Z')
beforeAll(async () => {
  t = await startTestApi()
  await t.call('POST', '/v1/jobs', { body: httpJob('work') })
  await t.database.useVirtualNow(new Date(start))
})
beforeEach(() => t.database.setNow(new Date(start)))
afterAll(() => t.close())

let made = 0
const body = (more: object) => ({ name: `s${made++}`, job: 'work', ...more })
const create = async (more: object) => {
  const answer = await t.call('POST', '/v1/schedules', { body: body(more) })
  expect(answer.body.detail ?? '').toBe('')
  return answer.body
}
const iso = (afterStartMs: number) => new Date(start + afterStartMs).toISOString()
const later = (ms: number) => t.database.setNow(new Date(start + ms))
const patch = (id: string, change: object) => t.call('PATCH', `/v1/schedules/${id}`, { body: change })

type TimerRow = {
  scheduled_for: Date
  due_at: Date
  gen: number
  shard: number
  schedule_gen: number
  last_run_id: string | null
}
async function timerOf(id: string): Promise<TimerRow | undefined> {
  const [row] = await t.database.sql<TimerRow>(
    `SELECT t.scheduled_for, t.due_at, t.gen::int, t.shard, s.gen::int AS schedule_gen, t.last_run_id
     FROM belfry.schedule s JOIN belfry.timer t ON t.schedule_id = s.id WHERE s.id = $1`,
    [id],
  )
  return row
}

describe('the first planned time', () => {
  it('of a rate is one period after now, or at the start', async () => {
    expect((await create({ every: '5m' })).nextAt).toBe(iso(300_000))
    expect((await create({ every: '5m', startAt: iso(60_000) })).nextAt).toBe(iso(60_000))
    expect((await create({ every: '5m', startAt: iso(-60_000) })).nextAt).toBe(iso(240_000))
    expect((await create({ every: 'rate(2 hours)' })).every).toBe('rate(2 hours)')
  })

  it('of a cron is in its zone, strictly after now', async () => {
    expect((await create({ cron: '0 9 * * *', zone: 'Europe/Berlin' })).nextAt).toBe(
      '2026-06-02T07:00:00.000Z',
    )
    await t.database.setNow(new Date('2026-06-01T12:00:00Z'))
    expect((await create({ cron: '0 12 * * *' })).nextAt).toBe('2026-06-02T12:00:00.000Z')
  })

  it('of an `at` is that; over by a minute at most, or run now', async () => {
    expect((await create({ at: iso(5_000) })).nextAt).toBe(iso(5_000))
    expect((await create({ at: '2026-06-01T15:00', zone: 'Europe/Berlin' })).nextAt).toBe(
      '2026-06-01T13:00:00.000Z',
    )
    expect((await create({ at: iso(-60_000) })).nextAt).toBe(iso(-60_000))
    const over = await t.call('POST', '/v1/schedules', { body: body({ at: iso(-60_001) }) })
    expect(over.body).toMatchObject({ code: 'invalid_schedule', errors: [{ pointer: '/at' }] })
    const now = await create({ at: iso(-86_400_000), ifPast: 'runNow', jitterMs: 3_600_000 })
    expect(now.nextAt).toBe(iso(0))
    expect((await timerOf(now.id))?.due_at.toISOString()).toBe(iso(0))
  })

  it('in a gap or overlap of the clock is told in words', async () => {
    const gap = await create({ at: '2027-03-28T02:30', zone: 'Europe/Berlin' })
    expect(gap.nextAt).toBe('2027-03-28T01:00:00.000Z')
    expect(gap.notes[0]).toContain('does not exist in Europe/Berlin')
    expect((await create({ at: '2027-03-28T04:30', zone: 'Europe/Berlin' })).notes).toEqual([])
  })

  it('stands in the timer with its jitter, generation and shard, and is hinted', async () => {
    t.hints.length = 0
    const { id, nextAt } = await create({ every: '1h', jitterMs: 600_000 })
    const timer = await timerOf(id)
    expect(timer?.scheduled_for.toISOString()).toBe(nextAt)
    const plannedMs = Date.parse(nextAt)
    const delayMs = jitterMs(id, plannedMs, 600_000, plannedMs + 3_600_000)
    expect(timer?.due_at.getTime()).toBe(plannedMs + delayMs)
    expect(timer).toMatchObject({ gen: 1, schedule_gen: 1, shard: Number.parseInt(id.slice(-2), 16) & 63 })
    expect(t.hints).toEqual([{ topic: 'timers', key: String(timer?.shard) }])
  })

  it('an inline handler makes a job of the same name, or nothing at all', async () => {
    const inline = {
      name: 'inline',
      every: '1h',
      handler: httpJob('x').handler,
      retry: { maxAttempts: 1 },
      queue: 'q',
    }
    const { body: schedule } = await t.call('POST', '/v1/schedules', { body: inline })
    const { body: job } = await t.call('GET', `/v1/jobs/${schedule.jobId}`)
    expect(job).toMatchObject({ name: 'inline', queue: 'q', retry: { maxAttempts: 1, baseMs: 1000 } })
    await t.call('POST', '/v1/jobs', { body: httpJob('taken') })
    const before = await t.counts()
    const refused = await t.call('POST', '/v1/schedules', { body: { ...inline, name: 'taken' } })
    expect(refused.body).toMatchObject({ status: 409, code: 'name_taken' })
    expect(await t.counts()).toEqual(before)
  })
})

describe('an edit', () => {
  it('of anything but the timing leaves the timer alone', async () => {
    const { id } = await create({ every: '5m', input: { a: 1 } })
    const before = await timerOf(id)
    await later(200_000)
    const change = {
      description: 'd',
      input: { b: 2 },
      overlap: 'allow',
      catchUp: { policy: 'all' },
      every: '5m',
    }
    const edited = await patch(id, change)
    expect(edited.body).toMatchObject({
      description: 'd',
      input: { b: 2 },
      overlap: 'allow',
      nextAt: iso(300_000),
    })
    expect(edited.body.catchUp).toEqual({ policy: 'all', windowMs: 365 * 86_400_000, maxRuns: 100 })
    // in a new generation, so that a fire that was decided before is decided again
    expect(await timerOf(id)).toEqual({ ...before, gen: 2, schedule_gen: 2 })
    expect(edited.headers['etag']).toBe('"2"')
  })

  it('that changes nothing makes no new version', async () => {
    const { id } = await create({ every: '5m' })
    expect((await patch(id, { every: '5m', zone: 'UTC' })).headers['etag']).toBe('"1"')
    expect((await patch(id, {})).headers['etag']).toBe('"1"')
  })

  it('of the timing plans strictly after now, in a new generation', async () => {
    const { id } = await create({ cron: '0 * * * *' })
    await later(3_599_877) // 13:00:00 sharp, when the old one is due
    const edited = await patch(id, { cron: '0 13 * * *' })
    expect(edited.body.nextAt).toBe('2026-06-02T13:00:00.000Z')
    expect(await timerOf(id)).toMatchObject({ gen: 2, schedule_gen: 2 })
    expect((await patch(id, { every: '1m' })).body).toMatchObject({
      cron: null,
      dialect: null,
      every: '1m',
      nextAt: iso(3_659_877),
    })
    expect((await patch(id, { zone: 'Europe/Berlin', cron: '0 9 * * *' })).body.nextAt).toBe(
      '2026-06-02T07:00:00.000Z',
    )
    expect((await patch(id, { endAt: '2026-06-01T13:30:00Z', cron: '*/20 * * * *' })).body.nextAt).toBe(
      '2026-06-01T13:20:00.000Z',
    )
    expect((await patch(id, { endAt: null })).body.endAt).toBeNull()
    const never = await patch(id, { endAt: '2026-06-01T13:00:00Z' })
    expect(never.body).toMatchObject({ code: 'invalid_schedule', errors: [{ pointer: '/endAt' }] })
  })

  it('of a rate keeps its beat unless the rate changes', async () => {
    const { id } = await create({ every: '10m' })
    await later(250_000)
    expect((await patch(id, { endAt: iso(86_400_000) })).body.nextAt).toBe(iso(600_000))
    expect((await patch(id, { every: '20m' })).body.nextAt).toBe(iso(250_000 + 1_200_000))
  })

  it('of the jitter moves the start and keeps the planned time', async () => {
    const { id, nextAt } = await create({ every: '1h' })
    const edited = await patch(id, { jitterMs: 3_000_000 })
    expect(edited.body.nextAt).toBe(nextAt)
    const timer = await timerOf(id)
    expect(timer?.due_at.getTime()).toBeGreaterThan(Date.parse(nextAt))
    expect(timer).toMatchObject({ gen: 2, schedule_gen: 2 })
  })
})

describe('pause, resume, delete', () => {
  it('a paused schedule has no timer, and goes on from now without making up', async () => {
    const { id } = await create({ every: '10m' })
    const paused = await t.call('POST', `/v1/schedules/${id}/pause`, { body: { reason: 'holiday' } })
    expect(paused.body).toMatchObject({
      state: 'paused',
      pausedReason: 'holiday',
      pausedAt: iso(0),
      nextAt: null,
    })
    expect(await timerOf(id)).toBeUndefined()
    const twice = await t.call('POST', `/v1/schedules/${id}/pause`)
    expect(twice.body).toMatchObject({ status: 409, code: 'invalid_state' })
    await later(3_605_000)
    const edited = await patch(id, { every: '20m' })
    expect(edited.body).toMatchObject({ state: 'paused', nextAt: null, every: '20m' })
    const resumed = await t.call('POST', `/v1/schedules/${id}/resume`)
    expect(resumed.body).toMatchObject({
      state: 'active',
      pausedReason: null,
      pausedAt: null,
      nextAt: iso(4_805_000),
    })
    expect(await timerOf(id)).toMatchObject({ gen: 4, schedule_gen: 4 })
    expect((await t.call('POST', `/v1/schedules/${id}/resume`)).body.code).toBe('invalid_state')
  })

  it('a time that passed while it was paused does not run', async () => {
    const { id } = await create({ at: iso(5_000) })
    await t.call('POST', `/v1/schedules/${id}/pause`)
    await later(10_000)
    const resumed = await t.call('POST', `/v1/schedules/${id}/resume`)
    expect(resumed.body).toMatchObject({ state: 'completed', nextAt: null })
    const renewed = await patch(id, { at: iso(20_000) })
    expect(renewed.body).toMatchObject({ state: 'active', nextAt: iso(20_000) })
  })

  it('after a resume the overlap rule still knows the last run', async () => {
    const { id } = await create({ every: '10m' })
    const run = (await t.call('POST', `/v1/schedules/${id}/trigger`)).body.id
    await t.database.sql(
      `INSERT INTO belfry.occurrence (schedule_id, scheduled_for, tenant_id, outcome, run_id, due_at)
       VALUES ($1, $2, $3, 'ran', $4, $2)`,
      [id, new Date(start), t.tenantId, run],
    )
    await t.call('POST', `/v1/schedules/${id}/pause`)
    await t.call('POST', `/v1/schedules/${id}/resume`)
    expect((await timerOf(id))?.last_run_id).toBe(run)
  })

  it('a deleted one is gone, its name is free, its history stays', async () => {
    const { id, name } = await create({ every: '10m' })
    await t.database.sql(
      `INSERT INTO belfry.occurrence (schedule_id, scheduled_for, tenant_id, outcome, reason, due_at)
       VALUES ($1, $2, $3, 'missed', 'catch_up_none', $2)`,
      [id, new Date(start), t.tenantId],
    )
    expect((await t.call('DELETE', `/v1/schedules/${id}`)).status).toBe(204)
    expect((await t.call('GET', `/v1/schedules/${id}`)).status).toBe(404)
    expect((await t.call('DELETE', `/v1/schedules/${id}`)).status).toBe(404)
    expect((await t.database.sql('SELECT 1 FROM belfry.timer WHERE schedule_id = $1', [id])).length).toBe(0)
    expect((await t.call('POST', '/v1/schedules', { body: { name, job: 'work', every: '1h' } })).status).toBe(
      201,
    )
    const history = await t.call('GET', `/v1/schedules/${id}/occurrences`)
    expect(history.body.items).toMatchObject([
      { outcome: 'missed', reason: 'catch_up_none', runId: null, lateMs: 0 },
    ])
  })
})

describe('trigger and history', () => {
  it('a trigger runs the job now with its input, and moves nothing', async () => {
    const { id } = await create({ every: '10m', input: { a: 1 } })
    const before = await timerOf(id)
    t.events.length = 0
    const run = await t.call('POST', `/v1/schedules/${id}/trigger`)
    expect(run.body).toMatchObject({
      source: 'trigger',
      scheduleId: id,
      scheduledFor: null,
      input: { a: 1 },
      state: 'pending',
    })
    expect(run.headers['location']).toBe(`/v1/runs/${run.body.id}`)
    const other = await t.call('POST', `/v1/schedules/${id}/trigger`, { body: { input: null } })
    expect(other.body.input).toBeNull()
    expect(await timerOf(id)).toEqual(before)
    expect(t.events[0]).toEqual({
      name: 'runs_enqueued',
      payload: { count: 1, queue: 'default', source: 'trigger' },
    })
    const stored = await t.database.sql('SELECT input IS NULL AS none FROM belfry.run WHERE id = $1', [
      other.body.id,
    ])
    expect(stored).toEqual([{ none: false }])
  })

  it('occurrences come newest first, in pages, filtered', async () => {
    const { id } = await create({ every: '10m' })
    for (let n = 0; n < 5; n++) {
      const outcome = n % 2 === 0 ? 'missed' : 'skipped'
      await t.database.sql(
        `INSERT INTO belfry.occurrence (schedule_id, scheduled_for, tenant_id, outcome, reason, due_at)
         VALUES ($1, $2, $3, $4, 'overlap', $2)`,
        [id, new Date(start + n * 1_000), t.tenantId, outcome],
      )
    }
    const times = async (query: string) => {
      const { body: page } = await t.call('GET', `/v1/schedules/${id}/occurrences?${query}`)
      return {
        times: page.items.map((item: { scheduledFor: string }) => Date.parse(item.scheduledFor) - start),
        next: page.nextCursor,
      }
    }
    const first = await times('limit=2')
    expect(first.times).toEqual([4_000, 3_000])
    const second = await times(`limit=2&cursor=${first.next}`)
    expect(second.times).toEqual([2_000, 1_000])
    expect(await times(`limit=2&cursor=${second.next}`)).toEqual({ times: [0], next: null })
    expect((await times('outcome=skipped')).times).toEqual([3_000, 1_000])
    expect((await times(`from=${iso(1_000)}&to=${iso(3_000)}`)).times).toEqual([2_000, 1_000])
  })
})

describe('a cron time that a change of the clock swallows', () => {
  const make = async (more: object) => {
    const body = { job: 'work', zone: 'Europe/Berlin', ...more }
    return (await t.call('POST', '/v1/schedules?dryRun=true', { body: { name: 'gap', ...body } })).body.notes
  }

  it('is told among the next five, and only there', async () => {
    const startAt = '2031-03-27T12:00:00Z'
    expect(await make({ cron: '30 2 * * *', startAt })).toEqual([
      'the wall time 2031-03-30 02:30 does not exist in Europe/Berlin: the first instant after the gap is ' +
        'used, 2031-03-30 03:00',
    ])
    expect(await make({ cron: '30 2 * * *', startAt: '2031-03-20T12:00:00Z' })).toEqual([])
    // at the end of the gap on its own account, and by real time
    expect(await make({ cron: '0 3 * * *', startAt })).toEqual([])
    expect(await make({ cron: '*/30 * * * *', startAt: '2031-03-30T00:00:00Z' })).toEqual([])
    expect(await make({ cron: '30 2 * * *', startAt, zone: 'UTC' })).toEqual([])
    expect(await make({ cron: '30 2 * * *', startAt, endAt: '2031-03-29T12:00:00Z' })).toEqual([])
  })
})
