// Why a planned time ran or did not, as the API tells it: every verdict on a real ledger, in time that the
// test moves. The sentences are what the command line and the UI show, so they are read here too.
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { Explanation, ExplainedTime } from '@belfry/contract'
import { startScheduledApi, type ScheduledApi } from '../support/scheduled-api.ts'

let t: ScheduledApi
const start = Date.parse('2026-06-01T12:00:00.000Z')
beforeAll(async () => {
  t = await startScheduledApi(start)
})
afterAll(() => t.close())

const minuteMs = 60_000
const hourMs = 60 * minuteMs
let nowMs = start
beforeEach(async () => {
  await t.database.sql('DELETE FROM belfry.timer')
  await pass(hourMs - ((nowMs - start) % hourMs))
})
const stepMs = 5 * minuteMs
/** Time passes, and the scheduler looks every five minutes. */
const pass = async (ms: number) => {
  for (let restMs = ms; restMs > 0; restMs -= stepMs) await outage(Math.min(restMs, stepMs))
}
/** Time in which no scheduler looks; then it finds what fell due, and fires it. */
const outage = async (ms: number) => {
  await t.time.jump(ms - 1_000)
  await t.time.jump(1_000)
  nowMs += ms
}
const at = (ms: number) => new Date(nowMs + ms).toISOString()

async function explained(id: string, query: Record<string, string> = {}): Promise<Explanation> {
  const path = `/v1/schedules/${id}/explain?${new URLSearchParams(query).toString()}`
  const answer = await t.call('GET', path)
  expect(answer.body.detail ?? '').toBe('')
  return answer.body as unknown as Explanation
}
const one = async (id: string, atText: string): Promise<ExplainedTime> => {
  const { times } = await explained(id, { at: atText })
  const found = times.find(({ scheduledFor }) => Date.parse(scheduledFor) === Date.parse(atText))
  if (found === undefined) throw new Error(`no time ${atText} in ${JSON.stringify(times)}`)
  return found
}
const verdicts = ({ times }: Explanation) => times.map(({ verdict }) => verdict)
const endRuns = () => t.database.sql('DELETE FROM belfry.ready')

