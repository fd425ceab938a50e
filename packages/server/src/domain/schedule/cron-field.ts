// Parser of one cron field by the rules of its dialect: lists, ranges, steps, names, hashes and special days
// become a set of values. Every fault names the field, the column in the whole expression, and what to write
// instead.

import { type CronDialectRules, type CronFieldRule, FIRST_YEAR, LAST_YEAR } from './cron-dialect.ts'
import { foreignMark } from './foreign-mark.ts'
import { fault, type ScheduleFault } from './schedule-fault.ts'
import type { SeededDraw } from './seeded-draw.ts'
import { readSpecialDay, type SpecialDay } from './special-day.ts'

/**
 * Bit v of the pair of words is set for each value v (0-63); years have a byte each instead, from 1970 on.
 * `any`: a bare `*` is in the list. `stepped`: a `*`, `?` or step is, so that the schedule is an interval and
 * no time of day. `ignored`: the field is a `?`, which leaves the choice to the other day field.
 */
export type CronFieldSet = {
  readonly low: number
  readonly high: number
  readonly years: Uint8Array | null
  readonly specials: readonly SpecialDay[]
  readonly any: boolean
  readonly stepped: boolean
  readonly ignored: boolean
}

export type CronFieldText = { readonly text: string; readonly column: number }

type Reading = {
  readonly rule: CronFieldRule
  readonly dialect: CronDialectRules
  readonly draw: () => SeededDraw
  readonly specials: SpecialDay[]
  readonly years: Uint8Array | null
  low: number
  high: number
  any: boolean
  stepped: boolean
  ignored: boolean
}

const PLAIN_NUMBER = /^\d{1,4}$/
/** The days that a hash draws from exist in every month. */
const HASHED_DAYS = 28

