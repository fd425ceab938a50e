/**
 * Database time, estimated locally. Each answer that carries the database's time is an observation: the true
 * time at the moment of reading lies somewhere between "sent" and "received", so the midpoint is wrong by at
 * most half the round trip. The best observation of the last minute wins. Used to decide how long to sleep
 * and to stamp what happened between two statements; never to decide whether something is due (the database
 * does that).
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
}

export function createDatabaseClock(clock: Clock): DatabaseClock {
  let best: { offsetMs: number; errorMs: number; atMs: number } | undefined

  const nowMs = (): number => (best === undefined ? clock.nowMs() : clock.monotonicMs() + best.offsetMs)
  return {
    nowMs,
    observe(databaseNowMs, sentMs) {
      const receivedMs = clock.monotonicMs()
      const errorMs = (receivedMs - sentMs) / 2
      const stale = best === undefined || receivedMs - best.atMs > observationLifeMs
      if (best === undefined || stale || errorMs <= best.errorMs) {
        best = { offsetMs: databaseNowMs - (sentMs + errorMs), errorMs, atMs: receivedMs }
      }
    },
    skewMs: () => clock.nowMs() - nowMs(),
  }
}
