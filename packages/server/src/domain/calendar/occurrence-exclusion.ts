// What becomes of a planned time when calendars have a say:
//
// 1. It is excluded when a calendar of skipOn covers it, or when there are calendars in onlyOn and none does.
// 2. An excluded time is skipped, or moved to the same time of day on the next (or previous) business day
//    that is not excluded itself; where there is none within a year, it is skipped.
//
// A decision is a value with the calendar's name and the reason, for the ledger. Two planned times may be
// moved onto one: whoever fires treats the moved time as the identity and so runs it once. A move to an
// earlier day has to be asked for ahead of time.

import { DAY_MS, weekdayOf } from '../zone/civil-date.ts'
import type { ZoneRules } from '../zone/zone-rules.ts'
import type { CompiledCalendar } from './calendar-definition.ts'

export type OnExcluded = 'skip' | 'next_business_day' | 'previous_business_day'

export type ExclusionRules = {
  readonly skipOn: readonly CompiledCalendar[]
  readonly onlyOn: readonly CompiledCalendar[]
  readonly onExcluded: OnExcluded
}

/** `calendar` is the name of the one that decided; `reason` is a sentence. */
export type ExclusionDecision =
  | { readonly kind: 'run' }
  | { readonly kind: 'skip'; readonly calendar: string; readonly reason: string }
  | { readonly kind: 'move'; readonly toMs: number; readonly calendar: string; readonly reason: string }

const MAX_DAYS_MOVED = 366

/** `zone` is the schedule's: "the same time of day" and business days are on its wall clock. */
export function decideExclusion(
  nominalMs: number,
  zone: ZoneRules,
  rules: ExclusionRules,
): ExclusionDecision {
  const excluded = exclusionOf(nominalMs, rules)
  if (excluded === null) return { kind: 'run' }
  if (rules.onExcluded === 'skip') return { kind: 'skip', ...excluded }
  const step = rules.onExcluded === 'next_business_day' ? 1 : -1
  const localMs = nominalMs + zone.offsetAt(nominalMs)
  for (let days = 1; days <= MAX_DAYS_MOVED; days++) {
    const movedMs = localMs + step * days * DAY_MS
    const weekday = weekdayOf(Math.floor(movedMs / DAY_MS))
    if (weekday === 0 || weekday === 6) continue
    const toMs = zone.resolveLocal(movedMs).instantMs
    if (exclusionOf(toMs, rules) === null) return { kind: 'move', toMs, ...excluded }
  }
  const { calendar, reason } = excluded
  return { kind: 'skip', calendar, reason: `${reason}, and no business day within a year is free` }
}

/** Which calendar leaves the instant out, and why; null when it may run. */
export function exclusionOf(
  instantMs: number,
  { skipOn, onlyOn }: Pick<ExclusionRules, 'skipOn' | 'onlyOn'>,
): { readonly calendar: string; readonly reason: string } | null {
  for (const calendar of skipOn) {
    const why = calendar.covers(instantMs)
    if (why !== null)
      return { calendar: calendar.name, reason: `the calendar ${calendar.name} excludes it: ${why}` }
  }
  if (onlyOn.length === 0 || onlyOn.some((calendar) => calendar.covers(instantMs) !== null)) return null
  const names = onlyOn.map(({ name }) => name).join(', ')
  return { calendar: onlyOn[0]?.name ?? '', reason: `it lies outside of ${names}` }
}