describe('how it stands', () => {
  it('active: when next, in words and times, and the last ones with what became of them', async () => {
    const id = await t.make({ every: '10m', overlap: 'allow' })
    await pass(25 * minuteMs)
    const answer = await explained(id)
    expect(answer).toMatchObject({ state: 'active', zone: 'UTC', words: 'Every 10 minutes', more: null })
    expect(answer.standing).toMatch(
      /^It is active; next is Mon 2026-06-01 \d\d:30:00 \+00:00, in 5 minutes\.$/,
    )
    expect(answer.next.map(({ scheduledFor }) => scheduledFor)).toEqual(
      [5, 15, 25].map((m) => at(m * minuteMs)),
    )
    expect(answer.next[0]).toMatchObject({ verdict: 'not_yet', message: 'It comes in 5 minutes.' })
    expect(verdicts(answer)).toEqual(['ran', 'ran'])
    expect(answer.planned).toEqual({ count: 2, capped: false })
    const [first] = answer.times
    expect(first).toMatchObject({
      outcome: 'ran',
      lateMs: 0,
      runs: [{ source: 'schedule', state: 'pending' }],
    })
    expect(first?.message).toMatch(/^It ran: the run [0-9a-f-]{36} waits to start\.$/)
    expect(first?.fix).toContain('free slot')
  })

  it('paused: since when and why; what falls due does not run, and says so', async () => {
    const id = await t.make({ every: '10m', overlap: 'allow' })
    await pass(15 * minuteMs)
    await t.act(id, 'pause', { reason: 'target is moving' })
    await pass(10 * minuteMs)
    const answer = await explained(id)
    expect(answer.standing).toMatch(
      /^It is paused since Mon 2026-06-01 .*: target is moving\. What falls due/,
    )
    expect(verdicts(answer)).toEqual(['ran', 'paused'])
    expect(answer.times[1]?.message).toContain('the schedule is paused since')
    expect(answer.times[1]?.fix).toContain('"backfillFrom"')
    expect(answer.next[0]?.message).toContain('will not run while the schedule is paused')
    await t.act(id, 'resume')
    expect(await one(id, at(-5 * minuteMs))).toMatchObject({
      verdict: 'skipped',
      reason: 'paused',
      message: 'It was skipped: the schedule was paused: target is moving.',
    })
  })

  it('asleep: until when and why, and what will be skipped', async () => {
    const id = await t.make({ every: '10m', overlap: 'allow' })
    await t.act(id, 'sleep', { until: at(15 * minuteMs), reason: 'stock-taking' })
    const before = await explained(id)
    expect(before.standing).toMatch(/^It is asleep until Mon .*: stock-taking\./)
    expect(before.next.map(({ message }) => message.includes('will be skipped'))).toEqual([
      true,
      false,
      false,
    ])
    await pass(10 * minuteMs)
    expect(await one(id, at(0))).toMatchObject({
      verdict: 'skipped',
      detail: 'stock-taking',
      message: 'It was skipped: the schedule was asleep: stock-taking.',
    })
  })

  it('completed: by its limit, its end, or because nothing is left', async () => {
    const limited = await t.make({ every: '10m', overlap: 'allow', runLimit: 1 })
    const ended = await t.make({ every: '10m', overlap: 'allow', endAt: at(15 * minuteMs) })
    const once = await t.make({ at: at(10 * minuteMs) })
    await pass(25 * minuteMs)
    expect((await explained(limited)).standing).toBe('The schedule is completed: it has started 1 of 1 runs.')
    expect((await explained(ended)).standing).toMatch(/completed: its end, Mon .* is over\.$/)
    expect((await explained(once)).standing).toBe('The schedule is completed: no planned time is left.')
    expect(await one(limited, at(-5 * minuteMs))).toMatchObject({ verdict: 'completed' })
    expect((await explained(once)).next).toEqual([])
  })

  it('deleted: by its id, from what is on record', async () => {
    const id = await t.make({ every: '10m', overlap: 'allow' })
    await pass(15 * minuteMs)
    await t.call('DELETE', `/v1/schedules/${id}`)
    await pass(10 * minuteMs)
    const answer = await explained(id)
    expect(answer).toMatchObject({ state: 'deleted', words: null, next: [], planned: null })
    expect(answer.standing).toMatch(/^It was deleted on Mon /)
    expect(verdicts(answer)).toEqual(['ran'])
    expect(await one(id, at(0))).toMatchObject({ verdict: 'deleted' })
    expect((await one(id, at(-16 * minuteMs))).message).toContain('only the record is left')
  })

  it('deleted by its completion: that it was, and why', async () => {
    const id = await t.make({ every: '10m', runLimit: 1, afterCompletion: 'delete' })
    await pass(15 * minuteMs)
    const { standing } = await explained(id)
    expect(standing).toMatch(
      /, by itself when it completed: it has started 1 of 1 runs; its history stays\.$/,
    )
  })

  it('a rate does not count the moment it was made', async () => {
    const id = await t.make({ every: '10m', overlap: 'allow' })
    const made = at(0)
    await pass(25 * minuteMs)
    const answer = await explained(id, { from: made, to: at(0) })
    expect(answer.planned).toEqual({ count: 2, capped: false })
    expect(verdicts(answer)).toEqual(['ran', 'ran'])
  })

  it('with a timing that nobody can read, it says so and shows the record', async () => {
    const id = await t.make({ every: '10m', overlap: 'allow' })
    await pass(10 * minuteMs)
    await t.database.sql(`UPDATE belfry.schedule SET spec = '{"moon": "full"}' WHERE id = $1`, [id])
    const answer = await explained(id)
    expect(answer.words).toContain('Cannot be read')
    expect(verdicts(answer)).toEqual(['ran'])
    expect((await one(id, at(-5 * minuteMs))).message).toContain('cannot be read')
  })
})

