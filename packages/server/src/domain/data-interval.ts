/**
 * The data interval of a planned time: from the planned time before it that runs to itself. Those that a
 * calendar leaves out are passed over, so the intervals of what runs join without a gap.
 */
import type { FireTimes } from './fire-policy.ts'
import type { DecidedFire } from './firing.ts'

/** How many planned times in a row that calendars leave out are passed by. */
const mostLooks = 1_000

/** Where the interval of a planned time begins; null: there is none before it, or none that is near. */
export function intervalStart(
  times: Pick<FireTimes, 'previous' | 'exclusionOf'>,
  scheduledForMs: number,
): number | null {
  let timeMs = times.previous(scheduledForMs)
  for (let look = 0; timeMs !== null && look < mostLooks; look++) {
    if ((times.exclusionOf?.(timeMs) ?? null) === null) return timeMs
    timeMs = times.previous(timeMs)
  }
  return null
}

/** Of all times of a fire that run. */
export function intervalsOf(
  { occurrences }: Pick<DecidedFire, 'occurrences'>,
  times: Pick<FireTimes, 'previous' | 'exclusionOf'>,
): ReadonlyMap<number, number | null> {
  const running = occurrences.filter(({ outcome }) => outcome === 'ran')
  return new Map(
    running.map(({ scheduledForMs }) => [scheduledForMs, intervalStart(times, scheduledForMs)] as const),
  )
}
