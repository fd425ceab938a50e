// One English sentence for any schedule, whatever its kind and dialect, with the zone that it counts in. A
// spec that would be refused is described by the reason.

import { DAY_MS } from '../zone/civil-date.ts'
import { parseCalendarExpression, parseAnchor } from './calendar-expression.ts'
import { parseExpression } from './cron-parser.ts'
import { describePlan } from './describe-plan.ts'
import type { CompiledSchedule, NamedCalendars, ScheduleSpec } from './schedule-spec.ts'

const UNITS = [
  [DAY_MS, 'day'],
  [3_600_000, 'hour'],
  [60_000, 'minute'],
  [1_000, 'second'],
] as const

/** From the plan itself where there is one: it knows the anchor that the start bound gave. */
export function describeCompiled(
  spec: ScheduleSpec,
  { timing, zoneName, calendars }: CompiledSchedule,
): string {
  const words = timing.kind === 'plan' ? `${describePlan(timing.plan)} (${zoneName})` : describeSchedule(spec)
  return calendars === undefined ? words : `${words}${calendarWords(calendars)}`
}

/**
 * ", only on summer, except on holidays and fairs; what is left out runs on the next business day instead".
 */
function calendarWords({ skipOn, onlyOn, onExcluded }: NamedCalendars): string {
  const listed = (calendars: NamedCalendars['skipOn'], word: string): string => {
    const names = calendars.map(({ name }) => name)
    const last = names.pop() ?? ''
    return names.length === 0 ? last : `${names.join(', ')} ${word} ${last}`
  }
  const only = onlyOn.length === 0 ? '' : `, only on ${listed(onlyOn, 'or')}`
  const skip = skipOn.length === 0 ? '' : `, except on ${listed(skipOn, 'and')}`
  if (onExcluded === 'skip') return `${only}${skip}`
  const side = onExcluded === 'next_business_day' ? 'next' : 'previous'
  return `${only}${skip}; what is left out runs on the ${side} business day instead`
}

export function describeSchedule(spec: ScheduleSpec): string {
  const zone = spec.zone ?? 'UTC'
  switch (spec.kind) {
    case 'at':
      return describeAt(spec.at, zone)
    case 'rate':
      return describeRate(spec.everyMs)
    case 'calendar': {
      const anchor = spec.anchor === undefined ? null : parseAnchor(spec.anchor)
      if (anchor?.ok === false) return refused([anchor.error])
      const plan = parseCalendarExpression(spec.every, anchor?.value ?? null)
      return plan.ok ? `${describePlan(plan.value)} (${zone})` : refused([plan.error])
    }
    case 'cron': {
      const parsed = parseExpression(spec.expression, spec.dialect, {
        dayMatch: spec.dayMatch,
        seed: spec.seed,
      })
      if (!parsed.ok) return refused(parsed.error)
      const { value } = parsed
      if (value.kind === 'rate') return describeRate(value.everyMs)
      if (value.kind === 'at') return describeAt(value.at, zone)
      return `${describePlan(value.plan)} (${spec.zone ?? value.zone ?? 'UTC'})`
    }
  }
}

function describeAt(at: string, zone: string): string {
  const text = at
    .trim()
    .replace(/[Tt]/, ' ')
    .replace(/\.0+(?=[Zz]$)/, '')
  return /[Zz]$|[+-]\d\d:\d\d$/.test(text) ? `Once, at ${text}` : `Once, at ${text} (${zone})`
}

/** 5,400,000 ms are 1 hour and 30 minutes. */
function describeRate(everyMs: number): string {
  // Of a rate a day is 24 hours, whatever the clock does.
  if (everyMs === DAY_MS) return 'Every 24 hours'
  let restMs = everyMs
  const parts: string[] = []
  for (const [unitMs, name] of UNITS) {
    const amount = Math.floor(restMs / unitMs)
    restMs -= amount * unitMs
    if (amount > 0) parts.push(`${amount} ${name}${amount === 1 ? '' : 's'}`)
  }
  const single = parts.length === 1 ? /^1 (\w+)$/.exec(parts[0] ?? '') : null
  return `Every ${single?.[1] ?? parts.join(' and ')}`
}

function refused(faults: readonly { readonly message: string }[]): string {
  return `Refused: ${faults.map((fault) => fault.message).join('; ')}`
}
