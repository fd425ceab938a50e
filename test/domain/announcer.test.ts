// What an announcer says, and does not say again; how far ahead of claims; who announces which queue; and
// that a message is only what it should be.
import { expect, describe, test } from 'vitest'
import { shardCount, shardOfName } from '../../packages/server/src/domain/shard.ts'
import { announcementText, parseAnnouncement } from '../../packages/server/src/engine/announcement-text.ts'
import { createAnnouncer } from '../../packages/server/src/engine/announcer.ts'
import { createAnnouncerMark } from '../../packages/server/src/engine/announcer-mark.ts'
import {
  baseWindows,
  createQueueWindow,
  mostWindow,
} from '../../packages/server/src/engine/announcer-window.ts'
import { type Announcement, CarrierAway } from '../../packages/server/src/ports/announcements.ts'
import type { NextRun } from '../../packages/server/src/ports/ready-windows.ts'
import { newId, recordEvents, recordHints } from '../support/running.ts'
import { createVirtualClock } from '../support/virtual-clock.ts'

const run = (runId: string, tag: number, more: Partial<NextRun> = {}): NextRun => ({
  runId,
  tag,
  leaseEpoch: 0,
  orderKey: undefined,
  ...more,
})

/** A carrier and a store that do as the test says. */
function openRig(more: { readonly maxQueues?: number } = {}) {
  const clock = createVirtualClock(0)
  const rows = new Map<string, NextRun[]>()
  const said: Announcement[] = []
  const hints = recordHints()
  const events = recordEvents()
  const state = {
    up: true,
    generation: 1,
    fails: false,
    refused: [] as string[],
    held: [...Array(shardCount).keys()],
  }
  const announcer = createAnnouncer({
    clock,
    random: { next: () => 0.5 },
    events,
    hints,
    elector: { heldShards: () => state.held.map((shard) => ({ shard, term: 1 })) },
    announcements: {
      get up() {
        return state.up
      },
      get generation() {
        return state.generation
      },
      async announce(announcements) {
        if (state.fails) throw new CarrierAway('gone')
        said.push(...announcements.filter(({ queue }) => !state.refused.includes(queue)))
        return { refused: state.refused }
      },
      open: () => {
        throw new Error('It does not listen.')
      },
    },
    windows: {
      queues: async () => ({ queues: [...rows.keys()], next: undefined }),
      next: async (asked) =>
        new Map(
          asked.flatMap(({ queue, size, minTag }) => {
            const its = (rows.get(queue) ?? []).filter(({ tag }) => tag >= minTag).slice(0, size)
            return its.length === 0 ? [] : [[queue, its] as const]
          }),
        ),
      slots: async () => [{ queues: '*', slots: 10 }],
    },
    ...more,
  })
  const told = (): string[] => said.splice(0).flatMap(({ runs }) => runs.map(({ runId }) => runId))
  return { announcer, clock, rows, said, told, state, events, hints }
}

