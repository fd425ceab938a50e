// A schedule as people write it, compiled into one that answers "when?". This is the evaluator's front door:
// the rest of the engine sees only what is exported here (and the jitter). All times are epoch milliseconds;
// "nominal" or planned times are what a schedule names, before jitter. A next time is always strictly after
// the one before.

import { DAY_MS } from '../zone/civil-date.ts'
import { refuse, type Result, succeed } from '../zone/result.ts'
import { resolveZone, type ZoneLookup } from '../zone/zone-lookup.ts'
import type { ZoneRules } from '../zone/zone-rules.ts'
import { parseAt } from './at-time.ts'
import { parseAnchor, parseCalendarExpression } from './calendar-expression.ts'
import type { CronDialect, DayMatch } from './cron-dialect.ts'
import { parseExpression } from './cron-parser.ts'
import { type CronPlan, yearSpan } from './cron-plan.ts'
import { type DstPolicy, FIXED_TIME_POLICY, INTERVAL_POLICY } from './cron-search.ts'
import { checkPeriod } from './rate.ts'
import { fault, type ScheduleFault } from './schedule-fault.ts'
import {
  boundedTimes,
  listTimes,
  planTimes,
  rateTimes,
  type ScheduleTimes,
  singleTime,
} from './schedule-times.ts'

/** What a schedule does when the clock changes; what is left out follows the default. */
export type DstChoice = {
  /** A time that the clock leaps over: at the first instant after the gap, or not at all. */
  readonly gap?: DstPolicy['gap']
  /** A time that comes twice: the first one only, or both. */
  readonly overlap?: DstPolicy['overlap']
}

/**
 * at: RFC 3339 with an offset, or a wall time of the zone. rate: planned times are anchorMs + k * everyMs, k
 * >= 0; the anchor is the start bound, else 1970, unless given (the engine gives the time of creation). cron:
 * an expression of a dialect; `seed` is what H draws from (the engine gives the schedule's id). calendar: see
 * calendar-expression.ts; `anchor` is a date of the zone, the start bound's unless given. `zone` is an IANA
 * name, UTC when left out.
 */
export type ScheduleSpec = (
  | { readonly kind: 'at'; readonly at: string }
  | { readonly kind: 'rate'; readonly everyMs: number; readonly anchorMs?: number }
  | {
      readonly kind: 'cron'
      readonly dialect: CronDialect
      readonly expression: string
      readonly dayMatch?: DayMatch
      readonly seed?: string
      /** Of a dialect's rate, as in rate(5 minutes) or @every 5m. */
      readonly anchorMs?: number
    }
  | { readonly kind: 'calendar'; readonly every: string; readonly anchor?: string }
) & { readonly zone?: string; readonly dst?: DstChoice }

/**
 * Planned times lie in [startAtMs, endAtMs). With `nowMs` a schedule that has nothing left after it is
 * refused; leave it out where one that was stored is read again.
 */
export type ScheduleBounds = {
  readonly startAtMs?: number
  readonly endAtMs?: number
  readonly nowMs?: number
}

/** `count` is exact unless `capped`: then there are at least that many. `latestMs` is exact either way. */
export type MissedTimes = {
  readonly count: number
  readonly capped: boolean
  readonly latestMs: number | null
}

/** What the schedule came to, for words and warnings. */
export type Timing =
  | { readonly kind: 'plan'; readonly plan: CronPlan; readonly policy: DstPolicy; readonly zone: ZoneRules }
  | { readonly kind: 'rate'; readonly anchorMs: number; readonly everyMs: number }
  /** `lostMs`: the wall time, as UTC, where it does not exist. */
  | { readonly kind: 'at'; readonly instantMs: number; readonly lostMs: number | null }

export type CompiledSchedule = ScheduleTimes & {
  readonly kind: ScheduleSpec['kind']
  readonly zoneName: string
  /** What a person should know about how the schedule was read; empty when nothing is special. */
  readonly notes: readonly string[]
  readonly timing: Timing
  /** The planned times in (afterMs, untilMs], in order; at most `limit`, and never more than 10,000. */
  between(afterMs: number, untilMs: number, limit: number): readonly number[]
  /** The planned times in (afterMs, untilMs], counted by arithmetic and told up to `cap`. */
  missedBetween(afterMs: number, untilMs: number, cap: number): MissedTimes
  /**
   * Of one with calendars: why a planned time does not run, and where it was moved to; null where it runs.
   * All methods above go over both kinds, see calendar/calendar-schedule.ts.
   */
  readonly exclusionOf?: (scheduledForMs: number) => TimeExclusion | null
  /** The same: how much a search for a time that runs may look at. */
  readonly search?: SearchBounds
  /** The same: which they are, for words and warnings. */
  readonly calendars?: NamedCalendars
}

