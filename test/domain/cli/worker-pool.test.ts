// The worker pool, with processes that are played: hysteresis for every course of demand, growth, draining,
// crashes, and what it does while it knows nothing.
import type { WorkerDemand } from '@belfry/contract'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { createPool, type PoolEvent, type PoolGoal } from '../../../packages/cli/src/pool/pool.ts'
import type { Ended, PoolWorker, PoolWorkers } from '../../../packages/cli/src/pool/pool-workers.ts'
import { type Look, steady } from '../../../packages/cli/src/pool/steady.ts'

describe('hysteresis', () => {
  const courses = fc.array(fc.record({ gapMs: fc.integer({ min: 1, max: 30_000 }), wanted: fc.nat(20) }), {
    minLength: 1,
    maxLength: 60,
  })
  const follow = (course: readonly { gapMs: number; wanted: number }[]) => {
    let [looks, atMs]: [readonly Look[], number] = [[], 0]
    return course.map(({ gapMs, wanted }) => {
      atMs += gapMs
      const settled = steady(looks, { atMs, wanted }, 60_000)
      looks = settled.looks
      return { atMs, wanted, target: settled.target, kept: looks.length }
    })
  }

  it('is the most that was wanted within the time, for every course', () => {
    fc.assert(
      fc.property(courses, (course) => {
        const seen = follow(course)
        for (const { atMs, target } of seen) {
          const recent = seen.filter((each) => each.atMs <= atMs && atMs - each.atMs <= 60_000)
          expect(target).toBe(Math.max(...recent.map(({ wanted }) => wanted)))
        }
      }),
    )
  })

  it('keeps no more looks than there are numbers of workers', () => {
    fc.assert(
      fc.property(courses, (course) => {
        for (const { kept } of follow(course)) expect(kept).toBeLessThanOrEqual(21)
      }),
    )
  })
})

const current = 'now'

function rigOf(goal: Partial<PoolGoal> = {}, before: readonly Partial<PoolWorker>[] = []) {
  let nowMs = 0
  let slots: number | Error = 0
  const events: PoolEvent[] = []
  const workers = new Map<number, PoolWorker>()
  let gone: Ended[] = []
  before.forEach((worker, index) => {
    const number = index + 1
    const base = { number, pid: 100 + number, began: '1', fingerprint: current, draining: false, sinceMs: 0 }
    workers.set(number, { ...base, ...worker })
  })
  const played: PoolWorkers = {
    all: () => [...workers.values()].toSorted((a, b) => a.number - b.number),
    start() {
      let number = 1
      while (workers.has(number)) number += 1
      const worker = {
        number,
        pid: 100 + number,
        began: '1',
        fingerprint: current,
        draining: false,
        sinceMs: nowMs,
      }
      workers.set(number, worker)
      return worker
    },
    drain(number) {
      const worker = workers.get(number)
      if (worker !== undefined) workers.set(number, { ...worker, draining: true })
    },
    ended() {
      const all = gone
      gone = []
      return all
    },
  }
  const pool = createPool({
    goal: { min: 1, max: 5, slots: 10, scaleInAfterMs: 60_000, ...goal },
    workers: played,
    fingerprint: current,
    demand: async () => {
      if (slots instanceof Error) throw slots
      return [{ wantedSlots: slots, why: `${slots} slots.` } as WorkerDemand]
    },
    monotonicMs: () => nowMs,
    tell: (event) => events.push(event),
  })
  return {
    pool,
    events,
    serving: () => played.all().filter((worker) => !worker.draining).length,
    all: played.all,
    want: (next: number | Error) => void (slots = next),
    async passes(ms: number) {
      for (const endMs = nowMs + ms; nowMs < endMs; ) {
        nowMs += 2_000
        await pool.step()
      }
    },
    die(number: number) {
      const worker = workers.get(number)
      if (worker === undefined) throw new Error(`there is no worker ${number}`)
      workers.delete(number)
      gone.push({ worker, livedMs: nowMs - worker.sinceMs })
    },
  }
}

