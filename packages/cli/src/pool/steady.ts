/**
 * Hysteresis of a worker pool, pure: it grows at once, and shrinks to the most that was wanted within the
 * last `scaleInAfterMs`. So a pause between two bursts costs no worker, and one that comes and goes starts
 * none twice.
 */
export interface Look {
  readonly atMs: number
  readonly wanted: number
}

export interface Steady {
  readonly target: number
  /** Looks that still count, for the next time. */
  readonly looks: readonly Look[]
}

export function steady(before: readonly Look[], look: Look, scaleInAfterMs: number): Steady {
  const looks = [...before, look].filter(({ atMs }) => look.atMs - atMs <= scaleInAfterMs)
  const target = Math.max(...looks.map(({ wanted }) => wanted))
  // a look that a later one exceeds can never decide again
  const later = looks.filter((each, index) =>
    looks.slice(index + 1).every((next) => next.wanted < each.wanted),
  )
  return { target, looks: later }
}
