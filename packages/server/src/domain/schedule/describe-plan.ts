// A plan in plain English. The words come from the plan and not from the text, so they say what will happen
// in every dialect alike: a step that does not divide its field, a range through midnight, day fields that
// are joined by "or" or by "and".

import { FIRST_YEAR } from './cron-dialect.ts'
import type { CronPlan, DayChoice } from './cron-plan.ts'
import type { SpecialDay } from './special-day.ts'
import {
  bitsOf,
  goesRound,
  hoursOf,
  minutesOf,
  patternOf,
  secondsOf,
  type ValuePattern,
} from './value-pattern.ts'

const MAX_LISTED_TIMES = 6
const WEEKDAYS = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday']
const MONTHS = ['January', 'February', 'March', 'April', 'May', 'June', 'July', 'August', 'September']
const MONTH_NAMES = [...MONTHS, 'October', 'November', 'December']
const ORDINALS = ['', 'first', 'second', 'third', 'fourth', 'fifth']

export function describePlan(plan: CronPlan): string {
  const time = describeTimes(plan)
  const days = plan.interval === null ? describeDays(plan.choice) : describeInterval(plan)
  const always = days === '' && plan.months === 0x1ffe && plan.years === null
  const everyDay = days === '' && /^at \d\d:/.test(time) ? 'every day' : days
  const months = describeMonths(plan.months)
  const ofMonths = days.endsWith(' of the month') && months.startsWith('in ')
  const daysOfMonths = ofMonths ? days.replace(/ the month$/, ` ${months.slice(3)}`) : `${everyDay} ${months}`
  const intoDays = plan.interval?.unit === 'year' ? everyDay : daysOfMonths.trim()
  const words = [time, intoDays, describeYears(plan)]
  const text = always ? [time, everyDay] : words
  const sentence = text
    .filter((part) => part !== '')
    .join(' ')
    .replace(/,$/, '')
  return sentence.charAt(0).toUpperCase() + sentence.slice(1)
}

function describeTimes(plan: CronPlan): string {
  if (plan.times !== null) return `at ${joined(plan.times.map(clockOf))}`
  const [hours, minutes, seconds] = [hoursOf(plan), minutesOf(plan), secondsOf(plan)]
  if (plan.timesPerDay <= MAX_LISTED_TIMES) {
    const times = hours.flatMap((h) => minutes.flatMap((m) => seconds.map((s) => h * 3_600 + m * 60 + s)))
    return `at ${joined(times.map(clockOf))}`
  }
  const onTheMinute = seconds.length === 1 && seconds[0] === 0
  const hour = describeHours(hours)
  if (!onTheMinute) {
    const second = describeUnit(patternOf(seconds, 0, 60), 'second')
    const minute = patternOf(minutes, 0, 60)
    if (minute.kind === 'all')
      return `${second}${/^every \d* ?seconds?$/.test(second) ? '' : ' of every minute'}${hour}`
    const inHour = hour === '' ? ' of every hour' : hour
    return `${second} of ${describeUnit(minute, 'minute').replace(/^at /, '')}${inHour}`
  }
  const pattern = patternOf(minutes, 0, 60)
  if (pattern.kind === 'all' || goesRound(pattern, 0, 60)) return `${describeUnit(pattern, 'minute')}${hour}`
  if (pattern.kind === 'one' && pattern.value === 0 && hours.length === 24) return 'every hour, on the hour'
  if (hours.length === 24) return `${describeUnit(pattern, 'minute')} of every hour`
  return `${describeUnit(pattern, 'minute')}${hour}`
}

