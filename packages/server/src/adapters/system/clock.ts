/**
 * The real clock: Node's wall clock for display, its monotonic clock for waits and durations. Tests put a
 * virtual one in its place.
 */
import type { Clock, Timer } from '../../ports/clock.ts'

/**
 * setTimeout takes at most 2^31−1 ms and fires at once beyond; longer waits end early and are simply waited
 * again.
 */
const longestTimerMs = 2_147_483_647

/** A class: one is made for each attempt. */
class SystemTimer implements Timer {
  readonly #timeout: NodeJS.Timeout

  constructor(fn: () => void, delayMs: number) {
    this.#timeout = setTimeout(fn, delayMs)
  }

  cancel(): void {
    clearTimeout(this.#timeout)
  }
}

export const systemClock: Clock = {
  nowMs: () => Date.now(),
  monotonicMs: () => performance.now(),
  setTimer(delayMs, fn) {
    return new SystemTimer(fn, Math.min(Math.max(delayMs, 0), longestTimerMs))
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