/**
 * `endMs` is the end of the last thing that a calendar covers; Infinity where something comes again for ever.
 */
export type NamedCalendars = {
  readonly skipOn: readonly { readonly name: string; readonly endMs: number }[]
  readonly onlyOn: readonly { readonly name: string; readonly endMs: number }[]
  readonly onExcluded: 'skip' | 'next_business_day' | 'previous_business_day'
}

/** `detail` is what the ledger says: the calendar, why, and where the time was moved to. */
export type TimeExclusion = {
  readonly detail: string
  /** Name of the calendar that decided, and the setting that names it. */
  readonly calendar: string
  readonly by: 'skipOn' | 'onlyOn'
  /** The detail without the move. */
  readonly reason: string
  /** Another planned time, which runs. */
  readonly movedToMs: number | null
  /** Every planned time before this is excluded as well. */
  readonly untilMs: number
}

/**
 * `mostLooks` counts excluded times, or spans of them, `mostKept` those that run; what is further away than
 * `mostMs` is not looked for.
 */
export type SearchBounds = { readonly mostLooks: number; readonly mostKept: number; readonly mostMs: number }

export const DEFAULT_ZONE = 'UTC'

type Nominal = {
  readonly times: ScheduleTimes
  readonly timing: Timing
  readonly notes: readonly string[]
  /** A rate is counted in full, whatever the cap. */
  readonly wholeCount: boolean
}
type Faults = readonly ScheduleFault[]

/** Compiles with the zone already at hand; `spec.zone` is not looked at. */
export function compileSchedule(
  spec: ScheduleSpec,
  zone: ZoneRules,
  bounds: ScheduleBounds = {},
): Result<CompiledSchedule, Faults> {
  const firstMs = bounds.startAtMs ?? Number.NEGATIVE_INFINITY
  const endMs = bounds.endAtMs ?? Number.POSITIVE_INFINITY
  if (endMs <= firstMs)
    return refuse([fault('/endAt', 'the end is not after the start: nothing could ever fire')])
  const nominal = compileNominal(spec, zone, bounds)
  if (!nominal.ok) return nominal
  const { times, timing, notes, wholeCount } = nominal.value
  const bound = boundedTimes(times, firstMs, endMs)
  const trouble = emptyWindow(timing, bound, bounds)
  if (trouble) return refuse([trouble])
  return succeed({
    ...bound,
    kind: spec.kind,
    zoneName: zone.name,
    notes,
    timing,
    between: (afterMs, untilMs, limit) => listTimes(bound, afterMs, untilMs, limit),
    missedBetween(afterMs, untilMs, cap) {
      const { count, capped } = bound.countBetween(afterMs, untilMs)
      if (count === 0) return { count, capped, latestMs: null }
      const latestMs = bound.previous(untilMs + 1)
      if (count <= cap || wholeCount) return { count, capped, latestMs }
      return { count: cap, capped: true, latestMs }
    },
  })
}

/**
 * Compiles with the zone looked up by name; an unknown one is a fault at `/zone` that suggests what was
 * meant. An OnCalendar expression may name the zone itself.
 */
export function compileScheduleIn(
  spec: ScheduleSpec,
  zones: ZoneLookup,
  bounds: ScheduleBounds = {},
): Result<CompiledSchedule, Faults> {
  const zone = resolveZone(zones, spec.zone ?? zoneInExpression(spec) ?? DEFAULT_ZONE)
  return zone.ok ? compileSchedule(spec, zone.value, bounds) : refuse([fault('/zone', zone.error)])
}

/** The zone that an OnCalendar expression names itself. */
export function zoneInExpression(spec: ScheduleSpec): string | undefined {
  if (spec.kind !== 'cron' || spec.dialect !== 'systemd') return undefined
  const parsed = parseExpression(spec.expression, 'systemd')
  return parsed.ok && parsed.value.kind === 'plan' ? (parsed.value.zone ?? undefined) : undefined
}

function compileNominal(
  spec: ScheduleSpec,
  zone: ZoneRules,
  bounds: ScheduleBounds,
): Result<Nominal, Faults> {
  switch (spec.kind) {
    case 'at':
      return oneTime(spec.at, zone, spec.dst, '/at')
    case 'rate':
      return steady(spec.everyMs, spec.anchorMs ?? bounds.startAtMs ?? 0)
    case 'calendar':
      return calendarInterval(spec, zone, bounds)
    case 'cron':
      return expression(spec, zone, bounds)
  }
}

