// Parser of one cron field by the rules of its dialect: lists, ranges, steps, names and special days become a
// set of values. Every fault names the field, the column in the whole expression, and what to write instead.

import type { CronDialectRules, CronFieldRule } from './cron-dialect.ts'
import { fault, type ScheduleFault } from './schedule-fault.ts'

/** Days that no fixed set can name. Weekdays count from 0 = Sunday. */
export type SpecialDay =
  | { readonly kind: 'last'; readonly daysBefore: number; readonly nearestWeekday: boolean }
  | { readonly kind: 'nearestWeekday'; readonly day: number }
  | { readonly kind: 'lastWeekday'; readonly weekday: number }
  | { readonly kind: 'nthWeekday'; readonly weekday: number; readonly nth: number }

/**
 * Bit v of the pair of words is set for each value v (0-63). `any`: a bare `*` is in the list. `stepped`: a
 * `*`, `?` or step is, so that the schedule is an interval and no time of day.
 */
export type CronFieldSet = {
  readonly low: number
  readonly high: number
  readonly specials: readonly SpecialDay[]
  readonly any: boolean
  readonly stepped: boolean
}

export type CronFieldText = { readonly text: string; readonly column: number }

type Reading = {
  readonly rule: CronFieldRule
  readonly dialect: CronDialectRules
  readonly specials: SpecialDay[]
  low: number
  high: number
  any: boolean
  stepped: boolean
}

export function parseCronField(
  field: CronFieldText,
  rule: CronFieldRule,
  dialect: CronDialectRules,
): CronFieldSet | ScheduleFault {
  const reading: Reading = { rule, dialect, specials: [], low: 0, high: 0, any: false, stepped: false }
  const items = field.text.split(',')
  let column = field.column
  for (const item of items) {
    const trouble =
      item === '*' ? readRange(reading, '*', undefined) : readItem(reading, item, items.length > 1)
    if (trouble !== undefined) {
      return fault(
        `/cron/${rule.name}`,
        `${rule.label} ${JSON.stringify(item)} at column ${column}: ${trouble}`,
      )
    }
    column += item.length + 1
  }
  return reading
}

/** Adds one list item to the sets, or says what is wrong with it. */
function readItem(reading: Reading, item: string, inList: boolean): string | undefined {
  if (item === '') return 'the list has an empty item: remove the extra comma'
  if (item.includes('?')) return 'this dialect has no "?": write *'
  const special = readSpecialDay(reading, item, inList)
  if (special !== 'ordinary') return special
  if (!item.includes('/')) return readRange(reading, item, undefined)
  const [base = '', stepText = '', extra] = item.split('/')
  if (extra !== undefined) return 'there is more than one "/": write a range and one step, as in 10-40/5'
  const { max } = reading.rule
  if (!/^\d{1,4}$/.test(stepText)) return `the step after "/" is a whole number from 1 to ${max}`
  const step = Number(stepText)
  if (step === 0) return `a step of 0 never moves: write 1 to ${max}`
  if (step > max) return `a step of ${step} is wider than the field: write 1 to ${max}, or a single value`
  reading.stepped = true
  return readRange(reading, base, step)
}

function readRange(reading: Reading, base: string, step: number | undefined): string | undefined {
  const { rule, dialect } = reading
  if (base === '*') {
    reading.stepped = true
    if (step === undefined || step === 1) reading.any = true
    addRange(reading, rule.min, rule.last, step ?? 1)
    return undefined
  }
  const ends = base.split('-')
  if (ends.length > 2 || ends.includes('')) return `write ${exampleOf(rule)}`
  const from = readValue(rule, ends[0] ?? '')
  if (typeof from === 'string') return from
  if (ends.length === 1) {
    if (step !== undefined && !dialect.startWithStep) return 'a step needs a range or *, as in 10-40/5 or */5'
    addRange(reading, from, step === undefined ? from : Math.max(from, rule.last), step ?? 1)
    return undefined
  }
  const to = readValue(rule, ends[1] ?? '')
  if (typeof to === 'string') return to
  if (from > to && !dialect.wrapRanges)
    return 'the range ends before it begins: write the smaller value first'
  addRange(reading, from, to, step ?? 1)
  return undefined
}

