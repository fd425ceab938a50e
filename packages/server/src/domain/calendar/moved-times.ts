// The instants that excluded times are moved to, found without keeping a list. A day is looked at from where
// something could land: it has to be a business day with free time in it, and what lands there comes from the
// days before it (next_business_day) or after it (previous_business_day), back to the nearest business day
// that is free throughout, which nothing moves past.
//
// Work is bounded: no time moves further than MAX_DAYS_MOVED, and only schedules of at most 24 times a day
// are moved at all.

import { DAY_MS } from '../zone/civil-date.ts'
import type { ZoneRules } from '../zone/zone-rules.ts'
import type { ScheduleTimes } from '../schedule/schedule-times.ts'
import {
  type ExclusionRules,
  FARTHEST_MOVE_MS,
  isBusinessDay,
  isExcluded,
  MAX_DAYS_MOVED,
  movedTo,
  steadyUntil,
} from './occurrence-exclusion.ts'

/** Each looks strictly between two instants. */
export type MovedTimes = {
  first(afterMs: number, beforeMs: number): number | undefined
  last(afterMs: number, beforeMs: number): number | undefined
  count(afterMs: number, beforeMs: number, counts: (timeMs: number) => boolean): number
}

/** A move keeps the time of day, but for what a change of the clock does to it: less than this. */
const CLOCK_CHANGE_MS = 4 * 3_600_000
/** More than come into question for one day. */
const MAX_TARGETS = 4_000

type Moving = {
  readonly nominal: ScheduleTimes
  readonly zone: ZoneRules
  readonly rules: ExclusionRules
  readonly forwards: boolean
  /** Where a time was found to go to in this search: the same one may come into question for many days. */
  readonly targets: Map<number, number | null>
}
/** [fromMs, endMs) within one day. */
type Window = { readonly dayNo: number; readonly fromMs: number; readonly endMs: number }

export function makeMovedTimes(nominal: ScheduleTimes, zone: ZoneRules, rules: ExclusionRules): MovedTimes {
  const forwards = rules.onExcluded === 'next_business_day'
  const days = (afterMs: number, beforeMs: number, latestFirst = false): Iterable<readonly number[]> => {
    const moving: Moving = { nominal, zone, rules, forwards, targets: new Map() }
    return movedByDay(moving, afterMs, beforeMs, latestFirst)
  }
  return {
    first(afterMs, beforeMs) {
      for (const times of days(afterMs, beforeMs)) return Math.min(...times)
      return undefined
    },
    last(afterMs, beforeMs) {
      for (const times of days(afterMs, beforeMs, true)) return Math.max(...times)
      return undefined
    },
    count(afterMs, beforeMs, counts) {
      let count = 0
      for (const times of days(afterMs, beforeMs)) count += times.filter(counts).length
      return count
    },
  }
}

/** The moved times of each day that has some, each once. */
function* movedByDay(
  moving: Moving,
  afterMs: number,
  beforeMs: number,
  latestFirst: boolean,
): Generator<readonly number[]> {
  const { zone } = moving
  const range = reachable(moving, afterMs + 1, beforeMs)
  if (range === undefined) return
  // The day of an instant that a clock set back brought again begins earlier than it seems.
  const firstDay = dayOf(range.fromMs, zone) - 1
  const lastDay = dayOf(range.endMs, zone) + 1
  for (let passed = 0; passed <= lastDay - firstDay; passed++) {
    const dayNo = latestFirst ? lastDay - passed : firstDay + passed
    if (!isBusinessDay(dayNo)) continue
    const fromMs = Math.max(range.fromMs, startOf(dayNo, zone))
    const endMs = Math.min(range.endMs, startOf(dayNo + 1, zone))
    if (fromMs >= endMs) continue
    const found = movedOnto(moving, { dayNo, fromMs, endMs })
    if (found.size > 0) yield [...found]
  }
}

