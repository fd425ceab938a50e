// The role that replans, on a clock that a test moves: how often it looks, what wakes it, how it shares the
// database with what is due, and how it ends.
import { afterAll, describe, expect, test } from 'vitest'
import { createLocalHints } from '../../packages/server/src/engine/local-hints.ts'
import { createReplanner } from '../../packages/server/src/engine/replanner.ts'
import type {
  BatchOutcome,
  IdleOutcome,
  ReplanRecord,
  ReplanStore,
} from '../../packages/server/src/ports/replans.ts'
import { removeZoneTrees, zonesOf } from '../support/zone-trees.ts'
import { createVirtualClock } from '../support/virtual-clock.ts'

const zones = zonesOf({ version: '2099a', zones: ['Europe/Berlin'] })
const minuteMs = 60_000

afterAll(removeZoneTrees)

const record = (more: Partial<ReplanRecord> = {}): ReplanRecord => ({
  id: 'r',
  kind: 'zone',
  subject: 'Europe/Berlin',
  tenantId: null,
  state: 'running',
  fromVersion: '2098a',
  toVersion: '2099a',
  total: 3,
  done: 1,
  moved: 1,
  failed: 0,
  error: null,
  requestedAtMs: 0,
  startedAtMs: 0,
  endedAtMs: null,
  ...more,
})

const worked: BatchOutcome = {
  idle: false,
  replan: record(),
  began: false,
  looked: 1,
  moved: [],
  ended: 0,
  failed: 0,
  nowMs: 0,
}

function rig() {
  const clock = createVirtualClock(0)
  const hints = createLocalHints()
  const calls: string[] = []
  const events: { name: string; payload: unknown }[] = []
  const script: { batch: () => Promise<BatchOutcome | IdleOutcome>; record: () => void } = {
    batch: async () => ({ idle: true, waitMs: null }),
    record: () => {},
  }
  const store: ReplanStore = {
    async recordZoneData(judge) {
      calls.push('record')
      script.record()
      return { verdict: judge([], 0), superseded: [] }
    },
    async requestForZones() {
      calls.push('look')
      return []
    },
    batch() {
      calls.push('batch')
      return script.batch()
    },
  }
  const replanner = createReplanner({
    store,
    zones,
    hints,
    clock,
    nodeId: 'n',
    ids: { uuidv7: () => 'id' },
    random: { next: () => 0.5 },
    events: { emit: (name, payload) => void events.push({ name, payload }) },
  })
  const count = (name: string): number => calls.filter((call) => call === name).length
  const start = async (): Promise<void> => {
    await replanner.start()
    await clock.advance(0)
  }
  return { clock, hints, calls, events, script, replanner, count, start }
}

describe('the replanner', () => {
  test('puts its zone data on record once, then looks once a minute and sleeps', async () => {
    const { clock, calls, replanner, start } = rig()
    await start()
    expect(calls).toEqual(['record', 'look', 'batch'])
    expect(replanner.zoneData()).toMatchObject({ kind: 'first' })
    await clock.advance(60 * minuteMs)
    expect(calls.filter((call) => call === 'record')).toHaveLength(1)
    // two short reads a minute: no transaction a second
    expect(calls).toHaveLength(3 + 2 * 60)
    await replanner.stop()
    await clock.advance(10 * minuteMs)
    expect(calls).toHaveLength(3 + 2 * 60)
  })

  test('is woken by a hint, and comes back when an open replan goes on', async () => {
    const { clock, hints, script, count, replanner, start } = rig()
    await start()
    hints.publish({ topic: 'timers', key: '1' })
    await clock.advance(100)
    expect(count('batch')).toBe(1)
    hints.publish({ topic: 'replans', key: 'asked' })
    await clock.advance(0)
    expect(count('batch')).toBe(2)
    script.batch = async () => ({ idle: true, waitMs: 15_000 })
    hints.publish({ topic: 'replans', key: 'asked' })
    await clock.advance(0)
    await clock.advance(14_900)
    expect(count('batch')).toBe(3)
    await clock.advance(200)
    expect(count('batch')).toBe(4)
    await replanner.stop()
  })

  test('does not spin beside another node that works on the only open one', async () => {
    const { clock, script, count, replanner, start } = rig()
    script.batch = async () => ({ idle: true, waitMs: -5_000 })
    await start()
    await clock.advance(30_000)
    expect(count('batch')).toBeLessThanOrEqual(31)
    await replanner.stop()
  })

  test('rests as long as a batch took, so that what is due does not wait for it', async () => {
    const { clock, script, count, replanner, start } = rig()
    script.batch = async () => {
      await clock.sleep(100)
      return worked
    }
    await start()
    await clock.advance(2_000)
    expect(count('batch')).toBeGreaterThanOrEqual(10)
    expect(count('batch')).toBeLessThanOrEqual(11)
    const stopped = replanner.stop()
    await clock.advance(200)
    await stopped
  })

  test('tries again where the first look fails, and says so', async () => {
    const { clock, script, events, count, replanner, start } = rig()
    script.record = () => {
      throw new Error('the database is away')
    }
    await start()
    expect(events).toMatchObject([{ name: 'role_failed', payload: { role: 'replanner' } }])
    expect(replanner.zoneData()).toBeUndefined()
    script.record = () => {}
    await clock.advance(20_000)
    expect(count('record')).toBe(2)
    expect(replanner.zoneData()).toBeDefined()
    await replanner.stop()
  })

  test('stops within seconds, whatever the database does', async () => {
    const { clock, script, replanner, start } = rig()
    script.batch = () => new Promise(() => {})
    await start()
    let stopped = false
    const stopping = replanner.stop().then(() => {
      stopped = true
    })
    await clock.advance(1_900)
    expect(stopped).toBe(false)
    await clock.advance(200)
    await stopping
    expect(stopped).toBe(true)
  })
})

describe('events of a batch', () => {
  test('tell what an audit has to know', async () => {
    const { clock, script, events, replanner, start } = rig()
    const ended = record({
      state: 'done',
      done: 3,
      moved: 2,
      failed: 1,
      error: 'schedule s: bad',
      endedAtMs: 9,
    })
    const outcomes: (BatchOutcome | IdleOutcome)[] = [
      { ...worked, began: true, moved: [{ scheduleId: 's', dueAtMs: 1 }] },
      { ...worked, replan: ended, looked: 2, failed: 1, ended: 1 },
    ]
    script.batch = async () => outcomes.shift() ?? { idle: true, waitMs: null }
    await start()
    await clock.advance(10)
    const facts = { replanId: 'r', nodeId: 'n', kind: 'zone', subject: 'Europe/Berlin', tenantId: null }
    const versions = { fromVersion: '2098a', toVersion: '2099a', total: 3 }
    expect(events).toEqual([
      { name: 'replan_started', payload: { ...facts, ...versions, done: 1, moved: 1, failed: 0 } },
      {
        name: 'replan_advanced',
        payload: {
          ...facts,
          ...versions,
          done: 1,
          moved: 1,
          failed: 0,
          looked: 1,
          movedNow: 1,
          failedNow: 0,
        },
      },
      {
        name: 'replan_advanced',
        payload: {
          ...facts,
          ...versions,
          done: 3,
          moved: 2,
          failed: 1,
          looked: 2,
          movedNow: 1,
          failedNow: 1,
        },
      },
      {
        name: 'replan_ended',
        payload: {
          ...facts,
          ...versions,
          done: 3,
          moved: 2,
          failed: 1,
          state: 'done',
          error: 'schedule s: bad',
          requestedAtMs: 0,
        },
      },
    ])
    await replanner.stop()
  })
})
