// A schedule as people write it, compiled into one that answers "when next?". This is the evaluator's front
// door: the rest of the engine sees only what is exported here (and the jitter). All times are epoch
// milliseconds; "nominal" or planned times are what a schedule names, before jitter. A next time is always
// strictly after the one before.

import { refuse, type Result, succeed } from '../zone/result.ts'
import { resolveZone, type ZoneLookup } from '../zone/zone-lookup.ts'
import type { ZoneRules } from '../zone/zone-rules.ts'
import { parseAt } from './at-time.ts'
import type { CronDialect } from './cron-dialect.ts'
import { parseCron } from './cron-parser.ts'
import { FIXED_TIME_POLICY, INTERVAL_POLICY, nextOfCron } from './cron-search.ts'
import { checkPeriod, countOfRate, latestOfRate, nextOfRate } from './rate.ts'
import { fault, type ScheduleFault } from './schedule-fault.ts'

/**
 * at: RFC 3339 with an offset, or a wall time of the zone. rate: planned times are anchorMs + k * everyMs, k
 * >= 0; the anchor is the start bound, else 1970, unless given (the engine gives the time of creation).
 * `zone` is an IANA name, UTC when left out.
 */
export type ScheduleSpec = (
  | { readonly kind: 'at'; readonly at: string }
  | { readonly kind: 'rate'; readonly everyMs: number; readonly anchorMs?: number }
  | { readonly kind: 'cron'; readonly dialect: CronDialect; readonly expression: string }
) & { readonly zone?: string }

/** Planned times lie in [startAtMs, endAtMs). */
export type ScheduleBounds = { readonly startAtMs?: number; readonly endAtMs?: number }

/** `count` is exact unless `capped`: then there are at least that many. `latestMs` is exact either way. */
export type MissedTimes = {
  readonly count: number
  readonly capped: boolean
  readonly latestMs: number | null
}

export type CompiledSchedule = {
  readonly kind: ScheduleSpec['kind']
  readonly zoneName: string
  /** What a person should know about how the schedule was read; empty when nothing is special. */
  readonly notes: readonly string[]
  /** The first planned time strictly after `afterMs`, or null when there is none any more. */
  next(afterMs: number): number | null
  /**
   * The planned times in (afterMs, untilMs]; a rate is counted by arithmetic, others one by one up to `cap`.
   */
  missedBetween(afterMs: number, untilMs: number, cap: number): MissedTimes
}

export const DEFAULT_ZONE = 'UTC'

type Nominal = Pick<CompiledSchedule, 'next' | 'missedBetween' | 'notes'>
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
  const schedule = bounded(nominal.value, firstMs, endMs)
  const trouble = emptyWindow(spec, schedule.next, bounds)
  if (trouble) return refuse([trouble])
  return succeed({ kind: spec.kind, zoneName: zone.name, notes: nominal.value.notes, ...schedule })
}

/**
 * Compiles with the zone looked up by name; an unknown one is a fault at `/zone` that suggests what was
 * meant.
 */
export function compileScheduleIn(
  spec: ScheduleSpec,
  zones: ZoneLookup,
  bounds: ScheduleBounds = {},
): Result<CompiledSchedule, Faults> {
  const zone = resolveZone(zones, spec.zone ?? DEFAULT_ZONE)
  return zone.ok ? compileSchedule(spec, zone.value, bounds) : refuse([fault('/zone', zone.error)])
}

function compileNominal(
  spec: ScheduleSpec,
  zone: ZoneRules,
  bounds: ScheduleBounds,
): Result<Nominal, Faults> {
  if (spec.kind === 'at') {
    const at = parseAt(spec.at, zone)
    if (!at.ok) return refuse([at.error])
    const next = (afterMs: number): number | null =>
      afterMs < at.value.instantMs ? at.value.instantMs : null
    return succeed({ ...searched(next), notes: at.value.note === null ? [] : [at.value.note] })
  }
  if (spec.kind === 'rate') {
    const period = checkPeriod(spec.everyMs)
    if (!period.ok) return refuse([period.error])
    return succeed(rateTimes(spec.anchorMs ?? bounds.startAtMs ?? 0, period.value))
  }
  const plan = parseCron(spec.expression, spec.dialect)
  if (!plan.ok) return plan
  const policy = plan.value.fixedTime ? FIXED_TIME_POLICY : INTERVAL_POLICY
  return succeed(searched((afterMs) => nextOfCron(plan.value, zone.timeline, policy, afterMs)))
}

function rateTimes(anchorMs: number, everyMs: number): Nominal {
  return {
    notes: [],
    next: (afterMs) => nextOfRate(anchorMs, everyMs, afterMs),
    missedBetween(afterMs, untilMs) {
      const count = countOfRate(anchorMs, everyMs, afterMs, untilMs)
      return { count, capped: false, latestMs: count === 0 ? null : latestOfRate(anchorMs, everyMs, untilMs) }
    },
  }
}

function searched(next: (afterMs: number) => number | null): Nominal {
  return {
    notes: [],
    next,
    missedBetween(afterMs, untilMs, cap) {
      const firstMs = next(afterMs)
      if (firstMs === null || firstMs > untilMs) return { count: 0, capped: false, latestMs: null }
      let count = 0
      for (let timeMs: number | null = firstMs; timeMs !== null && timeMs <= untilMs; timeMs = next(timeMs)) {
        if (count >= cap) return { count, capped: true, latestMs: latestOf(next, firstMs, untilMs) }
        count++
      }
      return { count, capped: false, latestMs: latestOf(next, firstMs, untilMs) }
    },
  }
}

/**
 * The last planned time at or before `untilMs`, given one (`knownMs`) that is. "next(t) is still within"
 * turns from true to false exactly once as t grows, so halving finds the turn in some forty steps, however
 * many times lie between.
 */
function latestOf(next: (afterMs: number) => number | null, knownMs: number, untilMs: number): number {
  let latestMs = knownMs
  let highMs = untilMs
  while (latestMs < highMs) {
    const middleMs = latestMs + Math.floor((highMs - latestMs) / 2)
    const timeMs = next(middleMs)
    if (timeMs !== null && timeMs <= untilMs) latestMs = timeMs
    else highMs = middleMs
  }
  return latestMs
}

function bounded(nominal: Nominal, firstMs: number, endMs: number): Omit<Nominal, 'notes'> {
  return {
    next(afterMs) {
      const timeMs = nominal.next(afterMs < firstMs ? firstMs - 1 : afterMs)
      return timeMs !== null && timeMs < endMs ? timeMs : null
    },
    missedBetween(afterMs, untilMs, cap) {
      const fromMs = Math.max(afterMs, firstMs - 1)
      const toMs = Math.min(untilMs, endMs - 1)
      return toMs > fromMs
        ? nominal.missedBetween(fromMs, toMs, cap)
        : { count: 0, capped: false, latestMs: null }
    },
  }
}

/** With a start bound it can be told, without a clock, that nothing will ever fire inside the window. */
function emptyWindow(
  spec: ScheduleSpec,
  next: CompiledSchedule['next'],
  bounds: ScheduleBounds,
): ScheduleFault | undefined {
  const { startAtMs } = bounds
  const oneTime = spec.kind === 'at'
  if (!oneTime && startAtMs === undefined) return undefined
  if (next((startAtMs ?? Number.MIN_SAFE_INTEGER) - 1) !== null) return undefined
  if (oneTime) return fault('/at', 'never fires: the time lies outside the start and end')
  return fault('/endAt', 'never fires: no planned time lies between the start and the end')
}
