// What is to happen in a simulated world, and its time. Time goes on only from one thing to the next; things
// of one instant happen in an order that chance picks. After each of them the world waits until all that
// follows from it in memory has happened, so the order of everything is a matter of the seed alone.
import type { Chance } from './chance.ts'

export interface Planned {
  readonly cancel: () => void
}

export interface Agenda {
  /** The true time of the world, epoch ms. */
  readonly nowMs: () => number
  /** Since its beginning. */
  readonly passedMs: () => number
  /** Does `act` after so long. */
  readonly in: (delayMs: number, act: () => void | Promise<void>) => Planned
  /** Does the next thing, if it is due before so long has passed in all; false: there is none. */
  readonly step: (untilPassedMs: number) => Promise<boolean>
}

interface Entry {
  readonly atMs: number
  readonly order: number
  readonly act: () => void | Promise<void>
}

/** Things that happen at one instant. */
const mostAtOnce = 5_000

/**
 * Things happen at instants this far apart, several at one: the database is told of each instant, which takes
 * as long as many a statement. What has no delay happens at once.
 */
const gridMs = 10
const onGrid = (ms: number): number => Math.ceil(ms / gridMs) * gridMs

export function createAgenda(startMs: number, chance: Chance): Agenda {
  let nowMs = 0
  let sinceMoved = 0
  const entries = new Set<Entry>()

  function first(): Entry | undefined {
    let found: Entry | undefined
    for (const entry of entries) {
      const sooner =
        found === undefined ||
        entry.atMs < found.atMs ||
        (entry.atMs === found.atMs && entry.order < found.order)
      if (sooner) found = entry
    }
    return found
  }

  return {
    nowMs: () => startMs + nowMs,
    passedMs: () => nowMs,
    in(delayMs, act) {
      const entry = { atMs: onGrid(nowMs + Math.max(0, delayMs)), order: chance.next(), act }
      entries.add(entry)
      return { cancel: () => void entries.delete(entry) }
    },
    async step(untilPassedMs) {
      const next = first()
      if (next === undefined || next.atMs > untilPassedMs) {
        nowMs = Math.max(nowMs, untilPassedMs)
        return false
      }
      sinceMoved = next.atMs > nowMs ? 0 : sinceMoved + 1
      if (sinceMoved > mostAtOnce) throw new Error('Time stands still: something goes on and on without it.')
      nowMs = next.atMs
      entries.delete(next)
      await next.act()
      await allSettled()
      return true
    },
  }
}

/** Lets every promise that has its answer go on: nothing in memory waits for more than that. */
const allSettled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))
