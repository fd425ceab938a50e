// The times of a plan in a zone: next, previous, and how many.
//
// 1. The zone's timeline cuts time into segments with one UTC offset. Within a segment wall time and real
//    time run alike, so the search there is on wall time alone (wall-time.ts).
// 2. Between segments the daylight-saving policy decides. Gap `next_valid`: times inside a gap fire once, at
//    the first instant after it (several such times give one fire). Gap `skip`: they do not fire. Overlap
//    `first`: a repeated time fires in its first pass only. Overlap `both`: in both passes.
// 3. Instants only ever move one way, so each answer lies strictly beyond the one before. Work is bounded:
//    the segments and months of one horizon (41 years; the years 1970-2199 where years are named).

import { CALENDAR_CYCLE_MS, DAY_MS, dayNumber } from '../zone/civil-date.ts'
import { cycleShiftMs, segmentAt, type ZoneTimeline } from '../zone/zone-rules.ts'
import { FIRST_YEAR, LAST_YEAR } from './cron-dialect.ts'
import type { CronPlan } from './cron-plan.ts'
import { countLocals, horizonYears, nextLocal, previousLocal, type SearchMeter } from './wall-time.ts'

/** How a plan meets a change of the clock. */
export type DstPolicy = { readonly gap: 'next_valid' | 'skip'; readonly overlap: 'first' | 'both' }

export const FIXED_TIME_POLICY: DstPolicy = { gap: 'next_valid', overlap: 'first' }
export const INTERVAL_POLICY: DstPolicy = { gap: 'skip', overlap: 'both' }

/** A wider jump is no daylight saving but a zone that moved (Samoa 2011): the lost day is not made up for. */
export const MAX_GAP_MS = 3 * 3_600_000
const YEAR_MS = 366 * DAY_MS
const NEVER = Number.POSITIVE_INFINITY
/** Where years are named nothing fires outside these instants, whatever the zone. */
const BEFORE_FIRST_YEAR_MS = (dayNumber(FIRST_YEAR, 1, 1) - 2) * DAY_MS
const AFTER_LAST_YEAR_MS = (dayNumber(LAST_YEAR + 1, 1, 1) + 2) * DAY_MS
/** One stretch of a count, short enough that the timeline covers it whole. */
const COUNT_STRETCH_MS = 40 * YEAR_MS
/** The longest range that is counted; 500 years are 6,000 months. */
export const MAX_COUNT_RANGE_MS = 500 * YEAR_MS

/** The first instant strictly after `afterMs`, or null when there is none within the horizon. */
export function nextOfCron(
  plan: CronPlan,
  timeline: ZoneTimeline,
  policy: DstPolicy,
  afterMs: number,
  meter?: SearchMeter,
): number | null {
  if (plan.years !== null && afterMs >= AFTER_LAST_YEAR_MS) return null
  const sinceMs = Math.max(afterMs, nothingUntilMs(plan))
  const shiftMs = cycleShiftMs(timeline, sinceMs)
  const fromMs = (Math.floor((sinceMs - shiftMs) / 1_000) + 1) * 1_000
  const untilMs = fromMs + horizonYears(plan) * YEAR_MS
  const { startsMs, offsetsMs, seenLocalsMs } = timeline
  let searchedFrom = NEVER
  let found = NEVER
  for (let i = segmentAt(timeline, fromMs); i < offsetsMs.length; i++) {
    const segmentMs = startsMs[i] as number
    const startMs = segmentMs > fromMs ? segmentMs : fromMs
    if (startMs > untilMs) return null
    if (meter) meter.segments++
    const offsetMs = offsetsMs[i] as number
    const seenMs = seenLocalsMs[i] as number
    const localStart = startMs + offsetMs
    const gapMs = localStart - seenMs
    if (policy.gap === 'next_valid' && startMs === segmentMs && gapMs > 0 && gapMs <= MAX_GAP_MS) {
      if (seenMs < searchedFrom || seenMs > found) {
        searchedFrom = seenMs
        found = nextLocal(plan, seenMs, meter)
      }
      if (found < localStart) return startMs + shiftMs
    }
    const lower = policy.overlap === 'first' && seenMs > localStart ? seenMs : localStart
    // What was found stays the answer as long as the search began before and the find lies beyond.
    if (lower < searchedFrom || lower > found) {
      searchedFrom = lower
      found = nextLocal(plan, lower, meter)
    }
    if (found === NEVER) return null
    if (found - offsetMs < (startsMs[i + 1] as number)) return found - offsetMs + shiftMs
  }
  return null
}

/** An instant before which the plan has no time in any zone. */
function nothingUntilMs(plan: CronPlan): number {
  if (plan.interval !== null) return (plan.interval.anchorDay - 2) * DAY_MS
  return plan.years === null ? Number.NEGATIVE_INFINITY : BEFORE_FIRST_YEAR_MS
}

