// Calendar arithmetic on the proleptic Gregorian calendar, in integers only: day numbers since 1970-01-01,
// years, months (1-12), days (1-31) and weekdays (0 = Sunday). Used by the zone rules and by the schedule
// evaluator, which both work on "local milliseconds": wall time written as if it were UTC.

export const DAY_MS = 86_400_000

/** The calendar, weekdays included, repeats exactly after 400 years (146,097 days, a multiple of seven). */
export const CALENDAR_CYCLE_YEARS = 400
export const CALENDAR_CYCLE_MS = 146_097 * DAY_MS

/** Day number of a date; months and days are not range checked. */
export function dayNumber(year: number, month: number, day: number): number {
  const shifted = month <= 2 ? year - 1 : year
  const era = Math.floor(shifted / 400)
  const yearOfEra = shifted - era * 400
  const dayOfYear = Math.trunc((153 * (month > 2 ? month - 3 : month + 9) + 2) / 5) + day - 1
  const dayOfEra = yearOfEra * 365 + Math.trunc(yearOfEra / 4) - Math.trunc(yearOfEra / 100) + dayOfYear
  return era * 146_097 + dayOfEra - 719_468
}

/** A date packed into one number, so that the hot path allocates nothing: year * 512 + month * 32 + day. */
export function packedDate(dayNo: number): number {
  const shifted = dayNo + 719_468
  const era = Math.floor(shifted / 146_097)
  const dayOfEra = (shifted - era * 146_097) | 0
  const leapless =
    dayOfEra - ((dayOfEra / 1_460) | 0) + ((dayOfEra / 36_524) | 0) - ((dayOfEra / 146_096) | 0)
  const yearOfEra = (leapless / 365) | 0
  const dayOfYear = dayOfEra - (365 * yearOfEra + (yearOfEra >> 2) - ((yearOfEra / 100) | 0))
  const shiftedMonth = ((5 * dayOfYear + 2) / 153) | 0
  const day = dayOfYear - (((153 * shiftedMonth + 2) / 5) | 0) + 1
  const month = shiftedMonth < 10 ? shiftedMonth + 3 : shiftedMonth - 9
  const year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)
  return year * 512 + month * 32 + day
}

export function packedYear(packed: number): number {
  return Math.floor(packed / 512)
}

export function packedMonth(packed: number): number {
  return (packed >> 5) & 15
}

export function packedDay(packed: number): number {
  return packed & 31
}

export function isLeapYear(year: number): boolean {
  return year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0)
}

export function daysInMonth(year: number, month: number): number {
  if (month === 2) return isLeapYear(year) ? 29 : 28
  return month === 4 || month === 6 || month === 9 || month === 11 ? 30 : 31
}

/** 0 = Sunday … 6 = Saturday. */
export function weekdayOf(dayNo: number): number {
  return (((dayNo + 4) % 7) + 7) % 7
}
