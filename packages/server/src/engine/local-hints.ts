/**
 * Hints inside one process, and the debounce that every other adapter shares: the first hint of a topic and
 * key goes out at once, further ones within the next 50 ms are folded into one at its end.
 */
import type { Clock, Timer } from '../ports/clock.ts'
import type { Hint, Hints } from '../ports/hints.ts'

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

export interface LocalHints extends Hints {
  /** Hands a hint from elsewhere to the listeners here. */
  deliver(hint: Hint): void
}

/** Hints that stay in this process; `deliver` lets an adapter bring in those of others. */
export function createLocalHints(): LocalHints {
  const listeners = new Set<(hint: Hint) => void>()
  const deliver = (hint: Hint): void => {
    for (const listener of listeners) listener(hint)
  }
  return {
    publish: deliver,
    deliver,
    subscribe(listener) {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
  }
}