function addRange(reading: Reading, from: number, to: number, step: number): void {
  const { min, last } = reading.rule
  const size = last - min + 1
  // A range that ends before it begins goes on through the end of the field, and its step with it.
  const wraps = from > to
  const start = wraps && from > last ? from - size : from
  const end = wraps && start > to ? to + size : to
  for (let value = start; value <= end; value += step) {
    const bit = ((value - min) % size) + min
    if (bit < 32) reading.low |= 1 << bit
    else reading.high |= 1 << (bit - 32)
  }
}

/** A value as written, or what is wrong with it. */
function readValue(rule: CronFieldRule, text: string): number | string {
  if (/^\d{1,4}$/.test(text)) {
    const value = Number(text)
    if (value >= rule.min && value <= rule.max) return value
    return `${value} is outside ${rule.min}-${rule.max}: write a value from ${rule.min} to ${rule.max}`
  }
  const upper = text.toUpperCase()
  const named = Object.hasOwn(rule.names, upper) ? rule.names[upper] : undefined
  if (named !== undefined) return named
  const names = Object.keys(rule.names)
  if (names.length > 0 && /^[A-Z]+$/.test(upper)) {
    const meant =
      names.find((name) => upper.startsWith(name)) ?? names.find((name) => name.startsWith(upper.slice(0, 2)))
    const fix = meant ? `did you mean ${meant}?` : `write ${names.join(', ')}`
    return `${JSON.stringify(text)} is not a name here: ${fix}`
  }
  return `write ${exampleOf(rule)}`
}

/** undefined: read. 'ordinary': not a special day. Any other text: what is wrong with it. */
function readSpecialDay(reading: Reading, item: string, inList: boolean): string | undefined {
  const { rule, dialect, specials } = reading
  if (!dialect.specialDays) return 'ordinary'
  if (rule.name === 'dayOfMonth') return readSpecialMonthDay(specials, item.toUpperCase(), inList)
  if (rule.name === 'dayOfWeek') return readSpecialWeekday(reading, item.toUpperCase())
  return 'ordinary'
}

function readSpecialMonthDay(specials: SpecialDay[], item: string, inList: boolean): string | undefined {
  if (!/[LW]/.test(item)) return 'ordinary'
  if (inList && item.includes('W')) return 'W stands alone: a list cannot hold it'
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

function readSpecialWeekday(reading: Reading, item: string): string | undefined {
  if (item === 'L') return 'write the weekday before L, as in 5L or FRIL for the last Friday'
  const match = /^(\d|[A-Z]{3})(?:L|#(\d*))$/.exec(item)
  if (!match)
    return item.includes('#') ? 'write a weekday, # and 1 to 5, as in 5#2 for the second Friday' : 'ordinary'
  const weekday = readValue(reading.rule, match[1] ?? '')
  if (typeof weekday === 'string') return weekday
  const nthText = match[2]
  if (nthText === undefined) {
    reading.specials.push({ kind: 'lastWeekday', weekday: weekday % 7 })
    return undefined
  }
  const nth = Number(nthText)
  if (nth < 1 || nth > 5) return 'a month has the 1st to the 5th of a weekday: write #1 to #5'
  reading.specials.push({ kind: 'nthWeekday', weekday: weekday % 7, nth })
  return undefined
}

function exampleOf(rule: CronFieldRule): string {
  const names = Object.keys(rule.names)
  const named = names.length > 0 ? `, or names such as ${names[1] ?? ''}` : ''
  return `numbers from ${rule.min} to ${rule.max}${named}, as *, 1, 1-5, 1,5 or */2`
}
