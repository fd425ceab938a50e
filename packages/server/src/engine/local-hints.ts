/**
 * Hints inside one process: to every listener, at once. An adapter that carries hints between processes
 * brings those of others in by `deliver`.
 */
import type { Hint, Hints } from '../ports/hints.ts'

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
