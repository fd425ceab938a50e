// Pause, resume, skip, sleep, wake and trigger: what each leaves on record, with reasons, preconditions, dry
// runs and Idempotency-Keys as any other change.
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { startScheduledApi, type ScheduledApi } from '../support/scheduled-api.ts'

let t: ScheduledApi
const start = Date.parse('2026-06-01T12:00:00.000Z')
beforeAll(async () => {
  t = await startScheduledApi(start)
})
afterAll(() => t.close())

let nowMs = start
/** Each test begins at a full day of its own, on an empty timetable. */
beforeEach(async () => {
  await t.database.sql('DELETE FROM belfry.timer')
  await t.database.sql('DELETE FROM belfry.ready')
  await pass(86_400_000 - ((nowMs - start) % 86_400_000))
  t.events.length = 0
})
/** By how much the scheduler's process is behind. */
let behindMs = 0
const pass = async (ms: number) => {
  await t.go(ms + behindMs)
  behindMs = 0
  nowMs += ms
}
/** Time goes on without the scheduler. */
const later = async (ms: number) => {
  behindMs += ms
  nowMs += ms
  await t.database.setNow(new Date(nowMs))
}
const at = (ms: number) => new Date(nowMs + ms).toISOString()
const clock = (ms: number) => at(ms).slice(11, 19)
const hourly = (more: object = {}) => t.make({ every: '1h', overlap: 'allow', ...more })
const details = async (id: string) => {
  const { body } = await t.call('GET', `/v1/schedules/${id}/occurrences?limit=100`)
  return body.items.map(({ detail }) => detail)
}
const outcomes = () =>
  t.events.flatMap(({ name, payload }) =>
    name === 'occurrences_fired'
      ? (payload as { outcomes: { outcome: string }[] }).outcomes.map(({ outcome }) => outcome)
      : [],
  )

describe('sleep', () => {
  it('records what is planned before its end as asleep, with the reason, and then goes on', async () => {
    const id = await hourly()
    const slept = await t.act(id, 'sleep', { until: at(7_200_000), reason: 'plant is closed' })
    expect(slept.body).toMatchObject({
      state: 'active',
      sleepUntil: at(7_200_000),
      sleepReason: 'plant is closed',
      nextAt: at(7_200_000),
    })
    const times = [1, 2, 3].map((n) => clock(n * 3_600_000))
    for (let n = 0; n < 3; n++) await pass(3_600_000)
    expect(await t.ledger(id)).toEqual([`${times[0]} skipped asleep`, `${times[1]} ran`, `${times[2]} ran`])
    expect(await details(id)).toEqual([null, null, 'plant is closed'])
    const { body } = await t.call('GET', `/v1/schedules/${id}`)
    expect(body).toMatchObject({ sleepUntil: null, sleepReason: null })
  })

  it('may be made longer or shorter, and lasts over a pause', async () => {
    const id = await hourly()
    await t.act(id, 'sleep', { until: at(10_000_000) })
    const shorter = await t.act(id, 'sleep', { until: at(5_000_000), reason: 'less' })
    expect(shorter.body).toMatchObject({ sleepUntil: at(5_000_000), sleepReason: 'less' })
    await t.act(id, 'pause')
    expect((await t.act(id, 'resume')).body.sleepUntil).toBe(at(5_000_000))
    expect((await t.patch(id, { every: '30m' })).body.sleepUntil).toBe(at(5_000_000))
  })

  it('wants an instant that lies ahead, and an active schedule', async () => {
    const id = await hourly()
    const missing = await t.act(id, 'sleep')
    expect(missing.body).toMatchObject({ code: 'invalid_request', errors: [{ pointer: '/until' }] })
    const over = await t.act(id, 'sleep', { until: at(0) })
    expect(over.body).toMatchObject({ status: 400, code: 'invalid_request', errors: [{ pointer: '/until' }] })
    expect(over.body.detail).toContain('give a later time')
    await t.act(id, 'pause')
    const paused = await t.act(id, 'sleep', { until: at(1_000) })
    expect(paused.body).toMatchObject({ status: 409, code: 'invalid_state' })
    expect(paused.body.detail).toContain('paused')
  })
})

