// A simulated world: the database, the time, and the nodes that live in it. Every call of a node to the
// database is a step. One step is done at a time, in an order and at instants that the seed chooses; before
// and after each of them a node may die or be stopped for a while, and an answer may be late or lost.
//
// A statement that waits for a lock of another node's transaction is left waiting while others go on; it goes
// on itself when that one has ended. Where it would never end the world says so.
import { setTimeout as wait } from 'node:timers/promises'
import { createAgenda, type Agenda } from './agenda.ts'
import type { Chance } from './chance.ts'
import type { WorldDatabase } from './world-database.ts'
import { worldStartMs } from './world-database.ts'

export interface World {
  readonly agenda: Agenda
  readonly chance: Chance
  readonly database: WorldDatabase
  /** Does `work` now, and calls `then` with what came of it, now or when a lock was had. */
  readonly perform: (work: () => Promise<unknown>, then: (outcome: Outcome) => void) => Promise<void>
  /** What happens is written down, where somebody asked for it. */
  readonly note: (who: string, what: string) => void
  readonly trace: readonly string[]
  readonly steps: () => number
}

export type Outcome = { readonly value: unknown } | { readonly error: unknown }

interface Pending {
  outcome?: Outcome
  readonly goOn: (outcome: Outcome) => void
}

/** Real time: after so long it is asked whether a statement waits for a lock. */
const patienceMs = 15
const longestMs = 20_000

function withPatience(answered: Promise<void>): Promise<void> {
  return new Promise((resolve) => {
    const patience = setTimeout(resolve, patienceMs)
    void answered.then(() => {
      clearTimeout(patience)
      resolve()
    })
  })
}

export function createWorld(database: WorldDatabase, chance: Chance, traced: boolean): World {
  const agenda = createAgenda(worldStartMs, chance.fork('agenda'))
  const trace: string[] = []
  let blocked: Pending[] = []
  let databaseMs = -1
  let steps = 0

  const open = (): Pending[] => blocked.filter(({ outcome }) => outcome === undefined)

  async function settledOrBlocked(pending: Pending, answered: Promise<void>): Promise<void> {
    const before = open().length
    const endMs = performance.now() + longestMs
    for (;;) {
      await withPatience(answered)
      if (pending.outcome !== undefined) return
      if ((await database.waiting()) > before) return void blocked.push(pending)
      if (performance.now() > endMs) throw new Error('A statement does not come back.')
    }
  }

  /** Waits until all that were blocked are so still, or have their answers. */
  async function settleBlocked(): Promise<void> {
    const endMs = performance.now() + longestMs
    while ((await database.waiting()) !== open().length) {
      if (performance.now() > endMs) throw new Error('A statement that waited for a lock does not come back.')
      await wait(1)
    }
    const settled = blocked.filter(({ outcome }) => outcome !== undefined)
    blocked = open()
    for (const { outcome, goOn } of settled) if (outcome !== undefined) goOn(outcome)
  }

  return {
    agenda,
    chance,
    database,
    trace,
    steps: () => steps,
    note(who, what) {
      if (!traced) return
      const atMs = agenda.passedMs().toFixed(3).padStart(11)
      trace.push(`${atMs} ${who.padEnd(12)} ${what}`)
    },
    async perform(work, then) {
      steps++
      if (databaseMs !== agenda.passedMs()) {
        databaseMs = agenda.passedMs()
        await database.moveNow(agenda.nowMs())
      }
      const pending: Pending = { goOn: then }
      const answered = work().then(
        (value) => void (pending.outcome = { value }),
        (error: unknown) => void (pending.outcome = { error }),
      )
      await settledOrBlocked(pending, answered)
      if (pending.outcome !== undefined) then(pending.outcome)
      if (blocked.length > 0) await settleBlocked()
    },
  }
}
