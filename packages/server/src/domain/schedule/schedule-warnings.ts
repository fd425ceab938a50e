// What people misread in a schedule that is right as it stands: each warning is a code and one sentence that
// says what will happen and what to write instead. Nothing here refuses anything.

import { DAY_MS, daysInMonth } from '../zone/civil-date.ts'
import { segmentAt, type ZoneRules } from '../zone/zone-rules.ts'
import { LAST_YEAR } from './cron-dialect.ts'
import { type CronPlan, yearSpan } from './cron-plan.ts'
import { type DstPolicy, holdsTimeInGap, MAX_GAP_MS } from './cron-search.ts'
import { clockOf, dateOf, ordinal } from './describe-plan.ts'
import { keptTimes } from '../calendar/kept-times.ts'
import type { CompiledSchedule, ScheduleSpec } from './schedule-spec.ts'
import { bitsOf, goesRound, hoursOf, minutesOf, patternOf, secondsOf } from './value-pattern.ts'
import { previousLocal } from './wall-time.ts'

export type WarningCode =
  | 'both_day_fields'
  | 'step_restarts'
  | 'every_minute'
  | 'every_second'
  | 'dst_gap'
  | 'dst_overlap'
  | 'hot_spot'
  | 'short_months'
  | 'leap_day'
  | 'weekday_numbers'
  | 'no_seed'
  | 'last_year'
  | 'day_of_24_hours'
  | 'nothing_left'
  | 'nothing_runs'
  | 'wall_time'
  | 'calendar_over'

/** `atMs` is the instant that the warning is about, where there is one. */
export type ScheduleWarning = {
  readonly code: WarningCode
  readonly message: string
  readonly atMs: number | null
}

/** How far ahead changes of the clock are looked for. */
const AHEAD_MS = 400 * DAY_MS
/** A calendar that ends this soon is told of. */
const CALENDAR_AHEAD_MS = 31 * DAY_MS
const LEAP_YEAR = 2_000

/** `fromMs` is the present, from which changes of the clock and what is left are looked at. */
export function warningsOf(
  spec: ScheduleSpec,
  compiled: CompiledSchedule,
  fromMs: number,
): readonly ScheduleWarning[] {
  const { timing } = compiled
  const found: (ScheduleWarning | undefined)[] = []
  if (compiled.next(fromMs) === null) found.push(warning('nothing_left', 'no planned time is left'))
  if (timing.kind === 'at')
    found.push(...compiled.notes.map((note) => warning('wall_time', note, timing.instantMs)))
  if (timing.kind === 'rate') found.push(longDay(timing.everyMs, spec))
  if (timing.kind === 'plan') {
    const { plan, policy, zone } = timing
    const text = spec.kind === 'cron' ? spec.expression : ''
    found.push(
      bothDayFields(plan, spec),
      ...restartingSteps(plan, text),
      everyMinute(plan),
      hotSpot(plan, text),
      shortMonths(plan),
      leapDay(plan, compiled, fromMs),
      weekdayNumbers(spec),
      noSeed(spec),
      lastYear(plan),
      gapAhead(plan, policy, zone, fromMs),
      overlapAhead(plan, policy, zone, fromMs),
    )
  }
  found.push(nothingRuns(compiled, fromMs), ...endedCalendars(compiled, fromMs))
  return found.filter((each) => each !== undefined)
}

/** A calendar may be changed so that it leaves a schedule nothing. */
function nothingRuns(compiled: CompiledSchedule, fromMs: number): ScheduleWarning | undefined {
  if (compiled.exclusionOf === undefined) return undefined
  const { times, excluded, complete, lookedToMs } = keptTimes(compiled, 'next', fromMs, 1)
  if (times.length > 0 || excluded.length === 0) return undefined
  const all = complete
    ? 'every planned time'
    : `every planned time up to ${new Date(lookedToMs).toISOString()}`
  return warning('nothing_runs', `the calendars leave out ${all}: nothing runs`)
}

/** A list of holidays ends with the year that somebody wrote it for, and nobody notices. */
function endedCalendars({ calendars }: CompiledSchedule, fromMs: number): readonly ScheduleWarning[] {
  return [...(calendars?.skipOn ?? []), ...(calendars?.onlyOn ?? [])].flatMap(({ name, endMs }) => {
    if (endMs > fromMs + CALENDAR_AHEAD_MS) return []
    const last = `the calendar ${name} covers nothing after ${new Date(endMs - 1).toISOString().slice(0, 10)}`
    return [warning('calendar_over', `${last}: add what is to come`, endMs)]
  })
}

function warning(code: WarningCode, message: string, atMs: number | null = null): ScheduleWarning {
  return { code, message, atMs }
}