describe('the announcer', () => {
  test('announces what comes next, in tag order, twice the slots of it, and each once', async () => {
    const { announcer, rows, told } = openRig()
    rows.set(
      'a',
      Array.from({ length: 50 }, (_, index) => run(`r${index}`, index)),
    )
    await announcer.runOnce()
    expect(told()).toEqual(Array.from({ length: 20 }, (_, index) => `r${index}`))
    await announcer.runOnce()
    expect(told()).toEqual([])
    rows.get('a')?.splice(0, 3)
    await announcer.runOnce()
    expect(told()).toEqual(['r20', 'r21', 'r22'])
    expect(announcer.stats()).toEqual({ window: 20, unclaimed: 20, queues: 1, refused: 0 })
  })

  test('announces again what nobody claimed for 30 s, and at once what came back', async () => {
    const { announcer, rows, told, clock, events } = openRig()
    rows.set('a', [run('x', 1), run('y', 2)])
    await announcer.runOnce()
    expect(told()).toEqual(['x', 'y'])
    rows.set('a', [run('x', 1), run('y', 2, { leaseEpoch: 1 })])
    await clock.advance(1_000)
    await announcer.runOnce()
    expect(told()).toEqual(['y'])
    await clock.advance(29_500)
    await announcer.runOnce()
    expect(told()).toEqual(['x'])
    expect(events.of('runs_announced').at(-1)).toEqual({ queue: 'a', count: 1, again: 1 })
  })

  test('announces all of it again when the carrier has come back', async () => {
    const { announcer, rows, told, state } = openRig()
    rows.set('a', [run('x', 1)])
    await announcer.runOnce()
    state.generation++
    told()
    await announcer.runOnce()
    expect(told()).toEqual(['x'])
  })

  test('what did not go out is announced later', async () => {
    const { announcer, rows, told, state } = openRig()
    rows.set('a', [run('x', 1)])
    state.fails = true
    await announcer.runOnce()
    state.fails = false
    await announcer.runOnce()
    expect(told()).toEqual(['x'])
    state.up = false
    rows.set('a', [run('z', 1)])
    await announcer.runOnce()
    expect(told()).toEqual([])
  })

  test('a queue that the carrier refuses is left alone for 30 s', async () => {
    const { announcer, rows, told, state, clock } = openRig()
    rows.set('a', [run('x', 1)])
    rows.set('b', [run('y', 1)])
    state.refused = ['a']
    await announcer.runOnce()
    expect(told()).toEqual(['y'])
    state.refused = []
    await announcer.runOnce()
    expect(told()).toEqual([])
    await clock.advance(30_001)
    await announcer.runOnce()
    expect(told().toSorted()).toEqual(['x', 'y'])
  })

  test('leaves queues of shards that others hold, and those beyond its limit', async () => {
    const { announcer, rows, told, state } = openRig({ maxQueues: 2 })
    for (const name of ['a', 'b', 'c']) rows.set(name, [run(name, 1)])
    state.held = state.held.filter((shard) => shard !== shardOfName('a'))
    await announcer.runOnce()
    expect(told()).toEqual(['b', 'c'])
    state.held = [shardOfName('a')]
    await announcer.runOnce()
    expect(told()).toEqual(['a'])
  })

  test('runs with a key go one a message, under their key; others are spread', async () => {
    const { announcer, rows, said } = openRig()
    const keyed = run('k', 0, { orderKey: 'key:job:1' })
    rows.set('a', [keyed, ...Array.from({ length: 19 }, (_, index) => run(`r${index}`, index + 1))])
    await announcer.runOnce()
    expect(said.filter(({ orderKey }) => orderKey !== undefined)).toEqual([
      { queue: 'a', orderKey: 'key:job:1', runs: [{ runId: 'k', tag: 0 }] },
    ])
    expect(said.length).toBeGreaterThanOrEqual(10)
  })

  test('a hint brings a look within milliseconds', async () => {
    const { announcer, rows, told, clock, hints } = openRig()
    await announcer.start()
    await clock.advance(1_500)
    rows.set('a', [run('x', 1)])
    hints.publish({ topic: 'ready', key: 'a' })
    await clock.advance(20)
    expect(told()).toEqual(['x'])
    const stopped = announcer.stop()
    await clock.advance(2_000)
    await stopped
  })
})

