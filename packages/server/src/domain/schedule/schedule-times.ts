// The three ways to have planned times, behind one shape: a plan searched in a zone, a rate, one instant.
// Bounds wrap any of them. Ranges are half open at their beginning, (afterMs, untilMs], as "strictly after"
// asks for.

import type { ZoneRules } from '../zone/zone-rules.ts'
import type { CronPlan } from './cron-plan.ts'
import { countOfCron, type DstPolicy, MAX_COUNT_RANGE_MS, nextOfCron, previousOfCron } from './cron-search.ts'
import { countOfRate, latestOfRate, nextOfRate } from './rate.ts'

/** `count` is exact unless `capped`: then there are at least that many. */
export type TimesCount = { readonly count: number; readonly capped: boolean }

export type ScheduleTimes = {
  /** The first planned time strictly after `afterMs`, or null when there is none any more. */
  next(afterMs: number): number | null
  /** The last planned time strictly before `beforeMs`, or null when there is none. */
  previous(beforeMs: number): number | null
  /** How many planned times lie in (afterMs, untilMs], by arithmetic. */
  countBetween(afterMs: number, untilMs: number): TimesCount
}

/** The longest list that `between` makes; for more, go on from its last time. */
const MAX_LISTED_TIMES = 10_000

const NO_TIMES: TimesCount = { count: 0, capped: false }

export function planTimes(plan: CronPlan, zone: ZoneRules, policy: DstPolicy): ScheduleTimes {
  const { timeline } = zone
  return {
    next: (afterMs) => nextOfCron(plan, timeline, policy, afterMs),
    previous: (beforeMs) => previousOfCron(plan, timeline, policy, beforeMs),
    countBetween(afterMs, untilMs) {
      const capped = untilMs - afterMs > MAX_COUNT_RANGE_MS
      const endMs = capped ? afterMs + MAX_COUNT_RANGE_MS : untilMs
      return { count: countOfCron(plan, timeline, policy, afterMs, endMs), capped }
    },
  }
}

export function rateTimes(anchorMs: number, everyMs: number): ScheduleTimes {
  return {
    next: (afterMs) => nextOfRate(anchorMs, everyMs, afterMs),
    previous: (beforeMs) => latestOfRate(anchorMs, everyMs, Math.ceil(beforeMs) - 1),
    countBetween: (afterMs, untilMs) => ({
      count: countOfRate(anchorMs, everyMs, afterMs, untilMs),
      capped: false,
    }),
  }
}

export function singleTime(instantMs: number): ScheduleTimes {
  return {
    next: (afterMs) => (afterMs < instantMs ? instantMs : null),
    previous: (beforeMs) => (beforeMs > instantMs ? instantMs : null),
    countBetween: (afterMs, untilMs) => ({
      count: afterMs < instantMs && instantMs <= untilMs ? 1 : 0,
      capped: false,
    }),
  }
}

/** Only what lies in [firstMs, endMs). */
export function boundedTimes(times: ScheduleTimes, firstMs: number, endMs: number): ScheduleTimes {
  return {
    next(afterMs) {
      const timeMs = times.next(afterMs < firstMs ? firstMs - 1 : afterMs)
      return timeMs !== null && timeMs < endMs ? timeMs : null
    },
    previous(beforeMs) {
      const timeMs = times.previous(Math.min(beforeMs, endMs))
      return timeMs !== null && timeMs >= firstMs ? timeMs : null
    },
    countBetween(afterMs, untilMs) {
      const fromMs = Math.max(afterMs, firstMs - 1)
      const toMs = Math.min(untilMs, endMs - 1)
      return toMs > fromMs ? times.countBetween(fromMs, toMs) : NO_TIMES
    },
  }
}

/** The planned times in (afterMs, untilMs], in order, at most `limit` and MAX_LISTED_TIMES. */
export function listTimes(times: ScheduleTimes, afterMs: number, untilMs: number, limit: number): number[] {
  const found: number[] = []
  const most = Math.min(limit, MAX_LISTED_TIMES)
  let timeMs = most > 0 ? times.next(afterMs) : null
  while (timeMs !== null && timeMs <= untilMs) {
    found.push(timeMs)
    if (found.length >= most) break
    timeMs = times.next(timeMs)
  }
  return found
}
