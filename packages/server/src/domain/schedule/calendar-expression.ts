// Calendar intervals, the schedules that cron cannot say. A small closed grammar, case and blanks ignored:
//
//   every [n] day(s)                              [at TIMES]
//   every [n] week(s)   [on fri, mon and wed]     [at TIMES]      also: every fri, every weekday
//   every [n] month(s)  [on [the] DAYS]           [at TIMES]
//   every [n] year(s)   [on [the] DAYS of march]  [at TIMES]      also: on march 15
//
//   DAYS   15th, day 15, last day, 2nd to last day, first monday, last fri, 3rd business day,
//          last business day
//   TIMES  09:00, 17:30:15; midnight when left out
//
// `n` counts from the anchor, a date in the schedule's zone; `every other` is 2. Days that are not named are
// the anchor's. Business days are Monday to Friday; holidays are the matter of calendars (skipOn).

import { dayNumber, daysInMonth, packedDate, packedDay, packedMonth } from '../zone/civil-date.ts'
import { packedYear, weekdayOf } from '../zone/civil-date.ts'
import { refuse, type Result, succeed } from '../zone/result.ts'
import { type CalendarWords, calendarWords, MONTH_WORDS, takeName, WEEKDAY_WORDS } from './calendar-words.ts'
import { FIRST_YEAR, LAST_YEAR } from './cron-dialect.ts'
import { type CronPlan, type DayChoice, makeTimesPlan } from './cron-plan.ts'
import { type IntervalUnit, makeDayInterval } from './day-interval.ts'
import { fault, type ScheduleFault } from './schedule-fault.ts'
import type { SpecialDay } from './special-day.ts'

const MAX_LENGTH = 256
const MAX_TIMES = 24
const MOST: Readonly<Record<IntervalUnit, number>> = { day: 3_660, week: 520, month: 120, year: 10 }
const EXAMPLE = 'write it as in "every 2 weeks on fri at 09:00" or "every 3 months on the last business day"'
const ORDINALS = ['first', 'second', 'third', 'fourth', 'fifth']

const ANY_DAY: DayChoice = {
  days: -1,
  weekdays: 0x7f,
  specialDays: [],
  specialWeekdays: [],
  anyDay: true,
  anyWeekday: true,
  dayMatch: 'and',
}

type Read = {
  unit: IntervalUnit
  every: number
  weekdays: number
  days: number
  specials: SpecialDay[]
  month: number | undefined
  times: number[]
}

/** `anchorDay` is the day number of the anchor, null where the schedule has none and counts from 1970. */
export function parseCalendarExpression(
  text: string,
  anchorDay: number | null,
): Result<CronPlan, ScheduleFault> {
  if (text.length > MAX_LENGTH) return refuse(fault('/every', `at most ${MAX_LENGTH} characters are read`))
  const words = calendarWords(text)
  const read: Read = {
    unit: 'day',
    every: 1,
    weekdays: 0,
    days: 0,
    specials: [],
    month: undefined,
    times: [],
  }
  const trouble =
    readUnit(words, read) ?? readDays(words, read) ?? readTimes(words, read) ?? checkRest(words, read)
  if (trouble !== undefined) return refuse(fault('/every', trouble))
  const unsaid = useAnchorDays(read, anchorDay)
  if (unsaid !== undefined) return refuse(fault('/every', unsaid))
  const anchor = anchorDay ?? 0
  const packed = packedDate(anchor)
  const interval = makeDayInterval(read.unit, read.every, anchor, packedYear(packed), packedMonth(packed))
  const months = read.month === undefined ? 0x1ffe : 1 << read.month
  const times = [...new Set(read.times.length > 0 ? read.times : [0])].sort((a, b) => a - b)
  return succeed(makeTimesPlan(times, months, choiceOf(read), interval))
}

/** Day number of a date written as 2026-01-02. */
export function parseAnchor(text: string): Result<number, ScheduleFault> {
  const match = /^(\d{4})-(\d\d)-(\d\d)$/.exec(text.trim())
  const [year = 0, month = 0, day = 0] = (match ?? []).slice(1).map(Number)
  if (!match || year < FIRST_YEAR || year > LAST_YEAR || month < 1 || month > 12)
    return refuse(fault('/anchor', 'the anchor is a date such as 2026-01-02, from 1970 to 2199'))
  if (day < 1 || day > daysInMonth(year, month))
    return refuse(
      fault('/anchor', `there is no day ${day} in that month: write 01 to ${daysInMonth(year, month)}`),
    )
  return succeed(dayNumber(year, month, day))
}

function readUnit(words: CalendarWords, read: Read): string | undefined {
  if (!words.take('every')) return `it begins with "every": ${EXAMPLE}`
  const amount = words.match(/^\d{1,5}$/)
  if (amount) read.every = Number(amount[0])
  else if (words.take('other')) read.every = 2
  const counted = amount !== undefined || read.every === 2
  const unit = words.match(/^(day|week|month|year)s?$/)
  if (unit) {
    read.unit = unit[1] as IntervalUnit
    const most = MOST[read.unit]
    if (read.every < 1 || read.every > most) return `every ${read.every} ${read.unit}s: write 1 to ${most}`
    return undefined
  }
  read.unit = 'week'
  const business = words.take('weekday', 'weekdays', 'business')
  if (business !== undefined) {
    if (business === 'business' && !words.take('day', 'days')) return `${words.here()}: write "business day"`
    read.weekdays = 0b0111110
    return counted ? 'business days are not counted: write "every weekday", or a number of days' : undefined
  }
  const weekday = takeName(words, WEEKDAY_WORDS)
  if (weekday === undefined)
    return `${words.here()}: write day, week, month or year, or a weekday; ${EXAMPLE}`
  read.weekdays = 1 << weekday
  return undefined
}

