// Notices between processes: how few they are while hints come in masses, and that one which comes alone
// goes out at once.
import { expect, it } from 'vitest'
import type { Hint } from '../../packages/server/src/ports/hints.ts'
import { createDebounce } from '../../packages/server/src/engine/hint-debounce.ts'
import { createVirtualClock } from '../support/virtual-clock.ts'

const ready: Hint = { topic: 'ready', key: 'default' }

function rig() {
  const clock = createVirtualClock(0)
  const sentAtMs: number[] = []
  const debounce = createDebounce(clock, () => sentAtMs.push(clock.monotonicMs()))
  return { clock, sentAtMs, debounce }
}

it('sends hints that come now and then at once, each', async () => {
  const { clock, sentAtMs, debounce } = rig()
  for (let each = 0; each < 5; each++) {
    debounce.publish(ready)
    await clock.advance(10)
  }
  expect(sentAtMs).toEqual([0, 10, 20, 30, 40])
})

it('folds hints that keep coming into ever fewer notices, down to one each 50 ms', async () => {
  const { clock, sentAtMs, debounce } = rig()
  for (let each = 0; each < 1_000; each++) {
    debounce.publish(ready)
    await clock.advance(1)
  }
  await clock.advance(100)
  expect(sentAtMs.slice(0, 5)).toEqual([0, 5, 15, 35, 75])
  const gaps = sentAtMs.slice(1).map((atMs, index) => atMs - (sentAtMs[index] ?? 0))
  expect(Math.min(...gaps.slice(4))).toBe(50)
})

it('keeps no hint back for good: the last of many is told', async () => {
  const { clock, sentAtMs, debounce } = rig()
  debounce.publish(ready)
  await clock.advance(2)
  debounce.publish(ready)
  await clock.advance(100)
  expect(sentAtMs).toEqual([0, 5])
  expect(clock.waiting()).toBe(0)
})

it('tells topics and keys apart, and says nothing once it is closed', async () => {
  const { clock, sentAtMs, debounce } = rig()
  debounce.publish(ready)
  debounce.publish({ topic: 'ready', key: 'other' })
  debounce.publish({ topic: 'timers', key: '1' })
  expect(sentAtMs).toEqual([0, 0, 0])
  debounce.publish(ready)
  debounce.close()
  debounce.publish(ready)
  await clock.advance(100)
  expect(sentAtMs).toHaveLength(3)
})
