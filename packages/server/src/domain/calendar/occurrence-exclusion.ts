// What becomes of a planned time when calendars have a say:
//
// 1. It is excluded when a calendar of skipOn covers it, or when there are calendars in onlyOn and none does.
// 2. An excluded time is skipped, or moved to the same time of day on the next (or previous) business day
//    that is not excluded itself; where there is none within two months, it is skipped. Business days are
//    Monday to Friday on the schedule's wall clock.
//
// A decision is a value with the calendar's name and the reason, for the ledger. Two planned times may be
// moved onto one: whoever fires treats the moved time as the identity and so runs it once. A move to an
// earlier day has to be known ahead of time (moved-times.ts).

import { DAY_MS, weekdayOf } from '../zone/civil-date.ts'
import type { ZoneRules } from '../zone/zone-rules.ts'
import type { CompiledCalendar } from './calendar-definition.ts'

export type OnExcluded = 'skip' | 'next_business_day' | 'previous_business_day'

export type ExclusionRules = {
  readonly skipOn: readonly CompiledCalendar[]
  readonly onlyOn: readonly CompiledCalendar[]
  readonly onExcluded: OnExcluded
}

type Calendars = Pick<ExclusionRules, 'skipOn' | 'onlyOn'>

/** `calendar` is the name of the one that decided; `reason` is a sentence. */
export type Exclusion = {
  readonly by: 'skipOn' | 'onlyOn'
  readonly calendar: string
  readonly reason: string
}

export type ExclusionDecision =
  | { readonly kind: 'run' }
  | ({ readonly kind: 'skip' } & Exclusion)
  | ({ readonly kind: 'move'; readonly toMs: number } & Exclusion)

/**
 * A longer closure is no reason to run late: what it is about is over. It also bounds the work of a search.
 */
export const MAX_DAYS_MOVED = 62
/** The same with room for changes of the clock. */
export const FARTHEST_MOVE_MS = (MAX_DAYS_MOVED + 3) * DAY_MS

/** `zone` is the schedule's: "the same time of day" and business days are on its wall clock. */
export function decideExclusion(
  nominalMs: number,
  zone: ZoneRules,
  rules: ExclusionRules,
): ExclusionDecision {
  const excluded = exclusionOf(nominalMs, rules)
  if (excluded === null) return { kind: 'run' }
  if (rules.onExcluded === 'skip') return { kind: 'skip', ...excluded }
  const toMs = movedTo(nominalMs, zone, rules)
  if (toMs !== null) return { kind: 'move', toMs, ...excluded }
  const reason = `${excluded.reason}, and no business day within ${MAX_DAYS_MOVED} days is free`
  return { kind: 'skip', ...excluded, reason }
}

/** Where an excluded time is moved to; null when no day is free. */
export function movedTo(nominalMs: number, zone: ZoneRules, rules: ExclusionRules): number | null {
  const step = rules.onExcluded === 'next_business_day' ? 1 : -1
  const localMs = nominalMs + zone.offsetAt(nominalMs)
  for (let days = 1; days <= MAX_DAYS_MOVED; days++) {
    const movedMs = localMs + step * days * DAY_MS
    if (!isBusinessDay(Math.floor(movedMs / DAY_MS))) continue
    const toMs = zone.resolveLocal(movedMs).instantMs
    // A day that the zone left out altogether has no instant of its own.
    if (Math.floor((toMs + zone.offsetAt(toMs)) / DAY_MS) !== Math.floor(movedMs / DAY_MS)) continue
    if (!isExcluded(toMs, rules)) return toMs
  }
  return null
}

/** Monday to Friday. */
export function isBusinessDay(dayNo: number): boolean {
  const weekday = weekdayOf(dayNo)
  return weekday !== 0 && weekday !== 6
}

/** Which calendar leaves the instant out, and why; null when it may run. */
export function exclusionOf(instantMs: number, { skipOn, onlyOn }: Calendars): Exclusion | null {
  for (const calendar of skipOn) {
    const { name } = calendar
    const why = calendar.covers(instantMs)
    if (why !== null)
      return { by: 'skipOn', calendar: name, reason: `the calendar ${name} excludes it: ${why}` }
  }
  if (onlyOn.length === 0 || onlyOn.some((calendar) => calendar.covers(instantMs) !== null)) return null
  const names = onlyOn.map(({ name }) => name).join(', ')
  return { by: 'onlyOn', calendar: onlyOn[0]?.name ?? '', reason: `it lies outside of ${names}` }
}

/** The same without words. */
export function isExcluded(instantMs: number, { skipOn, onlyOn }: Calendars): boolean {
  const covers = (calendar: CompiledCalendar): boolean => calendar.covers(instantMs) !== null
  return skipOn.some(covers) || (onlyOn.length > 0 && !onlyOn.some(covers))
}

/** An instant up to which everything is excluded, or nothing is, as at `instantMs`; it may go on further. */
export function steadyUntil(instantMs: number, { skipOn, onlyOn }: Calendars): number {
  const ends = (calendars: readonly CompiledCalendar[]): number[] =>
    calendars.map((calendar) => calendar.steadyUntil(instantMs))
  const covering = (calendars: readonly CompiledCalendar[]): readonly CompiledCalendar[] =>
    calendars.filter((calendar) => calendar.covers(instantMs) !== null)
  const skipping = covering(skipOn)
  const keeping = covering(onlyOn)
  const outside = onlyOn.length > 0 && keeping.length === 0
  if (skipping.length > 0 || outside)
    return Math.max(...ends(skipping), outside ? Math.min(...ends(onlyOn)) : -Infinity)
  return Math.min(...ends(skipOn), onlyOn.length > 0 ? Math.max(...ends(keeping)) : Infinity)
}
