/**
 * A limit on how long something is waited for. What did not settle in time goes on by itself, unheard: for
 * the end of a process, where a database that answers nothing must not keep it.
 */
import type { Clock } from '../ports/clock.ts'

/** Resolves when `work` has settled, also by failing, or after `limitMs`; answers whether it was in time. */
export async function settledWithin(clock: Clock, limitMs: number, work: Promise<unknown>): Promise<boolean> {
  const limit = Promise.withResolvers<boolean>()
  const timer = clock.setTimer(limitMs, () => limit.resolve(false))
  const settled = work.then(
    () => true,
    () => true,
  )
  const inTime = await Promise.race([settled, limit.promise])
  timer.cancel()
  return inTime
}