describe('why it did not run', () => {
  it('the run before was alive: which policy would help', async () => {
    const id = await t.make({ every: '10m' })
    await pass(20 * minuteMs)
    const time = await one(id, at(0))
    expect(time).toMatchObject({ verdict: 'skipped', reason: 'overlap' })
    expect(time.message).toContain('the run before it was still alive')
    expect(time.fix).toContain('"overlap" to "buffer_one" or "allow"')
  })

  it('an outage: the latest ran late, those before were missed, and catchUp says why', async () => {
    const id = await t.make({ every: '2m' })
    await outage(7 * minuteMs)
    const answer = await explained(id)
    expect(verdicts(answer)).toEqual(['missed', 'missed', 'ran'])
    expect(answer.times[0]).toMatchObject({ reason: 'catch_up_latest' })
    expect(answer.times[0]?.message).toContain(
      '"catchUp" ran only the latest. It was looked at 5 minutes late.',
    )
    expect(answer.times[0]?.fix).toContain('"catchUp.policy" to "all"')
    expect(answer.times[2]?.lateMs).toBe(minuteMs)
  })

  it('a long outage: one row stands for the old ones, and each of them says so', async () => {
    const id = await t.make({ every: '1s' })
    const first = nowMs + 1_000
    await outage(7 * minuteMs)
    const summed = await one(id, new Date(first + 20_000).toISOString())
    expect(summed).toMatchObject({ verdict: 'summed', outcome: 'missed', reason: 'catch_up_latest' })
    expect(summed.message).toMatch(/^It is one of 3\d\d planned times that share a row, missed: /)
    expect((await one(id, new Date(first).toISOString())).message).toMatch(/stands for 3\d\d planned times/)
    await t.act(id, 'pause')
  })

  it('nobody looked yet: due, and which process is missing', async () => {
    const id = await t.make({ every: '10m' })
    await t.database.setNow(new Date(nowMs + 12 * minuteMs))
    const time = await one(id, at(10 * minuteMs))
    await t.database.setNow(new Date(nowMs))
    expect(time).toMatchObject({ verdict: 'due' })
    expect(time.message).toContain('It is due for 2 minutes and was not looked at yet')
    expect(time.fix).toContain('/readyz?verbose')
  })

  it('its delay holds it back: until when', async () => {
    const id = await t.make({ every: '1h', flexibleWindowMs: 30 * minuteMs })
    await pass(hourMs)
    const [timer] = await t.database.sql<{ waits: boolean }>(
      'SELECT scheduled_for = $2::timestamptz AS waits FROM belfry.timer WHERE schedule_id = $1',
      [id, at(0)],
    )
    expect(timer?.waits).toBe(true)
    const time = await one(id, at(0))
    expect(time).toMatchObject({ verdict: 'waiting' })
    expect(time.message).toMatch(/^It starts in .*: a jitter or a flexible window delays it by /)
  })

  it('it is no planned time: which are around it', async () => {
    const id = await t.make({ every: '10m', overlap: 'allow' })
    await pass(25 * minuteMs)
    const { times } = await explained(id, { at: at(-3 * minuteMs) })
    expect(times.map(({ verdict }) => verdict)).toEqual(['ran', 'not_planned', 'not_yet'])
    expect(times[1]?.message).toMatch(
      /^It is not a planned time: the one before is .*, the one after is .*\.$/,
    )
    expect(times[1]?.scheduledFor).toBe(at(-3 * minuteMs))
  })

  it('before it was made, before its start, after its end', async () => {
    const id = await t.make({ every: '10m', startAt: at(hourMs), endAt: at(3 * hourMs) })
    expect((await one(id, at(30 * minuteMs))).verdict).toBe('before_start')
    expect((await one(id, at(4 * hourMs))).verdict).toBe('after_end')
    const plain = await t.make({ cron: '*/10 * * * *' })
    const made = await one(plain, at(-10 * minuteMs))
    expect(made.verdict).toBe('before_creation')
    expect(made.message).toContain('and plans what comes after that')
  })

  it('another timing was in force: the record alone tells, and has nothing', async () => {
    const id = await t.make({ cron: '*/10 * * * *', overlap: 'allow' })
    await pass(25 * minuteMs)
    await t.patch(id, { cron: '*/15 * * * *' })
    const before = await one(id, at(-10 * minuteMs))
    expect(before.verdict).toBe('older_timing')
    expect(before.message).toContain('The timing or a calendar was changed on')
    // what had a row keeps it
    expect((await one(id, at(-5 * minuteMs))).verdict).toBe('ran')
    // a change of anything else moves no watermark
    await t.patch(id, { description: 'other' })
    await pass(5 * minuteMs)
    expect((await one(id, at(0))).verdict).toBe('ran')
  })

  it('a calendar excludes it: which one, before and after; a change of it is one of timing', async () => {
    const toMidnight = 24 * hourMs - ((nowMs - start + 12 * hourMs) % (24 * hourMs))
    const day = new Date(nowMs + toMidnight).toISOString().slice(0, 10)
    const made = await t.call('POST', '/v1/calendars', { body: { name: 'holidays', dates: [day] } })
    expect(made.status).toBe(201)
    const id = await t.make({ cron: '0 0 * * *', skipOn: ['holidays'] })
    expect((await one(id, `${day}T00:00:00Z`)).message).toMatch(
      /^It comes in .*, and will be skipped: .*holidays/,
    )
    await pass(toMidnight)
    const time = await one(id, `${day}T00:00:00Z`)
    expect(time).toMatchObject({ verdict: 'skipped', reason: 'calendar' })
    expect(time.message).toMatch(/^It was skipped: .*holidays.*\.$/)
    await pass(5 * minuteMs)
    await t.call('PATCH', `/v1/calendars/${made.body.id}`, { body: { dates: ['2027-01-01'] } })
    expect((await one(id, at(-minuteMs))).verdict).toBe('older_timing')
  })

  it('history of that day is gone', async () => {
    const id = await t.make({ cron: '*/10 * * * *' })
    await t.database.sql(
      `UPDATE belfry.schedule SET created_at = created_at - interval '90 days',
         timing_since = timing_since - interval '90 days' WHERE id = $1`,
      [id],
    )
    const time = await one(id, new Date(nowMs - 60 * 24 * hourMs).toISOString())
    expect(time.verdict).toBe('pruned')
    expect(time.message).toContain('kept for 30 days')
  })

  it('planned by the data of today, but there is no record', async () => {
    const id = await t.make({ cron: '*/10 * * * *' })
    await t.database.sql(
      `UPDATE belfry.schedule SET created_at = created_at - interval '9 days',
         timing_since = timing_since - interval '9 days' WHERE id = $1`,
      [id],
    )
    const time = await one(id, at(-48 * hourMs))
    expect(time.verdict).toBe('no_record')
    expect(time.message).toContain('time zone data')
  })
})

