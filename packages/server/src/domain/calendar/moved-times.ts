// The instants that excluded times are moved to, found without keeping a list. A day is looked at from where
// something could land: it has to be a business day with free time in it, and what lands there comes from the
// days before it (next_business_day) or after it (previous_business_day), back to the nearest business day
// that is free throughout, which nothing moves past.
//
// Work is bounded: times move by a limited number of days, fewer where there are many times a day or a look
// at the calendars is dear (calendar-schedule.ts), and a search looks at each instant once.

import { DAY_MS } from '../zone/civil-date.ts'
import type { ZoneRules } from '../zone/zone-rules.ts'
import type { ScheduleTimes } from '../schedule/schedule-times.ts'
import {
  type ExclusionRules,
  isBusinessDay,
  isExcluded,
  movedTo,
  type Moves,
  steadyUntil,
} from './occurrence-exclusion.ts'

/** Each looks strictly between two instants. */
export type MovedTimes = {
  first(afterMs: number, beforeMs: number): number | undefined
  last(afterMs: number, beforeMs: number): number | undefined
  count(afterMs: number, beforeMs: number, counts: (timeMs: number) => boolean): number
}

/** A move keeps the time of day, but for what a change of the clock does to it: at most a day left out. */
const CLOCK_CHANGE_MS = DAY_MS
/** Instants or days that a search remembers: more than come into question for one day. */
const MAX_REMEMBERED = 10_000

/** One search. A time may come into question for many days, and a day for many times. */
type Search = Moves & {
  readonly nominal: ScheduleTimes
  readonly forwards: boolean
  readonly targetOf: (timeMs: number) => number | null
  readonly isFree: (dayNo: number) => boolean
}
/** [fromMs, endMs) within one day. */
type Window = { readonly dayNo: number; readonly fromMs: number; readonly endMs: number }

/** No time moves further than this, a change of the clock included. */
export const farthestMove = (mostDays: number): number => (mostDays + 3) * DAY_MS

export function makeMovedTimes(nominal: ScheduleTimes, moves: Moves): MovedTimes {
  const { rules } = moves
  const forwards = rules.onExcluded === 'next_business_day'
  const days = (afterMs: number, beforeMs: number, latestFirst = false): Iterable<readonly number[]> => {
    const excluded = remembered((instantMs) => isExcluded(instantMs, rules))
    const targetOf = remembered((timeMs) => (excluded(timeMs) ? movedTo(timeMs, moves, excluded) : null))
    const isFree = remembered((dayNo) => isFreeBusinessDay(dayNo, moves.zone, rules))
    return movedByDay({ ...moves, nominal, forwards, targetOf, isFree }, afterMs, beforeMs, latestFirst)
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
  search: Search,
  afterMs: number,
  beforeMs: number,
  latestFirst: boolean,
): Generator<readonly number[]> {
  const { zone } = search
  const range = reachable(search, afterMs + 1, beforeMs)
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
    const found = movedOnto(search, { dayNo, fromMs, endMs })
    if (found.size > 0) yield [...found]
  }
}

function remembered<T extends boolean | number | null>(find: (key: number) => T): (key: number) => T {
  const answers = new Map<number, T>()
  return (key) => {
    const known = answers.get(key)
    if (known !== undefined) return known
    const answer = find(key)
    if (answers.size >= MAX_REMEMBERED) answers.clear()
    answers.set(key, answer)
    return answer
  }
}

/** The part of a range that some planned time is near enough to be moved into. */
function reachable(
  { nominal, forwards, mostDays }: Search,
  fromMs: number,
  endMs: number,
): { readonly fromMs: number; readonly endMs: number } | undefined {
  const nearestMs = forwards ? nominal.previous(endMs) : nominal.next(fromMs - 1)
  if (nearestMs === null) return undefined
  const farthestMs = farthestMove(mostDays)
  const near = forwards
    ? { fromMs, endMs: Math.min(endMs, nearestMs + farthestMs) }
    : { fromMs: Math.max(fromMs, nearestMs - farthestMs), endMs }
  return near.fromMs < near.endMs ? near : undefined
}

function movedOnto(search: Search, window: Window): ReadonlySet<number> {
  const { nominal, zone, rules, forwards, mostDays, targetOf, isFree } = search
  const found = new Set<number>()
  const freeMs = firstFree(window.fromMs, window.endMs, rules)
  if (freeMs === undefined) return found
  const fromLocalMs = freeMs + zone.offsetAt(freeMs) - window.dayNo * DAY_MS
  const endLocalMs = window.endMs + zone.offsetAt(window.endMs) - window.dayNo * DAY_MS
  // A time that the clock leaps over at the end of a day stands in on the day after it: one day off.
  const nearest = leapsAt(startOf(window.dayNo, zone), zone) ? 0 : 1
  for (let days = nearest; days <= mostDays + 1; days++) {
    const dayNo = window.dayNo + (forwards ? -days : days)
    if (days > 0 && isFree(dayNo)) return found
    const dayMs = dayNo * DAY_MS
    const slackMs = clockChangesOn(window.dayNo, zone) || clockChangesOn(dayNo, zone) ? CLOCK_CHANGE_MS : 0
    const lastMs = latest(zone, dayMs + Math.min(endLocalMs + slackMs, DAY_MS))
    let timeMs = nominal.next(zone.resolveLocal(dayMs + Math.max(0, fromLocalMs - slackMs)).instantMs - 1)
    while (timeMs !== null && timeMs <= lastMs) {
      const toMs = targetOf(timeMs)
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
  let instantMs = startOf(dayNo, zone)
  const endMs = startOf(dayNo + 1, zone)
  if (leapsAt(instantMs, zone) || leapsAt(endMs, zone)) return false
  while (instantMs < endMs) {
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

function clockChangesOn(dayNo: number, zone: ZoneRules): boolean {
  return zone.offsetAt(startOf(dayNo, zone) - 1) !== zone.offsetAt(startOf(dayNo + 1, zone))
}

/** Whether the clock is put forward at this instant. */
function leapsAt(instantMs: number, zone: ZoneRules): boolean {
  return zone.offsetAt(instantMs - 1) < zone.offsetAt(instantMs)
}

/** The last instant of a wall time. */
function latest(zone: ZoneRules, localMs: number): number {
  const found = zone.resolveLocal(localMs)
  return found.kind === 'overlap' ? found.laterMs : found.instantMs
}
