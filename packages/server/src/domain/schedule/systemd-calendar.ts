// The OnCalendar grammar of systemd.time(7): `[weekdays] [[year-]month-day] [hour:minute[:second]] [zone]`.
// Lists by commas, ranges by `..`, steps by `/`, days counted from the end of the month by `~`; the weekday
// AND the date must match. Differences on purpose: times are whole seconds, so fractions of one are refused.

import { refuse, type Result, succeed } from '../zone/result.ts'
import { neverFires } from './cron-days.ts'
import { type CronFieldName, type DayMatch, FIRST_YEAR, LAST_YEAR } from './cron-dialect.ts'
import type { CronFieldSet } from './cron-field.ts'
import { type CronPlan, makeCronPlan } from './cron-plan.ts'
import { fault, type ScheduleFault } from './schedule-fault.ts'
import type { SpecialDay } from './special-day.ts'

type Systemd =
  | { readonly kind: 'plan'; readonly plan: CronPlan; readonly zone: string | null }
  | { readonly kind: 'at'; readonly at: string }

type Part = { readonly text: string; readonly column: number }
type Field = {
  readonly name: CronFieldName
  readonly label: string
  readonly min: number
  readonly max: number
}
type Sets = Map<CronFieldName, CronFieldSet>

const SHORTHANDS: Readonly<Record<string, string>> = {
  minutely: '*-*-* *:*:00',
  hourly: '*-*-* *:00:00',
  daily: '*-*-* 00:00:00',
  weekly: 'Mon *-*-* 00:00:00',
  monthly: '*-*-01 00:00:00',
  quarterly: '*-01,04,07,10-01 00:00:00',
  biannually: '*-01,07-01 00:00:00',
  'bi-annually': '*-01,07-01 00:00:00',
  semiannually: '*-01,07-01 00:00:00',
  'semi-annually': '*-01,07-01 00:00:00',
  yearly: '*-01-01 00:00:00',
  annually: '*-01-01 00:00:00',
  anually: '*-01-01 00:00:00',
}

const SECOND: Field = { name: 'second', label: 'second', min: 0, max: 59 }
const MINUTE: Field = { name: 'minute', label: 'minute', min: 0, max: 59 }
const HOUR: Field = { name: 'hour', label: 'hour', min: 0, max: 23 }
const DAY: Field = { name: 'dayOfMonth', label: 'day of month', min: 1, max: 31 }
const DAY_FROM_END: Field = { ...DAY, max: 28 }
const MONTH: Field = { name: 'month', label: 'month', min: 1, max: 12 }
const YEAR: Field = { name: 'year', label: 'year', min: FIRST_YEAR, max: LAST_YEAR }

const WEEKDAYS = ['sunday', 'monday', 'tuesday', 'wednesday', 'thursday', 'friday', 'saturday']
const FORM = 'write [weekdays] [year-month-day] [hour:minute:second], as in Mon..Fri *-*-* 09:00'

const NONE: CronFieldSet = {
  low: 0,
  high: 0,
  years: null,
  specials: [],
  any: false,
  stepped: false,
  ignored: false,
}
const ALL: CronFieldSet = { ...NONE, low: -1, high: -1, any: true, stepped: true }
const ZERO: CronFieldSet = { ...NONE, low: 1 }

export function parseSystemd(
  expression: string,
  dayMatch: DayMatch,
): Result<Systemd, readonly ScheduleFault[]> {
  const suffix = /\s(\S+)$/.exec(expression.trimEnd())
  const zone = suffix && looksLikeZone(suffix[1] ?? '') ? (suffix[1] ?? '') : null
  const body = zone === null ? expression : expression.trimEnd().slice(0, -zone.length)
  const text = body.trim()
  const shorthand = text.toLowerCase()
  const named = Object.hasOwn(SHORTHANDS, shorthand) ? SHORTHANDS[shorthand] : undefined
  const instant = /^@(\d{1,10})$/.exec(text)
  if (instant) {
    const at = new Date(Number(instant[1]) * 1_000).toISOString()
    return succeed({ kind: 'at', at })
  }
  const sets: Sets = new Map()
  const faults = readParts(partsOf(named ?? body), sets)
  if (faults.length > 0) return refuse(faults)
  const plan = makeCronPlan(sets, dayMatch)
  const never = neverFires(plan)
  if (never !== undefined) return refuse([never])
  return succeed({ kind: 'plan', plan, zone: zone !== null && /^utc$/i.test(zone) ? 'UTC' : zone })
}

