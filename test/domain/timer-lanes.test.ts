// The two lanes of timers in memory, and timers that rest.
import { describe, expect, test } from 'vitest'
import { createSetAside } from '../../packages/server/src/engine/set-aside.ts'
import type { TimerEntry } from '../../packages/server/src/engine/timer-heap.ts'
import { createTimerLanes } from '../../packages/server/src/engine/timer-lanes.ts'
import type { DueTimer } from '../../packages/server/src/ports/timer-index.ts'
import { createVirtualClock } from '../support/virtual-clock.ts'

const nowMs = 1_000_000
const timer = (id: string, dueAtMs: number, shard = 0): DueTimer => {
  return { kind: 'schedule', id, tenantId: 't', shard, dueAtMs, scheduledForMs: dueAtMs, gen: 1 }
}
const ids = (entries: readonly TimerEntry[]): string[] => entries.map((entry) => entry.timer.id)

function lanesOf(dues: Readonly<Record<string, number>>, maxTimers = 1_000) {
  const lanes = createTimerLanes<TimerEntry>(maxTimers)
  for (const [id, dueAtMs] of Object.entries(dues)) lanes.push({ timer: timer(id, dueAtMs) })
  return lanes
}

describe('lanes', () => {
  test('what is on time does not wait behind what is late', () => {
    const lanes = lanesOf({ old: nowMs - 60_000, older: nowMs - 90_000, now: nowMs - 500, soon: nowMs + 5 })
    expect(ids(lanes.popOnTime(nowMs, 10))).toEqual(['now'])
    expect(ids(lanes.popLate(nowMs, 1))).toEqual(['older'])
    expect(ids(lanes.popLate(nowMs, 10))).toEqual(['old'])
    expect(lanes.firstDueMs()).toBe(nowMs + 5)
  })

  test('what waits for more than a second is late, and stands there once', () => {
    const lanes = lanesOf({ a: nowMs })
    expect(lanes.popOnTime(nowMs + 1_001, 10)).toEqual([])
    expect(lanes.push({ timer: timer('a', nowMs) })).toBe(false)
    expect(lanes.size).toBe(1)
    expect(lanes.push({ timer: timer('a', nowMs + 9_000) })).toBe(true)
    expect(lanes.popLate(nowMs + 1_001, 10)).toEqual([])
    expect(lanes.size).toBe(1)
  })

  test('an entry that has to wait keeps nobody waiting', () => {
    const lanes = lanesOf({ b: nowMs })
    lanes.push({ timer: timer('a', nowMs - 10), notBeforeMs: nowMs + 40 })
    expect(ids(lanes.popOnTime(nowMs, 10))).toEqual(['b'])
    expect(lanes.firstDueMs()).toBe(nowMs + 40)
    expect(ids(lanes.popOnTime(nowMs + 40, 10))).toEqual(['a'])
  })

  test('a backlog takes no room from what is on time', () => {
    const late = Object.fromEntries(Array.from({ length: 300 }, (_, i) => [`l${i}`, i]))
    const soon = Object.fromEntries(Array.from({ length: 60 }, (_, i) => [`s${i}`, nowMs + i]))
    const lanes = lanesOf({ ...late, ...soon }, 100)
    expect(lanes.trim(nowMs)).toEqual({ ceilingMs: Infinity, droppedLate: true })
    expect(ids(lanes.popOnTime(nowMs + 500, 100))).toHaveLength(60)
    expect(ids(lanes.popLate(nowMs, 100))).toEqual(Array.from({ length: 18 }, (_, i) => `l${i}`))
    expect([lanes.hasRoom, lanes.hasRoomForLate]).toEqual([true, true])
  })

  test('the ceiling is the first due instant that was dropped, whatever waits longer', () => {
    const soon = Object.fromEntries(Array.from({ length: 80 }, (_, i) => [`s${i}`, nowMs + i]))
    const lanes = lanesOf(soon, 100)
    lanes.push({ timer: timer('waits', nowMs), notBeforeMs: nowMs + 9_000 })
    expect(lanes.trim(nowMs)).toEqual({ ceilingMs: nowMs, droppedLate: false })
    expect(lanes.size).toBe(56)
  })
})

describe('timers set aside', () => {
  test('rest longer each time, and each shard is told once', async () => {
    const clock = createVirtualClock(0)
    const setAside = createSetAside(clock)
    const [a, b] = [timer('a', 5, 3), timer('b', 5, 4)]
    expect([setAside.add(a), setAside.add(b), setAside.add(b)]).toEqual([1_000, 1_000, 2_000])
    expect(setAside.waitMs()).toBe(1_000)
    await clock.advance(1_000)
    expect([setAside.holds(a), setAside.holds(b)]).toEqual([false, true])
    expect([[...setAside.takeRested()], [...setAside.takeRested()]]).toEqual([[3], []])
    expect(setAside.waitMs()).toBe(1_000)
    setAside.clear('b')
    expect([setAside.waitMs(), setAside.holds(b)]).toEqual([Infinity, false])
    // What became of it counts anew once it is another one.
    expect([setAside.add(a), setAside.add(timer('a', 6, 3))]).toEqual([2_000, 1_000])
  })

  test('stay bounded, and a step costs little however many rest', () => {
    const setAside = createSetAside(createVirtualClock(0))
    for (let i = 0; i < 12_000; i++) setAside.add(timer(`t${i}`, i))
    expect([setAside.holds(timer('t1999', 1_999)), setAside.holds(timer('t2000', 2_000))]).toEqual([
      false,
      true,
    ])
    // Walking over all that rest took seconds for as many steps.
    const startMs = performance.now()
    for (let step = 0; step < 50_000; step++) {
      if (setAside.takeRested().size + setAside.waitMs() !== 1_000) throw new Error('all of them still rest')
    }
    expect(performance.now() - startMs).toBeLessThan(1_000)
  })
})