describe('skip', () => {
  it('leaves out the next planned time, or so many', async () => {
    const one = await hourly()
    const three = await hourly()
    const skipped = await t.act(one, 'skip', { reason: 'stock-taking' })
    expect(skipped.body).toMatchObject({ sleepUntil: at(3_600_001), sleepReason: 'stock-taking' })
    await t.act(three, 'skip', { count: 3 })
    const times = [1, 2, 3, 4].map((n) => clock(n * 3_600_000))
    for (let n = 0; n < 4; n++) await pass(3_600_000)
    expect(await t.ledger(one)).toEqual([
      `${times[0]} skipped asleep`,
      ...times.slice(1).map((time) => `${time} ran`),
    ])
    expect(await t.ledger(three)).toEqual([
      ...times.slice(0, 3).map((time) => `${time} skipped asleep`),
      `${times[3]} ran`,
    ])
    expect((await details(one)).at(-1)).toBe('stock-taking')
    expect((await details(three)).at(-1)).toBeNull()
  })

  it('twice the same skips no more, and shortens no sleep', async () => {
    const id = await hourly()
    await t.act(id, 'skip')
    expect((await t.act(id, 'skip')).body.sleepUntil).toBe(at(3_600_001))
    const slept = await t.act(id, 'sleep', { until: at(9_000_000), reason: 'long' })
    const skipped = await t.act(id, 'skip', { count: 2, reason: 'short' })
    expect(skipped.body).toMatchObject({ sleepUntil: at(9_000_000), sleepReason: 'long' })
    expect(skipped.headers['etag']).toBe(slept.headers['etag'])
    expect((await t.act(id, 'skip', { count: 3 })).body.sleepUntil).toBe(at(3 * 3_600_000 + 1))
  })

  it('of more than are left skips those, and the schedule completes', async () => {
    const id = await t.make({ at: at(60_000) })
    expect((await t.act(id, 'skip', { count: 100 })).body.sleepUntil).toBe(at(60_001))
    const time = clock(60_000)
    await pass(60_000)
    expect(await t.ledger(id)).toEqual([`${time} skipped asleep`])
    const done = await t.act(id, 'skip')
    expect(done.body).toMatchObject({ status: 409, code: 'invalid_state' })
    expect(done.body.detail).toContain('completed')
  })

  it('is counted without running up a limit', async () => {
    const id = await hourly({ runLimit: 2 })
    await t.act(id, 'skip')
    await pass(3_600_000)
    await pass(3_600_000)
    expect((await t.call('GET', `/v1/schedules/${id}`)).body).toMatchObject({ runCount: 1, state: 'active' })
  })

  it('bounds what it is told', async () => {
    const id = await hourly()
    for (const count of [0, 101, 1.5]) {
      expect((await t.act(id, 'skip', { count })).body.errors[0]?.pointer).toBe('/count')
    }
    expect((await t.act(id, 'skip', { reason: 'x'.repeat(513) })).body.errors[0]?.pointer).toBe('/reason')
  })
})

describe('wake', () => {
  it('ends a sleep from the next planned time on', async () => {
    const id = await hourly()
    await t.act(id, 'sleep', { until: at(36_000_000) })
    const times = [1, 2].map((n) => clock(n * 3_600_000))
    await pass(3_600_000)
    const woken = await t.act(id, 'wake')
    expect(woken.body).toMatchObject({ sleepUntil: null, sleepReason: null, nextAt: at(3_600_000) })
    await pass(3_600_000)
    expect(await t.ledger(id)).toEqual([`${times[0]} skipped asleep`, `${times[1]} ran`])
  })

  it('is refused for a schedule that is awake', async () => {
    const id = await hourly()
    expect((await t.act(id, 'wake')).body).toMatchObject({ status: 409, code: 'invalid_state' })
    await t.act(id, 'sleep', { until: at(60_000) })
    await pass(60_000)
    expect((await t.act(id, 'wake')).body.code).toBe('invalid_state')
  })
})

