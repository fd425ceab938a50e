// Changes at the very minute: what has come due is fired first, within the request that changes the schedule,
// so that each planned time gets exactly one row and at most one run, whoever is first.
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { compileStored } from '../../packages/server/src/domain/stored-schedule.ts'
import { columnOf } from '../../packages/server/src/domain/stored-spec.ts'
import { planSleep } from '../../packages/server/src/engine/catalog/schedule-actions.ts'
import { type Settled, settleDue } from '../../packages/server/src/engine/catalog/settle.ts'
import { createFairTags, type FairTags } from '../../packages/server/src/engine/fair-tags.ts'
import type { CatalogTx } from '../../packages/server/src/ports/catalog.ts'
import type { ScheduleRecord } from '../../packages/server/src/ports/schedule-store.ts'
import { createPostgresQueueProgress } from '../../packages/server/src/postgres/queue-progress.ts'
import { createOverlapRig, type OverlapRig } from '../support/overlap-rig.ts'
import { realClock } from '../support/real-clock.ts'
import { ids, newId, until, zones } from '../support/scheduling.ts'

const t0 = Date.UTC(2026, 0, 1)
let rig: OverlapRig
let tags: FairTags
beforeEach(async () => {
  rig = await createOverlapRig(t0)
  const progress = createPostgresQueueProgress(rig.fixture.database.open())
  tags = createFairTags({ clock: realClock, progress })
})
afterEach(() => rig.drop())

async function settle(tx: CatalogTx, current: ScheduleRecord): Promise<Settled> {
  const { tenantId } = rig.fixture
  const nowMs = await tx.nowMs()
  const times = () => {
    const compiled = compileStored(
      { ...current, spec: columnOf(current.spec), scheduleId: current.id },
      zones,
    )
    if (!compiled.ok) throw new Error(compiled.error)
    return compiled.value
  }
  return settleDue(tx, current, { ids, tags, tenantId, nowMs, times })
}

/** Locks, settles and goes on with `change` as a request would. */
const request = <T>(id: string, change: (tx: CatalogTx, settled: Settled) => Promise<T>): Promise<T> =>
  rig.asTenant(async (tx) => {
    const current = await tx.schedules.lock(id)
    if (current === undefined) throw new Error('no such schedule')
    return change(tx, await settle(tx, current))
  })

const kinds = ({ effects }: Settled): string[] =>
  effects.map((effect) => (effect.kind === 'hint' ? effect.hint.topic : effect.kind))

