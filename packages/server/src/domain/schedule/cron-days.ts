// Which days of a given month a plan wants, as one word with a bit a day, and the proof that it wants any at
// all: a plan without one is refused when the schedule is made, with the reason.

import { dayNumber, daysInMonth, weekdayOf } from '../zone/civil-date.ts'
import { FIRST_YEAR, LAST_YEAR } from './cron-dialect.ts'
import { type CronPlan, lowestBit } from './cron-plan.ts'
import { intervalDays } from './day-interval.ts'
import { fault, type ScheduleFault } from './schedule-fault.ts'

const MONTHS = ['January', 'February', 'March', 'April', 'May', 'June', 'July', 'August', 'September']
const MONTH_WORDS = [...MONTHS, 'October', 'November', 'December']

/** Bit (day - 1) is set for each wanted day; `monthStart` is the day number of the 1st. */
export function wantedDays(
  plan: CronPlan,
  year: number,
  month: number,
  length: number,
  monthStart: number,
): number {
  if (((plan.months >>> month) & 1) === 0) return 0
  if (plan.years !== null && plan.years[year - FIRST_YEAR] !== 1) return 0
  const days = plan.monthDays[(length - 28) * 7 + weekdayOf(monthStart)] as number
  if (plan.interval === null || days === 0) return days
  return days & intervalDays(plan.interval, year, month, length, monthStart)
}

/** Why a plan of fields never fires, from its months, days and years alone; undefined when it does. */
export function neverFires(plan: CronPlan): ScheduleFault | undefined {
  if (plan.years === null && plan.choice.anyDay && plan.choice.anyWeekday) return undefined
  if (!possibleMonthDays(plan)) return fault('/cron/dayOfMonth', `never fires: ${missingDay(plan)}`)
  if (plan.years === null) return undefined
  for (let year = FIRST_YEAR; year <= LAST_YEAR; year++) {
    for (let month = 1; month <= 12; month++) {
      const length = daysInMonth(year, month)
      if (wantedDays(plan, year, month, length, dayNumber(year, month, 1)) !== 0) return undefined
    }
  }
  return fault('/cron/year', 'never fires: no year of this schedule has such a day')
}

/** Whether any month that the calendar can produce has a wanted day. */
function possibleMonthDays(plan: CronPlan): boolean {
  for (let month = 1; month <= 12; month++) {
    if (((plan.months >>> month) & 1) === 0) continue
    // February is tried with 28 and 29 days: every weekday begins both at some time.
    for (let length = month === 2 ? 28 : daysInMonth(2000, month); ; length++) {
      for (let weekday = 0; weekday < 7; weekday++) {
        if (plan.monthDays[(length - 28) * 7 + weekday] !== 0) return true
      }
      if (length >= daysInMonth(2000, month)) break
    }
  }
  return false
}

function missingDay(plan: CronPlan): string {
  const { days, specialDays, anyDay, anyWeekday } = plan.choice
  if (anyDay || !anyWeekday || specialDays.length > 0) return 'no month of this schedule has such a day'
  const months = MONTH_WORDS.filter((_, i) => ((plan.months >>> (i + 1)) & 1) === 1)
  return `there is no day ${lowestBit(days) + 1} in ${months.join(', ')}`
}
