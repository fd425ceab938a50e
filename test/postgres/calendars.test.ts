// Calendars at the fire, on real Postgres with a clock that the test moves: what the ledger says of a time
// that is left out or moved, and how a change of a calendar reaches fires, also those that are decided in
// memory.
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { openZoneSource } from '../../packages/server/src/adapters/zones/zone-source.ts'
import { makeReplanner } from '../support/replanning.ts'
import { type ScheduledApi, startScheduledApi } from '../support/scheduled-api.ts'
import { until } from '../support/scheduling.ts'

let t: ScheduledApi
/** A Thursday. */
const start = Date.parse('2026-04-02T12:00:00Z')
let nowMs = start
beforeAll(async () => {
  t = await startScheduledApi(start)
  await calendar('weekend', { weekdays: ['sat', 'sun'] })
  await calendar('easter', { dates: ['2026-04-03', '2026-04-06'] })
})
afterAll(() => t.close())
beforeEach(async () => {
  await t.database.sql('DELETE FROM belfry.timer')
  await t.database.sql('DELETE FROM belfry.ready')
})

async function calendar(name: string, parts: object): Promise<string> {
  const answer = await t.call('POST', '/v1/calendars', { body: { name, ...parts } })
  if (answer.status !== 201) throw new Error(answer.body.detail)
  return answer.body.id
}

/** Moves on to a moment before an instant at once, and then to it. */
const jumpTo = async (instant: string) => {
  const ms = Date.parse(instant)
  await t.time.jump(ms - 2_000 - nowMs)
  await t.time.pass(2_000)
  nowMs = ms
}

/** What is on record, oldest first: the planned time, what became of it, and why. */
async function ledger(id: string): Promise<readonly (readonly unknown[])[]> {
  const { body } = await t.call('GET', `/v1/schedules/${id}/occurrences?limit=1000`)
  return body.items
    .toReversed()
    .map(({ scheduledFor, outcome, reason, detail }) =>
      [scheduledFor.slice(0, 16), outcome, reason, detail].filter((part) => part !== null),
    )
}
const recorded = (id: string, count: number) =>
  until(`${count} rows`, async () => (await ledger(id)).length >= count)

const berlin = { zone: 'Europe/Berlin', overlap: 'allow' }

