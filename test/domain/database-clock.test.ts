// Estimated database time: the best observation wins, until a newer one contradicts it.
import { describe, expect, test } from 'vitest'
import { createDatabaseClock } from '../../packages/server/src/engine/database-clock.ts'
import { createVirtualClock } from '../support/virtual-clock.ts'

const t0 = Date.UTC(2026, 0, 1)

/** A database whose clock is ahead of the local one by `aheadMs`, asked with a round trip of so many ms. */
function rig() {
  const clock = createVirtualClock(t0)
  const estimate = createDatabaseClock(clock)
  let aheadMs = 0
  const trueMs = (): number => t0 + clock.monotonicMs() + aheadMs
  return {
    clock,
    jump: (ms: number) => {
      aheadMs += ms
    },
    errorMs: () => estimate.nowMs() - trueMs(),
    ask: async (thereMs: number, backMs: number) => {
      const sentMs = clock.monotonicMs()
      await clock.advance(thereMs)
      const answerMs = trueMs()
      await clock.advance(backMs)
      estimate.observe(answerMs, sentMs)
    },
  }
}

describe('database clock', () => {
  test('before the first answer it is the local wall clock', () => {
    expect(rig().errorMs()).toBe(0)
  })

  test('is wrong by half a round trip at most, and keeps the best', async () => {
    const { ask, errorMs, jump } = rig()
    jump(5_000)
    await ask(80, 0)
    expect(Math.abs(errorMs())).toBeLessThanOrEqual(40)
    await ask(1, 1)
    expect(errorMs()).toBe(0)
    await ask(300, 0)
    expect(errorMs()).toBe(0)
  })

  test.each([3_600_000, -3_600_000, 200])('a jump by %i ms shows with the next answer', async (ms) => {
    const { ask, clock, errorMs, jump } = rig()
    await ask(0.5, 0.5)
    jump(ms)
    await clock.advance(5_000)
    await ask(5, 5)
    expect(errorMs()).toBe(0)
  })

  test('after a minute the best one is too old', async () => {
    const { ask, clock, errorMs, jump } = rig()
    await ask(0, 0)
    jump(2)
    await ask(10, 10)
    expect(errorMs()).toBe(-2)
    await clock.advance(60_000)
    await ask(10, 10)
    expect(errorMs()).toBe(0)
  })
})
