/**
 * `@belfry/server/schedule` (and `belfry/schedule`): Belfry's schedule evaluator as a library. It answers
 * when a schedule fires, describes it, and warns of what people misread; it needs no server, no database and
 * no network, and never reads the clock. All times are epoch milliseconds. What is wrong with an input comes
 * back as a value, with a JSON pointer and a sentence for each fault; nothing here throws for it.
 *
 *     const compiled = compile({ kind: 'cron', dialect: 'unix', expression: '0 2 * * *' })
 *     if (!compiled.ok) throw new Error(compiled.error.map((fault) => fault.message).join('; '))
 *     compiled.value.next(Date.now())
 */
import { openZoneSource } from './adapters/zones/zone-source.ts'
import {
  type CalendarDefinition,
  type CompiledCalendar,
  compileCalendar as compileDefinition,
} from './domain/calendar/calendar-definition.ts'
import { readCalendar } from './domain/calendar/calendar-input.ts'
import { withCalendars } from './domain/calendar/calendar-schedule.ts'
import { type KeptTimes, keptTimes } from './domain/calendar/kept-times.ts'
import type { ExclusionRules, OnExcluded } from './domain/calendar/occurrence-exclusion.ts'
import { describeCompiled } from './domain/schedule/describe-schedule.ts'
import { dstNoteOf } from './domain/schedule/dst-note.ts'
import type { ScheduleFault } from './domain/schedule/schedule-fault.ts'
import {
  type CompiledSchedule,
  compileScheduleIn,
  DEFAULT_ZONE,
  type ScheduleBounds,
  type ScheduleSpec,
  type TimeExclusion,
} from './domain/schedule/schedule-spec.ts'
import type { TimesCount } from './domain/schedule/schedule-times.ts'
import { type ScheduleWarning, warningsOf } from './domain/schedule/schedule-warnings.ts'
import { refuse, type Result, succeed } from './domain/zone/result.ts'
import { resolveZone, type ZoneLookup } from './domain/zone/zone-lookup.ts'
import type { ZoneSource } from './ports/zones.ts'

export type { ZoneSourceOptions } from './adapters/zones/zone-source.ts'
export type { CalendarWindow } from './domain/calendar/calendar-definition.ts'
export type { ExcludedTime } from './domain/calendar/kept-times.ts'
export { parseAt, parseInstant } from './domain/schedule/at-time.ts'
export type { AtTime } from './domain/schedule/at-time.ts'
export { CRON_DIALECT_NAMES, findDialect } from './domain/schedule/cron-dialect.ts'
export type { CronDialect, DayMatch } from './domain/schedule/cron-dialect.ts'
export { parseRate } from './domain/schedule/rate.ts'
export { isNeverFires } from './domain/schedule/schedule-fault.ts'
export type { DstChoice } from './domain/schedule/schedule-spec.ts'
export type { WarningCode } from './domain/schedule/schedule-warnings.ts'
export { resolveZone } from './domain/zone/zone-lookup.ts'
export type { LocalResolution, ZoneRules } from './domain/zone/zone-rules.ts'
export { openZoneSource }
export type {
  CalendarDefinition,
  CompiledCalendar,
  KeptTimes,
  OnExcluded,
  Result,
  ScheduleBounds,
  ScheduleFault,
  ScheduleSpec,
  ScheduleWarning,
  TimeExclusion,
  TimesCount,
  ZoneLookup,
  ZoneSource,
}

export type CompileOptions = ScheduleBounds & {
  /** Where zones come from; left out, the newer of the system's data and the release in this package. */
  readonly zones?: ZoneLookup
}

/**
 * At least one of the lists has a calendar; an excluded time is skipped unless `onExcluded` says otherwise.
 */
export type Calendars = Partial<ExclusionRules>

