// Plays many simulated worlds: several at a time, each in a database of its own, so that while one waits for
// the database another one goes on. Which worlds are played does not depend on it.
import type { SharedServer } from '../../support/global-postgres.ts'
import { play, type PlayOptions, type Played } from './play.ts'
import { openWorldDatabase } from './world-database.ts'

export interface LanesOptions extends Omit<PlayOptions, 'database' | 'seed'> {
  readonly server: SharedServer
  /** In the order in which they are to be played. */
  readonly seeds: Iterable<number>
  /** Begins no further world after so long. */
  readonly limitMs?: number
  /** Called after each world; true: no further one is to begin. */
  readonly played: (world: Played) => boolean
}

const lanes = 3
let opened = 0

/** Throws where a world cannot be played at all, with its seed. */
export async function playMany({
  server,
  seeds,
  limitMs = Infinity,
  played,
  ...options
}: LanesOptions): Promise<void> {
  const left = seeds[Symbol.iterator]()
  const endMs = performance.now() + limitMs
  let enough = false

  async function lane(): Promise<void> {
    const database = await openWorldDatabase(server, `world_${process.pid}_${opened++}`)
    try {
      while (!enough && performance.now() < endMs) {
        const next = left.next()
        if (next.done === true) return
        try {
          enough = played(await play({ ...options, database, seed: next.value })) || enough
        } catch (cause) {
          throw new Error(`The world of seed ${next.value} cannot be played.`, { cause })
        }
      }
    } finally {
      await database.close()
    }
  }
  await Promise.all(Array.from({ length: lanes }, lane))
}

/** How a world is played again, and what was wrong with it. */
export function describeWorld({ seed, kind, plan, faults }: Played, broken?: string): string {
  const again = broken === undefined ? '' : ` --broken '${broken}'`
  const strikes = plan.strikes.map(({ node, what, when, named, step, lateMs }) => {
    const late = lateMs === 0 ? '' : `, ${lateMs.toFixed(0)} ms later`
    const which = named === '' ? '' : ` with ${named} in its name`
    return `${node}: ${what} ${when} step ${step + 1}${which}${late}`
  })
  return [
    `A world of kind ${kind}; again: npm run simulate -- --seed ${seed} --kind ${kind}${again}`,
    ...strikes.map((strike) => `  ${strike}`),
    ...faults.map((fault) => `  WRONG: ${fault}`),
  ].join('\n')
}
