/**
 * Time as the engine may see it. Wall time is for display only: every predicate (due, lease, term) uses the
 * database's clock, and every wait or measured duration the monotonic one. In tests a virtual clock stands
 * in.
 */

export interface Timer {
  cancel(): void
}

export interface Clock {
  /** Local wall clock, epoch ms. May be wrong; never decides anything. */
  nowMs(): number
  /** Local monotonic clock, ms from an arbitrary start; never goes back, stands still for nothing. */
  monotonicMs(): number
  /** Calls `fn` once, after at least `delayMs`. */
  setTimer(delayMs: number, fn: () => void): Timer
  /** Resolves after `ms`, or as soon as `signal` aborts; never rejects. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>
}