function expression(
  spec: Extract<ScheduleSpec, { kind: 'cron' }>,
  zone: ZoneRules,
  bounds: ScheduleBounds,
): Result<Nominal, Faults> {
  const parsed = parseExpression(spec.expression, spec.dialect, { dayMatch: spec.dayMatch, seed: spec.seed })
  if (!parsed.ok) return parsed
  const value = parsed.value
  if (value.kind === 'at') return oneTime(value.at, zone, spec.dst, '/cron')
  if (value.kind === 'rate') return steady(value.everyMs, spec.anchorMs ?? bounds.startAtMs ?? 0)
  if (value.zone !== null && value.zone !== zone.name) {
    const twice = `the expression names the zone ${value.zone}, the schedule ${zone.name}`
    return refuse([fault('/zone', `${twice}: leave one of them out`)])
  }
  // systemd leaves out what the clock leaps over; everywhere else a time of day is not lost.
  const fixed: DstPolicy =
    spec.dialect === 'systemd' ? { ...FIXED_TIME_POLICY, gap: 'skip' } : FIXED_TIME_POLICY
  return succeed(planned(value.plan, zone, value.plan.fixedTime ? fixed : INTERVAL_POLICY, spec.dst))
}

function calendarInterval(
  spec: Extract<ScheduleSpec, { kind: 'calendar' }>,
  zone: ZoneRules,
  bounds: ScheduleBounds,
): Result<Nominal, Faults> {
  const anchor = spec.anchor === undefined ? succeed(null) : parseAnchor(spec.anchor)
  if (!anchor.ok) return refuse([anchor.error])
  const { startAtMs } = bounds
  const startDay =
    startAtMs === undefined ? null : Math.floor((startAtMs + zone.offsetAt(startAtMs)) / DAY_MS)
  const plan = parseCalendarExpression(spec.every, anchor.value ?? startDay)
  if (!plan.ok) return refuse([plan.error])
  const nominal = planned(plan.value, zone, FIXED_TIME_POLICY, spec.dst)
  const anchorMs = (anchor.value ?? startDay ?? 0) * DAY_MS
  if (nominal.times.next(anchorMs - 2 * DAY_MS) !== null) return succeed(nominal)
  return refuse([fault('/every', 'never fires: no such day comes within 120 years of the anchor')])
}

function planned(plan: CronPlan, zone: ZoneRules, usual: DstPolicy, choice: DstChoice | undefined): Nominal {
  const policy: DstPolicy = { gap: choice?.gap ?? usual.gap, overlap: choice?.overlap ?? usual.overlap }
  return {
    times: planTimes(plan, zone, policy),
    timing: { kind: 'plan', plan, policy, zone },
    notes: [],
    wholeCount: false,
  }
}

function steady(everyMs: number, anchorMs: number): Result<Nominal, Faults> {
  const period = checkPeriod(everyMs)
  if (!period.ok) return refuse([period.error])
  return succeed({
    times: rateTimes(anchorMs, period.value),
    timing: { kind: 'rate', anchorMs, everyMs: period.value },
    notes: [],
    wholeCount: true,
  })
}

const elsewhere = 'write another one, or choose the gap next_valid'
const onlyOnce =
  'a single time runs once, and this wall time comes twice: choose first, or write it with an offset'

function oneTime(
  text: string,
  zone: ZoneRules,
  dst: DstChoice | undefined,
  pointer: string,
): Result<Nominal, Faults> {
  const at = parseAt(text, zone)
  if (!at.ok) return refuse([fault(pointer, at.error.message)])
  const { instantMs, note, lostMs, isTwofold } = at.value
  if (lostMs !== null && dst?.gap === 'skip')
    return refuse([
      fault(pointer, `never fires: this wall time does not exist in ${zone.name}: ${elsewhere}`),
    ])
  if (isTwofold && dst?.overlap === 'both') return refuse([fault('/dst/overlap', onlyOnce)])
  return succeed({
    times: singleTime(instantMs),
    timing: { kind: 'at', instantMs, lostMs },
    notes: note === null ? [] : [note],
    wholeCount: true,
  })
}

/** With a start bound or the time of creation it can be told that nothing will ever fire. */
function emptyWindow(
  timing: Timing,
  times: ScheduleTimes,
  bounds: ScheduleBounds,
): ScheduleFault | undefined {
  const { startAtMs, nowMs } = bounds
  if (timing.kind === 'at') {
    if (times.next((startAtMs ?? Number.MIN_SAFE_INTEGER) - 1) !== null) return undefined
    return fault('/at', 'never fires: the time lies outside the start and end')
  }
  const fromMs = Math.max(startAtMs === undefined ? -Infinity : startAtMs - 1, nowMs ?? -Infinity)
  if (fromMs === -Infinity || times.next(fromMs) !== null) return undefined
  const years = timing.kind === 'plan' ? yearSpan(timing.plan) : undefined
  if (years !== undefined && bounds.endAtMs === undefined)
    return fault('/cron/year', `never fires: the last year of this schedule is ${years.last}, which is over`)
  return fault('/endAt', 'never fires: no planned time lies between the start and the end')
}
