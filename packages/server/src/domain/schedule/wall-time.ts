// The times of a plan on the wall clock alone, without any zone: the next one, the one before, and how many
// lie between two. A "local" is a wall time in milliseconds written as if it were UTC. Work is bounded by the
// months looked at: at most those of the horizon, and years and months that are not wanted are stepped over.

import {
  DAY_MS,
  dayNumber,
  daysInMonth,
  packedDate,
  packedDay,
  packedMonth,
  packedYear,
} from '../zone/civil-date.ts'
import { LAST_YEAR } from './cron-dialect.ts'
import { wantedDays } from './cron-days.ts'
import {
  bitCount,
  bitCountBelow,
  type CronPlan,
  firstBit,
  lowestBit,
  nextBit,
  previousBit,
} from './cron-plan.ts'

/** Counts the months looked at, so that tests can bound the work for hostile input. */
export type SearchMeter = { months: number; segments: number }

/** 29 February on a given weekday can take 40 years, across 2100. */
const HORIZON_YEARS = 41
/** Every tenth year with a 29 February and the like: rarer, and still found. */
const INTERVAL_HORIZON_YEARS = 120

export function horizonYears(plan: CronPlan): number {
  if (plan.years !== null) return LAST_YEAR
  return plan.interval === null ? HORIZON_YEARS : INTERVAL_HORIZON_YEARS
}

/** The first wall time at or after `localMs`; Infinity when there is none within the horizon. */
export function nextLocal(plan: CronPlan, localMs: number, meter: SearchMeter | undefined): number {
  const dayNo = Math.floor(localMs / DAY_MS)
  const packed = packedDate(dayNo)
  let year = packedYear(packed)
  const lastYear = plan.years === null ? year + horizonYears(plan) : LAST_YEAR
  let month = packedMonth(packed)
  const day = packedDay(packed)
  let length = daysInMonth(year, month)
  let monthStart = dayNo - day + 1
  if (meter) meter.months++
  let days = wantedDays(plan, year, month, length, monthStart) & (-1 << (day - 1))
  if (((days >>> (day - 1)) & 1) === 1) {
    const time = nextTimeOfDay(plan, Math.ceil((localMs - dayNo * DAY_MS) / 1_000))
    if (time >= 0) return dayNo * DAY_MS + time * 1_000
    days &= ~(1 << (day - 1))
  }
  while (days === 0) {
    if (year > lastYear) return Number.POSITIVE_INFINITY
    if (meter) meter.months++
    const months = plan.months >>> (month + 1)
    if (months !== 0) month += 1 + lowestBit(months)
    else {
      year++
      month = lowestBit(plan.months)
    }
    monthStart = dayNumber(year, month, 1)
    length = daysInMonth(year, month)
    days = wantedDays(plan, year, month, length, monthStart)
  }
  return (monthStart + lowestBit(days)) * DAY_MS + plan.firstTime * 1_000
}

/** The last wall time in [fromMs, beforeMs); -Infinity when there is none. */
export function previousLocal(plan: CronPlan, fromMs: number, beforeMs: number, meter?: SearchMeter): number {
  const dayNo = Math.floor(beforeMs / DAY_MS)
  const packed = packedDate(dayNo)
  let year = packedYear(packed)
  let month = packedMonth(packed)
  let day = packedDay(packed)
  let monthStart = dayNo - day + 1
  let days = wantedDays(plan, year, month, daysInMonth(year, month), monthStart)
  if (meter) meter.months++
  if (((days >>> (day - 1)) & 1) === 1) {
    const time = previousTimeOfDay(plan, Math.ceil((beforeMs - dayNo * DAY_MS) / 1_000))
    if (time >= 0) return within(dayNo * DAY_MS + time * 1_000, fromMs)
  }
  for (;;) {
    days &= (1 << (day - 1)) - 1
    if (days !== 0)
      return within((monthStart + 31 - Math.clz32(days)) * DAY_MS + plan.lastTime * 1_000, fromMs)
    if (monthStart * DAY_MS <= fromMs) return Number.NEGATIVE_INFINITY
    month--
    if (month === 0) {
      year--
      month = 12
    }
    day = 32
    const length = daysInMonth(year, month)
    monthStart -= length
    if (meter) meter.months++
    days = wantedDays(plan, year, month, length, monthStart)
  }
}

