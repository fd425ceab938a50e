// A stop: last step first, whatever fails or does not answer, and within its budget.
import { beforeEach, describe, expect, it } from 'vitest'
import type { UndoStep } from '../../packages/server/src/compose/unwind.ts'
import { unwind } from '../../packages/server/src/compose/unwind.ts'
import { createVirtualClock, type VirtualClock } from '../support/virtual-clock.ts'

let clock: VirtualClock
let undone: string[]
let words: string[]

beforeEach(() => {
  clock = createVirtualClock(0)
  undone = []
  words = []
})

const logger = { error: (_: unknown, message: string) => void words.push(message) }
const step = (name: string, ms: number, more: Partial<UndoStep> = {}): UndoStep => ({
  name,
  undo: async () => {
    await clock.sleep(ms)
    undone.push(name)
  },
  ...more,
})

/** How long the stop of these steps takes. */
async function stop(steps: UndoStep[], budgetMs: number): Promise<number> {
  let endedMs = Number.NaN
  const stopping = unwind(steps, { clock, logger: logger as never, budgetMs }).then(() => {
    endedMs = clock.monotonicMs()
  })
  await clock.advance(120_000)
  await stopping
  return endedMs
}

describe('unwind', () => {
  it('undoes the last step first, each after the one before has ended', async () => {
    const steps = [step('store', 10), step('api', 20), step('engine', 30)]
    expect(await stop(steps, 1_000)).toBe(60)
    expect(undone).toEqual(['engine', 'api', 'store'])
    expect([steps, words]).toEqual([[], []])
  })

  it('goes on after a step that fails, at once or later', async () => {
    const failing = { name: 'api', undo: () => Promise.reject(new Error('no')) }
    const throwing: UndoStep = {
      name: 'ops',
      undo: () => {
        throw new Error('no')
      },
    }
    await stop([step('store', 10), failing, throwing, step('engine', 30)], 1_000)
    expect(undone).toEqual(['engine', 'store'])
    expect(words).toEqual(['ops did not stop cleanly', 'api did not stop cleanly'])
  })

  it('gives up what outlasts the budget, and leaves each of the others its least', async () => {
    const never = Number.MAX_SAFE_INTEGER
    const steps = [
      step('store', 3_000, { leastMs: 45_000 }),
      step('hints', never),
      step('api', 500),
      step('engine', never),
    ]
    expect(await stop(steps, 30_000)).toBe(30_000 + 500 + 1_000 + 3_000)
    expect(undone).toEqual(['api', 'store'])
    expect(words).toEqual([
      'engine did not stop within 30000 ms; going on without it',
      'hints did not stop within 1000 ms; going on without it',
    ])
  })
})
