/**
 * Keeps notices between processes few: the first hint of a topic and key goes out at once, further ones
 * within a window are folded into one at its end. The window is 5 ms for hints that come now and then, so
 * that a run which may start at once is soon heard of elsewhere, and doubles up to 50 ms while they keep
 * coming.
 */
import type { Clock, Timer } from '../ports/clock.ts'
import type { Hint } from '../ports/hints.ts'

const shortestMs = 5
const longestMs = 50

export interface Debounce {
  publish(hint: Hint): void
  close(): void
}

interface Window {
  /** Whether a hint came while it was open. */
  again: boolean
  readonly timer: Timer
}

/** Calls `send` for a hint at most once a window per topic and key. */
export function createDebounce(clock: Clock, send: (hint: Hint) => void): Debounce {
  const open = new Map<string, Window>()
  let closed = false

  function begin(id: string, hint: Hint, lengthMs: number): void {
    const timer = clock.setTimer(lengthMs, () => {
      const again = open.get(id)?.again === true
      open.delete(id)
      if (again && !closed) begin(id, hint, Math.min(longestMs, lengthMs * 2))
    })
    open.set(id, { again: false, timer })
    send(hint)
  }

  return {
    publish(hint) {
      if (closed) return
      const id = `${hint.topic}:${hint.key}`
      const window = open.get(id)
      if (window === undefined) begin(id, hint, shortestMs)
      else window.again = true
    },
    close() {
      closed = true
      for (const { timer } of open.values()) timer.cancel()
      open.clear()
    },
  }
}
