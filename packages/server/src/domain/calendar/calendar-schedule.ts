// A compiled schedule under calendars. Its planned times are those of the schedule, running and excluded, and
// the instants that excluded ones are moved to, each once:
//
//   planned times = times of the schedule ∪ moved times      excluded: where a calendar excludes the instant
//
// A moved time is never excluded, so the instant alone tells what it is, also where a moved time falls
// together with one of the schedule's own. Bounds hold for the time before the move. Everything stays
// strictly increasing, and `previous` is the way back of `next`.

import { DAY_MS } from '../zone/civil-date.ts'
import { refuse, type Result, succeed } from '../zone/result.ts'
import type { ZoneRules } from '../zone/zone-rules.ts'
import { nominalWallTimeOf } from '../schedule/dst-note.ts'
import { fault, type ScheduleFault } from '../schedule/schedule-fault.ts'
import type { CompiledSchedule, SearchBounds, TimeExclusion } from '../schedule/schedule-spec.ts'
import { listTimes, type ScheduleTimes } from '../schedule/schedule-times.ts'
import { farthestMove, makeMovedTimes, type MovedTimes } from './moved-times.ts'
import {
  exclusionOf,
  type ExclusionRules,
  MAX_DAYS_MOVED,
  movedTo,
  type Moves,
  steadyUntil,
} from './occurrence-exclusion.ts'

/** The most times a day of a schedule whose times are moved to other days. */
const MAX_MOVED_PER_DAY = 24
/** The longest range whose moved times are counted, at a look a day; beyond, a count is a lower bound. */
const MAX_COUNTED_DAYS = 40 * 366
/** Days or times that a search for one that runs looks at; where times move, a look is dearer. */
const MAX_LOOKS = { still: 5_000, moving: 500 }
/** Days times times a day times what a look costs; enough for hourly times under 60 windows. */
const MAX_LOOKS_FOR_MOVE = 100_000
/** However dear: half of them step over whole spans. */
const LEAST_LOOKS = 20
/** Looks at times that run, in one search; a schedule may be used with dearer calendars than it was made. */
const MAX_KEPT_LOOKS = 10_000
/** Of all calendars of a schedule together. */
const MAX_EFFORT = 100
/** What lies further ahead is not looked for. */
const MAX_AHEAD_MS = 60 * 366 * DAY_MS

export function withCalendars(
  schedule: CompiledSchedule,
  zone: ZoneRules,
  rules: ExclusionRules,
): Result<CompiledSchedule, readonly ScheduleFault[]> {
  if (rules.skipOn.length + rules.onlyOn.length === 0) return succeed(schedule)
  const moves = rules.onExcluded !== 'skip'
  const timesADay = timesPerDay(schedule)
  if (moves && timesADay > MAX_MOVED_PER_DAY) {
    const most = `at most ${MAX_MOVED_PER_DAY} times a day can be moved to another day`
    const message = `only a schedule that fires ${most}, and this one fires ${timesADay} times: choose skip`
    return refuse([fault('/onExcluded', message)])
  }
  const looksADay = timesADay * effortOf(rules)
  const mostDays = Math.min(MAX_DAYS_MOVED, Math.ceil(MAX_LOOKS_FOR_MOVE / looksADay))
  const wallTimeOf = (timeMs: number): number => nominalWallTimeOf(schedule, timeMs, zone)
  const moving: Moves = { zone, rules, mostDays, wallTimeOf }
  const countedMs = Math.ceil(MAX_COUNTED_DAYS / looksADay) * DAY_MS
  const times = moves ? unitedTimes(schedule, moving, countedMs) : schedule
  return succeed({
    ...schedule,
    ...times,
    between: (afterMs, untilMs, limit) => listTimes(times, afterMs, untilMs, limit),
    ...(moves && { missedBetween: missedOf(schedule, times) }),
    exclusionOf: (scheduledForMs) => timeExclusion(scheduledForMs, moving),
    search: searchBounds(rules),
    calendars: rules,
  })
}

