// The elector on real Postgres: when trust ends, who takes over when, what a hand-over looks like.
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { createLocalHints } from '../../packages/server/src/engine/local-hints.ts'
import type { Leadership } from '../../packages/server/src/ports/leadership.ts'
import {
  createSchedulingFixture,
  type SchedulingFixture,
  type TestNode,
  until,
} from '../support/scheduling.ts'
import { createVirtualClock, type VirtualClock } from '../support/virtual-clock.ts'

const startMs = Date.UTC(2026, 0, 1)

let fixture: SchedulingFixture
beforeEach(async () => {
  fixture = await createSchedulingFixture()
})
afterEach(() => fixture.drop())

const held = (node: TestNode): number => node.elector.heldShards().length
const untilHeld = (node: TestNode, count: number): Promise<void> =>
  until(`${count} shards held`, () => held(node) === count)

/** The real leadership, which can be made to fail, or to answer only when told. */
function unreliable(real: Leadership) {
  const state = { broken: false, failures: 0, hold: undefined as Promise<void> | undefined, calls: 0 }
  const leadership: Leadership = {
    async renew(node, termMs) {
      state.calls++
      if (state.broken) {
        state.failures++
        throw new Error('the network is gone')
      }
      const renewal = await real.renew(node, termMs)
      await state.hold
      return renewal
    },
    async resign(id) {
      if (!state.broken) await real.resign(id)
    },
  }
  return { state, leadership }
}

describe('trust', () => {
  let clock: VirtualClock
  beforeEach(() => {
    clock = createVirtualClock(startMs)
  })

  /** Moves on in steps, and lets what a step woke do its work on the real database. */
  async function pass(ms: number, settled: () => boolean): Promise<void> {
    await clock.advance(ms)
    await until('the round to be over', settled)
  }

  test('ends two seconds before the term of the last good renewal; the shards are gone at once', async () => {
    const { state, leadership } = unreliable(fixture.leadership)
    const node = fixture.node({ clock, leadership })
    await node.elector.start()
    await untilHeld(node, 64)
    state.broken = true
    await clock.advance(12_999)
    expect(held(node)).toBe(64)
    await clock.advance(1)
    expect(held(node)).toBe(0)
    const lost = node.events.filter(({ name }) => name === 'shards_changed').at(-1)
    expect(lost?.payload).toMatchObject({ held: 0, gained: [] })
    state.broken = false
    await until('shards held again', async () => {
      await clock.advance(100)
      return held(node) === 64
    })
  })

  test('is counted from before the renewal was sent: a slow answer extends nothing', async () => {
    const { state, leadership } = unreliable(fixture.leadership)
    const node = fixture.node({ clock, leadership })
    const gate = Promise.withResolvers<void>()
    state.hold = gate.promise
    await node.elector.start()
    await until('a renewal on its way', () => state.calls === 1)
    await clock.advance(9_000)
    gate.resolve()
    await untilHeld(node, 64)
    state.broken = true
    await pass(3_999, () => true)
    expect(held(node)).toBe(64)
    await pass(1, () => true)
    expect(held(node)).toBe(0)
  })

  test('an answer that comes after the trust it would give gives none', async () => {
    const { state, leadership } = unreliable(fixture.leadership)
    const node = fixture.node({ clock, leadership })
    const gate = Promise.withResolvers<void>()
    state.hold = gate.promise
    await node.elector.start()
    await until('a renewal on its way', () => state.calls === 1)
    await clock.advance(13_000)
    state.broken = true
    gate.resolve()
    await until('the next round', async () => {
      await clock.advance(5)
      return state.failures > 0
    })
    expect(held(node)).toBe(0)
  })

  test('renews every third of the term, and no more often', async () => {
    const { state, leadership } = unreliable(fixture.leadership)
    const node = fixture.node({ clock, leadership })
    await node.elector.start()
    await untilHeld(node, 64)
    for (let second = 1; second <= 60; second++) {
      const expected = 1 + Math.floor(second / 5)
      await pass(1_000, () => state.calls === expected && clock.waiting() === 2)
    }
    expect(state.calls).toBe(13)
  })

  test('incident 13: a start-up error costs one pause, not the role', async () => {
    const { state, leadership } = unreliable(fixture.leadership)
    state.broken = true
    const node = fixture.node({ clock, leadership })
    await node.elector.start()
    await until('a failed round', () => state.failures === 1)
    state.broken = false
    await until('the elector to sleep', () => clock.waiting() === 1)
    expect(node.events[0]).toMatchObject({ name: 'role_failed', payload: { role: 'elector' } })
    await clock.advance(100)
    await untilHeld(node, 64)
  })
})

describe('two nodes', () => {
  test('incident 1: a dead node is succeeded as its term runs out', async () => {
    const { state, leadership } = unreliable(fixture.leadership)
    const dying = fixture.node({ termMs: 2_000, leadership })
    await dying.elector.start()
    await untilHeld(dying, 64)
    const heir = fixture.node({ termMs: 2_000 })
    await heir.elector.start()
    await until('an even share', () => held(dying) === 32 && held(heir) === 32)
    state.broken = true
    const diedMs = performance.now()
    await untilHeld(heir, 64)
    const tookMs = performance.now() - diedMs
    expect(held(dying)).toBe(0)
    // The term itself, and what two loaded test machines need for a query.
    expect(tookMs).toBeLessThan(2_000 + 750)
  })

  test('one that leaves in order is succeeded at once', async () => {
    const hints = createLocalHints()
    const [leaving, staying] = [fixture.node({ hints }), fixture.node({ hints })]
    await leaving.elector.start()
    await untilHeld(leaving, 64)
    await staying.elector.start()
    await until('an even share', () => held(leaving) === 32 && held(staying) === 32)
    await leaving.elector.stop()
    expect(held(leaving)).toBe(0)
    await until('all shards taken', () => held(staying) === 64, 2_000)
  })

  test('a newcomer has its share as soon as the other renews', async () => {
    const [first, second] = [fixture.node(), fixture.node()]
    await first.elector.start()
    await untilHeld(first, 64)
    await second.elector.start()
    await until(
      'the newcomer to be known',
      async () => (await fixture.database.sql('SELECT FROM belfry.scheduler_node')).length === 2,
    )
    first.elector.wake()
    await until('an even share', () => held(first) === 32 && held(second) === 32, 2_000)
    expect(second.events.filter(({ name }) => name === 'role_failed')).toEqual([])
  })
})