function readDays(words: CalendarWords, read: Read): string | undefined {
  if (!words.take('on')) return undefined
  if (read.unit === 'day') return 'a number of days has no "on": the anchor says on which'
  if (read.unit === 'week') return readWeekdays(words, read)
  words.take('the')
  if (read.unit === 'year') {
    read.month = takeName(words, MONTH_WORDS)
    if (read.month !== undefined) read.month++
  }
  const named = read.month !== undefined
  do {
    words.take('the')
    const trouble = readMonthDay(words, read)
    if (trouble !== undefined) return trouble
  } while (words.take('and'))
  if (read.unit === 'month' || named) return undefined
  if (!words.take('of')) return `${words.here()}: write "of" and the month, as in "on the last day of march"`
  const month = takeName(words, MONTH_WORDS)
  if (month === undefined) return `${words.here()}: write the month, such as mar or march`
  read.month = month + 1
  return undefined
}

function readWeekdays(words: CalendarWords, read: Read): string | undefined {
  if (read.weekdays !== 0) return 'the weekday is named already: leave out "on"'
  do {
    const weekday = takeName(words, WEEKDAY_WORDS)
    if (weekday === undefined) return `${words.here()}: write a weekday such as fri or friday`
    read.weekdays |= 1 << weekday
  } while (words.take('and'))
  return undefined
}

/** One day of a month, by number, by weekday or from the end. */
function readMonthDay(words: CalendarWords, read: Read): string | undefined {
  const numbered = words.take('day')
  const number = words.match(/^(\d{1,2})(?:st|nd|rd|th)?$/)
  const word = number || numbered ? undefined : words.take('last', ...ORDINALS)
  if (!number && word === undefined)
    return `${words.here()}: write 15th, last day, first monday or last business day`
  const last = word === 'last'
  const nth = number ? Number(number[1]) : last ? 1 : ORDINALS.indexOf(word ?? '') + 1
  const to = !last && words.take('to') !== undefined
  const toLast = !last && words.take('last') !== undefined
  if (to && !toLast) return `${words.here()}: write "to last", as in "2nd to last day"`
  const fromEnd = last || toLast
  if (words.take('business', 'weekday')) {
    words.take('day')
    if (nth < 1 || nth > 23) return `a month has no business day ${nth}: write 1st to 23rd`
    read.specials.push({ kind: 'workday', nth, fromEnd })
    return undefined
  }
  const weekday = takeName(words, WEEKDAY_WORDS)
  if (weekday !== undefined) {
    if (nth < 1 || nth > 5 || toLast) return 'a month has the 1st to the 5th of a weekday, and the last'
    read.specials.push(last ? { kind: 'lastWeekday', weekday } : { kind: 'nthWeekday', weekday, nth })
    return undefined
  }
  words.take('day')
  if (nth < 1 || nth > 31) return `there is no day ${nth}: write 1st to 31st`
  if (fromEnd) read.specials.push({ kind: 'last', daysBefore: nth - 1, nearestWeekday: false })
  else read.days |= 1 << (nth - 1)
  return undefined
}

function readTimes(words: CalendarWords, read: Read): string | undefined {
  if (!words.take('at')) return undefined
  do {
    const match = words.match(/^(\d{1,2}):(\d\d)(?::(\d\d))?$/)
    if (!match) return `${words.here()}: write a time such as 09:00 or 17:30:15`
    const [hour = 0, minute = 0, second = 0] = match.slice(1).map((part) => Number(part ?? 0))
    if (hour > 23 || minute > 59 || second > 59)
      return `${match[0]} is no time of day: write 00:00 to 23:59:59`
    read.times.push((hour * 60 + minute) * 60 + second)
  } while (words.take('and'))
  return read.times.length > MAX_TIMES ? `at most ${MAX_TIMES} times a day` : undefined
}

function checkRest(words: CalendarWords, read: Read): string | undefined {
  if (words.done()) return undefined
  const next = read.times.length > 0 ? 'nothing follows the times' : 'write "at" and a time, or end here'
  return `${words.here()} is not expected: ${next}`
}

/** What was left unsaid is the anchor's weekday, day of the month or date. */
function useAnchorDays(read: Read, anchorDay: number | null): string | undefined {
  const said = read.weekdays !== 0 || read.days !== 0 || read.specials.length > 0
  if (said || read.unit === 'day') return undefined
  if (anchorDay === null) return `say on which day, or give an anchor: ${EXAMPLE}`
  const packed = packedDate(anchorDay)
  if (read.unit === 'week') read.weekdays = 1 << weekdayOf(anchorDay)
  else read.days = 1 << (packedDay(packed) - 1)
  if (read.unit === 'year') read.month = packedMonth(packed)
  return undefined
}

function choiceOf(read: Read): DayChoice {
  if (read.unit === 'day') return ANY_DAY
  if (read.unit === 'week') return { ...ANY_DAY, weekdays: read.weekdays, anyWeekday: false }
  return { ...ANY_DAY, days: read.days, specialDays: read.specials, anyDay: false }
}
