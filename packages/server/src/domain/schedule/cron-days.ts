// Which days of a month a plan wants, as one word with a bit a day. A month is fully described by its number,
// its length and the weekday it begins with, so the same function serves the search and the proof that a plan
// can fire.

import { daysInMonth } from '../zone/civil-date.ts'
import type { SpecialDay } from './cron-field.ts'
import type { CronPlan } from './cron-plan.ts'

/** Bit (day - 1) is set for each wanted day; `firstWeekday` is the weekday of the 1st (0 = Sunday). */
export function wantedDays(plan: CronPlan, month: number, length: number, firstWeekday: number): number {
  if (((plan.months >>> month) & 1) === 0) return 0
  const whole = -1 >>> (32 - length)
  if (plan.anyDay && plan.anyWeekday) return whole
  let days = plan.days
  let weekdays = plan.weekdayDays[firstWeekday] ?? 0
  for (const special of plan.specialDays) days |= specialBit(special, length, firstWeekday)
  for (const special of plan.specialWeekdays) weekdays |= specialBit(special, length, firstWeekday)
  if (plan.anyDay) return weekdays & whole
  if (plan.anyWeekday) return days & whole
  return (plan.dayMatch === 'or' ? days | weekdays : days & weekdays) & whole
}

/**
 * Whether any month that the calendar can produce has a wanted day; false means that the plan never fires.
 */
export function possibleMonthDays(plan: CronPlan): boolean {
  for (let month = 1; month <= 12; month++) {
    for (let firstWeekday = 0; firstWeekday < 7; firstWeekday++) {
      // February is tried with 29 days (2000 is a leap year) and with 28: every weekday begins both at some
      // time.
      if (wantedDays(plan, month, daysInMonth(2000, month), firstWeekday) !== 0) return true
      if (month === 2 && wantedDays(plan, 2, 28, firstWeekday) !== 0) return true
    }
  }
  return false
}

function specialBit(special: SpecialDay, length: number, firstWeekday: number): number {
  const day = specialDay(special, length, firstWeekday)
  return day < 1 || day > length ? 0 : 1 << (day - 1)
}

/** The day of the month, or one outside it when the month has none. */
function specialDay(special: SpecialDay, length: number, firstWeekday: number): number {
  switch (special.kind) {
    case 'last': {
      const day = length - special.daysBefore
      return special.nearestWeekday ? nearestWorkday(day, length, firstWeekday) : day
    }
    case 'nearestWeekday':
      return nearestWorkday(special.day, length, firstWeekday)
    case 'lastWeekday': {
      const lastWeekday = (firstWeekday + length - 1) % 7
      return length - ((lastWeekday - special.weekday + 7) % 7)
    }
    case 'nthWeekday':
      return 1 + ((special.weekday - firstWeekday + 7) % 7) + (special.nth - 1) * 7
  }
}

/** Monday to Friday nearest to the day, never leaving the month. */
function nearestWorkday(day: number, length: number, firstWeekday: number): number {
  if (day < 1 || day > length) return 0
  const weekday = (firstWeekday + day - 1) % 7
  if (weekday === 6) return day === 1 ? day + 2 : day - 1
  if (weekday === 0) return day === length ? day - 2 : day + 1
  return day
}
