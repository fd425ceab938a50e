// Days that no fixed set of numbers can name: the last one, the weekday of work nearest to the 15th, the
// second Friday. Their notation as far as a dialect has it, and the day that each means in a given month.

import type { CronDialectRules, CronFieldRule } from './cron-dialect.ts'

/** Weekdays count from 0 = Sunday. `workday`: the nth day from Monday to Friday, from either end. */
export type SpecialDay =
  | { readonly kind: 'last'; readonly daysBefore: number; readonly nearestWeekday: boolean }
  | { readonly kind: 'nearestWeekday'; readonly day: number }
  | { readonly kind: 'lastWeekday'; readonly weekday: number }
  | { readonly kind: 'nthWeekday'; readonly weekday: number; readonly nth: number }
  | { readonly kind: 'workday'; readonly nth: number; readonly fromEnd: boolean }

type ReadValue = (rule: CronFieldRule, text: string) => number | string

/** undefined: read. 'ordinary': not a special day. Any other text: what is wrong with it. */
export function readSpecialDay(
  specials: SpecialDay[],
  item: string,
  rule: CronFieldRule,
  dialect: CronDialectRules,
  inList: boolean,
  readValue: ReadValue,
): string | undefined {
  const upper = item.toUpperCase()
  if (rule.name === 'dayOfMonth' && dialect.monthDays !== 'none')
    return readMonthDay(specials, upper, inList && dialect.monthDays === 'lone_w')
  if (rule.name !== 'dayOfWeek' || dialect.weekdays === 'none') return 'ordinary'
  if (upper === 'L') return 'write the weekday before L, as in 5L or FRIL for the last Friday'
  const match = /^(\d|[A-Z]{3})(?:L|#(\d*))$/.exec(upper)
  if (!match)
    return item.includes('#') ? 'write a weekday, # and 1 to 5, as in 5#2 for the second Friday' : 'ordinary'
  if (inList && dialect.weekdays === 'lone')
    return 'a weekday with L or # stands alone: write it without others'
  return readWeekday(specials, match[1] ?? '', match[2], rule, readValue)
}

function readMonthDay(specials: SpecialDay[], item: string, loneW: boolean): string | undefined {
  if (!/[LW]/.test(item)) return 'ordinary'
  if (loneW && item.includes('W')) return 'W stands alone: a list cannot hold it'
  const last = /^L(?:-(\d{1,2}))?(W?)$/.exec(item)
  if (last) {
    const daysBefore = Number(last[1] ?? 0)
    if (daysBefore > 30) return 'L-n goes from L-0 to L-30'
    specials.push({ kind: 'last', daysBefore, nearestWeekday: last[2] === 'W' })
    return undefined
  }
  const nearest = /^(\d{1,2})W$/.exec(item)
  const day = Number(nearest?.[1] ?? 0)
  if (!nearest)
    return 'write L (last day), L-3, LW (last weekday of work) or 15W (weekday of work nearest to the 15th)'
  if (day < 1 || day > 31) return `${day} is outside 1-31: write 1W to 31W`
  specials.push({ kind: 'nearestWeekday', day })
  return undefined
}

function readWeekday(
  specials: SpecialDay[],
  name: string,
  nthText: string | undefined,
  rule: CronFieldRule,
  readValue: ReadValue,
): string | undefined {
  const value = readValue(rule, name)
  if (typeof value === 'string') return value
  const weekday = (value - rule.shift) % 7
  if (nthText === undefined) {
    specials.push({ kind: 'lastWeekday', weekday })
    return undefined
  }
  const nth = Number(nthText)
  if (nth < 1 || nth > 5) return 'a month has the 1st to the 5th of a weekday: write #1 to #5'
  specials.push({ kind: 'nthWeekday', weekday, nth })
  return undefined
}

/** The day of the month, or one outside it when the month has none. `firstWeekday` is that of the 1st. */
export function dayOfSpecial(special: SpecialDay, length: number, firstWeekday: number): number {
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
    case 'workday':
      return nthWorkday(special.nth, special.fromEnd, length, firstWeekday)
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

function nthWorkday(nth: number, fromEnd: boolean, length: number, firstWeekday: number): number {
  let found = 0
  for (let i = 1; i <= length; i++) {
    const day = fromEnd ? length + 1 - i : i
    const weekday = (firstWeekday + day - 1) % 7
    if (weekday !== 0 && weekday !== 6 && ++found === nth) return day
  }
  return 0
}
