// A clock that stands still until a test moves it. Timers fire in order of their instants, each with the
// clock standing at its own; promises that hang on them go on in between. Wall time and monotonic time move
// together.
import type { Clock } from '../../packages/server/src/ports/clock.ts'

export type VirtualClock = Clock & {
  /** Moves on by `ms` and fires what falls due on the way. */
  readonly advance: (ms: number) => Promise<void>
  /** Monotonic time at which the first waiting timer fires; Infinity when none waits. */
  readonly nextTimerMs: () => number
  /** Timers that wait. */
  readonly waiting: () => number
}

type Waiting = { readonly atMs: number; readonly fn: () => void }

export function createVirtualClock(startMs: number): VirtualClock {
  let nowMs = 0
  const timers = new Set<Waiting>()

  const first = (): Waiting | undefined => {
    let found: Waiting | undefined
    for (const timer of timers) if (found === undefined || timer.atMs < found.atMs) found = timer
    return found
  }
  const setTimer: Clock['setTimer'] = (delayMs, fn) => {
    const timer = { atMs: nowMs + Math.max(0, delayMs), fn }
    timers.add(timer)
    return { cancel: () => timers.delete(timer) }
  }
  return {
    nowMs: () => startMs + nowMs,
    monotonicMs: () => nowMs,
    setTimer,
    sleep: (ms, signal) =>
      new Promise((resolve) => {
        if (signal?.aborted === true) return resolve()
        const end = (): void => {
          timer.cancel()
          signal?.removeEventListener('abort', end)
          resolve()
        }
        const timer = setTimer(ms, end)
        signal?.addEventListener('abort', end)
      }),
    async advance(ms) {
      const untilMs = nowMs + ms
      for (;;) {
        const due = first()
        if (due === undefined || due.atMs > untilMs) break
        nowMs = Math.max(nowMs, due.atMs)
        timers.delete(due)
        due.fn()
        await new Promise((resolve) => setImmediate(resolve))
      }
      nowMs = untilMs
      await new Promise((resolve) => setImmediate(resolve))
    },
    nextTimerMs: () => first()?.atMs ?? Number.POSITIVE_INFINITY,
    waiting: () => timers.size,
  }
}
