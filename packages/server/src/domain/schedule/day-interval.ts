// "Every n-th day, week, month or year", counted from an anchor day: the part of a plan that cron cannot say.
// Days before the anchor are never in; weeks begin on Monday; months and years are those of the calendar.

import { weekdayOf } from '../zone/civil-date.ts'

export type IntervalUnit = 'day' | 'week' | 'month' | 'year'

export type DayInterval = {
  readonly unit: IntervalUnit
  readonly every: number
  readonly anchorDay: number
  /** Day number of the Monday of the anchor's week. */
  readonly anchorMonday: number
  /** Months since year 0 of the anchor's month. */
  readonly anchorMonth: number
}

export function makeDayInterval(
  unit: IntervalUnit,
  every: number,
  anchorDay: number,
  year: number,
  month: number,
): DayInterval {
  return { unit, every, anchorDay, anchorMonday: mondayOf(anchorDay), anchorMonth: year * 12 + month - 1 }
}

/** Bit (day - 1) is set for each day of the month that the interval reaches. */
export function intervalDays(
  interval: DayInterval,
  year: number,
  month: number,
  length: number,
  monthStart: number,
): number {
  const { anchorDay } = interval
  if (monthStart + length <= anchorDay) return 0
  const fromAnchor = monthStart >= anchorDay ? -1 : -1 << (anchorDay - monthStart)
  return fromAnchor & reached(interval, year, month, length, monthStart)
}

function reached(
  interval: DayInterval,
  year: number,
  month: number,
  length: number,
  monthStart: number,
): number {
  const { every } = interval
  switch (interval.unit) {
    case 'day': {
      let days = 0
      const first = remainder(interval.anchorDay - monthStart, every)
      for (let day = first; day < length; day += every) days |= 1 << day
      return days
    }
    case 'week': {
      let days = 0
      for (let monday = mondayOf(monthStart); monday < monthStart + length; monday += 7) {
        if (remainder((monday - interval.anchorMonday) / 7, every) !== 0) continue
        const from = monday - monthStart
        days |= from >= 0 ? 0x7f << from : 0x7f >>> -from
      }
      return days
    }
    case 'month':
      return remainder(year * 12 + month - 1 - interval.anchorMonth, every) === 0 ? -1 : 0
    case 'year':
      return remainder(year - Math.floor(interval.anchorMonth / 12), every) === 0 ? -1 : 0
  }
}

function mondayOf(dayNo: number): number {
  return dayNo - ((weekdayOf(dayNo) + 6) % 7)
}

function remainder(value: number, by: number): number {
  return ((value % by) + by) % by
}