describe('what is asked for', () => {
  it('a day, today and yesterday, on the wall clock of the schedule', async () => {
    const id = await t.make({ cron: '0 * * * *', zone: 'America/New_York', overlap: 'allow' })
    const answer = await explained(id, { at: '2026-06-01' })
    expect([answer.from, answer.to]).toEqual(['2026-06-01T04:00:00.000Z', '2026-06-02T04:00:00.000Z'])
    expect(answer.planned).toEqual({ count: 24, capped: false })
    expect(answer.times[0]).toMatchObject({ local: '2026-06-01T00:00:00-04:00', verdict: 'before_creation' })
    const yesterday = await explained(id, { at: 'Yesterday' })
    expect(Date.parse(yesterday.to) - Date.parse(yesterday.from)).toBe(24 * hourMs)
    const berlin = await t.make({ cron: '30 2 * * *', zone: 'Europe/Berlin' })
    const leap = await explained(berlin, { at: '2027-03-28' })
    expect(leap.times).toMatchObject([
      {
        scheduledFor: '2027-03-28T01:00:00.000Z',
        note: expect.stringContaining('stands for 02:30') as string,
      },
    ])
  })

  it('a wall time of the schedule, also one that does not exist', async () => {
    const id = await t.make({ cron: '30 2 * * *', zone: 'Europe/Berlin' })
    const { times } = await explained(id, { at: '2027-03-28T02:30' })
    expect(times).toMatchObject([
      { scheduledFor: '2027-03-28T01:00:00.000Z', note: expect.stringContaining('does not exist') as string },
    ])
  })

  it('a stretch, cut where it is long, with where to go on', async () => {
    const id = await t.make({ every: '1s', overlap: 'allow' })
    const first = await explained(id, { from: at(0), to: at(hourMs), limit: '10' })
    expect(first.planned).toEqual({ count: 3_599, capped: false })
    expect(first.times).toHaveLength(10)
    const second = await explained(id, { from: first.more ?? '', to: first.to, limit: '10' })
    expect(second.times[0]?.scheduledFor).toBe(first.more)
    expect(Date.parse(second.times[0]?.scheduledFor ?? '')).toBe(
      Date.parse(first.times[9]?.scheduledFor ?? '') + 1_000,
    )
    await t.act(id, 'pause')
  })

  it('a run that a person started for a time is told with it', async () => {
    const id = await t.make({ every: '10m' })
    await pass(20 * minuteMs)
    const asked = await t.act(id, 'trigger', { scheduledFor: at(0) })
    const time = await one(id, at(0))
    expect(time.verdict).toBe('skipped')
    expect(time.runs).toMatchObject([{ id: asked.body.id, source: 'trigger', backfillId: null }])
    await endRuns()
  })

  it.each([
    [{ at: 'tomorrowish' }, '/query/at'],
    [{ at: '2026-02-30' }, '/query/at'],
    [{ at: '1969-12-31' }, '/query/at'],
    [{ at: '2026-06-01T25:00' }, '/query/at'],
    [{ at: 'today', from: '2026-06-01T00:00:00Z' }, '/query/at'],
    [{ from: '2026-06-02T00:00:00Z', to: '2026-06-01T00:00:00Z' }, '/query/to'],
    [{ from: '2199-06-02T00:00:00Z' }, '/query/from'],
    [{ limit: '0' }, '/query/limit'],
    [{ limit: '101' }, '/query/limit'],
  ])('%j is refused', async (query, pointer) => {
    const id = await t.make({ every: '1h' })
    const asked = new URLSearchParams(query as Record<string, string>).toString()
    const { body } = await t.call('GET', `/v1/schedules/${id}/explain?${asked}`)
    expect(body).toMatchObject({ status: 400, code: 'invalid_request', errors: [{ pointer }] })
  })

  it('one of another tenant is not there', async () => {
    const id = await t.make({ every: '1h' })
    const key = await t.keyFor('other', ['read'])
    expect((await t.call('GET', `/v1/schedules/${id}/explain`, { key })).status).toBe(404)
  })
})

describe('occurrences by reason', () => {
  it('are filtered, and an unknown reason is refused with what there is', async () => {
    const id = await t.make({ every: '10m' })
    await pass(30 * minuteMs)
    const path = `/v1/schedules/${id}/occurrences`
    const skipped = await t.call('GET', `${path}?reason=overlap`)
    expect(skipped.body.items.map(({ outcome }) => outcome)).toEqual(['skipped', 'skipped'])
    expect((await t.call('GET', `${path}?reason=asleep`)).body.items).toEqual([])
    const refused = await t.call('GET', `${path}?reason=overslept`)
    expect(refused.body).toMatchObject({ status: 400, errors: [{ pointer: '/query/reason' }] })
    await endRuns()
  })
})