/** A last word of letters that is no weekday; whether there is such a zone is told later. */
function looksLikeZone(word: string): boolean {
  return /^[A-Za-z][A-Za-z0-9_+/-]*$/.test(word) && !WEEKDAYS.some((day) => isWeekday(word, day))
}

function isWeekday(word: string, day: string): boolean {
  const lower = word.toLowerCase()
  return lower === day || lower === day.slice(0, 3)
}

function partsOf(text: string): readonly Part[] {
  return [...text.matchAll(/[^ \t]+/g)].map((match) => ({ text: match[0], column: match.index + 1 }))
}

function readParts(parts: readonly Part[], sets: Sets): readonly ScheduleFault[] {
  if (parts.length === 0) return [fault('/cron', `the expression is empty: ${FORM}`)]
  const rest = [...parts]
  const faults: ScheduleFault[] = []
  const take = (wanted: (text: string) => boolean): Part | undefined =>
    rest[0] && wanted(rest[0].text) ? rest.shift() : undefined
  const weekdays = take((text) => /^[A-Za-z]/.test(text))
  const date = take((text) => !text.includes(':'))
  const time = take((text) => text.includes(':'))
  const extra = rest[0]
  if (extra) {
    const where = `${JSON.stringify(extra.text)} at column ${extra.column}`
    return [fault('/cron', `${where} stands in the wrong place or is one part too many: ${FORM}`)]
  }
  if (weekdays) readWeekdays(weekdays, sets, faults)
  if (date) readDate(date, sets, faults)
  if (time) readTime(time, sets, faults)
  else for (const field of [SECOND, MINUTE, HOUR]) sets.set(field.name, ZERO)
  return faults
}

function readWeekdays(part: Part, sets: Sets, faults: ScheduleFault[]): void {
  const items = part.text.split(',')
  // A comma at the end is allowed.
  if (items.length > 1 && items.at(-1) === '') items.pop()
  let bits = 0
  let column = part.column
  for (const item of items) {
    const ends = item.split(item.includes('..') ? '..' : '-')
    const [from, to] = ends.map((end) => WEEKDAYS.findIndex((day) => isWeekday(end, day)))
    const trouble = weekdayTrouble(ends.length, from, to)
    if (trouble !== undefined) {
      const where = `day of week ${JSON.stringify(item)} at column ${column}`
      faults.push(fault('/cron/dayOfWeek', `${where}: ${trouble}`))
      return
    }
    // Here a week begins on Monday.
    for (let day = fromMonday(from ?? 0); day <= fromMonday(to ?? from ?? 0); day++)
      bits |= 1 << ((day + 1) % 7)
    column += item.length + 1
  }
  if (bits !== 0x7f) sets.set('dayOfWeek', { ...NONE, low: bits })
}

function fromMonday(weekday: number): number {
  return (weekday + 6) % 7
}

function weekdayTrouble(ends: number, from: number | undefined, to: number | undefined): string | undefined {
  if (ends > 2 || from === undefined || from < 0 || (to !== undefined && to < 0))
    return 'write names such as Mon, Mon,Wed or Mon..Fri'
  if (to !== undefined && fromMonday(from) > fromMonday(to))
    return 'the range ends before it begins: a week goes from Mon to Sun, write two parts'
  return undefined
}

function readDate(part: Part, sets: Sets, faults: ScheduleFault[]): void {
  const match = /^([^-~]+)([-~])([^-~]+)(?:([-~])([^-~]+))?$/.exec(part.text)
  const three = match?.[5] !== undefined
  if (!match || (three && match[2] === '~')) {
    const where = `the date ${JSON.stringify(part.text)} at column ${part.column}`
    faults.push(
      fault('/cron', `${where} cannot be read: write year-month-day or month-day, with ~ before the day`),
    )
    return
  }
  const [, first = '', , second = '', separator, third] = match
  const year = three ? first : '*'
  const month = three ? second : first
  const day = third ?? second
  const fromEnd = (three ? separator : match[2]) === '~'
  const monthColumn = part.column + (three ? first.length + 1 : 0)
  readField({ text: year, column: part.column }, YEAR, sets, faults)
  readField({ text: month, column: monthColumn }, MONTH, sets, faults)
  const dayPart = { text: day, column: monthColumn + month.length + 1 }
  readField(dayPart, fromEnd && day !== '*' ? DAY_FROM_END : DAY, sets, faults)
}