function describeUnit(pattern: ValuePattern, unit: 'second' | 'minute'): string {
  switch (pattern.kind) {
    case 'all':
      return `every ${unit}`
    case 'one':
      return `at ${unit} ${pattern.value}`
    case 'stretch':
      return `every ${unit} from ${unit} ${pattern.from} to ${pattern.to}`
    case 'steps':
      if (!goesRound(pattern, 0, 60))
        return `every ${pattern.by} ${unit}s from ${unit} ${pattern.from} to ${pattern.to}`
      return pattern.from === 0
        ? `every ${pattern.by} ${unit}s`
        : `every ${pattern.by} ${unit}s, beginning at ${unit} ${pattern.from},`
    case 'list':
      return `at ${unit}s ${joined(pattern.values.map(String))}`
  }
}

/** With a blank before it; empty for every hour. */
function describeHours(hours: readonly number[]): string {
  const pattern = patternOf(hours, 0, 24)
  switch (pattern.kind) {
    case 'all':
      return ''
    case 'one':
      return ` from ${two(pattern.value)}:00 to ${two(pattern.value)}:59`
    case 'stretch':
      return ` from ${two(pattern.from)}:00 to ${two(pattern.to)}:59`
    case 'steps':
      if (goesRound(pattern, 0, 24) && pattern.from === 0) return ` of every ${ordinal(pattern.by)} hour`
      return ` of every ${ordinal(pattern.by)} hour from ${two(pattern.from)} to ${two(pattern.to)}`
    case 'list':
      return ` of the hours ${joined(pattern.values.map(two))}`
  }
}

/** Empty for every day. */
function describeDays(choice: DayChoice): string {
  if (choice.anyDay && choice.anyWeekday) return ''
  const days = describeMonthDays(choice)
  const weekdays = describeWeekdays(choice)
  if (choice.anyDay) return onWeekdays(weekdays)
  if (choice.anyWeekday) return `on ${days}`
  return choice.dayMatch === 'or'
    ? `on ${days}, and also ${onWeekdays(weekdays)}`
    : `on ${days}, but only if that is ${weekdays}`
}

function describeMonthDays(choice: DayChoice): string {
  const days = bitsOf(choice.days, 0).map((bit) => bit + 1)
  const parts: string[] = []
  const pattern = patternOf(days, 1, 31)
  if (pattern.kind === 'stretch' && days.length > 2)
    parts.push(`the days from the ${ordinal(pattern.from)} to the ${ordinal(pattern.to)}`)
  else if (pattern.kind === 'steps' && pattern.by > 1) parts.push(stepDays(pattern))
  else if (pattern.kind === 'all') parts.push('every day')
  else parts.push(...days.map((day) => `the ${ordinal(day)}`))
  const last = lastDays(choice.specialDays)
  if (last === undefined) parts.push(...choice.specialDays.map(describeSpecial))
  else parts.push(last)
  return `${joined(parts)} of the month`
}

function stepDays(pattern: { readonly from: number; readonly to: number; readonly by: number }): string {
  return `every ${ordinal(pattern.by)} day from the ${ordinal(pattern.from)} to the ${ordinal(pattern.to)}`
}

function describeWeekdays(choice: DayChoice): string {
  const days = bitsOf(choice.weekdays, 0)
  const parts = choice.specialWeekdays.map((special) => `${describeSpecial(special)} of the month`)
  const pattern = patternOf(days, 0, 7)
  if (choice.weekdays === 0b1000001) parts.unshift('Saturday and Sunday')
  else if (pattern.kind === 'all') parts.unshift('any weekday')
  else if (pattern.kind === 'stretch')
    parts.unshift(`${WEEKDAYS[pattern.from] ?? ''} to ${WEEKDAYS[pattern.to] ?? ''}`)
  else parts.unshift(...days.map((day) => WEEKDAYS[day] ?? ''))
  return joined(parts)
}

function onWeekdays(weekdays: string): string {
  return weekdays.includes(' to ') ? `from ${weekdays}` : `on ${weekdays}`
}

/** The last seven days, where that is what the special days are. */
function lastDays(specials: readonly SpecialDay[]): string | undefined {
  const before = specials.map((special) =>
    special.kind === 'last' && !special.nearestWeekday ? special.daysBefore : -1,
  )
  const whole = before.length > 1 && before.every((_, i) => before.includes(i))
  return whole ? `the last ${before.length} days` : undefined
}

