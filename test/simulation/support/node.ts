// A process in a simulated world: its clock, its way to the database, and its death. What it is made of
// (roles.ts) runs in this program, but hears of nothing once it is dead, and only later what happened while
// it was stopped.
import type { Clock } from '../../../packages/server/src/ports/clock.ts'
import type { Database } from '../../../packages/server/src/postgres/database.ts'
import type { Planned } from './agenda.ts'
import type { Chance } from './chance.ts'
import type { Faults } from './faults.ts'
import { lostConnection, steppedDatabase, type Step } from './stepped-database.ts'
import type { World } from './world.ts'

export interface SimNode {
  readonly name: string
  readonly clock: Clock
  readonly db: Database
  readonly chance: Chance
  readonly isDead: () => boolean
  /** Above 0 while it is stopped. */
  readonly pausedForMs: () => number
  /** As by kill -9: nothing of it happens any more. */
  readonly die: () => void
  /** As by SIGSTOP. */
  readonly pause: (forMs: number) => void
  /** Does `act` after so long, or when the node goes on then; not at all once it is dead. */
  readonly in: (delayMs: number, act: () => void) => Planned
}

export interface NodeOptions {
  readonly name: string
  /** Of all processes of the world. */
  readonly boot: number
  /** Of the wall clock. */
  readonly skewMs: number
  /** How much faster than time the monotonic clock runs: 1 is right. */
  readonly rate: number
  /** Looks at what the node does in the database. Default: nobody does. */
  readonly door?: Database
}

export function createSimNode(world: World, faults: Faults, options: NodeOptions): SimNode {
  const { agenda } = world
  const { name } = options
  const chance = world.chance.fork(`${name} ${options.boot}`)
  const deaths = new Set<() => void>()
  let dead = false
  let pausedUntilMs = -Infinity

  const pausedForMs = (): number => pausedUntilMs - agenda.passedMs()

  function after(delayMs: number, act: () => void): Planned {
    let planned = agenda.in(delayMs, function happen() {
      if (dead) return
      if (pausedForMs() > 0) planned = agenda.in(pausedForMs(), happen)
      else act()
    })
    return { cancel: () => planned.cancel() }
  }

  const node: SimNode = {
    name,
    chance,
    clock: clockOf(world, options, after),
    db: steppedDatabase(options.door ?? world.database.db, {
      send: (step, work) => sendStep({ world, faults, node }, step, work) as Promise<never>,
      onDeath(listener) {
        deaths.add(listener)
        return () => deaths.delete(listener)
      },
      afterwards(work) {
        agenda.in(faults.goneMs(), () => world.perform(work, () => undefined))
      },
    }),
    in: after,
    isDead: () => dead,
    pausedForMs,
    die() {
      if (dead) return
      dead = true
      world.note(name, 'DIES')
      for (const listener of deaths) listener()
    },
    pause(forMs) {
      pausedUntilMs = Math.max(pausedUntilMs, agenda.passedMs() + forMs)
      world.note(name, `STOPS for ${forMs} ms`)
    },
  }

  return node
}

interface Sending {
  readonly world: World
  readonly faults: Faults
  readonly node: SimNode
}

function sendStep(
  { world, faults, node }: Sending,
  step: Step,
  work: () => Promise<unknown>,
): Promise<unknown> {
  const { agenda } = world
  const { promise, resolve, reject } = Promise.withResolvers<unknown>()
  if (node.isDead()) return promise
  const fate = faults.fateOf(node, step)
  const answer = (settle: () => void): void => void node.in(fate.answerMs, settle)
  const lose = (): void => answer(() => reject(lostConnection()))
  if (fate.kind === 'late') lose()
  async function arrive(): Promise<void> {
    // what has left a node that dies may arrive all the same
    if (node.isDead() && !fate.outlives) return
    if (!node.isDead() && faults.strikes(node, step, 'before')) return
    const heldMs = node.pausedForMs()
    if (heldMs > 0 && !fate.outlives) return void agenda.in(heldMs, arrive)
    world.note(node.name, `${step.name}${fate.kind === 'well' ? '' : ` (${fate.kind})`}`)
    if (fate.kind === 'request lost') return lose()
    await world.perform(work, (outcome) => {
      if (!node.isDead() && faults.strikes(node, step, 'after')) return
      if (fate.kind === 'late') return
      if (fate.kind === 'answer lost') return lose()
      answer(() => ('error' in outcome ? reject(outcome.error) : resolve(outcome.value)))
    })
  }
  agenda.in(fate.requestMs, arrive)
  return promise
}

function clockOf(world: World, { skewMs, rate }: NodeOptions, after: SimNode['in']): Clock {
  const { agenda } = world
  const bornMs = agenda.passedMs()
  // whole milliseconds, and one at least, as Node's timers
  const setTimer: Clock['setTimer'] = (delayMs, fn) => after(Math.max(1, Math.trunc(delayMs)) / rate, fn)
  return {
    nowMs: () => agenda.nowMs() + skewMs,
    monotonicMs: () => (agenda.passedMs() - bornMs) * rate,
    setTimer,
    sleep: (ms, signal) =>
      new Promise((resolve) => {
        if (signal?.aborted === true) return resolve()
        function end(): void {
          timer.cancel()
          signal?.removeEventListener('abort', end)
          resolve()
        }
        const timer = setTimer(ms, end)
        signal?.addEventListener('abort', end)
      }),
  }
}