function readTime(part: Part, sets: Sets, faults: ScheduleFault[]): void {
  const pieces = part.text.split(':')
  if (pieces.length > 3) {
    faults.push(
      fault('/cron', `the time ${JSON.stringify(part.text)} has too many ":": write 09:00 or 09:00:00`),
    )
    return
  }
  sets.set('second', ZERO)
  let column = part.column
  for (const [i, field] of [HOUR, MINUTE, SECOND].entries()) {
    const text = pieces[i]
    if (text === undefined) return
    readField({ text, column }, field, sets, faults)
    column += text.length + 1
  }
}

function readField(part: Part, field: Field, sets: Sets, faults: ScheduleFault[]): void {
  if (part.text === '*') {
    sets.set(field.name, ALL)
    return
  }
  const values: number[] = []
  let stepped = false
  let column = part.column
  for (const item of part.text.split(',')) {
    const trouble = readItem(item, field, values)
    if (trouble !== undefined) {
      const where = `${field.label} ${JSON.stringify(item)} at column ${column}`
      faults.push(fault(`/cron/${field.name}`, `${where}: ${trouble}`))
      return
    }
    stepped ||= item.includes('/')
    column += item.length + 1
  }
  sets.set(field.name, { ...setOf(field, values), stepped })
}

/** Adds the values of one list item, or says what is wrong with it. */
function readItem(item: string, field: Field, values: number[]): string | undefined {
  const whole = field.name === 'second' ? item.replace(/(\d)\.0+(?!\d)/g, '$1') : item
  if (field.name === 'second' && /\d\.\d/.test(whole))
    return 'times are whole seconds: leave the fraction out'
  const match = /^(\d{1,4})(?:\.\.(\d{1,4}))?(?:\/(\d{1,4}))?$/.exec(whole)
  if (!match) return `write *, 1, 1,5, 1..5 or ${field.min}/2`
  const start = fullYear(field, Number(match[1]))
  const stop = match[2] === undefined ? undefined : fullYear(field, Number(match[2]))
  const step = match[3] === undefined ? undefined : Number(match[3])
  for (const value of [start, stop]) {
    if (value !== undefined && (value < field.min || value > field.max))
      return `${value} is outside ${field.min}-${field.max}: write a value from ${field.min} to ${field.max}`
  }
  if (step === 0) return 'a step of 0 never moves: write 1 or more'
  if (stop !== undefined && stop < start)
    return 'the range ends before it begins: write the smaller value first'
  const repeat = step ?? (stop === undefined ? 0 : 1)
  // A range too short for its step is its first value.
  const single = repeat === 0 || (stop !== undefined && start + repeat > stop)
  const fromEnd = field === DAY_FROM_END
  const room = fromEnd ? start - field.min : field.max - start
  if (!single && stop === undefined && repeat > room)
    return room < 1
      ? 'a step from here leaves the field: write a single value'
      : `the step never comes to pass: write 1 to ${room}`
  if (single) values.push(start)
  else if (fromEnd) addFromEnd(start, stop, repeat, values)
  else for (let value = start; value <= (stop ?? field.max); value += repeat) values.push(value)
  return undefined
}

/** Counted from the end of the month, 1 = the last day; steps go from the earliest day on. */
function addFromEnd(start: number, stop: number | undefined, repeat: number, values: number[]): void {
  const earliest = stop === undefined ? start : stop - ((stop - start) % repeat)
  const latest = stop === undefined ? 1 : start
  for (let back = earliest; back >= latest; back -= repeat) values.push(back)
}

/** 12 is 2012, 89 is 1989. */
function fullYear(field: Field, value: number): number {
  if (field.name !== 'year' || value >= 100) return value
  return value < 70 ? value + 2_000 : value + 1_900
}

function setOf(field: Field, values: readonly number[]): CronFieldSet {
  if (field.name === 'year') {
    const years = new Uint8Array(LAST_YEAR - FIRST_YEAR + 1)
    for (const year of values) years[year - FIRST_YEAR] = 1
    return { ...NONE, years }
  }
  if (field === DAY_FROM_END) {
    const days = [...new Set(values)].map((back): SpecialDay => {
      return { kind: 'last', daysBefore: back - 1, nearestWeekday: false }
    })
    return { ...NONE, specials: days }
  }
  let low = 0
  let high = 0
  for (const value of values) {
    if (value < 32) low |= 1 << value
    else high |= 1 << (value - 32)
  }
  return { ...NONE, low, high }
}
