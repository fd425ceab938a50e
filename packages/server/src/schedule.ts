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
import { type Calendars, type KeptTimes, keptTimes } from './domain/calendar/kept-times.ts'
import { describeCompiled } from './domain/schedule/describe-schedule.ts'
import { dstNoteOf } from './domain/schedule/dst-note.ts'
import type { ScheduleFault } from './domain/schedule/schedule-fault.ts'
import {
  compileScheduleIn,
  DEFAULT_ZONE,
  type ScheduleBounds,
  type ScheduleSpec,
} from './domain/schedule/schedule-spec.ts'
import type { TimesCount } from './domain/schedule/schedule-times.ts'
import { type ScheduleWarning, warningsOf } from './domain/schedule/schedule-warnings.ts'
import { refuse, type Result, succeed } from './domain/zone/result.ts'
import { resolveZone, type ZoneLookup } from './domain/zone/zone-lookup.ts'
import type { ZoneSource } from './ports/zones.ts'

export type { ZoneSourceOptions } from './adapters/zones/zone-source.ts'
export type { CalendarWindow } from './domain/calendar/calendar-definition.ts'
export type { ExcludedTime } from './domain/calendar/kept-times.ts'
export { parseAt } from './domain/schedule/at-time.ts'
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
  Calendars,
  CompiledCalendar,
  KeptTimes,
  Result,
  ScheduleBounds,
  ScheduleFault,
  ScheduleSpec,
  ScheduleWarning,
  TimesCount,
  ZoneLookup,
  ZoneSource,
}

export type CompileOptions = ScheduleBounds & {
  /** Where zones come from; left out, the newer of the system's data and the release in this package. */
  readonly zones?: ZoneLookup
}

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
  /** Up to `limit` planned times strictly after `afterMs` that calendars leave, and those they take away. */
  nextOutside(calendars: Calendars, afterMs: number, limit: number): KeptTimes
  /** The same going back from `beforeMs`, latest first. */
  previousOutside(calendars: Calendars, beforeMs: number, limit: number): KeptTimes
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
  if (!result.ok) return result
  const times = result.value
  const next = (afterMs: number): number | null => times.next(afterMs)
  const previous = (beforeMs: number): number | null => times.previous(beforeMs)
  return succeed({
    kind: times.kind,
    zoneName: times.zoneName,
    next,
    previous,
    between: (afterMs, untilMs, limit) => times.between(afterMs, untilMs, limit),
    countBetween: (afterMs, untilMs) => times.countBetween(afterMs, untilMs),
    describe: () => describeCompiled(spec, times),
    warnings: (fromMs) => warningsOf(spec, times, fromMs),
    dstNote: (timeMs) => dstNoteOf(times, timeMs),
    nextOutside: (calendars, afterMs, limit) => keptTimes(next, afterMs, limit, calendars),
    previousOutside: (calendars, beforeMs, limit) => keptTimes(previous, beforeMs, limit, calendars),
  })
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
