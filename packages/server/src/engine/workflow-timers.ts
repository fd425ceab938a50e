/**
 * When waits of workflows, and the time of workflow runs, are over: the resolver sleeps until the next such
 * instant instead of asking again and again. What is due is decided by the clock of the database; the one
 * here only says when to ask. In the idle rounds of the resolver it is asked anyway, for what another process
 * knew of and did not live to see.
 */
import type { Clock } from '../ports/clock.ts'
import type { WorkflowTimers } from '../ports/workflow-waits.ts'

/** Below the time between two idle rounds: these ask, and none is begun for it alone. */
const askAgainMs = 8_000
/** What is due stays so while somebody else is at it. */
const stillDueMs = 250
const mostAtOnce = 1_000

export interface DueWaits {
  /** Ends what is due, where it is time to look, or at any rate with `now`. */
  readonly end: (now?: 'now') => Promise<void>
  /** Something is due in so many ms. */
  readonly expect: (inMs: number) => void
  /** Until something is due, as far as is known, ms; Infinity: nothing is. */
  readonly remainingMs: () => number
}

export function createDueWaits(clock: Clock, timers: WorkflowTimers): DueWaits {
  let askAtMs = -Infinity
  let dueAtMs = Infinity
  return {
    async end(now) {
      if (now === undefined && clock.monotonicMs() < Math.min(askAtMs, dueAtMs)) return
      let nextMs = await timers.nextDueMs()
      if (nextMs !== null && nextMs <= 0) {
        while ((await timers.endDue(mostAtOnce)) >= mostAtOnce);
        nextMs = await timers.nextDueMs()
      }
      askAtMs = clock.monotonicMs() + askAgainMs
      const waitMs = nextMs === null ? Infinity : nextMs <= 0 ? stillDueMs : Math.ceil(nextMs)
      dueAtMs = clock.monotonicMs() + waitMs
    },
    expect(inMs) {
      dueAtMs = Math.min(dueAtMs, clock.monotonicMs() + inMs)
    },
    remainingMs: () => Math.max(0, dueAtMs - clock.monotonicMs()),
  }
}