/** How many wall times lie in [fromMs, toMs). */
export function countLocals(plan: CronPlan, fromMs: number, toMs: number): number {
  if (toMs <= fromMs) return 0
  const firstDay = Math.floor(fromMs / DAY_MS)
  const lastDay = Math.floor(toMs / DAY_MS)
  let count = countDays(plan, firstDay, lastDay) * plan.timesPerDay
  if (countDays(plan, firstDay, firstDay + 1) === 1)
    count -= timesBefore(plan, Math.ceil((fromMs - firstDay * DAY_MS) / 1_000))
  if (toMs > lastDay * DAY_MS && countDays(plan, lastDay, lastDay + 1) === 1)
    count += timesBefore(plan, Math.ceil((toMs - lastDay * DAY_MS) / 1_000))
  return count
}

/** How many wanted days lie in [fromDay, toDay). */
function countDays(plan: CronPlan, fromDay: number, toDay: number): number {
  let count = 0
  const packed = packedDate(fromDay)
  let year = packedYear(packed)
  let month = packedMonth(packed)
  let monthStart = fromDay - packedDay(packed) + 1
  while (monthStart < toDay) {
    const length = daysInMonth(year, month)
    let days = wantedDays(plan, year, month, length, monthStart)
    if (monthStart < fromDay) days &= -1 << (fromDay - monthStart)
    if (monthStart + length > toDay) days &= (1 << (toDay - monthStart)) - 1
    count += bitCount(days)
    monthStart += length
    month++
    if (month === 13) {
      year++
      month = 1
    }
  }
  return count
}

function within(localMs: number, fromMs: number): number {
  return localMs >= fromMs ? localMs : Number.NEGATIVE_INFINITY
}

/** Seconds after midnight of the first time of day at or after `seconds`; -1 when the day has no more. */
function nextTimeOfDay(plan: CronPlan, seconds: number): number {
  if (seconds <= plan.firstTime) return plan.firstTime
  if (plan.times !== null) return plan.times.find((time) => time >= seconds) ?? -1
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

/** Seconds after midnight of the last time of day before `seconds`; -1 when there is none. */
function previousTimeOfDay(plan: CronPlan, seconds: number): number {
  if (seconds > plan.lastTime) return plan.lastTime
  if (plan.times !== null) return plan.times.findLast((time) => time < seconds) ?? -1
  if (seconds <= plan.firstTime) return -1
  const wanted = seconds - 1
  const hour = (wanted / 3_600) | 0
  const minute = ((wanted - hour * 3_600) / 60) | 0
  const second = wanted - hour * 3_600 - minute * 60
  if (((plan.hours >>> hour) & 1) === 1) {
    if (previousBit(plan.minutesLow, plan.minutesHigh, minute) === minute) {
      const before = previousBit(plan.secondsLow, plan.secondsHigh, second)
      if (before >= 0) return hour * 3_600 + minute * 60 + before
    }
    const before = previousBit(plan.minutesLow, plan.minutesHigh, minute - 1)
    if (before >= 0) return hour * 3_600 + before * 60 + (plan.lastTime % 60)
  }
  const earlier = previousBit(plan.hours, 0, hour - 1)
  return earlier < 0 ? -1 : earlier * 3_600 + (plan.lastTime % 3_600)
}

/** How many times of a day lie before `seconds` after midnight (0 to 86,400). */
function timesBefore(plan: CronPlan, seconds: number): number {
  if (plan.times !== null) return plan.times.filter((time) => time < seconds).length
  if (seconds >= 86_400) return plan.timesPerDay
  const hour = (seconds / 3_600) | 0
  const minute = ((seconds - hour * 3_600) / 60) | 0
  const second = seconds - hour * 3_600 - minute * 60
  const hoursBefore = bitCountBelow(plan.hours, 0, hour)
  const perMinute = bitCount(plan.secondsLow) + bitCount(plan.secondsHigh)
  const perHour = perMinute * (bitCount(plan.minutesLow) + bitCount(plan.minutesHigh))
  if (((plan.hours >>> hour) & 1) === 0) return hoursBefore * perHour
  const minutesBefore = bitCountBelow(plan.minutesLow, plan.minutesHigh, minute)
  const inMinute =
    nextBit(plan.minutesLow, plan.minutesHigh, minute) === minute
      ? bitCountBelow(plan.secondsLow, plan.secondsHigh, second)
      : 0
  return hoursBefore * perHour + minutesBefore * perMinute + inMinute
}
