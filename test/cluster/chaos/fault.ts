// What a fault is, and the waits that several of them share.
import { eventually } from '../../support/running.ts'
import type { NodeName, World } from './world.ts'

export interface Fault {
  /** Done while the load runs, by the seconds since the first planned time; over before the window is. */
  readonly wreak: (world: World) => Promise<void>
  /** Undefined when it hit what it was meant to hit; else what it missed: the cell then proves nothing. */
  readonly missed: (world: World) => Promise<string | undefined>
}

const hits = new WeakMap<World, number>()

/** Notes that the fault hit something, or so many. */
export function hit(world: World, count = 1): void {
  hits.set(world, (hits.get(world) ?? 0) + count)
}

/** What a fault must have noted by `hit`. */
export const hitAtLeast = (wanted: number, what: string): Fault['missed'] => {
  return (world) => {
    const found = hits.get(world) ?? 0
    return Promise.resolve(found >= wanted ? undefined : `${found} ${what}, not ${wanted}`)
  }
}

export const workers = ['worker-1', 'worker-2'] as const
export const schedulers = ['scheduler-1', 'scheduler-2'] as const

export function oneOf<Name extends NodeName>(world: World, names: readonly Name[]): Name {
  const name = names[world.draw(names.length)]
  if (name === undefined) throw new Error('there is none to choose from')
  return name
}

const heldBy = 'SELECT FROM belfry.ready WHERE session_id = $1'

/** Stops a worker (SIGSTOP) at a moment when it holds runs. */
export async function stopBusy(world: World, name: (typeof workers)[number]): Promise<void> {
  const isCaught = async (): Promise<boolean> => {
    const session = world.told(name, 'session_started').at(-1)?.['sessionId']
    const node = world.arena.nodes.get(name)
    node?.signal('SIGSTOP')
    if ((await world.arena.rows(heldBy, [session])).length > 0) return true
    node?.signal('SIGCONT')
    return false
  }
  await eventually(isCaught, `${name} stopped while it held runs`, 10_000)
  world.note(`SIGSTOP ${name}, which holds runs`)
}

export async function killAndRestart(world: World, name: NodeName): Promise<void> {
  await world.kill(name)
  await world.start(name)
  world.note(`${name} is back`)
}

export async function countLost(world: World): Promise<number> {
  const [row] = await world.arena.rows<{ n: number }>(
    "SELECT count(*)::int AS n FROM belfry.attempt WHERE outcome = 'lost'",
  )
  return row?.n ?? 0
}

/** Terms that were begun so far, all shards together. */
export async function countTerms(world: World): Promise<number> {
  const [row] = await world.arena.rows<{ n: number }>('SELECT sum(term)::int AS n FROM belfry.shard_term')
  return row?.n ?? 0
}

/** How often any node said that a part went away. */
export function timesAway(world: World, part: string): number {
  return [...world.arena.nodes.keys()]
    .flatMap((name) => world.told(name as NodeName, 'part_changed'))
    .filter((told) => told['part'] === part && told['state'] === 'away').length
}

/** What a part of Belfry must have noticed. */
export const noticedAway =
  (part: string): Fault['missed'] =>
  async (world) =>
    timesAway(world, part) > 0 ? undefined : `nobody noticed that ${part} was away`
