// The planned times of a schedule under calendars that run, in either direction, with those on the way that
// do not and why. The work is bounded: a calendar may cover everything, and a schedule may fire each second.

import type { CompiledSchedule } from '../schedule/schedule-spec.ts'

/**
 * A planned time that does not run: the name of the calendar that decided, a sentence, where it was moved to.
 */
export type ExcludedTime = {
  readonly timeMs: number
  readonly calendar: string
  readonly reason: string
  readonly movedToMs?: number
}

/**
 * `excluded` are those passed on the way, at most MAX_EXCLUDED_LISTED of them; `excludedCount` counts all.
 * `complete` is false where the walk ended because too many times were left out, not because none was left;
 * `lookedToMs` is the last planned time that was looked at.
 */
export type KeptTimes = {
  readonly times: readonly number[]
  readonly excluded: readonly ExcludedTime[]
  readonly excludedCount: number
  readonly complete: boolean
  readonly lookedToMs: number
}

type Times = Pick<CompiledSchedule, 'next' | 'previous' | 'countBetween' | 'exclusionOf' | 'search'>

export const MAX_EXCLUDED_LISTED = 100

/** At most `limit` times that run, strictly after (or before) `fromMs`. */
export function keptTimes(
  schedule: Times,
  direction: 'next' | 'previous',
  fromMs: number,
  limit: number,
): KeptTimes {
  const times: number[] = []
  const excluded: ExcludedTime[] = []
  let excludedCount = 0
  const { mostLooks = Infinity, mostKept = Infinity, mostMs = Infinity } = schedule.search ?? {}
  // Some looks are left to step over what is excluded together.
  const mostListed = Math.min(MAX_EXCLUDED_LISTED, Math.ceil(mostLooks / 2))
  let looksLeft = mostLooks
  let lookedToMs = fromMs
  while (times.length < limit) {
    const timeMs = schedule[direction](lookedToMs)
    if (timeMs === null) break
    const why = schedule.exclusionOf?.(timeMs) ?? null
    lookedToMs = timeMs
    if (why === null) {
      times.push(timeMs)
      if (times.length >= mostKept && times.length < limit)
        return { times, excluded, excludedCount, complete: false, lookedToMs }
      continue
    }
    if (excluded.length < mostListed) {
      const { calendar, reason, movedToMs } = why
      excluded.push({ timeMs, calendar, reason, ...(movedToMs === null ? {} : { movedToMs }) })
    } else {
      // Those on the way there are excluded too: they are counted, not walked.
      const forwards = direction === 'next'
      lookedToMs = forwards ? Math.max(timeMs, why.untilMs - 1) : excludedSince(schedule, timeMs)
      const between = forwards ? ([timeMs, lookedToMs] as const) : ([lookedToMs - 1, timeMs - 1] as const)
      excludedCount += schedule.countBetween(...between).count
    }
    excludedCount++
    if (--looksLeft <= 0 || Math.abs(lookedToMs - fromMs) > mostMs)
      return { times, excluded, excludedCount, complete: false, lookedToMs }
  }
  return { times, excluded, excludedCount, complete: true, lookedToMs }
}

/** How far to step back, longest first, as long as all in between is known to be excluded as well. */
const STEPS_BACK_MS = [86_400_000, 3_600_000, 60_000]

function excludedSince({ exclusionOf }: Times, timeMs: number): number {
  const stepMs = STEPS_BACK_MS.find((ms) => (exclusionOf?.(timeMs - ms)?.untilMs ?? -Infinity) > timeMs)
  return timeMs - (stepMs ?? 0)
}
