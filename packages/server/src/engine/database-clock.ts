/**
 * Database time, estimated locally. Each answer that carries the database's time is an observation: the true
 * time at the moment of reading lies somewhere between "sent" and "received", so the midpoint is wrong by at
 * most half the round trip. The best observation of the last minute wins, unless a newer one contradicts it:
 * two that cannot both be right mean that one of the clocks jumped (a suspended machine, a step of the
 * database's clock, another database after a failover), and the newer one is about now.
 *
 * Used to decide how long to sleep, to decide fires ahead, and to stamp what happened between two statements;
 * never to decide whether something is due (the database does that, and refuses what was decided with a wrong
 * time).
 */
import type { Clock } from '../ports/clock.ts'

const observationLifeMs = 60_000

export interface DatabaseClock {
  /** Estimated database time, epoch ms with fractions. Before the first observation: the local wall clock. */
  nowMs(): number
  /** Takes in the database's time as answered to a statement sent at `sentMs` (local monotonic). */
  observe(databaseNowMs: number, sentMs: number): void
  /** Local wall clock minus database time, ms. */
  skewMs(): number
  /** The most that `skewMs` may be wrong by; Infinity before the first observation. */
  skewErrorMs(): number
}

interface Observation {
  readonly offsetMs: number
  readonly errorMs: number
  readonly atMs: number
}

export function createDatabaseClock(clock: Clock): DatabaseClock {
  let best: Observation | undefined

  const nowMs = (): number => (best === undefined ? clock.nowMs() : clock.monotonicMs() + best.offsetMs)
  return {
    nowMs,
    observe(databaseNowMs, sentMs) {
      const atMs = clock.monotonicMs()
      const errorMs = (atMs - sentMs) / 2
      const next = { offsetMs: databaseNowMs - (sentMs + errorMs), errorMs, atMs }
      if (best === undefined || replaces(next, best)) best = next
    },
    skewMs: () => clock.nowMs() - nowMs(),
    skewErrorMs: () => best?.errorMs ?? Number.POSITIVE_INFINITY,
  }
}

function replaces(next: Observation, best: Observation): boolean {
  if (next.errorMs <= best.errorMs || next.atMs - best.atMs > observationLifeMs) return true
  return Math.abs(next.offsetMs - best.offsetMs) > next.errorMs + best.errorMs
}
