// A schedule of wall times in the form that the search wants: one bit a value. Seconds and minutes take two
// 32-bit words each; days of the month sit at bit (day - 1), so that a whole month is one word. Every dialect
// and the calendar intervals end in such a plan, so that there is one search.

import { type CronFieldName, type DayMatch, FIRST_YEAR } from './cron-dialect.ts'
import type { CronFieldSet } from './cron-field.ts'
import type { DayInterval } from './day-interval.ts'
import { dayOfSpecial, type SpecialDay } from './special-day.ts'

/** Which days, before months, years and intervals are looked at. */
export type DayChoice = {
  /** Bit (day - 1) for each day of the month. */
  readonly days: number
  /** Bit w for weekday w, 0 = Sunday. */
  readonly weekdays: number
  readonly specialDays: readonly SpecialDay[]
  readonly specialWeekdays: readonly SpecialDay[]
  readonly anyDay: boolean
  readonly anyWeekday: boolean
  readonly dayMatch: DayMatch
}

export type CronPlan = {
  readonly secondsLow: number
  readonly secondsHigh: number
  readonly minutesLow: number
  readonly minutesHigh: number
  readonly hours: number
  /** Seconds after midnight in order, instead of the bits above; null where the bits tell. */
  readonly times: readonly number[] | null
  /** Bit m for month m (1-12). */
  readonly months: number
  readonly choice: DayChoice
  /** The wanted days of a month of 28 + a days that begins with weekday b, at a * 7 + b. */
  readonly monthDays: Int32Array
  /** A byte for each year from 1970 on; null for every year. */
  readonly years: Uint8Array | null
  /** Every so many days, weeks, months or years from an anchor; null for every one. */
  readonly interval: DayInterval | null
  /** Seconds after local midnight of the first and last time of a day, and how many times a day has. */
  readonly firstTime: number
  readonly lastTime: number
  readonly timesPerDay: number
  /**
   * No `*` or step in second, minute and hour: the schedule names times of day, which daylight saving must
   * not lose.
   */
  readonly fixedTime: boolean
}

const EVERY: CronFieldSet = {
  low: -1,
  high: -1,
  years: null,
  specials: [],
  any: true,
  stepped: true,
  ignored: false,
}
const ON_THE_MINUTE: CronFieldSet = { ...EVERY, low: 1, high: 0, any: false, stepped: false }
/** The table of all plans without a word about days. */
const EVERY_DAY = Int32Array.from({ length: 28 }, (_, i) => -1 >>> (4 - Math.floor(i / 7)))
/** The days of a month that lie whole weeks after the 1st. */
const WHOLE_WEEKS = (1 << 0) | (1 << 7) | (1 << 14) | (1 << 21) | (1 << 28)

export function makeCronPlan(sets: ReadonlyMap<CronFieldName, CronFieldSet>, dayMatch: DayMatch): CronPlan {
  const second = sets.get('second') ?? ON_THE_MINUTE
  const minute = sets.get('minute') ?? EVERY
  const hour = sets.get('hour') ?? EVERY
  const day = sets.get('dayOfMonth') ?? EVERY
  const weekday = sets.get('dayOfWeek') ?? EVERY
  const year = sets.get('year')
  const hours = hour.low & 0xffffff
  const choice: DayChoice = {
    days: day.low >>> 1,
    weekdays: weekday.low & 0x7f,
    specialDays: day.specials,
    specialWeekdays: weekday.specials,
    anyDay: day.any,
    anyWeekday: weekday.any,
    dayMatch,
  }
  return {
    secondsLow: second.low,
    secondsHigh: second.high & 0xfffffff,
    minutesLow: minute.low,
    minutesHigh: minute.high & 0xfffffff,
    hours,
    times: null,
    months: (sets.get('month') ?? EVERY).low & 0x1ffe,
    choice,
    monthDays: monthDays(choice),
    years: year === undefined || year.any ? null : year.years,
    interval: null,
    firstTime:
      firstBit(hours, 0) * 3_600 + firstBit(minute.low, minute.high) * 60 + firstBit(second.low, second.high),
    lastTime:
      lastBit(hours, 0) * 3_600 +
      lastBit(minute.low, minute.high & 0xfffffff) * 60 +
      lastBit(second.low, second.high & 0xfffffff),
    timesPerDay:
      bitCount(hours) *
      (bitCount(minute.low) + bitCount(minute.high & 0xfffffff)) *
      (bitCount(second.low) + bitCount(second.high & 0xfffffff)),
    fixedTime: !second.stepped && !minute.stepped && !hour.stepped,
  }
}

