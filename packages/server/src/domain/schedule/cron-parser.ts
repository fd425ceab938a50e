// From an expression in a stored dialect to what the search reads. Everything a person can get wrong is found
// here, all faults at once, so that the search can trust its plan. Input is capped at 256 characters.

import { refuse, type Result, succeed } from '../zone/result.ts'
import { neverFires } from './cron-days.ts'
import type { CronDialect, CronDialectRules, CronFieldName, DayMatch } from './cron-dialect.ts'
import { type CronFieldSet, type CronFieldText, parseCronField } from './cron-field.ts'
import { type CronPlan, makeCronPlan } from './cron-plan.ts'
import { DIALECT_TABLES } from './dialect-tables.ts'
import { parseEveryMacro, parseRate } from './rate.ts'
import { fault, type ScheduleFault } from './schedule-fault.ts'
import { type SeededDraw, seededDraw } from './seeded-draw.ts'
import { parseSystemd } from './systemd-calendar.ts'

const MAX_EXPRESSION_LENGTH = 256

/** What some dialects can say besides a plan: a rate, a wall time, an instant, the zone. */
export type ParsedExpression =
  | { readonly kind: 'plan'; readonly plan: CronPlan; readonly zone: string | null }
  | { readonly kind: 'rate'; readonly everyMs: number }
  | { readonly kind: 'at'; readonly at: string }

/** `dayMatch` overrides the dialect's rule; `seed` is what `H` draws from. */
export type ParseOptions = { readonly dayMatch?: DayMatch | undefined; readonly seed?: string | undefined }

type Faults = readonly ScheduleFault[]

export function parseExpression(
  expression: string,
  dialect: CronDialect,
  options: ParseOptions = {},
): Result<ParsedExpression, Faults> {
  const trouble = checkText(expression)
  if (trouble !== undefined) return refuse([fault('/cron', trouble)])
  if (dialect === 'systemd') return parseSystemd(expression, options.dayMatch ?? 'and')
  const rules = DIALECT_TABLES[dialect]
  if (rules.everyMacro && /^\s*@every\b/i.test(expression)) return asRate(parseEveryMacro(expression.trim()))
  if (!rules.wrapped) return planOf(parseFields(expression, rules, options))
  const call = /^(\s*)(cron|rate|at)\((.*)\)\s*$/.exec(expression)
  if (!call) return refuse([fault('/cron', 'write cron(…), rate(…) or at(…), as in cron(0 12 * * ? *)')])
  const [, blanks = '', word = '', inside = ''] = call
  if (word === 'rate') return asRate(parseRate(expression))
  if (word === 'at') return wallTime(inside)
  // Blanks in place of the wrapper keep the columns of the whole text.
  return planOf(parseFields(`${blanks}     ${inside}`, rules, options))
}

/** The plan of an expression; the other forms are refused. */
export function parseCron(
  expression: string,
  dialect: CronDialect,
  options: ParseOptions = {},
): Result<CronPlan, Faults> {
  const parsed = parseExpression(expression, dialect, options)
  if (!parsed.ok) return parsed
  if (parsed.value.kind === 'plan') return succeed(parsed.value.plan)
  return refuse([fault('/cron', 'this is a rate or a single time: write the fields of a cron expression')])
}

function parseFields(
  expression: string,
  rules: CronDialectRules,
  options: ParseOptions,
): Result<CronPlan, Faults> {
  const expanded = expandMacro(expression, rules)
  if (!expanded.ok) return refuse([fault('/cron', expanded.error)])
  const texts = splitFields(expanded.value)
  const layout = rules.layouts[texts.length]
  if (!layout) return refuse([fault('/cron', countTrouble(texts.length, rules))])
  let made: SeededDraw | undefined
  const draw = (): SeededDraw => {
    made ??= seededDraw(options.seed ?? '')
    return made
  }
  const sets = new Map<CronFieldName, CronFieldSet>()
  const faults: ScheduleFault[] = []
  for (const [i, rule] of layout.entries()) {
    const parsed = parseCronField(texts[i] ?? { text: '', column: 1 }, rule, rules, draw)
    if ('message' in parsed) faults.push(parsed)
    else sets.set(rule.name, parsed)
  }
  if (faults.length > 0) return refuse(faults)
  const together = checkTogether(sets, rules, options)
  if (together !== undefined) return refuse([together])
  const plan = makeCronPlan(sets, options.dayMatch ?? rules.dayMatch)
  const never = neverFires(plan)
  return never === undefined ? succeed(plan) : refuse([never])
}