function targetOf(timeMs: number, { zone, rules, targets }: Moving): number | null {
  const known = targets.get(timeMs)
  if (known !== undefined) return known
  const toMs = isExcluded(timeMs, rules) ? movedTo(timeMs, zone, rules) : null
  if (targets.size > MAX_TARGETS) targets.clear()
  targets.set(timeMs, toMs)
  return toMs
}

/** The part of a range that some planned time is near enough to be moved into. */
function reachable(
  { nominal, forwards }: Moving,
  fromMs: number,
  endMs: number,
): { readonly fromMs: number; readonly endMs: number } | undefined {
  const nearestMs = forwards ? nominal.previous(endMs) : nominal.next(fromMs - 1)
  if (nearestMs === null) return undefined
  const near = forwards
    ? { fromMs, endMs: Math.min(endMs, nearestMs + FARTHEST_MOVE_MS) }
    : { fromMs: Math.max(fromMs, nearestMs - FARTHEST_MOVE_MS), endMs }
  return near.fromMs < near.endMs ? near : undefined
}

function movedOnto(moving: Moving, window: Window): ReadonlySet<number> {
  const { nominal, zone, rules, forwards } = moving
  const found = new Set<number>()
  const freeMs = firstFree(window.fromMs, window.endMs, rules)
  if (freeMs === undefined) return found
  const fromLocalMs = freeMs + zone.offsetAt(freeMs) - window.dayNo * DAY_MS - CLOCK_CHANGE_MS
  const endLocalMs = window.endMs + zone.offsetAt(window.endMs) - window.dayNo * DAY_MS + CLOCK_CHANGE_MS
  for (let days = 1; days <= MAX_DAYS_MOVED; days++) {
    const dayNo = window.dayNo + (forwards ? -days : days)
    if (isFreeBusinessDay(dayNo, zone, rules)) return found
    const dayMs = dayNo * DAY_MS
    const lastMs = latest(zone, dayMs + Math.min(endLocalMs, DAY_MS))
    let timeMs = nominal.next(zone.resolveLocal(dayMs + Math.max(0, fromLocalMs)).instantMs - 1)
    while (timeMs !== null && timeMs <= lastMs) {
      const toMs = targetOf(timeMs, moving)
      if (toMs !== null && window.fromMs <= toMs && toMs < window.endMs) found.add(toMs)
      timeMs = nominal.next(timeMs)
    }
  }
  return found
}

function firstFree(fromMs: number, endMs: number, rules: ExclusionRules): number | undefined {
  let instantMs = fromMs
  while (instantMs < endMs) {
    if (!isExcluded(instantMs, rules)) return instantMs
    instantMs = steadyUntil(instantMs, rules)
  }
  return undefined
}

/** Whether whatever reaches the day stays there. Where a change of the clock eats its ends, it may not. */
function isFreeBusinessDay(dayNo: number, zone: ZoneRules, rules: ExclusionRules): boolean {
  if (!isBusinessDay(dayNo)) return false
  const start = zone.resolveLocal(dayNo * DAY_MS)
  const end = zone.resolveLocal((dayNo + 1) * DAY_MS)
  if (start.kind === 'gap' || end.kind === 'gap') return false
  let { instantMs } = start
  while (instantMs < end.instantMs) {
    if (isExcluded(instantMs, rules)) return false
    instantMs = steadyUntil(instantMs, rules)
  }
  return true
}

function dayOf(instantMs: number, zone: ZoneRules): number {
  return Math.floor((instantMs + zone.offsetAt(instantMs)) / DAY_MS)
}

function startOf(dayNo: number, zone: ZoneRules): number {
  return zone.resolveLocal(dayNo * DAY_MS).instantMs
}

/** The last instant of a wall time. */
function latest(zone: ZoneRules, localMs: number): number {
  const found = zone.resolveLocal(localMs)
  return found.kind === 'overlap' ? found.laterMs : found.instantMs
}
