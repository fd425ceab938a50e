/**
 * Keeps notices between processes few: the first hint of a topic and key goes out at once, further ones
 * within the next 50 ms are folded into one at its end.
 */
import type { Clock, Timer } from '../ports/clock.ts'
import type { Hint } from '../ports/hints.ts'

const debounceMs = 50

export interface Debounce {
  publish(hint: Hint): void
  close(): void
}

/** Calls `send` for a hint at most once each 50 ms per topic and key. */
export function createDebounce(clock: Clock, send: (hint: Hint) => void): Debounce {
  const pending = new Map<string, { again: boolean; timer: Timer }>()
  let closed = false

  function publish(hint: Hint): void {
    if (closed) return
    const id = `${hint.topic}:${hint.key}`
    const waiting = pending.get(id)
    if (waiting !== undefined) {
      waiting.again = true
      return
    }
    const timer = clock.setTimer(debounceMs, () => {
      const again = pending.get(id)?.again
      pending.delete(id)
      if (again === true) publish(hint)
    })
    pending.set(id, { again: false, timer })
    send(hint)
  }

  return {
    publish,
    close() {
      closed = true
      for (const { timer } of pending.values()) timer.cancel()
      pending.clear()
    },
  }
}
