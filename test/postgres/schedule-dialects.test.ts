// A schedule of each dialect through the real scheduler, in virtual time: what is stored in the form of the
// API fires at the times of its own dialect, the first one and those after it.
import { afterEach, beforeEach, expect, test } from 'vitest'
import { compileStored } from '../../packages/server/src/domain/stored-schedule.ts'
import { createSchedulingFixture, newId, type SchedulingFixture, zones } from '../support/scheduling.ts'
import { useVirtualTime } from '../support/virtual-time.ts'

let fixture: SchedulingFixture
beforeEach(async () => {
  fixture = await createSchedulingFixture()
})
afterEach(() => fixture.drop())

const t0 = Date.UTC(2026, 0, 1, 8, 58, 30) // a Thursday
const minute = 60_000
const at = (minutes: number, seconds = 0): number => Date.UTC(2026, 0, 1, 9, minutes, seconds)

const cases: readonly { readonly spec: object; readonly fires: readonly number[] }[] = [
  { spec: { cron: '0,2 9 * * 4', dialect: 'unix' }, fires: [at(0), at(2)] },
  { spec: { cron: '@every 90s', dialect: 'kubernetes', anchorMs: t0 }, fires: [at(0), at(1, 30)] },
  { spec: { cron: '*/5 9 * * *', dialect: 'github' }, fires: [at(0)] },
  { spec: { cron: '15 0/2 9 ? * 5', dialect: 'quartz' }, fires: [at(0, 15), at(2, 15)] },
  { spec: { cron: 'cron(1 9 ? * 5#1 *)', dialect: 'eventbridge' }, fires: [at(1)] },
  { spec: { cron: 'Thu *-*-* 09:01:30 UTC', dialect: 'systemd' }, fires: [at(1, 30)] },
  { spec: { every: 'every 2 weeks on thu at 09:02', anchor: '2026-01-01' }, fires: [at(2)] },
  { spec: { cron: '1 9 1 1 4', dialect: 'unix', dayMatch: 'and', dst: { gap: 'skip' } }, fires: [at(1)] },
]

test('each fires at the times of its own dialect', async () => {
  const time = await useVirtualTime(fixture, t0)
  const ids: string[] = []
  for (const { spec, fires } of cases)
    ids.push(await fixture.addSchedule({ spec, scheduledForMs: fires[0] ?? 0, overlap: 'allow' }))
  const node = fixture.node({ clock: time.clock, termMs: 600_000 })
  await node.start()
  await time.asleep()
  await time.pass(at(2, 30) - t0)
  for (const [i, { fires }] of cases.entries()) {
    const rows = await fixture.occurrences(ids[i] ?? '')
    expect(rows.map(({ scheduled_for: planned, outcome }) => [planned.getTime(), outcome])).toEqual(
      fires.map((ms) => [ms, 'ran']),
    )
  }
})

test('H of Jenkins goes by the id: the scheduler plans what the API planned', async () => {
  const time = await useVirtualTime(fixture, t0)
  const spec = { cron: 'H * * * *', dialect: 'jenkins' }
  const planned = new Map<string, number[]>()
  for (let i = 0; i < 4; i++) {
    const id = newId()
    const stored = { scheduleId: id, spec, zone: 'UTC', startAtMs: null, endAtMs: null }
    const compiled = compileStored(stored, zones)
    if (!compiled.ok) throw new Error(compiled.error)
    const fires = compiled.value.between(t0, t0 + 120 * minute, 9)
    await fixture.addSchedule({ id, spec, scheduledForMs: fires[0] ?? 0, overlap: 'allow' })
    planned.set(id, [...fires])
  }
  const node = fixture.node({ clock: time.clock, termMs: 600_000 })
  await node.start()
  await time.asleep()
  await time.pass(120 * minute)
  for (const [id, fires] of planned) {
    expect(fires).toHaveLength(2)
    const rows = await fixture.occurrences(id)
    expect(rows.map(({ scheduled_for: ms }) => ms.getTime())).toEqual(fires)
  }
  expect(new Set([...planned.values()].map(([first]) => first)).size).toBeGreaterThan(1)
})
