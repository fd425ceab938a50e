/**
 * A limit on how long something is waited for. What did not settle in time goes on by itself, unheard: for
 * the end of a process, where a database that answers nothing must not keep it.
 */
import type { Clock } from '../ports/clock.ts'

/** Resolves when `work` has settled, also by failing, or after `limitMs`. */
export async function settledWithin(clock: Clock, limitMs: number, work: Promise<unknown>): Promise<void> {
  const limit = Promise.withResolvers<void>()
  const timer = clock.setTimer(limitMs, limit.resolve)
  await Promise.race([Promise.allSettled([work]), limit.promise])
  timer.cancel()
}
