// What becomes of a planned time when calendars have a say:
//
// 1. It is excluded when a calendar of skipOn covers it, or when there are calendars in onlyOn and none does.
// 2. An excluded time is skipped, or moved to the same time of day on the next (or previous) business day
//    that is not excluded itself; where none is near, it is skipped. Business days are
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

/**
 * How excluded times move. `zone` is the schedule's: business days and "the same time of day" are on its wall
 * clock. A time that finds no free day within `mostDays` stays where it is.
 */
export type Moves = {
  readonly zone: ZoneRules
  readonly rules: ExclusionRules
  readonly mostDays: number
  /** The wall time, as UTC, that a planned time is meant for, also where the clock leaps over it. */
  readonly wallTimeOf: (timeMs: number) => number
}

/** A longer closure is no reason to run late: what it is about is over. */
export const MAX_DAYS_MOVED = 62

/** Where an excluded time is moved to; null when no day is free. */
export function movedTo(
  nominalMs: number,
  { zone, rules, mostDays, wallTimeOf }: Moves,
  excluded = (instantMs: number): boolean => isExcluded(instantMs, rules),
): number | null {
  const step = rules.onExcluded === 'next_business_day' ? 1 : -1
  const localMs = wallTimeOf(nominalMs)
  for (let days = 1; days <= mostDays; days++) {
    const movedMs = localMs + step * days * DAY_MS
    if (!isBusinessDay(Math.floor(movedMs / DAY_MS))) continue
    const toMs = zone.resolveLocal(movedMs).instantMs
    // A day that the zone left out altogether has no instant of its own.
    if (Math.floor((toMs + zone.offsetAt(toMs)) / DAY_MS) !== Math.floor(movedMs / DAY_MS)) continue
    if (!excluded(toMs)) return toMs
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