/** A plan of listed times of day (`times`: seconds after midnight, in order, at least one). */
export function makeTimesPlan(
  times: readonly number[],
  months: number,
  choice: DayChoice,
  interval: DayInterval,
): CronPlan {
  return {
    secondsLow: 0,
    secondsHigh: 0,
    minutesLow: 0,
    minutesHigh: 0,
    hours: 0,
    times,
    months,
    choice,
    monthDays: monthDays(choice),
    years: null,
    interval,
    firstTime: times[0] ?? 0,
    lastTime: times[times.length - 1] ?? 0,
    timesPerDay: times.length,
    fixedTime: true,
  }
}

/** The first year with a time, and the last; undefined where every year has some. */
export function yearSpan(plan: CronPlan): { readonly first: number; readonly last: number } | undefined {
  if (plan.years === null) return undefined
  return { first: FIRST_YEAR + plan.years.indexOf(1), last: FIRST_YEAR + plan.years.lastIndexOf(1) }
}

/** The lowest set bit at or after `from` (0-60) in a pair of words; -1 when there is none. */
export function nextBit(low: number, high: number, from: number): number {
  if (from < 32) {
    const bits = low & (-1 << from)
    if (bits !== 0) return lowestBit(bits)
    return high === 0 ? -1 : 32 + lowestBit(high)
  }
  const bits = high & (-1 << (from - 32))
  return bits === 0 ? -1 : 32 + lowestBit(bits)
}

/** The highest set bit at or below `from` (-1 to 59) in a pair of words; -1 when there is none. */
export function previousBit(low: number, high: number, from: number): number {
  if (from < 0) return -1
  if (from >= 32) {
    const bits = high & bitsBelow(from - 31)
    if (bits !== 0) return 63 - Math.clz32(bits)
  }
  const bits = from >= 31 ? low : low & bitsBelow(from + 1)
  return bits === 0 ? -1 : 31 - Math.clz32(bits)
}

/** How many bits below `end` (0-60) are set in a pair of words. */
export function bitCountBelow(low: number, high: number, end: number): number {
  if (end <= 31) return bitCount(low & bitsBelow(end))
  return bitCount(low) + bitCount(high & bitsBelow(end - 32))
}

/** The lowest set bit of a pair of words that has one. */
export function firstBit(low: number, high: number): number {
  return low !== 0 ? lowestBit(low) : 32 + lowestBit(high)
}

/** The highest set bit of a pair of words that has one. */
function lastBit(low: number, high: number): number {
  return high !== 0 ? 63 - Math.clz32(high) : 31 - Math.clz32(low)
}

/** The lowest set bit of a word that has one. */
export function lowestBit(bits: number): number {
  return 31 - Math.clz32(bits & -bits)
}

export function bitCount(bits: number): number {
  const pairs = bits - ((bits >>> 1) & 0x55555555)
  const nibbles = (pairs & 0x33333333) + ((pairs >>> 2) & 0x33333333)
  return Math.imul((nibbles + (nibbles >>> 4)) & 0x0f0f0f0f, 0x01010101) >>> 24
}

/** The lowest `count` bits (0-31). */
function bitsBelow(count: number): number {
  return (1 << count) - 1
}

/**
 * A month is fully described by its length and the weekday it begins with, so 28 words hold all there is to
 * know about the days of a plan.
 */
function monthDays(choice: DayChoice): Int32Array {
  return choice.anyDay && choice.anyWeekday ? EVERY_DAY : chosenMonthDays(choice)
}

function chosenMonthDays(choice: DayChoice): Int32Array {
  const table = new Int32Array(28)
  for (let firstWeekday = 0; firstWeekday < 7; firstWeekday++) {
    const weekdays = choice.anyWeekday ? 0 : daysOnWeekdays(choice.weekdays, firstWeekday)
    for (let length = 28; length <= 31; length++) {
      const days = chosenDays(choice, weekdays, length, firstWeekday)
      table[(length - 28) * 7 + firstWeekday] = days & (-1 >>> (32 - length))
    }
  }
  return table
}

function daysOnWeekdays(wanted: number, firstWeekday: number): number {
  let weekdays = 0
  for (let ahead = 0; ahead < 7; ahead++) {
    if (((wanted >>> ((firstWeekday + ahead) % 7)) & 1) === 1) weekdays |= WHOLE_WEEKS << ahead
  }
  return weekdays
}

function chosenDays(choice: DayChoice, onWeekdays: number, length: number, firstWeekday: number): number {
  let days = choice.days
  let weekdays = onWeekdays
  for (const special of choice.specialDays) days |= specialBit(special, length, firstWeekday)
  for (const special of choice.specialWeekdays) weekdays |= specialBit(special, length, firstWeekday)
  if (choice.anyDay) return weekdays
  if (choice.anyWeekday) return days
  return choice.dayMatch === 'or' ? days | weekdays : days & weekdays
}

function specialBit(special: SpecialDay, length: number, firstWeekday: number): number {
  const day = dayOfSpecial(special, length, firstWeekday)
  return day < 1 || day > length ? 0 : 1 << (day - 1)
}