/** What no field can tell alone. */
function checkTogether(
  sets: ReadonlyMap<CronFieldName, CronFieldSet>,
  rules: CronDialectRules,
  options: ParseOptions,
): ScheduleFault | undefined {
  if (rules.questionMark === 'other_day') {
    const day = sets.get('dayOfMonth')?.ignored === true
    const weekday = sets.get('dayOfWeek')?.ignored === true
    if (!day && !weekday) {
      const both = 'the day of month and the day of week cannot both be given in this dialect'
      return fault('/cron/dayOfWeek', `${both}: write ? in one of them, as in 0 12 * * ? or 0 12 ? * MON`)
    }
    if (day && weekday)
      return fault('/cron/dayOfWeek', '"?" stands in only one of the two day fields: write * in the other')
    if (options.dayMatch !== undefined)
      return fault('/dayMatch', 'this dialect never has both day fields: leave the day match out')
  }
  if (rules.minGapMinutes === 0) return undefined
  const minute = sets.get('minute')
  const hour = sets.get('hour')
  if (!minute || !hour || leastGapMinutes(minute, hour) >= rules.minGapMinutes) return undefined
  const least = `the shortest interval of this dialect is ${rules.minGapMinutes} minutes`
  return fault('/cron/minute', `${least}: write */${rules.minGapMinutes}, or choose the dialect unix`)
}

/** The least distance of two times within an hour, or from an hour to the next one. */
function leastGapMinutes(minute: CronFieldSet, hour: CronFieldSet): number {
  const minutes: number[] = []
  for (let value = 0; value < 60; value++) {
    const bit = value < 32 ? minute.low >>> value : minute.high >>> (value - 32)
    if ((bit & 1) === 1) minutes.push(value)
  }
  let least = 60
  for (const [i, value] of minutes.entries()) least = Math.min(least, (minutes[i + 1] ?? 99) - value)
  const hours = hour.low & 0xffffff
  const adjoining = (hours & (hours >>> 1)) !== 0 || ((hours & 1) === 1 && ((hours >>> 23) & 1) === 1)
  const across = 60 - (minutes.at(-1) ?? 0) + (minutes[0] ?? 0)
  return adjoining ? Math.min(least, across) : least
}

function planOf(plan: Result<CronPlan, Faults>): Result<ParsedExpression, Faults> {
  return plan.ok ? succeed({ kind: 'plan', plan: plan.value, zone: null }) : plan
}

function asRate(period: Result<number, ScheduleFault>): Result<ParsedExpression, Faults> {
  return period.ok
    ? succeed({ kind: 'rate', everyMs: period.value })
    : refuse([fault('/cron', period.error.message)])
}

function wallTime(inside: string): Result<ParsedExpression, Faults> {
  if (/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d$/.test(inside)) return succeed({ kind: 'at', at: inside })
  const shown = inside.length > 40 ? `${inside.slice(0, 40)}…` : inside
  return refuse([
    fault(
      '/cron',
      `at(${shown}): write a date, T and a time without an offset, as in at(2026-03-11T10:21:00)`,
    ),
  ])
}

function checkText(expression: string): string | undefined {
  if (expression.length > MAX_EXPRESSION_LENGTH) {
    return `the expression has ${expression.length} characters; at most ${MAX_EXPRESSION_LENGTH} are read`
  }
  if (/^\s*(?:CRON_)?TZ=/.test(expression)) {
    return 'the time zone does not belong into the expression: put it into the field zone'
  }
  const strange = /[^\x20-\x7e\t]/.exec(expression)
  if (strange) {
    const code = (strange[0].codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')
    return `the character U+${code} at column ${strange.index + 1} cannot stand in an expression: remove it`
  }
  return undefined
}

function expandMacro(expression: string, rules: CronDialectRules): Result<string, string> {
  const text = expression.trim()
  if (!text.startsWith('@')) return succeed(expression)
  const macro = text.toLowerCase()
  const expanded = Object.hasOwn(rules.macros, macro) ? rules.macros[macro] : undefined
  if (expanded !== undefined && (rules.macrosInAnyCase || macro === text)) return succeed(expanded)
  if (expanded !== undefined) return refuse(`this dialect knows macros in small letters only: write ${macro}`)
  if (macro === '@reboot') return refuse('@reboot names no time: start the job on demand instead')
  if (macro.startsWith('@every')) return refuse('@every is not part of this dialect: use a rate, such as 5m')
  const known = Object.keys(rules.macros).join(', ')
  if (known === '') return refuse(`this dialect has no macros: write ${rules.layoutHint}`)
  return refuse(`${JSON.stringify(text)} is not a macro: write one of ${known}`)
}

function splitFields(expression: string): readonly CronFieldText[] {
  const fields: CronFieldText[] = []
  let start = -1
  for (let i = 0; i <= expression.length; i++) {
    const blank = i === expression.length || expression[i] === ' ' || expression[i] === '\t'
    if (!blank && start < 0) start = i
    if (blank && start >= 0) {
      fields.push({ text: expression.slice(start, i), column: start + 1 })
      start = -1
    }
  }
  return fields
}

function countTrouble(count: number, rules: CronDialectRules): string {
  const found =
    count === 0 ? 'the expression is empty' : `the expression has ${count} field${count === 1 ? '' : 's'}`
  return `${found}; the dialect ${rules.dialect} has ${rules.layoutHint}`
}
