// The planned times that calendars leave, walked one by one in either direction, with those that they take
// away and why. The work is bounded: a calendar may cover everything, and a schedule may fire each second.

import type { CompiledCalendar } from './calendar-definition.ts'
import { exclusionOf } from './occurrence-exclusion.ts'

/** A planned time that does not run: the name of the calendar that decided, and a sentence. */
export type ExcludedTime = { readonly timeMs: number; readonly calendar: string; readonly reason: string }

/**
 * `excluded` are those passed on the way, at most MAX_EXCLUDED_LISTED of them; `excludedCount` counts all.
 * `complete` is false where the walk ended because too many times were left out, not because none was left.
 */
export type KeptTimes = {
  readonly times: readonly number[]
  readonly excluded: readonly ExcludedTime[]
  readonly excludedCount: number
  readonly complete: boolean
}

export type Calendars = {
  readonly skipOn?: readonly CompiledCalendar[]
  readonly onlyOn?: readonly CompiledCalendar[]
}

export const MAX_EXCLUDED_LISTED = 100
const MAX_EXCLUDED = 100_000

/** `step` goes from one planned time to the next (or the one before); at most `limit` times are kept. */
export function keptTimes(
  step: (fromMs: number) => number | null,
  fromMs: number,
  limit: number,
  { skipOn = [], onlyOn = [] }: Calendars,
): KeptTimes {
  const times: number[] = []
  const excluded: ExcludedTime[] = []
  let excludedCount = 0
  for (let timeMs = fromMs; times.length < limit; ) {
    const next = step(timeMs)
    if (next === null) break
    timeMs = next
    const why = exclusionOf(timeMs, { skipOn, onlyOn })
    if (why === null) times.push(timeMs)
    else if (excluded.length < MAX_EXCLUDED_LISTED) excluded.push({ timeMs, ...why })
    if (why !== null) excludedCount++
    if (excludedCount >= MAX_EXCLUDED) return { times, excluded, excludedCount, complete: false }
  }
  return { times, excluded, excludedCount, complete: true }
}
