// How many workers a queue should have: examples that people can check by hand, and what has to hold for
// every demand, in a small simulation of workers too.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  type Demand,
  expectedMeanMs,
  type ScalingGoal,
  scalingWords,
  wantedWorkers,
} from '../../packages/server/src/domain/scaling.ts'

const demandOf = (more: Partial<Demand> = {}): Demand => ({
  backlog: 0,
  running: 0,
  meanMs: null,
  runningForMs: null,
  ...more,
})
const goalOf = (more: Partial<ScalingGoal> = {}): ScalingGoal => ({
  targetStartDelayMs: 1_000,
  slotsPerWorker: 10,
  minWorkers: 0,
  maxWorkers: 100,
  ...more,
})

describe('the workers that a queue should have', () => {
  it.each([
    ['nothing to do', {}, {}, 0],
    ['nothing to do, and a least number', {}, { minWorkers: 2 }, 2],
    ['one run waits', { backlog: 1 }, {}, 1],
    ['what runs keeps its slots', { running: 21, meanMs: 50 }, {}, 3],
    // of 100 runs of 100 ms eleven slots do one at once and ten more each within a second
    ['short runs share slots', { backlog: 100, meanMs: 100 }, { slotsPerWorker: 1 }, 10],
    ['long runs take a slot each', { backlog: 100, meanMs: 3_600_000 }, { slotsPerWorker: 1 }, 100],
    ['a run as long as the target', { backlog: 100, meanMs: 1_000 }, { slotsPerWorker: 1 }, 50],
    ['never more than allowed', { backlog: 10_000, meanMs: 60_000 }, { maxWorkers: 8 }, 8],
    ['busy slots and a backlog', { backlog: 1, running: 10, meanMs: 1 }, {}, 2],
  ] as const)('%s', (_, demand, goal, workers) => {
    expect(wantedWorkers(demandOf(demand), goalOf(goal)).workers).toBe(workers)
  })

  it('reckons with what runs where it takes longer than what ended', () => {
    expect(expectedMeanMs(demandOf({ meanMs: 100, runningForMs: 60_000 }))).toBe(60_000)
    expect(expectedMeanMs(demandOf({ meanMs: 100, runningForMs: 40 }))).toBe(100)
    expect(expectedMeanMs(demandOf())).toBe(1_000)
    expect(expectedMeanMs(demandOf({ meanMs: 0 }))).toBe(1)
  })

  it('says why', () => {
    const words = (demand: Partial<Demand>, goal: Partial<ScalingGoal> = {}) => {
      const [asked, within] = [demandOf(demand), goalOf(goal)]
      return scalingWords(asked, within, wantedWorkers(asked, within))
    }
    expect(words({})).toBe('Nothing waits or runs.')
    expect(words({}, { minWorkers: 1 })).toBe('Nothing waits or runs; at least 1 are kept.')
    expect(words({ backlog: 40, running: 12, meanMs: 250 })).toBe(
      '12 running and 40 waiting of about 250 ms each take 20 slots, 10 a worker.',
    )
    expect(words({ backlog: 500, meanMs: 90_000 }, { maxWorkers: 4 })).toBe(
      '500 waiting of about 90 s each take 495 slots, 10 a worker; at most 4 are allowed.',
    )
  })
})

const count = fc.integer({ min: 0, max: 10_000 })
const span = fc.double({ min: 0, max: 86_400_000, noNaN: true })
const demands: fc.Arbitrary<Demand> = fc.record({
  backlog: count,
  running: count,
  meanMs: fc.option(span),
  runningForMs: fc.option(span),
})
const goals: fc.Arbitrary<ScalingGoal> = fc
  .record({
    targetStartDelayMs: fc.integer({ min: 10, max: 86_400_000 }),
    slotsPerWorker: fc.integer({ min: 1, max: 10_000 }),
    minWorkers: fc.integer({ min: 0, max: 50 }),
    more: fc.integer({ min: 0, max: 10_000 }),
  })
  .map(({ more, ...goal }) => ({ ...goal, maxWorkers: goal.minWorkers + more }))