describe('a worker pool', () => {
  it('grows at once, and shrinks only when fewer have been enough for long', async () => {
    const rig = rigOf()
    await rig.passes(2_000)
    expect(rig.serving()).toBe(1)
    rig.want(35)
    await rig.passes(2_000)
    expect(rig.serving()).toBe(4)
    rig.want(0)
    await rig.passes(58_000)
    expect(rig.serving()).toBe(4)
    await rig.passes(6_000)
    expect(rig.serving()).toBe(1)
    const drained = rig.events.filter(({ event }) => event === 'draining')
    expect(drained).toMatchObject([{ worker: 2 }, { worker: 3 }, { worker: 4 }])
  })

  it('starts another in place of one that drains when more is wanted again, within bounds', async () => {
    const rig = rigOf({ max: 3, scaleInAfterMs: 0 })
    for (let round = 0; round < 5; round += 1) {
      rig.want(30)
      await rig.passes(2_000)
      rig.want(0)
      await rig.passes(2_000)
    }
    expect(rig.serving()).toBe(1)
    expect(rig.all().length).toBeLessThanOrEqual(6)
  })

  it('replaces one that dies, later and later where they die young', async () => {
    const rig = rigOf()
    await rig.passes(20_000)
    rig.die(1)
    await rig.passes(2_000)
    expect(rig.serving()).toBe(1)
    expect(rig.events).toContainEqual({ event: 'ended', worker: 1, pid: 101, asked: false })
    let starts = 0
    for (let step = 0; step < 60; step += 1) {
      if (rig.serving() === 1) {
        starts += 1
        rig.die(1)
      }
      await rig.passes(2_000)
    }
    expect(starts).toBeGreaterThan(3)
    expect(starts).toBeLessThan(12)
  })

  it('stays as it is while nothing can be learnt, and says so once', async () => {
    const rig = rigOf()
    rig.want(30)
    await rig.passes(2_000)
    rig.want(new Error('away'))
    await rig.passes(300_000)
    expect(rig.serving()).toBe(3)
    rig.die(2)
    await rig.passes(2_000)
    expect(rig.serving()).toBe(3)
    rig.want(0)
    await rig.passes(80_000)
    expect(rig.serving()).toBe(1)
    expect(rig.events.filter(({ event }) => event === 'no_figures')).toEqual([
      { event: 'no_figures', why: 'away' },
    ])
    expect(rig.events.filter(({ event }) => event === 'figures_again')).toHaveLength(1)
  })

  it('takes over what a pool before it left, and does not shrink it at once', async () => {
    const rig = rigOf({}, [{}, {}, { draining: true }])
    expect(rig.events.map(({ event }) => event)).toEqual(['taken_over', 'taken_over', 'taken_over'])
    await rig.passes(50_000)
    expect(rig.serving()).toBe(2)
    await rig.passes(20_000)
    expect(rig.serving()).toBe(1)
  })

  it('replaces workers of other settings, first the new ones', async () => {
    const rig = rigOf({ min: 2 }, [{ fingerprint: 'before' }, { fingerprint: 'before' }])
    await rig.passes(2_000)
    expect(rig.serving()).toBe(4)
    await rig.passes(6_000)
    expect(rig.serving()).toBe(2)
    expect(rig.all().filter(({ draining }) => draining)).toMatchObject([
      { fingerprint: 'before' },
      { fingerprint: 'before' },
    ])
  })

  it('tells all to end when it ends, once', () => {
    const rig = rigOf({}, [{}, { fingerprint: 'before' }, { draining: true }])
    rig.pool.drainAll()
    expect(rig.serving()).toBe(0)
    expect(rig.events.filter(({ event }) => event === 'draining')).toHaveLength(2)
    expect(rig.pool.reap()).toBe(3)
  })
})