describe('a pause', () => {
  it('leaves what it passed over on record, with its reason, and runs none of it', async () => {
    const id = await hourly()
    await pass(3_600_000)
    const ran = clock(0)
    await t.act(id, 'pause', { reason: 'target is moving' })
    const times = [1, 2, 3].map((n) => clock(n * 3_600_000))
    await pass(3 * 3_600_000 + 60_000)
    expect(await t.ledger(id)).toEqual([`${ran} ran`])
    t.events.length = 0
    const resumed = await t.act(id, 'resume')
    expect(resumed.body).toMatchObject({ state: 'active', resumedAt: at(0), nextAt: at(3_540_000) })
    expect(await t.ledger(id)).toEqual([`${ran} ran`, ...times.map((time) => `${time} skipped paused`)])
    expect(await details(id)).toEqual([...times.map(() => 'target is moving'), null])
    expect(outcomes()).toEqual(['skipped', 'skipped', 'skipped'])
    await pass(3_540_000)
    expect((await t.ledger(id)).at(-1)).toBe(`${clock(0)} ran`)
  })

  it('of many planned times leaves the newest 50 and one for those before', async () => {
    const id = await t.make({ every: '1m' })
    await t.act(id, 'pause')
    const first = clock(60_000)
    await later(7_200_000)
    await t.act(id, 'resume')
    const ledger = await t.ledger(id)
    expect(ledger).toHaveLength(51)
    expect(ledger[0]).toBe(`${first} skipped paused x70`)
    expect(ledger[1]).toBe(`${clock(-49 * 60_000)} skipped paused`)
    expect(ledger.at(-1)).toBe(`${clock(0)} skipped paused`)
    expect(await details(id)).toEqual(Array.from({ length: 51 }, () => null))
  })

  it('that no planned time fell into leaves nothing', async () => {
    const id = await hourly()
    await t.act(id, 'pause')
    await later(60_000)
    expect((await t.act(id, 'resume')).body.nextAt).toBe(at(3_540_000))
    expect(await t.ledger(id)).toEqual([])
  })

  it('puts the old plan on record before an edit of it, and the new plan from then on', async () => {
    const id = await hourly()
    await t.act(id, 'pause', { reason: 'a' })
    const old = [1, 2].map((n) => clock(n * 3_600_000))
    await later(2 * 3_600_000 + 60_000)
    await t.patch(id, { description: 'nothing about the timing' })
    expect(await t.ledger(id)).toEqual([])
    const edited = await t.patch(id, { every: '20m' })
    expect(edited.body).toMatchObject({ state: 'paused', nextAt: null })
    const records = old.map((time) => `${time} skipped paused`)
    expect(await t.ledger(id)).toEqual(records)
    const fresh = clock(1_200_000)
    await later(1_800_000)
    await t.act(id, 'resume')
    expect(await t.ledger(id)).toEqual([...records, `${fresh} skipped paused`])
  })

  it('that ends with a deletion leaves what it passed over', async () => {
    const id = await hourly()
    await t.act(id, 'pause', { reason: 'a' })
    const time = clock(3_600_000)
    await later(4_000_000)
    expect((await t.call('DELETE', `/v1/schedules/${id}`)).status).toBe(204)
    expect(await t.ledger(id)).toEqual([`${time} skipped paused`])
  })

  it('that outlasts the last planned time ends as completed, and is not deleted', async () => {
    const id = await t.make({ at: at(60_000), afterCompletion: 'delete' })
    await t.act(id, 'pause')
    const time = clock(60_000)
    await later(120_000)
    expect((await t.act(id, 'resume')).body).toMatchObject({ state: 'completed', nextAt: null })
    expect(await t.ledger(id)).toEqual([`${time} skipped paused`])
  })

  it('a dry run of a resume leaves nothing on record', async () => {
    const id = await hourly()
    await t.act(id, 'pause')
    await later(4_000_000)
    const dry = await t.call('POST', `/v1/schedules/${id}/resume?dryRun=true`)
    expect(dry.body.state).toBe('active')
    expect(await t.ledger(id)).toEqual([])
    expect(t.events).toEqual([])
    expect((await t.call('GET', `/v1/schedules/${id}`)).body.state).toBe('paused')
  })
})

describe('a resume that makes up', () => {
  it('starts a backfill of the planned times from then to now, in one transaction', async () => {
    const id = await hourly()
    await t.act(id, 'pause')
    const from = at(3_600_000)
    await later(3 * 3_600_000 + 60_000)
    t.hints.length = 0
    const resumed = await t.act(id, 'resume', { backfillFrom: from })
    expect(resumed.body.state).toBe('active')
    const { body } = await t.call('GET', `/v1/backfills?scheduleId=${id}`)
    expect(body.items).toMatchObject([
      { scheduleId: id, from, state: 'pending', total: 3, reprocess: 'none' },
    ])
    expect(t.hints.map(({ topic }) => topic)).toContain('backfills')
    expect(await t.ledger(id)).toHaveLength(3)
  })

  it.each([
    ['a start that lies ahead', 3_600_000],
    ['too many planned times', -Date.UTC(2026, 0)],
  ])('is refused whole for %s', async (_, fromMs) => {
    const id = await t.make({ every: '1s', startAt: '1970-01-01T00:00:00Z' })
    await t.act(id, 'pause')
    const refused = await t.act(id, 'resume', { backfillFrom: at(Math.max(fromMs, -nowMs)) })
    expect(refused.body).toMatchObject({ status: 400, errors: [{ pointer: '/backfillFrom' }] })
    expect((await t.call('GET', `/v1/schedules/${id}`)).body.state).toBe('paused')
  })
})

