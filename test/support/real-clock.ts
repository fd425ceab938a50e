// The real clock as the Clock port, for tests that run against real servers.
import { setTimeout as wait } from 'node:timers/promises'
import type { Clock } from '../../packages/server/src/ports/clock.ts'

export const realClock: Clock = {
  nowMs: () => Date.now(),
  monotonicMs: () => performance.now(),
  setTimer: (delayMs, fn) => {
    const timer = setTimeout(fn, delayMs)
    return { cancel: () => clearTimeout(timer) }
  },
  sleep: (ms, signal) => wait(ms, undefined, { signal }).catch(() => undefined),
}