export function parseCronField(
  field: CronFieldText,
  rule: CronFieldRule,
  dialect: CronDialectRules,
  draw: () => SeededDraw,
): CronFieldSet | ScheduleFault {
  const reading: Reading = {
    rule,
    dialect,
    draw,
    specials: [],
    years: rule.name === 'year' ? new Uint8Array(LAST_YEAR - FIRST_YEAR + 1) : null,
    low: 0,
    high: 0,
    any: false,
    stepped: false,
    ignored: false,
  }
  const items = field.text.split(',')
  let column = field.column
  for (const item of items) {
    const trouble = item === '*' ? readStar(reading, 1) : readItem(reading, item, items.length > 1)
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
function readItem(reading: Reading, written: string, inList: boolean): string | undefined {
  const { rule, dialect } = reading
  if (written === '') return 'the list has an empty item: remove the extra comma'
  // Most items are plain numbers, and parsing is on the way of every schedule that is loaded.
  if (PLAIN_NUMBER.test(written)) return readNumber(reading, written)
  const item = dialect.questionMark === 'star' ? written.replace(/^\?(?=\/|$)/, '*') : written
  if (item === '*') return readStar(reading, 1)
  if (item === '?' && dialect.questionMark === 'other_day') return readQuestionMark(reading, inList)
  const foreign = foreignMark(item, rule, dialect)
  if (foreign !== undefined) return foreign
  if (dialect.hash && item.startsWith('H')) return readHash(reading, item)
  if (rule.name === 'dayOfWeek' && dialect.bareLastWeekday && /^l$/i.test(item)) {
    if (inList) return 'L stands alone: for Saturday in a list write SAT'
    addRange(reading, rule.last, rule.last, 1)
    return undefined
  }
  const special = readSpecialDay(reading.specials, item, rule, dialect, inList, readValue)
  if (special !== 'ordinary') return special
  if (!item.includes('/')) return readRange(reading, item, undefined)
  const [base = '', stepText = '', extra] = item.split('/')
  if (extra !== undefined) return 'there is more than one "/": write a range and one step, as in 10-40/5'
  if (!rule.steps) return 'this field has no steps: write a list, as in 2,4,6'
  const widest = rule.max - (rule.name === 'year' ? rule.min : 0)
  if (!/^\d{1,4}$/.test(stepText)) return `the step after "/" is a whole number from 1 to ${widest}`
  const step = Number(stepText)
  if (step === 0) return `a step of 0 never moves: write 1 to ${widest}`
  if (step > widest)
    return `a step of ${step} is wider than the field: write 1 to ${widest}, or a single value`
  reading.stepped = true
  if (base === '' && dialect.leadingSlash) return readStar(reading, step)
  return base === '*' ? readStar(reading, step) : readRange(reading, base, step)
}

function readNumber(reading: Reading, item: string): string | undefined {
  const value = readValue(reading.rule, item)
  if (typeof value === 'string') return value
  addRange(reading, value, value, 1)
  return undefined
}

function readQuestionMark(reading: Reading, inList: boolean): string | undefined {
  const { rule } = reading
  if (rule.name !== 'dayOfMonth' && rule.name !== 'dayOfWeek')
    return '"?" stands only in the day of month or the day of week: write *'
  if (inList) return '"?" stands alone: a list cannot hold it'
  reading.ignored = true
  return readStar(reading, 1)
}

function readStar(reading: Reading, step: number): undefined {
  const { rule } = reading
  reading.stepped = true
  if (step === 1) reading.any = true
  // Where 7 is a second Sunday, a step may land on it only in the dialect that counts to it.
  addRange(reading, rule.min, reading.dialect.hash ? rule.max : rule.last, step)
  return undefined
}

function readRange(reading: Reading, base: string, step: number | undefined): string | undefined {
  const { rule, dialect } = reading
  const ends = base.split('-')
  if (ends.length > 2 || ends.includes('')) return `write ${exampleOf(rule)}`
  const from = readValue(rule, ends[0] ?? '')
  if (typeof from === 'string') return from
  const trouble = dialect.plainNames ? namesTrouble(ends, step) : undefined
  if (trouble !== undefined) return trouble
  if (ends.length === 1) {
    if (step !== undefined && !dialect.startWithStep) return 'a step needs a range or *, as in 10-40/5 or */5'
    addRange(reading, from, step === undefined ? from : Math.max(from, rule.last), step ?? 1)
    return undefined
  }
  const to = readValue(rule, ends[1] ?? '')
  if (typeof to === 'string') return to
  if (from > to && (!dialect.wrapRanges || rule.name === 'year'))
    return 'the range ends before it begins: write the smaller value first'
  addRange(reading, from, to, step ?? 1)
  return undefined
}

function namesTrouble(ends: readonly string[], step: number | undefined): string | undefined {
  const named = ends.filter((end) => /^[A-Z]/i.test(end)).length
  if (step !== undefined && named > 0)
    return 'a step after a name would be ignored by this dialect: write numbers, as in 2-6/2'
  return named === 1 && ends.length === 2 ? 'write both ends as names or both as numbers' : undefined
}

/** `H`, `H/n`, `H(a-b)` or `H(a-b)/n`: one value, or a phase for steps, drawn from the seed. */
function readHash(reading: Reading, item: string): string | undefined {
  const { rule, draw } = reading
  const match = /^H(?:\((\d{1,4})-(\d{1,4})\))?(?:\/(\d{1,4}))?$/.exec(item)
  if (!match) return 'write H, H/15, H(0-29) or H(0-29)/10'
  const [, fromText, toText, stepText] = match
  const from = fromText === undefined ? rule.min : readValue(rule, fromText)
  if (typeof from === 'string') return from
  const whole = rule.name === 'dayOfMonth' ? HASHED_DAYS : rule.last
  const to = toText === undefined ? whole : readValue(rule, toText)
  if (typeof to === 'string') return to
  if (to < from) return 'the range ends before it begins: write the smaller value first'
  const size = to - from + 1
  const step = Number(stepText ?? 1)
  if (step < 1 || step > size) return `the step ${step} does not fit into the range: write 1 to ${size}`
  if (step === 1) {
    const value = from + draw().next(size)
    addRange(reading, value, value, 1)
  } else {
    reading.stepped = true
    addRange(reading, from + draw().next(step), to, step)
  }
  return undefined
}

function addRange(reading: Reading, from: number, to: number, step: number): void {
  const { min, last, shift } = reading.rule
  const { years } = reading
  const size = last - min + 1
  // A range that ends before it begins goes on through the end of the field, and its step with it.
  const wraps = from > to
  const start = wraps && from > last ? from - size : from
  const end = wraps && start > to ? to + size : to
  for (let value = start; value <= end; value += step) {
    const bit = ((value - min) % size) + min - shift
    if (years !== null) years[bit - FIRST_YEAR] = 1
    else if (bit < 32) reading.low |= 1 << bit
    else reading.high |= 1 << (bit - 32)
  }
}

/** A value as written, or what is wrong with it. */
function readValue(rule: CronFieldRule, text: string): number | string {
  if (PLAIN_NUMBER.test(text)) {
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

function exampleOf(rule: CronFieldRule): string {
  const names = Object.keys(rule.names)
  const named = names.length > 0 ? `, or names such as ${names[1] ?? ''}` : ''
  const { min } = rule
  const examples = rule.name === 'year' ? '*, 2030, 2030-2035 or 2030/2' : `*, ${min}, 1-5, 1,5 or */2`
  return `numbers from ${min} to ${rule.max}${named}, as ${examples}`
}
