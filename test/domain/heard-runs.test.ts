// What a worker heard of and has not claimed: lowest tag first, each once, messages settled when nothing of
// them is left, nothing kept for good.
import { describe, expect, test } from 'vitest'
import { createAnnouncedLanes } from '../../packages/server/src/engine/announced-lanes.ts'
import { createHeardRuns } from '../../packages/server/src/engine/heard-runs.ts'
import type { TakenAnnouncement } from '../../packages/server/src/ports/announcements.ts'

const message = (queue: string, ...runs: [string, number][]): TakenAnnouncement => ({
  queue,
  runs: runs.map(([runId, tag]) => ({ runId, tag })),
  receipt: undefined,
})
const ids = (entries: readonly { runId: string }[]) => entries.map(({ runId }) => runId)

describe('heard runs', () => {
  test('the lowest tags of a queue come first, however they came, from a tag on', () => {
    const heard = createHeardRuns(1_000)
    heard.add([message('a', ['x', 5], ['y', 1]), message('b', ['z', 0]), message('a', ['w', 3])], 0)
    expect(heard.size()).toBe(4)
    expect(ids(heard.pick('a', 1, 2))).toEqual(['w'])
    expect(ids(heard.pick('a', 9, -Infinity))).toEqual(['y', 'x'])
    expect(heard.pick('a', 9, -Infinity)).toEqual([])
    expect(heard.has('a')).toBe(false)
    expect(heard.has('b')).toBe(true)
  })

  test('a message is settled when all of its runs are done with, and once', () => {
    const heard = createHeardRuns(1_000)
    const first = message('a', ['x', 1], ['y', 2])
    heard.add([first], 0)
    const [x] = heard.pick('a', 1, -Infinity)
    heard.finish(x === undefined ? [] : [x])
    expect(heard.settled()).toEqual([])
    expect([...heard.drop('a', ['y', 'nobody'])]).toEqual(['y'])
    expect(heard.settled()).toEqual([first])
    expect(heard.settled()).toEqual([])
  })

  test('what comes twice is kept once; the second message is settled at once', () => {
    const heard = createHeardRuns(1_000)
    const second = message('a', ['x', 1])
    heard.add([message('a', ['x', 1], ['x', 1]), second], 0)
    expect(heard.size()).toBe(1)
    expect(heard.settled()).toEqual([second])
    const picked = heard.pick('a', 9, -Infinity)
    heard.putBack(picked)
    heard.putBack(picked)
    expect(heard.size()).toBe(1)
  })

  test('what nobody asks for goes after its time; what is being asked for does not', () => {
    const heard = createHeardRuns(1_000)
    const old = message('a', ['x', 1], ['y', 2])
    heard.add([old], 0)
    heard.add([message('a', ['z', 3])], 500)
    const picked = heard.pick('a', 1, -Infinity)
    heard.expire(1_200)
    expect(heard.size()).toBe(1)
    expect(heard.settled()).toEqual([])
    heard.finish(picked)
    expect(heard.settled()).toEqual([old])
  })

  test('clearing answers what is not settled', () => {
    const heard = createHeardRuns(1_000)
    const one = message('a', ['x', 1])
    heard.add([one], 0)
    expect(heard.clear()).toEqual([one])
    expect(heard.clear()).toEqual([])
    expect(heard.size()).toBe(0)
  })
})

describe('which way a queue is claimed', () => {
  test('by what is announced, and directly at first and once a second', () => {
    const lanes = createAnnouncedLanes(1_000)
    expect(lanes.isAnnounced('a')).toBe(false)
    expect(lanes.takeTurn('a', 0)).toBe(true)
    expect(lanes.isAnnounced('a')).toBe(true)
    expect(lanes.takeTurn('a', 300)).toBe(false)
    expect(lanes.takeTurn('a', 600)).toBe(true)
    expect(lanes.takeTurn('a', 601)).toBe(false)
    expect(lanes.takeTurn('b', 601)).toBe(true)
  })

  test('while it is asked often, directly once a second, and no more', () => {
    const lanes = createAnnouncedLanes(1_000)
    const turns = Array.from({ length: 301 }, (_, index) => index * 10).filter((ms) =>
      lanes.takeTurn('a', ms),
    )
    expect(turns).toEqual([0, 980, 1_960, 2_940])
  })

  test('woken by announcements now and then, it goes by them; directly once a second all the same', () => {
    const lanes = createAnnouncedLanes(1_000)
    const direct: number[] = []
    const ask = (ms: number): boolean => {
      const isDirect = lanes.takeTurn('a', ms)
      if (isDirect) direct.push(ms)
      return isDirect
    }
    ask(0)
    const byAnnouncement = Array.from({ length: 12 }, (_, index) => 600 * (index + 1)).filter((ms) => {
      lanes.heard('a', ms)
      const isDirect = ask(ms + 1)
      // what follows are the claimer's own looks, until the next announcement
      for (const laterMs of [5, 15, 35, 75, 155, 315]) ask(ms + laterMs)
      return !isDirect
    })
    expect(byAnnouncement.length).toBeGreaterThan(9)
    const gaps = direct.slice(1).map((ms, index) => ms - (direct[index] ?? 0))
    expect(Math.max(...gaps)).toBeLessThan(1_200)
    expect(Math.min(...gaps)).toBeGreaterThan(600)
  })

  test('asked twice as late each time, it lets no second pass', () => {
    const lanes = createAnnouncedLanes(1_000)
    const times = [0, 5, 15, 35, 75, 155, 315, 635, 1_275, 2_275]
    expect(times.filter((ms) => lanes.takeTurn('a', ms))).toEqual([0, 635, 1_275, 2_275])
  })

  test('a run that waited and was never announced makes it go directly, until something is', () => {
    const lanes = createAnnouncedLanes(1_000)
    lanes.heard('a', 0)
    lanes.missed('a', 5_000, 900)
    expect(lanes.isAnnounced('a')).toBe(true)
    lanes.missed('a', 100, 2_000)
    expect(lanes.isAnnounced('a')).toBe(true)
    lanes.missed('a', 600, 2_000)
    expect(lanes.silent()).toBe(1)
    expect([lanes.takeTurn('a', 2_001), lanes.takeTurn('a', 2_002)]).toEqual([true, true])
    lanes.heard('a', 2_003)
    expect(lanes.silent()).toBe(0)
    expect(lanes.takeTurn('a', 2_004)).toBe(false)
  })
})