describe('trigger', () => {
  it('for a nominal time: the run carries it, and the cadence does not move', async () => {
    const id = await hourly({ input: { a: 1 } })
    const scheduledFor = at(-86_400_000)
    const { body: run } = await t.act(id, 'trigger', { scheduledFor, input: { b: 2 } })
    expect(run).toMatchObject({ source: 'trigger', scheduledFor, input: { b: 2 }, dueAt: at(0) })
    expect((await t.call('GET', `/v1/runs/${run.id}`)).body.scheduledFor).toBe(scheduledFor)
    expect((await t.call('GET', `/v1/schedules/${id}`)).body.nextAt).toBe(at(3_600_000))
    expect(await t.ledger(id)).toEqual([])
    const sql = 'SELECT scheduled_for, run_id FROM belfry.extra_run WHERE schedule_id = $1'
    expect(await t.database.sql(sql, [id])).toEqual([
      { scheduled_for: new Date(scheduledFor), run_id: run.id },
    ])
  })

  it('takes one that is ahead by a minute at most', async () => {
    const id = await hourly()
    expect((await t.act(id, 'trigger', { scheduledFor: at(60_000) })).status).toBe(201)
    const ahead = await t.act(id, 'trigger', { scheduledFor: at(60_001) })
    expect(ahead.body).toMatchObject({ status: 400, errors: [{ pointer: '/scheduledFor' }] })
    expect(ahead.body.detail).toContain('give a time that is over')
    expect((await t.act(id, 'trigger')).body.scheduledFor).toBeNull()
  })

  it('works while it is paused, asleep or completed, and twice for one time', async () => {
    const id = await t.make({ at: at(60_000) })
    const scheduledFor = at(-1_000)
    await t.act(id, 'sleep', { until: at(10_000_000) })
    expect((await t.act(id, 'trigger', { scheduledFor })).status).toBe(201)
    await t.act(id, 'pause')
    expect((await t.act(id, 'trigger', { scheduledFor })).status).toBe(201)
    await later(120_000)
    expect((await t.act(id, 'resume')).body.state).toBe('completed')
    expect((await t.act(id, 'trigger', { scheduledFor })).status).toBe(201)
    expect(await t.runsOf(id)).toBe(3)
  })

  it('under one Idempotency-Key runs once', async () => {
    const id = await hourly()
    const options = { body: { scheduledFor: at(0) }, headers: { 'idempotency-key': 'once' } }
    const [first, again] = [
      await t.call('POST', `/v1/schedules/${id}/trigger`, options),
      await t.call('POST', `/v1/schedules/${id}/trigger`, options),
    ]
    expect(again.body.id).toBe(first.body.id)
    expect(again.headers['idempotency-replayed']).toBe('true')
    expect(await t.runsOf(id)).toBe(1)
  })
})

describe.each([
  ['skip', { count: 2 }],
  ['sleep', { until: '2199-01-01T00:00:00Z' }],
  ['wake', undefined],
  ['pause', { reason: 'x' }],
  ['resume', undefined],
])('%s', (action, body) => {
  it('honours If-Match and dry runs', async () => {
    const id = await hourly()
    if (action === 'wake') await t.act(id, 'skip')
    if (action === 'resume') await t.act(id, 'pause')
    const path = `/v1/schedules/${id}`
    const before = await t.call('GET', path)
    const stale = { body: body ?? {}, headers: { 'if-match': '"77"' } }
    expect((await t.call('POST', `${path}/${action}`, stale)).body.code).toBe('precondition_failed')
    const dry = await t.call('POST', `${path}/${action}?dryRun=true`, { body: body ?? {} })
    expect(dry.status).toBe(200)
    expect(dry.body).not.toEqual(before.body)
    expect((await t.call('GET', path)).body).toEqual(before.body)
    const fresh = { body: body ?? {}, headers: { 'if-match': before.headers['etag'] ?? '' } }
    const done = await t.call('POST', `${path}/${action}`, fresh)
    expect(done.status).toBe(200)
    expect(done.headers['etag']).not.toBe(before.headers['etag'])
  })
})

describe('with a calendar', () => {
  it('a skip passes over what is left out, and a pause tells the two apart', async () => {
    // 12:00 to 14:00 of the day of the test
    const ranges = [{ from: at(1_000).slice(0, 16), to: at(2 * 3_600_000 + 60_000).slice(0, 16) }]
    const lunch = { name: `lunch-${nowMs}`, zone: 'UTC', ranges }
    expect((await t.call('POST', '/v1/calendars', { body: lunch })).status).toBe(201)
    const id = await hourly({ skipOn: [lunch.name] })
    const times = [1, 2, 3, 4].map((n) => clock(n * 3_600_000))
    expect((await t.act(id, 'skip')).body.sleepUntil).toBe(at(3 * 3_600_000 + 1))
    await t.act(id, 'wake')
    await t.act(id, 'pause', { reason: 'closed' })
    await later(4 * 3_600_000 + 60_000)
    await t.act(id, 'resume')
    expect(await t.ledger(id)).toEqual([
      `${times[0]} skipped calendar`,
      `${times[1]} skipped calendar`,
      `${times[2]} skipped paused`,
      `${times[3]} skipped paused`,
    ])
    const found = await details(id)
    expect(found.slice(0, 2)).toEqual(['closed', 'closed'])
    expect(found[2]).toContain(lunch.name)
  })
})
