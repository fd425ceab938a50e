// Replans as requests see them: those of a calendar are asked for within the transaction that changes it, and
// seen by its tenant alone; those of zones are listed for the platform; a dry run leaves none.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Catalog } from '../../packages/server/src/ports/catalog.ts'
import { createPostgresCatalog } from '../../packages/server/src/postgres/catalog/catalog.ts'
import { makeReplanner, addZoned } from '../support/replanning.ts'
import { createSchedulingFixture, newId, type SchedulingFixture } from '../support/scheduling.ts'
import { fixedZone, removeZoneTrees, zonesOf } from '../support/zone-trees.ts'

let fixture: SchedulingFixture
let catalog: Catalog
const zone = 'Europe/Berlin'
const berlinAt = (version: string, hours: number) =>
  zonesOf({ version, zones: [zone], altered: { [zone]: fixedZone(hours) } })

beforeAll(async () => {
  fixture = await createSchedulingFixture()
  catalog = createPostgresCatalog({ db: fixture.database.open() })
})
afterAll(async () => {
  await fixture.drop()
  removeZoneTrees()
})

const access = (more: object = {}) => ({
  tenantId: fixture.tenantId,
  dryRun: false,
  readOnly: false,
  ...more,
})
const ask = (calendarId: string, toVersion: number, more: object = {}) =>
  catalog.within(access(more), async (tx) => {
    const versions = { fromVersion: toVersion - 1, toVersion }
    await tx.replans.requestForCalendar({ id: newId(), calendarId, ...versions, total: 3 })
    return tx.replans.lastOfCalendar(calendarId)
  })

describe('a replan of a calendar', () => {
  test('is seen by the transaction that asks for it, and by its tenant afterwards', async () => {
    const calendarId = newId()
    const asked = await ask(calendarId, 2)
    expect(asked).toMatchObject({
      kind: 'calendar',
      subject: calendarId,
      tenantId: fixture.tenantId,
      state: 'pending',
      fromVersion: '1',
      toVersion: '2',
      total: 3,
      done: 0,
      moved: 0,
      failed: 0,
      startedAtMs: null,
    })
    const last = (tenantId: string) =>
      catalog.within(access({ tenantId, readOnly: true }), (tx) => tx.replans.lastOfCalendar(calendarId))
    expect(await last(fixture.tenantId)).toEqual(asked)
    expect(await last(newId())).toBeUndefined()
    await ask(calendarId, 3)
    expect(await last(fixture.tenantId)).toMatchObject({ toVersion: '3' })
  })

  test('is gone after a dry run', async () => {
    const calendarId = newId()
    expect(await ask(calendarId, 2, { dryRun: true })).toBeDefined()
    const rows = await fixture.database.sql('SELECT FROM belfry.replan WHERE subject = $1', [calendarId])
    expect(rows).toEqual([])
  })
})

test('replans of zones are listed newest first, page by page, without those of calendars', async () => {
  const db = fixture.database.open()
  const nowMs = Date.now()
  await ask(newId(), 2)
  const releases = ['2098a', '2098b', '2098c'].map((version, index) => berlinAt(version, index + 1))
  for (const zones of releases) {
    await makeReplanner(db, zones).replanner.runOnce()
    await addZoned(fixture, { zone, zones, afterMs: nowMs })
  }
  const list = (beforeId: string | null, limit: number) =>
    catalog.withinPlatform(access({ readOnly: true }), (tx) => tx.replans.list({ beforeId, limit }))
  const all = await list(null, 10)
  expect(all.map(({ subject, toVersion, state }) => [subject, toVersion, state])).toEqual([
    [zone, '2098c', 'done'],
    [zone, '2098b', 'done'],
  ])
  const [first, second] = all
  expect(await list(first?.id ?? null, 1)).toEqual([second])
  const newest = await catalog.within(access({ readOnly: true }), (tx) => tx.replans.newestZoneData())
  expect(newest).toBe('2098c')
})
