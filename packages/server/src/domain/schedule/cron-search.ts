// The search for the next time of a cron plan in a zone.
//
// 1. The zone's timeline cuts time into segments with one UTC offset. Within a segment wall time and real
//    time run alike, so the search there is on wall time alone: find the month, the day by bit sets, then the
//    time of day.
// 2. Between segments the daylight-saving policy decides. Fixed-time plans: a time inside a gap fires once at
//    the first instant after it (several such times give one fire), a repeated time fires in its first pass
//    only. Interval plans follow real time: nothing happens in a gap, and a repeated hour is served twice.
// 3. Instants only ever move forward, so each answer is strictly after the one before. Work is bounded: at
//    most 41 years of segments and, by the month bit set, the wanted months of 42 years for each search on
//    wall time.

import {
  DAY_MS,
  dayNumber,
  daysInMonth,
  packedDate,
  packedDay,
  packedMonth,
  packedYear,
  weekdayOf,
} from '../zone/civil-date.ts'
import { cycleShiftMs, segmentAt, type ZoneTimeline } from '../zone/zone-rules.ts'
import { wantedDays } from './cron-days.ts'
import { type CronPlan, firstBit, lowestBit, nextBit } from './cron-plan.ts'

/** How a plan meets a change of the clock. */
export type DstPolicy = { readonly gap: 'next_valid' | 'skip'; readonly overlap: 'first' | 'both' }

/** Counts the months looked at, so that tests can bound the work for hostile input. */
export type SearchMeter = { months: number; segments: number }

export const FIXED_TIME_POLICY: DstPolicy = { gap: 'next_valid', overlap: 'first' }
export const INTERVAL_POLICY: DstPolicy = { gap: 'skip', overlap: 'both' }

/** 29 February on a given weekday can take 40 years, across 2100. */
const HORIZON_YEARS = 41
const HORIZON_MS = HORIZON_YEARS * 366 * DAY_MS
/** A wider jump is no daylight saving but a zone that moved (Samoa 2011): the lost day is not made up for. */
const MAX_GAP_MS = 3 * 3_600_000
const NEVER = Number.POSITIVE_INFINITY

/** The first instant strictly after `afterMs`, or null when there is none within 41 years. */
export function nextOfCron(
  plan: CronPlan,
  timeline: ZoneTimeline,
  policy: DstPolicy,
  afterMs: number,
  meter?: SearchMeter,
): number | null {
  const shiftMs = cycleShiftMs(timeline, afterMs)
  const fromMs = (Math.floor((afterMs - shiftMs) / 1_000) + 1) * 1_000
  const { startsMs, offsetsMs, seenLocalsMs } = timeline
  let searchedFrom = NEVER
  let found = NEVER
  for (let i = segmentAt(timeline, fromMs); i < offsetsMs.length; i++) {
    const segmentMs = startsMs[i] as number
    const startMs = segmentMs > fromMs ? segmentMs : fromMs
    if (startMs > fromMs + HORIZON_MS) return null
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
    if (found - offsetMs < (startsMs[i + 1] as number)) return found - offsetMs + shiftMs
  }
  return null
}

/** The first wall time of the plan at or after `localMs`; Infinity when there is none within the horizon. */
function nextLocal(plan: CronPlan, localMs: number, meter: SearchMeter | undefined): number {
  const dayNo = Math.floor(localMs / DAY_MS)
  const packed = packedDate(dayNo)
  let year = packedYear(packed)
  const lastYear = year + HORIZON_YEARS
  let month = packedMonth(packed)
  const day = packedDay(packed)
  let length = daysInMonth(year, month)
  let monthStart = dayNo - day + 1
  if (meter) meter.months++
  let days = wantedDays(plan, month, length, weekdayOf(monthStart)) & (-1 << (day - 1))
  if (((days >>> (day - 1)) & 1) === 1) {
    const time = nextTimeOfDay(plan, Math.ceil((localMs - dayNo * DAY_MS) / 1_000))
    if (time >= 0) return dayNo * DAY_MS + time * 1_000
    days &= ~(1 << (day - 1))
  }
  while (days === 0) {
    if (year > lastYear) return NEVER
    if (meter) meter.months++
    const months = plan.months >>> (month + 1)
    if (months !== 0) month += 1 + lowestBit(months)
    else {
      year++
      month = lowestBit(plan.months)
    }
    monthStart = dayNumber(year, month, 1)
    length = daysInMonth(year, month)
    days = wantedDays(plan, month, length, weekdayOf(monthStart))
  }
  return (monthStart + lowestBit(days)) * DAY_MS + plan.firstTime * 1_000
}

/** Seconds after midnight of the first time of day at or after `seconds`; -1 when the day has no more. */
function nextTimeOfDay(plan: CronPlan, seconds: number): number {
  if (seconds <= plan.firstTime) return plan.firstTime
  const hour = (seconds / 3_600) | 0
  const minute = ((seconds - hour * 3_600) / 60) | 0
  const second = seconds - hour * 3_600 - minute * 60
  if (((plan.hours >>> hour) & 1) === 1) {
    if (nextBit(plan.minutesLow, plan.minutesHigh, minute) === minute) {
      const nextSecond = nextBit(plan.secondsLow, plan.secondsHigh, second)
      if (nextSecond >= 0) return hour * 3_600 + minute * 60 + nextSecond
    }
    const nextMinute = nextBit(plan.minutesLow, plan.minutesHigh, minute + 1)
    if (nextMinute >= 0) return hour * 3_600 + nextMinute * 60 + firstBit(plan.secondsLow, plan.secondsHigh)
  }
  const later = hour >= 23 ? 0 : plan.hours >>> (hour + 1)
  if (later === 0) return -1
  return (hour + 1 + lowestBit(later)) * 3_600 + (plan.firstTime % 3_600)
}