function bothDayFields({ choice, interval }: CronPlan, spec: ScheduleSpec): ScheduleWarning | undefined {
  if (choice.anyDay || choice.anyWeekday || interval !== null || spec.kind !== 'cron') return undefined
  if (choice.dayMatch === 'or') {
    const either = 'both day fields are set, and a day that matches either of them is enough'
    return warning('both_day_fields', `${either}: for days that match both, set dayMatch to "and"`)
  }
  if (spec.dayMatch === 'and' || spec.dialect === 'systemd') return undefined
  return warning('both_day_fields', 'both day fields are set: only days that match both are taken')
}

function restartingSteps(plan: CronPlan, text: string): readonly (ScheduleWarning | undefined)[] {
  if (!text.includes('/')) return []
  const step = (
    values: readonly number[],
    min: number,
    size: number,
    unit: string,
    whole: string,
  ): ScheduleWarning | undefined => {
    const pattern = patternOf(values, min, size)
    if (pattern.kind !== 'steps' || pattern.by === 1 || goesRound(pattern, min, size)) return undefined
    if (pattern.from - min >= pattern.by || min + size - pattern.to > pattern.by) return undefined
    const gap = size - pattern.to + pattern.from
    const again = `the step of ${pattern.by} begins anew with each ${whole}`
    const later = `${gap} ${unit}${gap === 1 ? '' : 's'} later`
    const jump = `after ${unit} ${pattern.to} comes ${unit} ${pattern.from}, ${later}`
    return warning('step_restarts', `${again}: ${jump}; for an even distance use a rate`)
  }
  const days = bitsOf(plan.choice.days, 0).map((bit) => bit + 1)
  const dayPattern = plan.choice.anyDay ? undefined : patternOf(days, 1, 31)
  return [
    step(secondsOf(plan), 0, 60, 'second', 'minute'),
    step(minutesOf(plan), 0, 60, 'minute', 'hour'),
    step(hoursOf(plan), 0, 24, 'hour', 'day'),
    dayPattern?.kind === 'steps' && dayPattern.by > 1 && dayPattern.to + dayPattern.by > 31
      ? warning(
          'step_restarts',
          `the step of ${dayPattern.by} days begins anew with each month, on day ${dayPattern.from}; ` +
            `for an even distance write "every ${dayPattern.by} days"`,
        )
      : undefined,
  ]
}

function everyMinute(plan: CronPlan): ScheduleWarning | undefined {
  if (plan.times !== null) return undefined
  const [hours, minutes, seconds] = [hoursOf(plan), minutesOf(plan), secondsOf(plan)]
  if (seconds.length === 60)
    return warning(
      'every_second',
      `it starts every second, ${plan.timesPerDay.toLocaleString('en')} times a day`,
    )
  if (minutes.length !== 60 || hours.length === 24) return undefined
  const [hour = 0] = hours
  const where = hours.length === 1 ? `hour ${hour}` : `${hours.length} hours`
  const once = `for once an hour write a minute, such as 0`
  return warning(
    'every_minute',
    `it starts every minute of ${where}, ${plan.timesPerDay} times a day: ${once}`,
  )
}

function hotSpot(plan: CronPlan, text: string): ScheduleWarning | undefined {
  const times = plan.times ?? []
  const [minutes, seconds] = [minutesOf(plan), secondsOf(plan)]
  const listed = times.length > 0 && times.every((time) => time % 3_600 === 0)
  const sharp = minutes.length === 1 && minutes[0] === 0 && seconds.length === 1 && seconds[0] === 0
  if ((!listed && !sharp) || /\bH\b/.test(text)) return undefined
  const crowd = 'it starts on the full hour, when most schedules do'
  return warning('hot_spot', `${crowd}: another minute or a jitter spreads the load`)
}

function shortMonths({ choice, months }: CronPlan): ScheduleWarning | undefined {
  const low28 = 0xfffffff
  if (choice.anyDay || !choice.anyWeekday || choice.specialDays.length > 0) return undefined
  if ((choice.days & low28) !== 0 || months === 1 << 2) return undefined
  const [day = 29] = bitsOf(choice.days, 0).map((bit) => bit + 1)
  const short = bitsOf(months, 0).some((month) => day > daysInMonth(LEAP_YEAR, month))
  if (!short) return undefined
  const left = `months without a ${ordinal(day)} are left out`
  return warning('short_months', `${left}: for the end of each month choose its last day`)
}

function leapDay(
  { choice, months }: CronPlan,
  compiled: CompiledSchedule,
  fromMs: number,
): ScheduleWarning | undefined {
  if (months !== 1 << 2 || choice.days !== 1 << 28 || !choice.anyWeekday || choice.specialDays.length > 0)
    return undefined
  const nextMs = compiled.next(fromMs)
  const when = nextMs === null ? '' : `, next in ${new Date(nextMs).getUTCFullYear()}`
  return warning('leap_day', `29 February comes in leap years only${when}`, nextMs)
}

