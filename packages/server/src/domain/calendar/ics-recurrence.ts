// RRULE of RFC 5545 as a plan of days, as far as whole calendars use it: DAILY, WEEKLY, MONTHLY and YEARLY
// with INTERVAL, COUNT, UNTIL, BYMONTH, BYMONTHDAY and BYDAY. The other parts are refused by name.

import { DAY_MS, packedDate, packedDay, packedMonth, packedYear, weekdayOf } from '../zone/civil-date.ts'
import { refuse, type Result, succeed } from '../zone/result.ts'
import { type CronPlan, type DayChoice, makeTimesPlan } from '../schedule/cron-plan.ts'
import { type IntervalUnit, makeDayInterval } from '../schedule/day-interval.ts'
import type { SpecialDay } from '../schedule/special-day.ts'
import { nextLocal, type SearchMeter } from '../schedule/wall-time.ts'

/** `lastMs` is the last start where the rule counts its starts, else Infinity. */
export type RecurrenceRule = { readonly plan: CronPlan; readonly lastMs: number }

const UNITS: Readonly<Record<string, IntervalUnit>> = {
  DAILY: 'day',
  WEEKLY: 'week',
  MONTHLY: 'month',
  YEARLY: 'year',
}
const WEEKDAYS = ['SU', 'MO', 'TU', 'WE', 'TH', 'FR', 'SA']
const KNOWN = new Set(['FREQ', 'INTERVAL', 'COUNT', 'UNTIL', 'BYMONTH', 'BYMONTHDAY', 'BYDAY', 'WKST'])
const MAX_COUNT = 1_000
const MAX_INTERVAL = 1_000
/** Months looked at for the last starts of all rules that count theirs. */
const MAX_MONTHS = 50_000

/** `startMs` is DTSTART in wall time; `meter` is that of all rules of a file. */
export function readRecurrence(
  text: string,
  startMs: number,
  meter: SearchMeter,
): Result<RecurrenceRule, string> {
  const parts = new Map<string, string>()
  for (const part of text.toUpperCase().split(';').filter(Boolean)) {
    const [name = '', value = ''] = part.split('=')
    if (!KNOWN.has(name)) return refuse(`${name} is not read here: list the dates instead`)
    parts.set(name, value)
  }
  const freq = parts.get('FREQ') ?? ''
  const unit = Object.hasOwn(UNITS, freq) ? UNITS[freq] : undefined
  if (unit === undefined) return refuse('FREQ is DAILY, WEEKLY, MONTHLY or YEARLY')
  const every = whole(parts.get('INTERVAL') ?? '1', MAX_INTERVAL)
  if (every === undefined) return refuse(`INTERVAL is a whole number from 1 to ${MAX_INTERVAL}`)
  if (unit === 'week' && every > 1 && (parts.get('WKST') ?? 'MO') !== 'MO')
    return refuse('WKST is not read here unless it is MO: list the dates instead')
  const startDay = Math.floor(startMs / DAY_MS)
  const packed = packedDate(startDay)
  const months = monthsOf(parts.get('BYMONTH'), unit, packedMonth(packed), parts)
  if (typeof months === 'string') return refuse(months)
  const choice = choiceOf(parts, unit, startDay)
  if (typeof choice === 'string') return refuse(choice)
  const interval = makeDayInterval(unit, every, startDay, packedYear(packed), packedMonth(packed))
  const plan = makeTimesPlan([Math.floor((startMs - startDay * DAY_MS) / 1_000)], months, choice, interval)
  const count = parts.has('COUNT') ? whole(parts.get('COUNT') ?? '', MAX_COUNT) : null
  if (count === undefined) return refuse(`COUNT is a whole number from 1 to ${MAX_COUNT}`)
  if (count === null) return succeed({ plan, lastMs: Number.POSITIVE_INFINITY })
  const lastMs = lastOf(plan, startMs, count, meter)
  if (lastMs === undefined) return refuse('COUNT: those of all events are too many: write UNTIL instead')
  return succeed({ plan, lastMs })
}

