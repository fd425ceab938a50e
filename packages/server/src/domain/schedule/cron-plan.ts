// A parsed cron expression in the form that the search wants: one bit a value. Seconds and minutes take two
// 32-bit words each; days of the month sit at bit (day - 1), so that a whole month is one word.

import type { CronFieldName, CronDialectRules } from './cron-dialect.ts'
import type { CronFieldSet, SpecialDay } from './cron-field.ts'

export type CronPlan = {
  readonly secondsLow: number
  readonly secondsHigh: number
  readonly minutesLow: number
  readonly minutesHigh: number
  readonly hours: number
  /** Bit m for month m (1-12). */
  readonly months: number
  /** Bit (day - 1) for each day of the month. */
  readonly days: number
  /** For each weekday that a month may begin with, the days that fall on a wanted weekday. */
  readonly weekdayDays: Int32Array
  readonly anyDay: boolean
  readonly anyWeekday: boolean
  readonly dayMatch: 'or' | 'and'
  readonly specialDays: readonly SpecialDay[]
  readonly specialWeekdays: readonly SpecialDay[]
  /** Seconds after local midnight of the first time of a day. */
  readonly firstTime: number
  /**
   * No `*` or step in second, minute and hour: the schedule names times of day, which daylight saving must
   * not lose.
   */
  readonly fixedTime: boolean
}

const EVERY: CronFieldSet = { low: -1, high: -1, specials: [], any: true, stepped: true }
const ON_THE_MINUTE: CronFieldSet = { low: 1, high: 0, specials: [], any: false, stepped: false }
/** The days of a month that lie whole weeks after the 1st. */
const WHOLE_WEEKS = (1 << 0) | (1 << 7) | (1 << 14) | (1 << 21) | (1 << 28)

export function makeCronPlan(
  sets: ReadonlyMap<CronFieldName, CronFieldSet>,
  dayMatch: CronDialectRules['dayMatch'],
): CronPlan {
  const second = sets.get('second') ?? ON_THE_MINUTE
  const minute = sets.get('minute') ?? EVERY
  const hour = sets.get('hour') ?? EVERY
  const day = sets.get('dayOfMonth') ?? EVERY
  const weekday = sets.get('dayOfWeek') ?? EVERY
  return {
    secondsLow: second.low,
    secondsHigh: second.high,
    minutesLow: minute.low,
    minutesHigh: minute.high,
    hours: hour.low,
    months: (sets.get('month') ?? EVERY).low,
    days: day.low >>> 1,
    weekdayDays: weekdayDays(weekday.low),
    anyDay: day.any,
    anyWeekday: weekday.any,
    dayMatch,
    specialDays: day.specials,
    specialWeekdays: weekday.specials,
    firstTime:
      firstBit(hour.low, 0) * 3_600 +
      firstBit(minute.low, minute.high) * 60 +
      firstBit(second.low, second.high),
    fixedTime: !second.stepped && !minute.stepped && !hour.stepped,
  }
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

/** The lowest set bit of a pair of words that has one. */
export function firstBit(low: number, high: number): number {
  return low !== 0 ? lowestBit(low) : 32 + lowestBit(high)
}

/** The lowest set bit of a word that has one. */
export function lowestBit(bits: number): number {
  return 31 - Math.clz32(bits & -bits)
}

function weekdayDays(weekdays: number): Int32Array {
  const days = new Int32Array(7)
  for (let first = 0; first < 7; first++) {
    let wanted = 0
    for (let ahead = 0; ahead < 7; ahead++) {
      if (((weekdays >>> ((first + ahead) % 7)) & 1) === 1) wanted |= WHOLE_WEEKS << ahead
    }
    days[first] = wanted
  }
  return days
}