/** For what is written: why these calendars are too much together. One that was stored is read as it is. */
export function tooDear(rules: ExclusionRules): ScheduleFault | undefined {
  const effort = effortOf(rules)
  if (effort <= MAX_EFFORT) return undefined
  const parts = (list: 'skipOn' | 'onlyOn'): number =>
    effortOf({ skipOn: [], onlyOn: [], [list]: rules[list] })
  const list = parts('skipOn') >= parts('onlyOn') ? 'skipOn' : 'onlyOn'
  const dearest = rules[list].toSorted((a, b) => b.effort - a.effort)[0]
  const most = `${dearest?.name ?? ''} alone costs ${dearest?.effort ?? 0}`
  const costs =
    'a calendar costs 1, and 1 more for each window, 25 events that repeat and 100 of their starts'
  const sum = `the calendars cost ${effort} to look at and a schedule may use ${MAX_EFFORT}`
  return fault(`/${list}`, `${sum}; ${most}: use fewer or smaller ones (${costs} in 400 days)`)
}

function timesPerDay({ timing }: CompiledSchedule): number {
  if (timing.kind === 'plan') return timing.plan.timesPerDay
  return timing.kind === 'rate' ? Math.ceil(DAY_MS / timing.everyMs) : 1
}

function unitedTimes(nominal: ScheduleTimes, moving: Moves, countedMs: number): ScheduleTimes {
  const moved: MovedTimes = makeMovedTimes(nominal, moving)
  const farthestMs = farthestMove(moving.mostDays)
  return {
    next(afterMs) {
      const nextMs = nominal.next(afterMs)
      return moved.first(afterMs, nextMs ?? afterMs + farthestMs) ?? nextMs
    },
    previous(beforeMs) {
      const previousMs = nominal.previous(beforeMs)
      return moved.last(previousMs ?? beforeMs - farthestMs, beforeMs) ?? previousMs
    },
    countBetween(afterMs, untilMs) {
      const { count, capped } = nominal.countBetween(afterMs, untilMs)
      // The newest are counted, so that a shorter range never counts more.
      const fromMs = Math.max(afterMs, untilMs - countedMs)
      const isMoved = (timeMs: number): boolean => nominal.next(timeMs - 1) !== timeMs
      const added = moved.count(fromMs, Math.floor(untilMs) + 1, isMoved)
      return { count: count + added, capped: capped || fromMs > afterMs }
    },
  }
}

/** Capped only by what the schedule itself is: a fire looks for a range that is not. */
function missedOf(schedule: CompiledSchedule, times: ScheduleTimes): CompiledSchedule['missedBetween'] {
  return (afterMs, untilMs, cap) => {
    const { count } = times.countBetween(afterMs, untilMs)
    const { capped } = schedule.countBetween(afterMs, untilMs)
    const lastMs = times.previous(Math.floor(untilMs) + 1)
    const latestMs = lastMs !== null && lastMs > afterMs ? lastMs : null
    if (count <= cap || schedule.timing.kind !== 'plan') return { count, capped, latestMs }
    return { count: cap, capped: true, latestMs }
  }
}

function timeExclusion(timeMs: number, moving: Moves): TimeExclusion | null {
  const { rules, mostDays } = moving
  const excluded = exclusionOf(timeMs, rules)
  if (excluded === null) return null
  const movedToMs = rules.onExcluded === 'skip' ? null : movedTo(timeMs, moving)
  const moved =
    movedToMs === null
      ? `no business day within ${mostDays} days is free`
      : `moved to ${instantText(movedToMs)}`
  return {
    ...excluded,
    movedToMs,
    detail: rules.onExcluded === 'skip' ? excluded.reason : `${excluded.reason}; ${moved}`,
    untilMs: steadyUntil(timeMs, rules),
  }
}

function searchBounds(rules: ExclusionRules): SearchBounds {
  const most = rules.onExcluded === 'skip' ? MAX_LOOKS.still : MAX_LOOKS.moving
  const effort = effortOf(rules)
  return {
    mostLooks: Math.max(LEAST_LOOKS, Math.ceil(most / effort)),
    mostKept: Math.ceil(MAX_KEPT_LOOKS / effort),
    mostMs: MAX_AHEAD_MS,
  }
}

function effortOf({ skipOn, onlyOn }: Pick<ExclusionRules, 'skipOn' | 'onlyOn'>): number {
  return [...skipOn, ...onlyOn].reduce((sum, calendar) => sum + calendar.effort, 0)
}

function instantText(instantMs: number): string {
  return new Date(instantMs).toISOString().replace('.000Z', 'Z')
}