describe('for every demand', () => {
  it('the figure is a whole number within its bounds', () => {
    fc.assert(
      fc.property(demands, goals, (demand, goal) => {
        const { workers, slots } = wantedWorkers(demand, goal)
        expect(Number.isInteger(workers) && Number.isInteger(slots)).toBe(true)
        expect(workers).toBeGreaterThanOrEqual(goal.minWorkers)
        expect(workers).toBeLessThanOrEqual(goal.maxWorkers)
      }),
    )
  })

  it('what runs has its slots, what waits gets one at least, and nobody gets more than one each', () => {
    fc.assert(
      fc.property(demands, goals, (demand, goal) => {
        const { slots } = wantedWorkers(demand, goal)
        expect(slots).toBeGreaterThanOrEqual(demand.running + Math.min(1, demand.backlog))
        expect(slots).toBeLessThanOrEqual(demand.running + demand.backlog)
      }),
    )
  })

  it('more to do never wants fewer, and more patience never wants more', () => {
    fc.assert(
      fc.property(demands, goals, count, count, (demand, goal, more, patience) => {
        const { workers } = wantedWorkers(demand, goal)
        const longer = { ...demand, meanMs: (demand.meanMs ?? 1_000) + more }
        const known = { ...demand, meanMs: demand.meanMs ?? 1_000 }
        expect(
          wantedWorkers({ ...demand, backlog: demand.backlog + more }, goal).workers,
        ).toBeGreaterThanOrEqual(workers)
        expect(
          wantedWorkers({ ...demand, running: demand.running + more }, goal).workers,
        ).toBeGreaterThanOrEqual(workers)
        expect(wantedWorkers(longer, goal).workers).toBeGreaterThanOrEqual(wantedWorkers(known, goal).workers)
        const patient = { ...goal, targetStartDelayMs: goal.targetStartDelayMs + patience }
        expect(wantedWorkers(demand, patient).workers).toBeLessThanOrEqual(workers)
      }),
    )
  })

  /**
   * Runs of one length arrive at a steady rate, and a pool is set to the figure each second. Time goes in
   * steps of the length of a run or of a tenth of a second, whichever is shorter.
   */
  it('a pool that follows it works off any steady load, and keeps to the target then', () => {
    const loads = fc.record({
      meanMs: fc.integer({ min: 20, max: 20_000 }),
      concurrency: fc.integer({ min: 1, max: 200 }),
      slotsPerWorker: fc.integer({ min: 1, max: 20 }),
    })
    fc.assert(
      fc.property(loads, ({ meanMs, concurrency, slotsPerWorker }) => {
        const goal = goalOf({ slotsPerWorker, maxWorkers: 10_000 })
        const stepMs = Math.min(100, meanMs)
        const arrivals = (concurrency * stepMs) / meanMs
        let [slots, due] = [0, 0]
        let waiting: number[] = []
        let running: number[] = []
        let worstMs = 0
        for (let nowMs = 0; nowMs < 60_000 + 10 * meanMs; nowMs += stepMs) {
          running = running.filter((endMs) => endMs > nowMs)
          for (due += arrivals; due >= 1; due -= 1) waiting.push(nowMs)
          const started = waiting.slice(0, Math.max(0, slots - running.length))
          waiting = waiting.slice(started.length)
          running = [...running, ...started.map(() => nowMs + meanMs)]
          const settled = started.filter((sinceMs) => sinceMs > 30_000 + 5 * meanMs)
          worstMs = Math.max(worstMs, ...settled.map((sinceMs) => nowMs - sinceMs))
          if (nowMs % 1_000 < stepMs) {
            const demand = demandOf({ backlog: waiting.length, running: running.length, meanMs })
            slots = wantedWorkers(demand, goal).workers * slotsPerWorker
          }
        }
        // the target, and up to a second until the next look
        expect(worstMs).toBeLessThanOrEqual(2_100)
      }),
      { numRuns: 60 },
    )
  })
})