/** The last instant strictly before `beforeMs`, or null when there is none within the horizon. */
export function previousOfCron(
  plan: CronPlan,
  timeline: ZoneTimeline,
  policy: DstPolicy,
  beforeMs: number,
  meter?: SearchMeter,
): number | null {
  const cappedMs = plan.years === null ? beforeMs : Math.min(beforeMs, AFTER_LAST_YEAR_MS)
  const backMs = Math.min(horizonYears(plan), 300) * YEAR_MS
  const shiftMs = shiftForPast(timeline, cappedMs)
  const endMs = Math.ceil((cappedMs - shiftMs) / 1_000) * 1_000
  const { startsMs, offsetsMs } = timeline
  for (let i = segmentAt(timeline, endMs - 1_000); i >= 0; i--) {
    const segmentMs = startsMs[i] as number
    const segmentEndMs = Math.min(startsMs[i + 1] as number, endMs)
    if (segmentEndMs < endMs - backMs) return null
    if (meter) meter.segments++
    const offsetMs = offsetsMs[i] as number
    const lowest = Math.max(firstServed(timeline, policy, i), endMs - backMs)
    const found = previousLocal(plan, lowest, segmentEndMs + offsetMs, meter)
    if (found !== Number.NEGATIVE_INFINITY) return found - offsetMs + shiftMs
    if (firesAfterGap(plan, timeline, policy, i)) return segmentMs + shiftMs
  }
  return null
}

/** How many instants lie in (afterMs, untilMs]; the range is at most MAX_COUNT_RANGE_MS. */
export function countOfCron(
  plan: CronPlan,
  timeline: ZoneTimeline,
  policy: DstPolicy,
  afterMs: number,
  untilMs: number,
): number {
  let count = 0
  const lastMs = (Math.floor(untilMs / 1_000) + 1) * 1_000
  const endMs = plan.years === null ? lastMs : Math.min(lastMs, AFTER_LAST_YEAR_MS)
  let fromMs = (Math.floor(afterMs / 1_000) + 1) * 1_000
  while (fromMs < endMs) {
    const toMs = Math.min(endMs, fromMs + COUNT_STRETCH_MS)
    const shiftMs = cycleShiftMs(timeline, fromMs)
    count += countStretch(plan, timeline, policy, fromMs - shiftMs, toMs - shiftMs)
    fromMs = toMs
  }
  return count
}

/** In [fromMs, toMs), both whole seconds and inside the timeline. */
function countStretch(
  plan: CronPlan,
  timeline: ZoneTimeline,
  policy: DstPolicy,
  fromMs: number,
  toMs: number,
): number {
  const { startsMs, offsetsMs } = timeline
  let count = 0
  for (let i = segmentAt(timeline, fromMs); i < offsetsMs.length; i++) {
    const segmentMs = startsMs[i] as number
    if (segmentMs >= toMs) break
    const offsetMs = offsetsMs[i] as number
    let lower = Math.max(fromMs + offsetMs, firstServed(timeline, policy, i))
    if (segmentMs >= fromMs && firesAfterGap(plan, timeline, policy, i)) {
      count++
      // A time at the very end of the gap is the same fire.
      lower = Math.max(lower, segmentMs + offsetMs + 1_000)
    }
    count += countLocals(plan, lower, Math.min(toMs, startsMs[i + 1] as number) + offsetMs)
  }
  return count
}

/** The first wall time of a segment that is not a repetition left out by the policy. */
function firstServed(timeline: ZoneTimeline, policy: DstPolicy, index: number): number {
  const localStart = (timeline.startsMs[index] as number) + (timeline.offsetsMs[index] as number)
  return policy.overlap === 'first'
    ? Math.max(localStart, timeline.seenLocalsMs[index] as number)
    : localStart
}

/** Whether a gap before the segment swallowed a time, which is made up for at the segment's start. */
function firesAfterGap(plan: CronPlan, timeline: ZoneTimeline, policy: DstPolicy, index: number): boolean {
  if (policy.gap !== 'next_valid') return false
  return holdsTimeInGap(plan, timeline, index)
}

/** Whether a time of the plan lies in the gap before the segment, if there is one. */
export function holdsTimeInGap(plan: CronPlan, timeline: ZoneTimeline, index: number): boolean {
  const seenMs = timeline.seenLocalsMs[index] as number
  const localStart = (timeline.startsMs[index] as number) + (timeline.offsetsMs[index] as number)
  const gapMs = localStart - seenMs
  return gapMs > 0 && gapMs <= MAX_GAP_MS && previousLocal(plan, seenMs, localStart) >= seenMs
}

/** Like cycleShiftMs, for a search that goes back: what it may reach must lie in the rule's years too. */
function shiftForPast(timeline: ZoneTimeline, timeMs: number): number {
  const shiftMs = cycleShiftMs(timeline, timeMs)
  const roomMs = 45 * YEAR_MS
  const deep = timeMs - shiftMs < timeline.repeatFromMs - CALENDAR_CYCLE_MS + roomMs
  return shiftMs > 0 && deep ? shiftMs - CALENDAR_CYCLE_MS : shiftMs
}
