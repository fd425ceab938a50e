// The scheduler on real Postgres with a clock that the test moves: what it asks the database for, and what
// hours, outages and edits come to.
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { createPostgresFiring } from '../../packages/server/src/postgres/firing.ts'
import { createPostgresTimerIndex } from '../../packages/server/src/postgres/timer-index.ts'
import type { Firing } from '../../packages/server/src/ports/firing.ts'
import type { TimerIndex } from '../../packages/server/src/ports/timer-index.ts'
import {
  createSchedulingFixture,
  type SchedulingFixture,
  type TestNode,
  until,
} from '../support/scheduling.ts'
import type { VirtualClock } from '../support/virtual-clock.ts'
import { useVirtualTime, type VirtualTime } from '../support/virtual-time.ts'

let fixture: SchedulingFixture
beforeEach(async () => {
  fixture = await createSchedulingFixture()
})
afterEach(() => fixture.drop())

const atSpec = (ms: number) => ({ at: new Date(ms).toISOString() })

function outcomesOf(node: TestNode) {
  return node.events.flatMap(({ name, payload }) =>
    name === 'occurrences_fired'
      ? (payload as { outcomes: { scheduleId: string; lateMs: number }[] }).outcomes
      : [],
  )
}

describe('in virtual time', () => {
  const t0 = Date.UTC(2026, 0, 1)
  let clock: VirtualClock
  let time: VirtualTime
  beforeEach(async () => {
    time = await useVirtualTime(fixture, t0)
    clock = time.clock
  })
  const asleep = (): Promise<void> => time.asleep()
  const pass = (ms: number): Promise<void> => time.pass(ms)

  function counting() {
    const index = createPostgresTimerIndex(fixture.database.open())
    const firing = createPostgresFiring(fixture.database.open())
    const calls = { scan: 0, plans: 0, fire: 0, release: 0, renew: 0 }
    const timers: TimerIndex = { ...index, scan: (options) => (calls.scan++, index.scan(options)) }
    const counted: Firing = {
      plans: (ids) => (calls.plans++, firing.plans(ids)),
      fire: (...args) => (calls.fire++, firing.fire(...args)),
      release: (...args) => (calls.release++, firing.release(...args)),
    }
    const leadership = {
      renew: (...args: Parameters<typeof fixture.leadership.renew>) => (
        calls.renew++, fixture.leadership.renew(...args)
      ),
      resign: (id: string) => fixture.leadership.resign(id),
    }
    return { calls, timers, firing: counted, leadership }
  }

  test('idle, it asks the database twelve times a minute for its term and twice for timers', async () => {
    const { calls, ...parts } = counting()
    await fixture.addSchedule({ scheduledForMs: t0 + 86_400_000 })
    const node = fixture.node({ clock, ...parts })
    await node.start()
    await asleep()
    Object.assign(calls, { scan: 0, plans: 0, fire: 0, release: 0, renew: 0 })
    await pass(10 * 60_000)
    expect(calls).toEqual({ scan: 20, plans: 0, fire: 0, release: 0, renew: 120 })
  })

  test('a rate inside the horizon goes round in memory: one fire each, no further scan', async () => {
    const { calls, ...parts } = counting()
    const id = await fixture.addSchedule({ scheduledForMs: t0 + 5_000 })
    const node = fixture.node({ clock, ...parts })
    await node.start()
    await asleep()
    Object.assign(calls, { scan: 0, plans: 0, fire: 0, release: 0, renew: 0 })
    await pass(60_000)
    expect(await fixture.occurrences(id)).toHaveLength(6)
    expect(calls.fire).toBe(6)
    expect(calls.scan).toBe(2)
    expect(outcomesOf(node).every(({ lateMs }) => lateMs < 2)).toBe(true)
  })

  test('a lost hint costs at most half a horizon', async () => {
    const node = fixture.node({ clock })
    await node.start()
    await asleep()
    const id = await fixture.addSchedule({ scheduledForMs: t0 + 31_000, spec: atSpec(t0 + 31_000) })
    await pass(32_000)
    expect((await fixture.occurrences(id))[0]).toMatchObject({ outcome: 'ran' })
    expect(outcomesOf(node)[0]?.lateMs).toBeLessThan(2)
  })

  test('an edit that no hint told of: the old time is refused, the new one fires on time', async () => {
    const id = await fixture.addSchedule({ scheduledForMs: t0 + 600, spec: atSpec(t0 + 900) })
    const node = fixture.node({ clock })
    await node.start()
    await asleep()
    expect(node.scheduler.stats().timers).toBe(1)
    await fixture.database.sql('UPDATE belfry.schedule SET gen = 2')
    const move = 'UPDATE belfry.timer SET due_at = $1, scheduled_for = $1, gen = 2'
    await fixture.database.sql(move, [new Date(t0 + 900)])
    await pass(1_000)
    expect((await fixture.occurrences(id)).map(({ scheduled_for }) => scheduled_for.getTime() - t0)).toEqual([
      900,
    ])
    expect(outcomesOf(node)[0]?.lateMs).toBeLessThan(2)
    expect(node.events.some(({ name }) => name === 'fire_refused')).toBe(true)
  })

  test('an edit of the catch-up policy counts for the next fire, without a new generation', async () => {
    const spec = { every: '20s', everyMs: 20_000, anchorMs: t0 + 1_000 }
    const id = await fixture.addSchedule({ scheduledForMs: t0 + 1_000, spec, overlap: 'allow' })
    const node = fixture.node({ clock, termMs: 600_000 })
    await node.start()
    await asleep()
    await pass(2_000)
    await fixture.database.sql(`UPDATE belfry.schedule SET overlap = 'skip', version = version + 1,
      catch_up = '{"policy":"all","windowMs":86400000,"maxRuns":100}'`)
    // Both clocks miss two planned times.
    await time.jump(45_000)
    await until(
      'the missed ones to be accounted for',
      async () => (await fixture.occurrences(id)).length === 3,
    )
    expect((await fixture.occurrences(id)).map(({ reason }) => reason)).toEqual([null, 'overlap', 'overlap'])
  })

  test('a database whose clock jumps: the next answer tells, and catching up goes by it', async () => {
    const spec = { every: '10m', everyMs: 600_000, anchorMs: t0 + 50_000 }
    const catchUp = { policy: 'none' } as const
    const id = await fixture.addSchedule({ scheduledForMs: t0 + 50_000, spec, catchUp })
    const node = fixture.node({ clock })
    await node.start()
    await asleep()
    await fixture.database.setNow(new Date(t0 + 3_500_000))
    await clock.advance(5_000)
    await until('the hour to be accounted for', async () => (await fixture.occurrences(id)).length === 6)
    const reasons = (await fixture.occurrences(id)).map(({ reason }) => reason)
    expect(reasons).toEqual(Array.from({ length: 6 }, () => 'catch_up_none'))
  })

  test.each([
    ['latest', 'allow', ['missed', 'missed', 'missed', 'ran']],
    ['all', 'allow', ['ran', 'ran', 'ran', 'ran']],
    ['all', 'skip', ['skipped', 'skipped', 'skipped', 'ran']],
    ['none', 'allow', ['missed', 'missed', 'missed', 'missed']],
  ] as const)('after an outage of an hour, catch-up %s, overlap %s', async (policy, overlap, expected) => {
    const spec = { every: '15m', everyMs: 900_000, anchorMs: t0 - 3_000_000 }
    const id = await fixture.addSchedule({
      scheduledForMs: t0 - 3_000_000,
      spec,
      catchUp: { policy },
      overlap,
    })
    const node = fixture.node({ clock })
    await node.start()
    await asleep()
    await until('the outage to be accounted for', async () => (await fixture.occurrences(id)).length === 4)
    expect((await fixture.occurrences(id)).map(({ outcome }) => outcome)).toEqual(expected)
    const [timer] = await fixture.database.sql('SELECT due_at FROM belfry.timer')
    expect(timer?.['due_at']).toEqual(new Date(t0 - 3_000_000 + 4 * 900_000))
  })

  test('incident 29: overlap skip, five-minute planned times, runs that take fifteen', async () => {
    const spec = { every: '5m', everyMs: 300_000, anchorMs: t0 + 300_000 }
    const id = await fixture.addSchedule({ scheduledForMs: t0 + 300_000, spec, overlap: 'skip' })
    const node = fixture.node({ clock })
    await node.start()
    await asleep()
    await pass(15 * 60_000)
    await fixture.database.sql('DELETE FROM belfry.ready')
    await pass(10 * 60_000)
    const outcomes = (await fixture.occurrences(id)).map(({ outcome }) => outcome)
    expect(outcomes).toEqual(['ran', 'skipped', 'skipped', 'ran', 'skipped'])
  })
})
