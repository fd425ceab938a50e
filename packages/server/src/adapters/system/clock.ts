/**
 * The real clock: Node's wall clock for display, its monotonic clock for waits and durations. Tests put a
 * virtual one in its place.
 */
import type { Clock } from '../../ports/clock.ts'

/**
 * setTimeout takes at most 2^31−1 ms and fires at once beyond; longer waits end early and are simply waited
 * again.
 */
const longestTimerMs = 2_147_483_647

export const systemClock: Clock = {
  nowMs: () => Date.now(),
  monotonicMs: () => performance.now(),
  setTimer(delayMs, fn) {
    const timer = setTimeout(fn, Math.min(Math.max(delayMs, 0), longestTimerMs))
    return { cancel: () => clearTimeout(timer) }
  },
  sleep(ms, signal) {
    return new Promise((resolve) => {
      if (signal?.aborted) {
        resolve()
        return
      }
      const done = (): void => {
        clearTimeout(timer)
        signal?.removeEventListener('abort', done)
        resolve()
      }
      const timer = setTimeout(done, Math.min(Math.max(ms, 0), longestTimerMs))
      signal?.addEventListener('abort', done, { once: true })
    })
  },
}
