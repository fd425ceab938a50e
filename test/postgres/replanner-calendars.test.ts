// A calendar that changes: the next times of the schedules that use it are computed again, by the same role
// and rules as those of a zone; newer versions supersede older ones.
import { createHash } from 'node:crypto'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { plannedTimeAfter } from '../../packages/server/src/domain/firing.ts'
import { compileStored } from '../../packages/server/src/domain/stored-schedule.ts'
import { mostTouched } from '../../packages/server/src/ports/calendars.ts'
import { createPostgresCatalog } from '../../packages/server/src/postgres/catalog/catalog.ts'
import type { Database } from '../../packages/server/src/postgres/database.ts'
import { createPostgresFiring } from '../../packages/server/src/postgres/firing.ts'
import { makeReplanner, zonedRow } from '../support/replanning.ts'
import { createSchedulingFixture, newId, type SchedulingFixture, zones } from '../support/scheduling.ts'

/** A Wednesday. */
const now = new Date('2026-01-14T12:00:00Z')
const friday = new Date('2026-01-16T09:00:00Z')
const thursday = new Date('2026-01-15T09:00:00Z')

let fixture: SchedulingFixture
let db: Database
let calendarId: string
beforeEach(async () => {
  fixture = await createSchedulingFixture()
  await fixture.database.useVirtualNow(now)
  db = fixture.database.open()
  calendarId = newId()
  await fixture.database.sql(
    `INSERT INTO belfry.calendar (id, tenant_id, name, definition, digest)
     VALUES ($1, $2, 'holidays', $3, $4)`,
    [calendarId, fixture.tenantId, ...defined(['2026-12-25'])],
  )
})
afterEach(() => fixture.drop())

function defined(dates: readonly string[]) {
  const definition = { dates }
  return [definition, createHash('sha256').update(JSON.stringify(definition)).digest()] as const
}

/** On Fridays at 09:00, or on the business day before where the calendar takes that away. */
async function addWeekly(usesIt = true): Promise<string> {
  const id = newId()
  await fixture.database.sql(
    `INSERT INTO belfry.schedule
       (id, tenant_id, name, job_id, spec, zone, zone_data_version, catch_up, overlap, on_excluded)
     VALUES ($1, $2, $3, $4, $5, 'UTC', $6, $7, 'allow', 'previous_business_day')`,
    [
      id,
      fixture.tenantId,
      `s-${id}`,
      fixture.jobId,
      { cron: '0 9 * * 5', dialect: 'unix' },
      zones.dataVersion,
      { policy: 'latest', windowMs: 86_400_000, maxRuns: 100 },
    ],
  )
  if (usesIt)
    await fixture.database.sql(
      `INSERT INTO belfry.schedule_calendar (tenant_id, schedule_id, calendar_id, use, position)
       VALUES ($1, $2, $3, 'skip', 0)`,
      [fixture.tenantId, id, calendarId],
    )
  const [plan] = await createPostgresFiring(db).plans([id])
  const compiled = plan === undefined ? undefined : compileStored(plan, zones)
  if (plan === undefined || compiled?.ok !== true) throw new Error('the schedule cannot be compiled')
  const next = plannedTimeAfter(plan, compiled.value, now.getTime())
  await fixture.database.sql(
    `INSERT INTO belfry.timer (schedule_id, tenant_id, due_at, scheduled_for, gen, shard)
     VALUES ($1, $2, $3, $3, 1, belfry.shard_of($1))`,
    [id, fixture.tenantId, new Date(next?.scheduledForMs ?? 0)],
  )
  return id
}

/** Changes the calendar and asks for the replan, as a request does. */
async function change(dates: readonly string[], toVersion: number, total = 2): Promise<void> {
  await fixture.database.sql(
    'UPDATE belfry.calendar SET definition = $2, digest = $3, version = $4 WHERE id = $1',
    [calendarId, ...defined(dates), toVersion],
  )
  const catalog = createPostgresCatalog({ db })
  const access = { tenantId: fixture.tenantId, dryRun: false, readOnly: false }
  await catalog.within(access, (tx) =>
    tx.replans.requestForCalendar({ id: newId(), calendarId, fromVersion: toVersion - 1, toVersion, total }),
  )
}

const replans = () =>
  fixture.database.sql(
    `SELECT to_version, state, total::int AS total, done::int AS done, moved::int AS moved
     FROM belfry.replan ORDER BY to_version`,
  )

describe('a calendar that changes', () => {
  test('moves the next times that are others now, and leaves what does not use it', async () => {
    const [first, second, other] = [await addWeekly(), await addWeekly(), await addWeekly(false)]
    const untouched = await zonedRow(fixture, other)
    await change(['2026-01-16'], 2)
    const { replanner, events } = makeReplanner(db, zones)
    expect(await replanner.runOnce()).toBe(2)
    for (const id of [first, second])
      expect(await zonedRow(fixture, id)).toMatchObject({ scheduled_for: thursday, gen: 2, timer_gen: 2 })
    expect(await zonedRow(fixture, other)).toEqual(untouched)
    expect(await replans()).toEqual([{ to_version: '2', state: 'done', total: 2, done: 2, moved: 2 }])
    expect(events.at(-1)).toMatchObject({
      name: 'replan_ended',
      payload: { kind: 'calendar', subject: calendarId, tenantId: fixture.tenantId, fromVersion: '1' },
    })
    await change(['2026-12-25'], 3)
    await replanner.runOnce()
    expect(await zonedRow(fixture, first)).toMatchObject({ scheduled_for: friday, gen: 3, timer_gen: 3 })
  })

  test('writes nothing where nothing is to move', async () => {
    const id = await addWeekly()
    const before = await zonedRow(fixture, id)
    await change(['2026-12-26'], 2)
    await makeReplanner(db, zones).replanner.runOnce()
    expect(await zonedRow(fixture, id)).toEqual(before)
  })

  test('counts the versions of schedules that its own change did not come to', async () => {
    const id = await addWeekly()
    await change(['2026-12-26'], 2, mostTouched + 1)
    await makeReplanner(db, zones).replanner.runOnce()
    expect(await zonedRow(fixture, id)).toMatchObject({ version: 2, gen: 1, scheduled_for: friday })
  })

  test('twice is replanned once, by the newest version', async () => {
    const id = await addWeekly()
    await change(['2026-01-16'], 9)
    await change(['2026-01-15', '2026-01-16'], 10)
    const { replanner, events } = makeReplanner(db, zones)
    await replanner.runOnce()
    // neither Friday nor Thursday, and Wednesday 09:00 is over
    expect((await zonedRow(fixture, id)).scheduled_for).not.toEqual(thursday)
    expect(await replans()).toMatchObject([
      { to_version: '10', state: 'done', done: 1 },
      { to_version: '9', state: 'superseded', done: 0 },
    ])
    // which of the two comes first is left to their ids, made in the same millisecond
    const ended = events.flatMap(({ name, payload }) => (name === 'replan_ended' ? [payload] : []))
    expect(ended).toHaveLength(2)
    expect(ended).toContainEqual(expect.objectContaining({ state: 'superseded', toVersion: '9' }))
    expect(ended).toContainEqual(expect.objectContaining({ state: 'done', toVersion: '10' }))
  })
})
