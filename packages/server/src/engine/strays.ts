/**
 * Runs that a session holds without its worker knowing. A claim whose answer was lost may have been
 * committed, and a zombie of it may still commit later; so after any failed claim the database is asked, for
 * a minute, what the session holds, and what nobody here knows of is given back unstarted. Nothing is asked
 * while nothing has failed. A run whose cancel was asked for meanwhile is not given back but ends there and
 * then (RunStore.handBack).
 */
import type { Clock } from '../ports/clock.ts'
import type { Hints } from '../ports/hints.ts'
import type { HeldRun, RunStore } from '../ports/run-store.ts'
import type { Slots } from './slots.ts'
import { hintTimers } from './timer-hints.ts'

const watchMs = 60_000
const checkMs = 5_000

export interface StraysOptions {
  readonly store: Pick<RunStore, 'handBack' | 'heldRuns'>
  readonly hints: Pick<Hints, 'publish'>
  readonly clock: Clock
  readonly slots: Pick<Slots, 'held' | 'dropped'>
}

export interface Strays {
  /** A claim, or what belongs to one, failed: its runs may be held by the session all the same. */
  readonly suspect: () => void
  /** Looks for strays when it is time to. */
  readonly lookIfDue: (sessionId: string) => Promise<void>
  /** Gives back what the session holds but nobody here knows of. */
  readonly giveBackUnknown: (sessionId: string) => Promise<void>
  readonly giveBack: (sessionId: string, runs: readonly HeldRun[]) => Promise<void>
}

const keyOf = (run: HeldRun): string => `${run.runId} ${run.leaseEpoch}`

export function createStrays({ store, hints, clock, slots }: StraysOptions): Strays {
  let untilMs = -Infinity
  let nextMs = Infinity

  async function giveBack(sessionId: string, runs: readonly HeldRun[]): Promise<void> {
    if (runs.length === 0) return
    const { handedBackRunIds, timerShards } = await store.handBack(sessionId, runs)
    hintTimers(hints, [], { timerShards })
    const back = new Set(handedBackRunIds)
    const queues = new Set(runs.filter((run) => back.has(run.runId)).map((run) => run.queue))
    for (const queue of queues) hints.publish({ topic: 'ready', key: queue })
  }

  async function giveBackUnknown(sessionId: string): Promise<void> {
    const held = await store.heldRuns(sessionId)
    const known = new Set([...slots.held().map(({ run }) => run), ...slots.dropped()].map(keyOf))
    await giveBack(
      sessionId,
      held.filter((run) => !known.has(keyOf(run))),
    )
  }

  return {
    giveBack,
    giveBackUnknown,
    suspect() {
      nextMs = clock.monotonicMs()
      untilMs = nextMs + watchMs
    },
    async lookIfDue(sessionId) {
      const nowMs = clock.monotonicMs()
      if (nowMs < nextMs || nextMs > untilMs) return
      await giveBackUnknown(sessionId)
      nextMs = Math.max(nextMs, nowMs + checkMs)
    },
  }
}
