/**
 * How many runs a worker may hold beyond its slots: as many as its slots will have taken up before a claim
 * that is sent when they are free has come back. Reckoned from how fast slots became free lately, so a worker
 * of short runs never waits for a claim, and one of long runs holds nothing that it does not execute.
 */
import type { Clock } from '../ports/clock.ts'

const windowMs = 100
/** What is held ahead is started after about so long. */
const aheadMs = 25
/** However fast it goes: inputs are held with their runs. */
const mostAhead = 2_000

export interface Turnover {
  /** A slot became free. */
  readonly released: () => void
  readonly ahead: () => number
}

export function createTurnover(clock: Pick<Clock, 'monotonicMs'>): Turnover {
  let sinceMs = -Infinity
  let before = 0
  let now = 0

  /** How much of the present window is over, ms. */
  function turn(): number {
    const goneMs = clock.monotonicMs() - sinceMs
    if (goneMs < windowMs) return goneMs
    before = goneMs < 2 * windowMs ? now : 0
    now = 0
    sinceMs = goneMs < 2 * windowMs ? sinceMs + windowMs : clock.monotonicMs()
    return Math.max(0, clock.monotonicMs() - sinceMs)
  }

  return {
    released() {
      turn()
      now++
    },
    ahead() {
      const goneMs = turn()
      return Math.min(mostAhead, Math.floor(((before + now) / (windowMs + goneMs)) * aheadMs))
    },
  }
}