describe('a planned time that a calendar leaves out', () => {
  test('is skipped, with the name of the calendar in the ledger, and makes no run', async () => {
    const id = await t.make({ cron: '0 9 * * *', ...berlin, skipOn: ['weekend', 'easter'] })
    for (const day of ['03', '04', '05', '06', '07']) {
      await jumpTo(`2026-04-${day}T07:00:00Z`)
      await recorded(id, Number(day) - 2)
    }
    expect(await ledger(id)).toEqual([
      ['2026-04-03T07:00', 'skipped', 'calendar', 'the calendar easter excludes it: 2026-04-03'],
      ['2026-04-04T07:00', 'skipped', 'calendar', 'the calendar weekend excludes it: Saturday'],
      ['2026-04-05T07:00', 'skipped', 'calendar', 'the calendar weekend excludes it: Sunday'],
      ['2026-04-06T07:00', 'skipped', 'calendar', 'the calendar easter excludes it: 2026-04-06'],
      ['2026-04-07T07:00', 'ran'],
    ])
    expect(await t.runsOf(id)).toBe(1)
    expect((await t.call('GET', `/v1/schedules/${id}`)).body.nextAt).toBe('2026-04-08T07:00:00.000Z')
  })

  test('is moved to the Monday after, which has a row of its own', async () => {
    const more = { skipOn: ['weekend'], onExcluded: 'next_business_day' }
    const id = await t.make({ cron: '0 9 11 4 *', ...berlin, ...more })
    await jumpTo('2026-04-11T07:00:00Z')
    await recorded(id, 1)
    await jumpTo('2026-04-13T07:00:00Z')
    await recorded(id, 2)
    expect(await ledger(id)).toEqual([
      [
        '2026-04-11T07:00',
        'skipped',
        'calendar',
        'the calendar weekend excludes it: Saturday; moved to 2026-04-13T07:00:00Z',
      ],
      ['2026-04-13T07:00', 'ran'],
    ])
  })

  test('is moved to the Friday before, known ahead; two that fall together run once', async () => {
    const more = { skipOn: ['weekend'], onExcluded: 'previous_business_day' }
    const id = await t.make({ cron: '0 9 18,19 4 *', ...berlin, ...more })
    expect((await t.call('GET', `/v1/schedules/${id}`)).body.nextAt).toBe('2026-04-17T07:00:00.000Z')
    for (const [i, day] of ['17', '18', '19'].entries()) {
      await jumpTo(`2026-04-${day}T07:00:00Z`)
      await recorded(id, i + 1)
    }
    const left = (day: string) => `the calendar weekend excludes it: ${day}; moved to 2026-04-17T07:00:00Z`
    expect(await ledger(id)).toEqual([
      ['2026-04-17T07:00', 'ran'],
      ['2026-04-18T07:00', 'skipped', 'calendar', left('Saturday')],
      ['2026-04-19T07:00', 'skipped', 'calendar', left('Sunday')],
    ])
    expect(await t.runsOf(id)).toBe(1)
  })

  test('does not count as missed, and an outage runs the newest one that calendars leave', async () => {
    const bounds = { startAt: '2026-04-20T00:00:00Z' }
    const id = await t.make({ cron: '0 9 * * *', ...berlin, ...bounds, skipOn: ['weekend'] })
    await jumpTo('2026-04-26T12:00:00Z')
    await recorded(id, 7)
    expect((await ledger(id)).map(([at, ...what]) => [String(at).slice(8, 10), ...what.slice(0, 2)])).toEqual(
      [
        ['20', 'missed', 'catch_up_latest'],
        ['21', 'missed', 'catch_up_latest'],
        ['22', 'missed', 'catch_up_latest'],
        ['23', 'missed', 'catch_up_latest'],
        ['24', 'ran'],
        ['25', 'skipped', 'calendar'],
        ['26', 'skipped', 'calendar'],
      ],
    )
  })

  test('spends nothing of a limit of runs', async () => {
    const id = await t.make({ cron: '0 9 * * *', ...berlin, skipOn: ['weekend'], runLimit: 1 })
    await jumpTo('2026-04-27T07:00:00Z')
    await recorded(id, 1)
    expect((await t.call('GET', `/v1/schedules/${id}`)).body.state).toBe('completed')
  })
})