export type Schedule = {
  readonly kind: ScheduleSpec['kind']
  readonly zoneName: string
  /** The first planned time strictly after `afterMs`, or null when none is left. */
  next(afterMs: number): number | null
  /** The last planned time strictly before `beforeMs`, or null when there is none. */
  previous(beforeMs: number): number | null
  /** The planned times in (afterMs, untilMs], in order; at most `limit`, and never more than 10,000. */
  between(afterMs: number, untilMs: number, limit: number): readonly number[]
  /** How many planned times lie in (afterMs, untilMs], by arithmetic; exact unless `capped`. */
  countBetween(afterMs: number, untilMs: number): TimesCount
  /** One English sentence with the zone: "At 02:30 every day (Europe/Berlin)". */
  describe(): string
  /** What people misread in this schedule; changes of the clock are looked for from `fromMs` on. */
  warnings(fromMs: number): readonly ScheduleWarning[]
  /** What a change of the clock did to one of the planned times; null when nothing. */
  dstNote(timeMs: number): string | null
  /**
   * The same under calendars. Its planned times are those that run and those that do not, and what the latter
   * are moved to; `exclusionOf` tells them apart.
   */
  under(calendars: Calendars): Result<Schedule, readonly ScheduleFault[]>
  /** Why a planned time does not run, and where it was moved to; null where it runs. */
  exclusionOf(timeMs: number): TimeExclusion | null
  /** Up to `limit` planned times strictly after `afterMs` that run, and those on the way that do not. */
  runningAfter(afterMs: number, limit: number): KeptTimes
  /** The same going back from `beforeMs`, latest first. */
  runningBefore(beforeMs: number, limit: number): KeptTimes
  /** `runningAfter` under calendars that nothing is moved for. */
  nextOutside(calendars: Omit<Calendars, 'onExcluded'>, afterMs: number, limit: number): KeptTimes
  /** The same going back from `beforeMs`, latest first. */
  previousOutside(calendars: Omit<Calendars, 'onExcluded'>, beforeMs: number, limit: number): KeptTimes
}

let opened: ZoneSource | undefined

/** The zone data that is used where none is given; opened at the first call and kept. */
export function usualZones(): ZoneSource {
  opened ??= openZoneSource()
  return opened
}

/** Compiles a schedule, or says all that is wrong with it. A time that never comes is refused too. */
export function compile(
  spec: ScheduleSpec,
  options: CompileOptions = {},
): Result<Schedule, readonly ScheduleFault[]> {
  const { zones = usualZones(), ...bounds } = options
  const result = compileScheduleIn(spec, zones, bounds)
  return result.ok ? succeed(scheduleOf(spec, result.value, zones)) : result
}

function scheduleOf(spec: ScheduleSpec, times: CompiledSchedule, zones: ZoneLookup): Schedule {
  const under = ({ skipOn = [], onlyOn = [], onExcluded = 'skip' }: Calendars) => {
    const zone = resolveZone(zones, times.zoneName)
    if (!zone.ok) return refuse([{ pointer: '/zone', message: zone.error }])
    return withCalendars(times, zone.value, { skipOn, onlyOn, onExcluded })
  }
  // Nothing is refused where nothing is moved.
  const skipping = ({ skipOn = [], onlyOn = [] }: Omit<Calendars, 'onExcluded'>): CompiledSchedule => {
    const found = under({ skipOn, onlyOn })
    return found.ok ? found.value : times
  }
  return {
    kind: times.kind,
    zoneName: times.zoneName,
    next: (afterMs) => times.next(afterMs),
    previous: (beforeMs) => times.previous(beforeMs),
    between: (afterMs, untilMs, limit) => times.between(afterMs, untilMs, limit),
    countBetween: (afterMs, untilMs) => times.countBetween(afterMs, untilMs),
    describe: () => describeCompiled(spec, times),
    warnings: (fromMs) => warningsOf(spec, times, fromMs),
    dstNote: (timeMs) => dstNoteOf(times, timeMs),
    under(calendars) {
      const found = under(calendars)
      return found.ok ? succeed(scheduleOf(spec, found.value, zones)) : found
    },
    exclusionOf: (timeMs) => times.exclusionOf?.(timeMs) ?? null,
    runningAfter: (afterMs, limit) => keptTimes(times, 'next', afterMs, limit),
    runningBefore: (beforeMs, limit) => keptTimes(times, 'previous', beforeMs, limit),
    nextOutside: (calendars, afterMs, limit) => keptTimes(skipping(calendars), 'next', afterMs, limit),
    previousOutside: (calendars, beforeMs, limit) =>
      keptTimes(skipping(calendars), 'previous', beforeMs, limit),
  }
}

/**
 * Compiles a calendar of holidays, blackouts or business days from a value of the form `CalendarDefinition`,
 * as read from YAML or JSON: unknown fields and wrong types are faults. `zoneName` is the schedule's zone,
 * used where the calendar names none; `fallbackName` its name where it gives none.
 */
export function compileCalendar(
  value: unknown,
  options: { readonly zoneName?: string; readonly fallbackName?: string; readonly zones?: ZoneLookup } = {},
): Result<CompiledCalendar, readonly ScheduleFault[]> {
  const { zoneName = DEFAULT_ZONE, fallbackName = 'calendar', zones = usualZones() } = options
  const zone = resolveZone(zones, zoneName)
  if (!zone.ok) return refuse([{ pointer: '/zone', message: zone.error }])
  const definition = readCalendar(value, fallbackName)
  return definition.ok ? compileDefinition(definition.value, zones, zone.value) : definition
}
