// Belfry as a library inside the process: `createBelfry` with one function, history kept as always.
import { type Belfry, createBelfry } from 'belfry'
import type { Engine, EngineOptions } from '../engine.ts'
import { inserting, noopJob } from './belfry-inserting.ts'

export async function openBelfry({ place, works, slots }: EngineOptions): Promise<Engine> {
  let tell: (stampMs: number) => void = () => undefined
  const noop = noopJob((stampMs) => tell(stampMs))
  const options = { databaseUrl: place.runtimeUrl, jobs: [noop], migrate: false }
  let belfry: Belfry = createBelfry({ ...options, work: false })
  await belfry.start()
  return {
    ...inserting(place, noop, () => belfry),
    async work(heard) {
      if (!works) throw new Error('This process only inserts.')
      tell = heard
      await belfry.stop()
      belfry = createBelfry({ ...options, slots, drainMs: 1_000 })
      await belfry.start()
    },
    close: () => belfry.stop(),
  }
}