describe('the window', () => {
  test('shares the slots of a worker out among the queues that it serves', () => {
    const windows = baseWindows(
      ['a', 'b', 'c'],
      [
        { queues: '*', slots: 30 },
        { queues: ['a'], slots: 10 },
        { queues: ['elsewhere'], slots: 99 },
      ],
    )
    expect([...windows]).toEqual([
      ['a', 40],
      ['b', 20],
      ['c', 20],
    ])
    expect(baseWindows(['a'], [{ queues: ['b'], slots: 5 }]).get('a')).toBeUndefined()
    expect(baseWindows(['a'], [{ queues: '*', slots: 1_000_000 }]).get('a')).toBe(mostWindow)
  })

  test('doubles while it is used up between looks, and goes back where most of it stays', () => {
    const window = createQueueWindow(30_000)
    window.base(4)
    const next = (from: number, count = window.size()) =>
      Array.from({ length: count }, (_, index) => run(`r${from + index}`, from + index))
    window.announced(window.look(next(0), 0), 0)
    window.announced(window.look(next(100), 1), 1)
    expect(window.size()).toBe(8)
    window.announced(window.look(next(200), 2), 2)
    expect(window.size()).toBe(16)
    for (let look = 0; look < 9; look++) window.announced(window.look(next(300), 3), 3)
    expect(window.size()).toBe(4)
  })
})

describe('an announcement as text', () => {
  const id = newId()
  test('is read as it was written', () => {
    const said = { queue: 'mail.out_1-x', runs: [{ runId: id, tag: -12.25 }] }
    expect(parseAnnouncement(announcementText(said))).toEqual(said)
    expect(parseAnnouncement(Buffer.from(announcementText(said)))).toEqual(said)
  })

  test.each([
    ['nothing', ''],
    ['no value', null],
    ['no JSON', '{"queue":'],
    ['null', 'null'],
    ['a list', '[]'],
    ['no runs', '{"queue":"a","runs":[]}'],
    ['another field', JSON.stringify({ queue: 'a', runs: [[id, 1]], also: 1 })],
    ['no name of a queue', JSON.stringify({ queue: '../a', runs: [[id, 1]] })],
    ['a queue that is no text', JSON.stringify({ queue: 1, runs: [[id, 1]] })],
    ['an id that is none', JSON.stringify({ queue: 'a', runs: [["x'; DROP TABLE run", 1]] })],
    ['an id in capitals', JSON.stringify({ queue: 'a', runs: [[id.toUpperCase(), 1]] })],
    ['no tag', JSON.stringify({ queue: 'a', runs: [[id]] })],
    ['a tag that is text', JSON.stringify({ queue: 'a', runs: [[id, '1']] })],
    ['a tag without end', `{"queue":"a","runs":[["${id}",1e999]]}`],
    ['runs that are no lists', JSON.stringify({ queue: 'a', runs: [{ 0: id, 1: 1, length: 2 }] })],
    ['too many runs', JSON.stringify({ queue: 'a', runs: Array.from({ length: 51 }, () => [id, 1]) })],
    [
      'too much of it',
      `${announcementText({ queue: 'a', runs: [{ runId: id, tag: 1 }] })}${' '.repeat(9_000)}`,
    ],
    ['a prototype', '{"queue":"a","runs":[["x",1]],"__proto__":{"a":1}}'],
  ])('is nothing at all where it is %s', (_, text) => {
    expect(parseAnnouncement(text)).toBeUndefined()
  })
})

describe('from where the announcer reads', () => {
  test('from the first that it saw a second ago, and all of it as often as that is cheap', () => {
    const mark = createAnnouncerMark()
    expect(mark.minTag(0)).toBe(-Infinity)
    mark.read(-Infinity, 10, 100, 100)
    expect(mark.minTag(101)).toBe(-Infinity)
    mark.read(-Infinity, 12, 100, 1_150)
    expect(mark.minTag(1_200)).toBe(10)
    mark.read(10, 20, 1, 2_300)
    expect(mark.minTag(2_301)).toBe(12)
    expect(mark.minTag(3_151)).toBe(-Infinity)
    mark.read(-Infinity, 4, 600_000, 3_200)
    expect(mark.minTag(3_201)).toBe(4)
    expect(mark.minTag(13_199)).toBe(4)
    expect(mark.minTag(13_201)).toBe(-Infinity)
    mark.reset()
    expect(mark.minTag(3_300)).toBe(-Infinity)
  })
})
