// A node whose clock is wrong by an hour, or whose network is cut to one store.
import { setTimeout as wait } from 'node:timers/promises'
import { type Fault, killAndRestart, timesAway } from './fault.ts'
import type { LaneName } from './grounds.ts'
import { specialNodes } from './grounds.ts'
import type { NodeName, World } from './world.ts'

const special = [...specialNodes] as NodeName[]

function tells(world: World, event: string): number {
  return special.reduce((sum, name) => sum + world.told(name, event).length, 0)
}

/** The others die for a while, so that those with the wrong clock have to fire and to work. */
export const wrongClock: Fault = {
  async wreak(world) {
    for (const [second, name] of [
      [3, 'scheduler-2'],
      [7, 'worker-2'],
    ] as const) {
      await world.until(second + world.draw(10) / 10)
      await killAndRestart(world, name)
    }
  },
  missed: async (world) =>
    tells(world, 'clock_skew') > 0 ? undefined : 'nobody saw that the clock is wrong',
}

/** Past a term and a lease. */
const cutMs = 6_500

export const cutLane = (lane: LaneName): Fault => ({
  async wreak(world) {
    const { lanes } = world.ground
    if (lanes === undefined) throw new Error('there is no other host')
    await world.until(2 + world.draw(10) / 10)
    lanes.cut(lane)
    world.note(`${special.join(' and ')} are cut off from ${lane}`)
    await wait(cutMs)
    lanes.heal(lane)
    world.note('the network is whole again')
  },
  async missed(world) {
    if (lane === 'postgres') return tells(world, 'session_lost') > 0 ? undefined : 'no session was lost'
    return timesAway(world, lane) > 0 ? undefined : `nobody noticed that ${lane} was away`
  },
})
