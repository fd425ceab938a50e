// From a cron expression to a plan: bit sets that the search reads. Everything a person can get wrong is
// found here, all faults at once, so that the search can trust its plan. Input is capped at 256 characters.

import { refuse, type Result, succeed } from '../zone/result.ts'
import { possibleMonthDays } from './cron-days.ts'
import { CRON_DIALECTS, type CronDialect, type CronDialectRules, type CronFieldName } from './cron-dialect.ts'
import { type CronFieldSet, type CronFieldText, parseCronField } from './cron-field.ts'
import { type CronPlan, makeCronPlan } from './cron-plan.ts'
import { fault, type ScheduleFault } from './schedule-fault.ts'

export const MAX_EXPRESSION_LENGTH = 256

export function parseCron(
  expression: string,
  dialect: CronDialect,
): Result<CronPlan, readonly ScheduleFault[]> {
  const rules = CRON_DIALECTS[dialect]
  const trouble = checkText(expression)
  if (trouble !== undefined) return refuse([fault('/cron', trouble)])
  const expanded = expandMacro(expression, rules)
  if (!expanded.ok) return refuse([fault('/cron', expanded.error)])
  const texts = splitFields(expanded.value)
  const layout = rules.layouts[texts.length]
  if (!layout) return refuse([fault('/cron', countTrouble(texts.length, rules))])
  const sets = new Map<CronFieldName, CronFieldSet>()
  const faults: ScheduleFault[] = []
  layout.forEach((rule, i) => {
    const parsed = parseCronField(texts[i] ?? { text: '', column: 1 }, rule, rules)
    if ('message' in parsed) faults.push(parsed)
    else sets.set(rule.name, parsed)
  })
  if (faults.length > 0) return refuse(faults)
  const plan = makeCronPlan(sets, rules.dayMatch)
  if (!possibleMonthDays(plan)) {
    return refuse([fault('/cron/dayOfMonth', 'never fires: no month of this schedule has such a day')])
  }
  return succeed(plan)
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
  if (expanded !== undefined) return succeed(expanded)
  if (macro === '@reboot') return refuse('@reboot names no time: start the job on demand instead')
  if (macro.startsWith('@every')) return refuse('@every is not part of this dialect: use a rate, such as 5m')
  const known = Object.keys(rules.macros).join(', ')
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