function lastOf(plan: CronPlan, startMs: number, count: number, meter: SearchMeter): number | undefined {
  let lastMs = startMs - 1
  for (let i = 0; i < count; i++) {
    if (meter.months > MAX_MONTHS) return undefined
    const nextMs = nextLocal(plan, lastMs + 1, meter)
    if (nextMs === Number.POSITIVE_INFINITY) break
    lastMs = nextMs
  }
  return lastMs
}

/** Bit m for month m. A yearly rule without BYMONTH keeps to the month of its start. */
function monthsOf(
  text: string | undefined,
  unit: IntervalUnit,
  startMonth: number,
  parts: ReadonlyMap<string, string>,
): number | string {
  if (text === undefined) {
    if (unit !== 'year') return 0x1ffe
    if (parts.has('BYDAY') || parts.has('BYMONTHDAY'))
      return 'BYDAY and BYMONTHDAY of a yearly rule need BYMONTH here: name the month'
    return 1 << startMonth
  }
  let months = 0
  for (const item of text.split(',')) {
    const month = whole(item, 12)
    if (month === undefined) return 'BYMONTH lists months from 1 to 12'
    months |= 1 << month
  }
  return months
}

function choiceOf(
  parts: ReadonlyMap<string, string>,
  unit: IntervalUnit,
  startDay: number,
): DayChoice | string {
  const days = readDays(parts.get('BYMONTHDAY'))
  if (typeof days === 'string') return days
  const weekdays = readWeekdays(parts.get('BYDAY'), unit)
  if (typeof weekdays === 'string') return weekdays
  const unsaid = !parts.has('BYMONTHDAY') && !parts.has('BYDAY')
  const byWeekday = unsaid && unit === 'week'
  const byDay = unsaid && (unit === 'month' || unit === 'year')
  return {
    days: byDay ? 1 << (packedDay(packedDate(startDay)) - 1) : days.bits,
    weekdays: byWeekday ? 1 << weekdayOf(startDay) : weekdays.bits,
    specialDays: days.specials,
    specialWeekdays: weekdays.specials,
    anyDay: !byDay && !parts.has('BYMONTHDAY'),
    anyWeekday: !byWeekday && !parts.has('BYDAY'),
    dayMatch: 'and',
  }
}

type Days = { bits: number; readonly specials: SpecialDay[] }

function readDays(text: string | undefined): Days | string {
  const days: Days = { bits: 0, specials: [] }
  for (const item of text?.split(',') ?? []) {
    const day = whole(item.replace(/^[+-]/, ''), 31)
    if (day === undefined) return 'BYMONTHDAY lists days from 1 to 31, or from -1 to -31'
    if (item.startsWith('-')) days.specials.push({ kind: 'last', daysBefore: day - 1, nearestWeekday: false })
    else days.bits |= 1 << (day - 1)
  }
  return days
}

function readWeekdays(text: string | undefined, unit: IntervalUnit): Days | string {
  const days: Days = { bits: 0, specials: [] }
  for (const item of text?.split(',') ?? []) {
    const match = /^([+-]?\d)?(SU|MO|TU|WE|TH|FR|SA)$/.exec(item)
    const weekday = WEEKDAYS.indexOf(match?.[2] ?? '')
    if (!match || weekday < 0) return 'BYDAY lists weekdays such as MO, 4TH or -1FR'
    const nth = match[1] === undefined ? 0 : Number(match[1])
    if (nth !== 0 && unit !== 'month' && unit !== 'year') return 'a numbered BYDAY needs MONTHLY or YEARLY'
    if (match[1] === undefined) days.bits |= 1 << weekday
    else if (nth === -1) days.specials.push({ kind: 'lastWeekday', weekday })
    else if (nth >= 1 && nth <= 5) days.specials.push({ kind: 'nthWeekday', weekday, nth })
    else return 'BYDAY counts from 1 to 5, or -1 for the last'
  }
  return days
}

function whole(text: string, most: number): number | undefined {
  const value = /^\d{1,5}$/.test(text) ? Number(text) : 0
  return value >= 1 && value <= most ? value : undefined
}