describe('a change at the very minute', () => {
  test('before the scheduler comes: the time runs once, then the schedule is gone', async () => {
    const id = await rig.addSchedule()
    await request(id, async (tx, settled) => {
      expect(settled.schedule?.next).toEqual({ scheduledForMs: t0 + 10_000, dueAtMs: t0 + 10_000 })
      expect(kinds(settled)).toEqual(['fired', 'enqueued', 'ready'])
      await tx.schedules.remove(id, [])
    })
    await rig.startNode()
    await rig.time.pass(30_000)
    expect(await rig.story(id)).toEqual(['0 ran ready'])
  })

  test('a scheduler that fires at the same instant waits for the change, and finds it done', async () => {
    const id = await rig.addSchedule()
    const node = rig.fixture.node({ clock: rig.time.clock })
    await request(id, async () => {
      await node.start()
      await until('the scheduler to wait', async () => (await rig.fixture.database.waiting()) > 0)
    })
    await rig.time.asleep()
    await rig.time.pass(15_000)
    expect(await rig.story(id)).toEqual(['0 ran ready', '10 ran ready'])
    expect(await rig.fixture.count('run')).toBe(2)
  })

  test('a fire that waits for a change is decided by what was changed', async () => {
    const id = await rig.addSchedule({ scheduledForMs: t0 + 10 })
    const node = rig.fixture.node({ clock: rig.time.clock })
    await node.start()
    await rig.time.asleep()
    await request(id, async (tx, settled) => {
      if (settled.schedule === undefined) throw new Error('it is gone')
      const sleep = { untilMs: t0 + 60_000, reason: 'just in time' }
      await tx.schedules.change(id, planSleep(settled.schedule, sleep, await tx.nowMs()))
      await rig.fixture.database.setNow(new Date(t0 + 10))
      void rig.time.clock.advance(10)
      await until('the fire to wait', async () => (await rig.fixture.database.waiting()) > 0)
    })
    await rig.time.asleep()
    await rig.time.pass(2_000)
    expect(await rig.story(id)).toEqual(['0.01 skipped asleep'])
  })

  test('after the scheduler: nothing is left to settle', async () => {
    const id = await rig.addSchedule()
    await rig.startNode()
    await until('the fire', async () => (await rig.story(id)).length === 1)
    await request(id, (_tx, settled) => {
      expect(settled.effects).toEqual([])
      return Promise.resolve()
    })
    expect(await rig.story(id)).toEqual(['0 ran ready'])
  })

  test('a dry run takes the fire back with everything else', async () => {
    const id = await rig.addSchedule()
    const access = { tenantId: rig.fixture.tenantId, dryRun: true, readOnly: false }
    await rig.catalog.within(access, async (tx) => {
      const current = await tx.schedules.lock(id)
      if (current !== undefined) await settle(tx, current)
    })
    expect(await rig.story(id)).toEqual([])
    await rig.startNode()
    await until('the fire', async () => (await rig.story(id)).length === 1)
  })

  test('what its jitter would have kept for a while starts now', async () => {
    const id = await rig.addSchedule({ jitterMs: 9_000, dueAtMs: t0 + 7_000 })
    await request(id, async (tx) => tx.schedules.remove(id, []))
    const [row] = await rig.fixture.database.sql<{ due_at: Date; fired_at: Date }>(
      'SELECT due_at, fired_at FROM belfry.occurrence',
    )
    expect(row).toEqual({ due_at: new Date(t0), fired_at: new Date(t0) })
    expect(await rig.fixture.count('ready')).toBe(1)
  })

  test('an outage is accounted for by the policies as they were', async () => {
    const scheduledForMs = t0 - 30_000
    const id = await rig.addSchedule({ scheduledForMs, catchUp: { policy: 'all' }, overlap: 'buffer_all' })
    const settled = await request(id, (_tx, result) => Promise.resolve(result))
    expect(await rig.story(id)).toEqual(['-30 ran ready', '-20 ran waits', '-10 ran waits', '0 ran waits'])
    expect(kinds(settled)).toEqual(['fired', 'enqueued', 'ready', 'timers', 'timers', 'timers'])
    expect(settled.effects).toContainEqual(expect.objectContaining({ kind: 'enqueued', count: 4 }))
  })

  test('the last time of a schedule that is deleted after completion: there is none any more', async () => {
    const spec = { at: new Date(t0).toISOString() }
    const id = await rig.addSchedule({ spec, afterCompletion: 'delete' })
    const settled = await request(id, (_tx, result) => Promise.resolve(result))
    expect(settled.schedule).toBeUndefined()
    expect(await rig.story(id)).toEqual(['0 ran ready'])
  })

  test('under a limit of runs it counts, and completes', async () => {
    const id = await rig.addSchedule({ runLimit: 1 })
    const settled = await request(id, (_tx, result) => Promise.resolve(result))
    expect(settled.schedule).toMatchObject({ state: 'completed', runCount: 1, next: null })
  })

  test('terminate_other ends what runs, and tells the session', async () => {
    const id = await rig.addSchedule({ overlap: 'terminate_other' })
    await rig.startNode()
    await until('the fire', async () => (await rig.story(id)).length === 1)
    await rig.claim()
    await rig.fixture.database.setNow(new Date(t0 + 10_000))
    const settled = await request(id, (_tx, result) => Promise.resolve(result))
    expect(await rig.story(id)).toEqual(['0 ran canceled/overlap', '10 ran ready'])
    expect(settled.effects).toContainEqual({ kind: 'hint', hint: { topic: 'cancel', key: rig.sessionId } })
  })
})

test('another tenant cannot settle it', async () => {
  const id = await rig.addSchedule()
  const other = newId()
  await rig.fixture.database.sql("INSERT INTO belfry.tenant (id, name) VALUES ($1, 'other')", [other])
  const asOther = { tenantId: other, dryRun: false, readOnly: false }
  const ran = { outcome: 'ran', reason: null, detail: null, missedCount: 1, runId: newId(), tag: 1 } as const
  const time = { scheduledForMs: t0, dueAtMs: t0 }
  const settling = rig.catalog.within(asOther, async (tx) => {
    expect(await tx.schedules.lock(id)).toBeUndefined()
    await tx.schedules.settle({
      scheduleId: id,
      shard: 0,
      gen: 1,
      version: 1,
      expectedDueAtMs: t0,
      next: null,
      plain: false,
      occurrences: [{ ...time, ...ran }],
    })
  })
  await expect(settling).rejects.toMatchObject({ code: 'serialization_conflict' })
  expect(await rig.fixture.count('occurrence')).toBe(0)
})