function weekdayNumbers(spec: ScheduleSpec): ScheduleWarning | undefined {
  if (spec.kind !== 'cron' || (spec.dialect !== 'quartz' && spec.dialect !== 'eventbridge')) return undefined
  const fields = spec.expression
    .replace(/^\s*cron\(/, '')
    .trim()
    .split(/[ \t]+/)
  const weekday = fields[spec.dialect === 'quartz' ? 5 : 4] ?? ''
  if (!/(?:^|[,-])[1-7]/.test(weekday)) return undefined
  return warning(
    'weekday_numbers',
    'in this dialect 1 is Sunday and 7 is Saturday: names such as MON are clearer',
  )
}

function noSeed(spec: ScheduleSpec): ScheduleWarning | undefined {
  if (spec.kind !== 'cron' || spec.dialect !== 'jenkins' || spec.seed !== undefined) return undefined
  if (!/H|@/.test(spec.expression)) return undefined
  return warning(
    'no_seed',
    "H is drawn from an empty seed here: with the schedule's own id the times will differ",
  )
}

function lastYear(plan: CronPlan): ScheduleWarning | undefined {
  const span = yearSpan(plan)
  // A step that merely does not reach the very last year is no end that anybody waits for.
  if (span === undefined || span.last >= LAST_YEAR - 50) return undefined
  return warning('last_year', `it ends with the year ${span.last}`)
}

function longDay(everyMs: number, spec: ScheduleSpec): ScheduleWarning | undefined {
  if (everyMs % DAY_MS !== 0 || (spec.zone ?? 'UTC') === 'UTC') return undefined
  const drift = 'a day of a rate is 24 hours, so the hour changes with daylight saving'
  const days = everyMs / DAY_MS
  return warning(
    'day_of_24_hours',
    `${drift}: write "every ${days === 1 ? 'day' : `${days} days`} at …" to keep it`,
  )
}

/** The first change of the clock ahead for which `wanted` holds: its instant, the local times around it. */
function changeAhead(
  zone: ZoneRules,
  fromMs: number,
  wanted: (index: number, fromLocalMs: number, toLocalMs: number) => boolean,
): { readonly atMs: number; readonly fromLocalMs: number; readonly toLocalMs: number } | undefined {
  const { startsMs, offsetsMs } = zone.timeline
  for (let i = segmentAt(zone.timeline, fromMs) + 1; i < offsetsMs.length; i++) {
    const atMs = startsMs[i] ?? Infinity
    if (atMs > fromMs + AHEAD_MS) return undefined
    const fromLocalMs = atMs + (offsetsMs[i - 1] ?? 0)
    const toLocalMs = atMs + (offsetsMs[i] ?? 0)
    if (wanted(i, fromLocalMs, toLocalMs)) return { atMs, fromLocalMs, toLocalMs }
  }
  return undefined
}

function gapAhead(
  plan: CronPlan,
  policy: DstPolicy,
  zone: ZoneRules,
  fromMs: number,
): ScheduleWarning | undefined {
  if (!plan.fixedTime) return undefined
  const change = changeAhead(zone, fromMs, (i) => holdsTimeInGap(plan, zone.timeline, i))
  if (!change) return undefined
  const { atMs, fromLocalMs, toLocalMs } = change
  const lost = wallOf(previousLocal(plan, fromLocalMs, toLocalMs))
  const [before, after] = [wallOf(fromLocalMs).clock, wallOf(toLocalMs).clock]
  const leap = `on ${lost.date} the clock leaps from ${before} to ${after}`
  const then = policy.gap === 'skip' ? 'is left out' : `runs at ${after}`
  return warning('dst_gap', `${leap} in ${zone.name}: what is planned for ${lost.clock} ${then}`, atMs)
}

function overlapAhead(
  plan: CronPlan,
  policy: DstPolicy,
  zone: ZoneRules,
  fromMs: number,
): ScheduleWarning | undefined {
  if (!plan.fixedTime) return undefined
  const change = changeAhead(zone, fromMs, (_, seenMs, startMs) => {
    const backMs = seenMs - startMs
    return backMs > 0 && backMs <= MAX_GAP_MS && previousLocal(plan, startMs, seenMs) >= startMs
  })
  if (!change) return undefined
  const { atMs, fromLocalMs, toLocalMs } = change
  const twice = wallOf(previousLocal(plan, toLocalMs, fromLocalMs))
  const then = policy.overlap === 'both' ? 'runs both times' : 'runs the first time only'
  return warning(
    'dst_overlap',
    `on ${twice.date} ${twice.clock} comes twice in ${zone.name}: it ${then}`,
    atMs,
  )
}

/** Date and time of day of a wall time. */
export function wallOf(localMs: number): { readonly date: string; readonly clock: string } {
  const dayNo = Math.floor(localMs / DAY_MS)
  return { date: dateOf(dayNo), clock: clockOf(Math.floor((localMs - dayNo * DAY_MS) / 1_000)) }
}
