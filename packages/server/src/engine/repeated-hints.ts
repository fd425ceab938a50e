/**
 * Hints of what stands in a transaction of somebody else's. They go out before its commit, of which nobody
 * tells, so each is told again in ever longer steps; a transaction that takes longer than all of them is seen
 * by those who look by themselves.
 */
import type { Clock, Timer } from '../ports/clock.ts'
import type { Hint, Hints } from '../ports/hints.ts'

const stepsMs = [20, 80, 320, 1_280, 5_000, 15_000] as const

export interface RepeatedHints {
  /** At once, and again later. One of the same topic and key begins its steps anew. */
  publish(hint: Hint): void
  /** Nothing is told again. */
  close(): void
}

export function createRepeatedHints(hints: Pick<Hints, 'publish'>, clock: Clock): RepeatedHints {
  const next = new Map<string, Timer>()

  function tell(hint: Hint, step: number): void {
    hints.publish(hint)
    const name = `${hint.topic} ${hint.key}`
    next.get(name)?.cancel()
    const waitMs = stepsMs[step]
    if (waitMs === undefined) next.delete(name)
    else
      next.set(
        name,
        clock.setTimer(waitMs, () => tell(hint, step + 1)),
      )
  }

  return {
    publish: (hint) => tell(hint, 0),
    close() {
      for (const timer of next.values()) timer.cancel()
      next.clear()
    },
  }
}