function describeSpecial(special: SpecialDay): string {
  switch (special.kind) {
    case 'last': {
      const { daysBefore: days, nearestWeekday } = special
      const last = days === 0 ? 'the last day' : `the ${ordinal(days + 1)} to last day`
      if (!nearestWeekday) return last
      return days === 0 ? 'the last business day' : `the business day nearest to ${last}`
    }
    case 'nearestWeekday':
      return `the business day nearest to the ${ordinal(special.day)}`
    case 'lastWeekday':
      return `the last ${WEEKDAYS[special.weekday] ?? ''}`
    case 'nthWeekday':
      return `the ${ORDINALS[special.nth] ?? ''} ${WEEKDAYS[special.weekday] ?? ''}`
    case 'workday':
      return `the ${countedFrom(special.nth, special.fromEnd)} business day`
  }
}

function countedFrom(nth: number, fromEnd: boolean): string {
  if (!fromEnd) return nth === 1 ? 'first' : ordinal(nth)
  return nth === 1 ? 'last' : `${ordinal(nth)} to last`
}

function describeInterval(plan: CronPlan): string {
  const { interval, choice } = plan
  if (interval === null) return ''
  const { unit, every } = interval
  const often = every === 1 ? `every ${unit}` : `every ${every} ${unit}s`
  const counted = every === 1 ? '' : `, counted from ${dateOf(interval.anchorDay)}`
  if (unit === 'day') return `${often}${counted}`
  if (unit === 'week') return `${often} ${onWeekdays(describeWeekdays(choice))}${counted}`
  const days = describeMonthDays(choice).replace(/ of the month$/, '')
  if (unit === 'month') return `${often} on ${days}${counted}`
  return `${often} on ${days} of ${describeMonths(plan.months).replace(/^in /, '')}${counted}`
}

/** Empty for every month. */
function describeMonths(months: number): string {
  const values = bitsOf(months, 0)
  const pattern = patternOf(values, 1, 12)
  if (pattern.kind === 'all') return ''
  const name = (month: number): string => MONTH_NAMES[month - 1] ?? ''
  if (pattern.kind === 'stretch') return `from ${name(pattern.from)} to ${name(pattern.to)}`
  return `in ${joined(values.map(name))}`
}

function describeYears(plan: CronPlan): string {
  if (plan.years === null) return ''
  const years = [...plan.years].flatMap((wanted, i) => (wanted === 1 ? [FIRST_YEAR + i] : []))
  const pattern = patternOf(years, FIRST_YEAR, plan.years.length)
  if (pattern.kind === 'stretch') return `from ${pattern.from} to ${pattern.to}`
  if (pattern.kind === 'steps') return `every ${pattern.by} years from ${pattern.from} to ${pattern.to}`
  return `in ${joined(years.map(String))}`
}

export function clockOf(seconds: number): string {
  const clock = `${two(Math.floor(seconds / 3_600))}:${two(Math.floor(seconds / 60) % 60)}`
  return seconds % 60 === 0 ? clock : `${clock}:${two(seconds % 60)}`
}

export function dateOf(dayNo: number): string {
  return new Date(dayNo * 86_400_000).toISOString().slice(0, 10)
}

function joined(parts: readonly string[]): string {
  if (parts.length < 2) return parts[0] ?? ''
  return `${parts.slice(0, -1).join(', ')} and ${parts.at(-1) ?? ''}`
}

export function ordinal(value: number): string {
  const tens = value % 100
  const suffix = tens > 10 && tens < 14 ? 'th' : (['th', 'st', 'nd', 'rd'][value % 10] ?? 'th')
  return `${value}${suffix}`
}

function two(value: number): string {
  return String(value).padStart(2, '0')
}
