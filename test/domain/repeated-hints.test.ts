// Hints of what a transaction of a program's own stores: told again after its commit, however late that is.
import { expect, it } from 'vitest'
import { createRepeatedHints } from '../../packages/server/src/engine/repeated-hints.ts'
import type { Hint } from '../../packages/server/src/ports/hints.ts'
import { createVirtualClock } from '../support/virtual-clock.ts'

const timers: Hint = { topic: 'timers', key: '7' }
const gate: Hint = { topic: 'gate', key: 'acme' }

function rig() {
  const clock = createVirtualClock(0)
  const told: [atMs: number, hint: Hint][] = []
  const hints = createRepeatedHints({ publish: (hint) => told.push([clock.monotonicMs(), hint]) }, clock)
  return { clock, told, hints }
}

it('tells at once, and again in ever longer steps, and then no more', async () => {
  const { clock, told, hints } = rig()
  hints.publish(timers)
  await clock.advance(120_000)
  expect(told.map(([atMs]) => atMs)).toEqual([0, 20, 100, 420, 1_700, 6_700, 21_700])
  expect(told.every(([, hint]) => hint === timers)).toBe(true)
})

it('begins anew with each, and keeps one row of steps for a topic and key', async () => {
  const { clock, told, hints } = rig()
  for (let each = 0; each < 10; each++) hints.publish(timers)
  hints.publish(gate)
  await clock.advance(50)
  hints.publish(timers)
  await clock.advance(25)
  const atMs = (wanted: Hint) => told.flatMap(([at, hint]) => (hint === wanted && at > 0 ? [at] : []))
  expect(atMs(timers)).toEqual([20, 50, 70])
  expect(atMs(gate)).toEqual([20])
})

it('tells nothing after the close', async () => {
  const { clock, told, hints } = rig()
  hints.publish(timers)
  hints.close()
  await clock.advance(120_000)
  expect(told).toHaveLength(1)
})
