// The real clock and real chance as ports, for tests that run against real servers.
import { setTimeout as wait } from 'node:timers/promises'
import type { Clock } from '../../packages/server/src/ports/clock.ts'
import type { Random } from '../../packages/server/src/ports/random.ts'

export const realClock: Clock = {
  nowMs: () => Date.now(),
  monotonicMs: () => performance.now(),
  setTimer: (delayMs, fn) => {
    const timer = setTimeout(fn, delayMs)
    return { cancel: () => clearTimeout(timer) }
  },
  sleep: (ms, signal) => wait(ms, undefined, { signal }).catch(() => undefined),
}

export const realRandom: Random = { next: () => Math.random() }
