// Processes of Belfry that are killed or stopped, one of each role in turn.
import { countLost, countTerms, type Fault, oneOf, schedulers, stopBusy, workers } from './fault.ts'
import type { World } from './world.ts'

/** Past a term and a lease, which are four seconds in cells. */
const pastTermMs = 6_500

/** What has to be remembered from before the fault, by the world. */
const termsBefore = new WeakMap<World, number>()

async function missedTakeover(world: World): Promise<string | undefined> {
  const before = termsBefore.get(world) ?? 0
  return (await countTerms(world)) > before ? undefined : 'no shard was taken over'
}

async function missedLoss(world: World): Promise<string | undefined> {
  return (await countLost(world)) > 0 ? undefined : 'no attempt was lost'
}

export const nothing: Fault = {
  wreak: (world) => world.until(0),
  missed: async () => undefined,
}

/** kill -9 of one process of each role, in an order that is drawn. */
export const killEachRole: Fault = {
  async wreak(world) {
    termsBefore.set(world, await countTerms(world))
    const victims = [oneOf(world, schedulers), oneOf(world, workers), 'api', 'resolver'] as const
    const order = [...victims].sort(() => world.draw(2) - 0.5)
    // where a start takes long, the next one is killed meanwhile
    const restarts: Promise<void>[] = []
    for (const [index, name] of order.entries()) {
      await world.until(1 + index * 2.5 + world.draw(10) / 10)
      if (name === 'worker-1' || name === 'worker-2') await stopBusy(world, name)
      await world.kill(name)
      const restart = world.start(name).then(() => world.note(`${name} is back`))
      // told of in the end
      restart.catch(() => undefined)
      restarts.push(restart)
    }
    await Promise.all(restarts)
  },
  missed: async (world) => (await missedLoss(world)) ?? missedTakeover(world),
}

/** The holder of half of the shards stops past its term, and goes on as if nothing had happened. */
export const stopHolder: Fault = {
  async wreak(world) {
    termsBefore.set(world, await countTerms(world))
    const name = oneOf(world, schedulers)
    await world.until(1.5 + world.draw(15) / 10)
    world.signal(name, 'SIGSTOP')
    await new Promise((resolve) => setTimeout(resolve, pastTermMs))
    world.signal(name, 'SIGCONT')
  },
  missed: missedTakeover,
}

/** A worker stops past its lease, and goes on with runs that others have by then. */
export const stopWorker: Fault = {
  async wreak(world) {
    const name = oneOf(world, workers)
    await world.until(1.5 + world.draw(15) / 10)
    await stopBusy(world, name)
    await new Promise((resolve) => setTimeout(resolve, pastTermMs))
    world.signal(name, 'SIGCONT')
  },
  missed: missedLoss,
}