describe('a change of a calendar', () => {
  const readAhead = async (id: string) => {
    await t.time.pass(40_000)
    nowMs += 40_000
    expect(t.node.scheduler.stats().timers).toBe(1)
    expect(await ledger(id)).toEqual([])
  }
  const change = async (calendarId: string, parts: object) => {
    const answer = await t.call('PATCH', `/v1/calendars/${calendarId}`, { body: parts })
    expect(answer.status).toBe(200)
  }
  const inAMinute = (ms = 60_000) => new Date(nowMs + ms).toISOString().slice(0, 19)

  test('counts for a fire that is decided in memory: a new holiday is kept', async () => {
    const calendarId = await calendar('late', { dates: ['2020-01-01'], zone: 'UTC' })
    const id = await t.make({ at: `${inAMinute()}Z`, skipOn: ['late'] })
    await readAhead(id)
    const [day] = inAMinute().split('T')
    await change(calendarId, { dates: [day] })
    await t.time.pass(30_000)
    nowMs += 30_000
    await recorded(id, 1)
    expect((await ledger(id)).map(([, ...what]) => what)).toEqual([
      ['skipped', 'calendar', `the calendar late excludes it: ${day}`],
    ])
  })

  test('and one that is taken back runs', async () => {
    const [day] = inAMinute().split('T')
    const calendarId = await calendar('early', { dates: [day], zone: 'UTC' })
    const other = await calendar('never', { dates: ['2020-01-01'] })
    const tomorrow = new Date(nowMs + 86_460_000).toISOString()
    const id = await t.make({ every: '1d', startAt: `${inAMinute()}Z`, endAt: tomorrow, skipOn: ['never'] })
    await t.patch(id, { skipOn: ['early', 'never'], endAt: null })
    await readAhead(id)
    await change(calendarId, { dates: ['2020-01-01'] })
    await change(other, { description: 'nothing' })
    await t.time.pass(30_000)
    nowMs += 30_000
    await recorded(id, 1)
    expect((await ledger(id)).map(([, ...what]) => what)).toEqual([['ran']])
  })

  test('moves the timer of a schedule whose next time is an earlier one now, by a replan', async () => {
    const calendarId = await calendar('shut', { weekdays: ['sat', 'sun'] })
    const more = { skipOn: ['shut'], onExcluded: 'previous_business_day' }
    const id = await t.make({ cron: '0 9 * 5 3', ...berlin, ...more })
    const timer = async () =>
      (
        await t.database.sql<{ at: Date }>('SELECT scheduled_for AS at FROM belfry.timer')
      )[0]?.at.toISOString()
    expect(await timer()).toBe('2026-05-06T07:00:00.000Z')
    await change(calendarId, { dates: ['2026-05-06'] })
    expect((await t.call('GET', `/v1/schedules/${id}`)).body.notes).toEqual([
      '2026-05-06T07:00:00.000Z does not run: the calendar shut excludes it: 2026-05-06; ' +
        'moved to 2026-05-05T07:00:00Z',
    ])
    const { replanner } = makeReplanner(t.db, openZoneSource())
    await replanner.runOnce()
    expect(await timer()).toBe('2026-05-05T07:00:00.000Z')
    const { body } = await t.call('GET', `/v1/calendars/${calendarId}`)
    expect(body).toMatchObject({ replan: { state: 'done', total: 1, done: 1, moved: 1 } })
    await change(calendarId, { dates: null })
    await replanner.runOnce()
    expect(await timer()).toBe('2026-05-06T07:00:00.000Z')
  })

  test('reaches more than a few thousand schedules: some at once, the rest with the replan', async () => {
    const calendarId = await calendar('many', { weekdays: ['sat', 'sun'] })
    const first = await t.make({ cron: '0 9 * * *', ...berlin, skipOn: ['many'] })
    await t.database.sql(
      `WITH made AS (
         INSERT INTO belfry.schedule
           (id, tenant_id, name, job_id, spec, zone, zone_data_version, catch_up, overlap)
         SELECT (left(s.id::text, 24) || lpad(to_hex(n), 12, '0'))::uuid, tenant_id, 'copy-' || n,
                job_id, spec, zone, zone_data_version, catch_up, overlap
         FROM belfry.schedule s, generate_series(1, 2500) AS n WHERE s.id = $1
         RETURNING id, tenant_id
       ), timers AS (
         INSERT INTO belfry.timer (schedule_id, tenant_id, due_at, scheduled_for, gen, shard)
         SELECT made.id, made.tenant_id, t.due_at, t.scheduled_for, 1, belfry.shard_of(made.id)
         FROM made, belfry.timer t WHERE t.schedule_id = $1
       )
       INSERT INTO belfry.schedule_calendar (tenant_id, schedule_id, calendar_id, use, position)
       SELECT tenant_id, id, $2, 'skip', 0 FROM made`,
      [first, calendarId],
    )
    const versions = () =>
      t.database.sql<{ version: number; count: number }>(
        `SELECT version, count(*)::int AS count FROM belfry.schedule
         WHERE id IN (SELECT schedule_id FROM belfry.schedule_calendar WHERE calendar_id = $1)
         GROUP BY version ORDER BY version`,
        [calendarId],
      )
    await change(calendarId, { weekdays: ['sat'] })
    expect(await versions()).toEqual([
      { version: 1, count: 501 },
      { version: 2, count: 2_000 },
    ])
    const { replanner } = makeReplanner(t.db, openZoneSource())
    await replanner.runOnce()
    expect((await versions()).every(({ version }) => version > 1)).toBe(true)
    const { body } = await t.call('GET', `/v1/calendars/${calendarId}`)
    expect(body).toMatchObject({
      usedBy: { count: 2_501 },
      replan: { state: 'done', total: 2_501, moved: 0 },
    })
  })
})
