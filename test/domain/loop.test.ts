// The loop of every role: waits, wakes, and the pause after a failure.
import { describe, expect, test } from 'vitest'
import { createLoop } from '../../packages/server/src/engine/loop.ts'
import { createVirtualClock } from '../support/virtual-clock.ts'

function rig(longestRetryMs = 10_000) {
  const clock = createVirtualClock(0)
  const state = { rounds: 0, failing: false }
  const loop = createLoop({
    name: 'test',
    clock,
    random: { next: () => 1 },
    events: { emit: () => {} },
    longestRetryMs,
    round: async () => {
      state.rounds++
      if (state.failing) throw new Error('as asked')
      return 60_000
    },
  })
  /** Passes time with a hint each 50 ms. */
  async function hinted(ms: number): Promise<void> {
    for (let passed = 0; passed < ms; passed += 50) {
      loop.wake()
      await clock.advance(50)
    }
  }
  /** Starts it, and lets the first round end. */
  async function start(): Promise<void> {
    await loop.start()
    await clock.advance(0)
  }
  return { clock, loop, state, hinted, start }
}

describe('loop', () => {
  test('a wake ends the wait, and one during a round leads to another', async () => {
    const { clock, loop, state, hinted, start } = rig()
    await start()
    await clock.advance(59_000)
    expect(state.rounds).toBe(1)
    await hinted(500)
    expect(state.rounds).toBe(11)
    await loop.stop()
  })

  test('hints that flow do not turn failures into a storm', async () => {
    const { loop, state, hinted, start } = rig()
    state.failing = true
    await start()
    await hinted(60_000)
    // The pause grows to a second, which a wake cannot shorten.
    expect(state.rounds).toBeGreaterThan(55)
    expect(state.rounds).toBeLessThan(70)
    await loop.stop()
  })

  test('news end a long pause a second after the failure', async () => {
    const { clock, loop, state, start } = rig()
    state.failing = true
    await start()
    await clock.advance(20_000)
    const before = state.rounds
    state.failing = false
    loop.wake()
    await clock.advance(1_000)
    expect(state.rounds).toBe(before + 1)
    await loop.stop()
  })

  test('without news the pause is as long as it says', async () => {
    const { clock, loop, state, start } = rig()
    state.failing = true
    await start()
    // 0.1 + 0.2 + 0.4 + … + 6.4 s
    await clock.advance(12_650)
    expect(state.rounds).toBe(7)
    await clock.advance(60)
    expect(state.rounds).toBe(8)
    await loop.stop()
  })

  test('a stop ends any wait', async () => {
    for (const failing of [true, false]) {
      const { clock, loop, state, start } = rig()
      state.failing = failing
      await start()
      await clock.advance(10)
      await loop.stop()
      expect(state.rounds).toBe(1)
      expect(clock.waiting()).toBe(0)
    }
  })
})
