// Named calendars: holidays, blackout windows, business days. A schedule leaves out the times that one covers
// (skipOn) or keeps only those (onlyOn). A calendar is data as people write it, compiled once into spans on
// the wall clock of its zone (local-cover.ts) and windows of real time (window-cover.ts), so that "is this
// instant covered, and for how long?" is a look-up.

import { DAY_MS } from '../zone/civil-date.ts'
import { refuse, type Result, succeed } from '../zone/result.ts'
import { resolveZone, type ZoneLookup } from '../zone/zone-lookup.ts'
import { cycleShiftMs, segmentAt, type ZoneRules, type ZoneTimeline } from '../zone/zone-rules.ts'
import type { CronDialect } from '../schedule/cron-dialect.ts'
import { parseCron } from '../schedule/cron-parser.ts'
import { fault, type ScheduleFault } from '../schedule/schedule-fault.ts'
import { parseLocal, parseMonthDay, weekdayBits } from './calendar-dates.ts'
import { readIcs } from './ics-reader.ts'
import {
  type CalendarSpan,
  type LocalCover,
  makeLocalCover,
  MAX_KEPT_SPANS,
  type Recurrence,
} from './local-cover.ts'
import { type CoverWindow, makeWindowCover } from './window-cover.ts'

export type CalendarDefinition = {
  readonly name: string
  /** IANA name; the schedule's zone when left out. */
  readonly zone?: string
  /** Whole days: 2026-12-25. */
  readonly dates?: readonly string[]
  /** Dates include both days; wall times (2026-12-24T12:00) run up to the end, which is not in. */
  readonly ranges?: readonly { readonly from: string; readonly to: string }[]
  /** Month and day of every year: 12-25. 02-29 comes in leap years only. */
  readonly yearly?: readonly string[]
  /** Whole weekdays: sat, sunday; or business_days for Monday to Friday. */
  readonly weekdays?: readonly string[]
  /** From each time of a cron expression, for so many minutes. */
  readonly windows?: readonly CalendarWindow[]
  /** The text of an iCalendar file: each of its events is covered. */
  readonly ics?: string
}

export type CalendarWindow = {
  readonly cron: string
  readonly dialect?: CronDialect
  readonly minutes: number
}

export type CompiledCalendar = {
  readonly name: string
  /** Why the instant is covered, in a few words such as "2026-12-25" or "Christmas"; null when it is not. */
  covers(instantMs: number): string | null
  /** An instant up to which it goes on to cover, or not to cover, as at `instantMs`; it may go on further. */
  steadyUntil(instantMs: number): number
  /** The end of the last thing that it covers; Infinity where something comes again for ever. */
  readonly endMs: number
  /** How dear a look may be, 1 for what is found at once: what bounds a search over many days. */
  readonly effort: number
}

const MAX_ENTRIES = 5_000
const MAX_WINDOWS = 50
const MAX_WINDOW_MINUTES = 366 * 1_440
/** Events that repeat have to be laid out for each stretch of days; so many cost as much as a window. */
const CHEAP_STARTS = 100
const CHEAP_RECURRENCES = 25
/** Their wall times are worked out for each zone again. */
const MAX_INSTANTS = 2_000

/** Everything but the windows in wall time of the calendar's zone. */
type Covered = {
  readonly spans: CalendarSpan[]
  readonly yearly: Map<number, string>
  weekdays: number
  readonly recurrences: Recurrence[]
  starts: number
  instants: number
  readonly windows: CoverWindow[]
}

/** A definition that was read: all that does not depend on the zone of a schedule. */
export type CalendarParts = {
  /** Its own zone; undefined where it takes that of the schedule. */
  readonly zone: ZoneRules | undefined
  /** Whether it says the same on the wall clock of every zone. */
  readonly everyZone: boolean
  readonly local: LocalCover
  readonly windows: readonly CoverWindow[]
  readonly effort: number
  /** About how much memory it takes, what it keeps of its looks included. */
  readonly bytes: number
}

/** In one zone; where that is the schedule's, others may share the parts (`everyZone`). */
export function compileCalendar(
  definition: CalendarDefinition,
  zones: ZoneLookup,
  scheduleZone: ZoneRules,
): Result<CompiledCalendar, readonly ScheduleFault[]> {
  const parts = readParts(definition, zones, scheduleZone)
  return parts.ok ? succeed(calendarIn(definition.name, parts.value, scheduleZone)) : parts
}

export function readParts(
  definition: CalendarDefinition,
  zones: ZoneLookup,
  scheduleZone: ZoneRules,
): Result<CalendarParts, readonly ScheduleFault[]> {
  const named = definition.zone === undefined ? succeed(scheduleZone) : resolveZone(zones, definition.zone)
  if (!named.ok) return refuse([fault('/zone', named.error)])
  const zone = named.value
  const faults: ScheduleFault[] = []
  const covered: Covered = {
    spans: [],
    yearly: new Map(),
    weekdays: 0,
    recurrences: [],
    starts: 0,
    instants: 0,
    windows: [],
  }
  checkSizes(definition, faults)
  if (faults.length === 0) {
    addDates(definition, covered, faults)
    addRanges(definition, covered, faults)
    addWindows(definition, covered, faults)
    addIcs(definition, covered, zones, zone, faults)
  }
  if (faults.length > 0) return refuse(faults)
  if (isEmpty(covered))
    return refuse([fault('', 'the calendar is empty: give dates, ranges or another part')])
  return succeed(partsOf(covered, definition.zone === undefined ? undefined : zone))
}

function partsOf(covered: Covered, zone: ZoneRules | undefined): CalendarParts {
  const local = makeLocalCover(covered)
  const { windows, recurrences, starts, instants } = covered
  const again = starts / CHEAP_STARTS + recurrences.length / CHEAP_RECURRENCES
  return {
    zone,
    everyZone: zone !== undefined || instants === 0,
    local,
    windows,
    effort: 1 + windows.length + Math.floor(again),
    bytes: (local.fixed + MAX_KEPT_SPANS) * 100 + (recurrences.length + windows.length) * 1_000,
  }
}

export function calendarIn(name: string, parts: CalendarParts, scheduleZone: ZoneRules): CompiledCalendar {
  const { local, effort, zone = scheduleZone } = parts
  const windows = parts.windows.map((window) => makeWindowCover(window, zone.timeline))
  return {
    name,
    endMs:
      windows.length > 0 || local.endMs === Infinity ? Infinity : zone.resolveLocal(local.endMs).instantMs,
    effort,
    covers(instantMs) {
      const { why } = local.look(instantMs + zone.offsetAt(instantMs))
      return why ?? windows.find((window) => window.look(instantMs).covered)?.label ?? null
    },
    steadyUntil(instantMs) {
      const localMs = instantMs + zone.offsetAt(instantMs)
      const look = local.look(localMs)
      const steadyMs = Math.min(instantMs + look.untilMs - localMs, offsetUntil(zone.timeline, instantMs))
      if (look.why !== null) return steadyMs
      const stretches = windows.map((window) => window.look(instantMs))
      const open = stretches.filter(({ covered: isOpen }) => isOpen)
      return open.length > 0
        ? Math.max(...open.map(({ untilMs }) => untilMs))
        : Math.min(steadyMs, ...stretches.map(({ untilMs }) => untilMs))
    },
  }
}

/** Up to when the zone keeps the offset that it has at the instant. */
function offsetUntil(timeline: ZoneTimeline, instantMs: number): number {
  const shiftMs = cycleShiftMs(timeline, instantMs)
  return (timeline.startsMs[segmentAt(timeline, instantMs - shiftMs) + 1] ?? Infinity) + shiftMs
}

function isEmpty({ spans, yearly, weekdays, recurrences, windows }: Covered): boolean {
  return spans.length + yearly.size + recurrences.length + windows.length === 0 && weekdays === 0
}

function checkSizes(definition: CalendarDefinition, faults: ScheduleFault[]): void {
  const { dates = [], ranges = [], yearly = [], windows = [] } = definition
  if (dates.length + ranges.length + yearly.length > MAX_ENTRIES)
    faults.push(fault('/dates', `a calendar has at most ${MAX_ENTRIES} dates, ranges and yearly dates`))
  if (windows.length > MAX_WINDOWS)
    faults.push(fault('/windows', `a calendar has at most ${MAX_WINDOWS} windows`))
}

function addDates(definition: CalendarDefinition, covered: Covered, faults: ScheduleFault[]): void {
  for (const [i, text] of (definition.dates ?? []).entries()) {
    const local = parseLocal(text)
    if (local?.wholeDay) covered.spans.push(daySpan(local.localMs, text.trim()))
    else faults.push(fault(`/dates/${i}`, `${shown(text)} is not a date: write it as 2026-12-25`))
  }
  for (const [i, text] of (definition.yearly ?? []).entries()) {
    const monthDay = parseMonthDay(text)
    if (monthDay) covered.yearly.set(monthDay.month * 32 + monthDay.day, `every ${text.trim()}`)
    else faults.push(fault(`/yearly/${i}`, `${shown(text)} is not a month and a day: write it as 12-25`))
  }
  for (const [i, text] of (definition.weekdays ?? []).entries()) {
    const bits = weekdayBits(text)
    if (bits === 0)
      faults.push(fault(`/weekdays/${i}`, `${shown(text)} is no weekday: write sat, sunday or business_days`))
    covered.weekdays |= bits
  }
}

function addRanges(definition: CalendarDefinition, covered: Covered, faults: ScheduleFault[]): void {
  for (const [i, range] of (definition.ranges ?? []).entries()) {
    const from = parseLocal(range.from)
    const to = parseLocal(range.to)
    if (!from || !to) {
      const form = 'write both ends as 2026-12-24, or as 2026-12-24T12:00'
      faults.push(fault(`/ranges/${i}/${from ? 'to' : 'from'}`, form))
      continue
    }
    const toMs = to.wholeDay ? to.localMs + DAY_MS : to.localMs
    if (toMs <= from.localMs) faults.push(fault(`/ranges/${i}/to`, 'the range ends before it begins'))
    else covered.spans.push({ fromMs: from.localMs, toMs, label: `${range.from} to ${range.to}` })
  }
}

function daySpan(fromMs: number, label: string): CalendarSpan {
  return { fromMs, toMs: fromMs + DAY_MS, label }
}

function addWindows(definition: CalendarDefinition, covered: Covered, faults: ScheduleFault[]): void {
  for (const [i, { cron, dialect, minutes }] of (definition.windows ?? []).entries()) {
    const plan = parseCron(cron, dialect ?? 'unix')
    if (!plan.ok) {
      faults.push(...plan.error.map(({ pointer, message }) => fault(`/windows/${i}${pointer}`, message)))
    } else if (!Number.isInteger(minutes) || minutes < 1 || minutes > MAX_WINDOW_MINUTES) {
      faults.push(fault(`/windows/${i}/minutes`, `a window lasts 1 to ${MAX_WINDOW_MINUTES} whole minutes`))
    } else {
      const label = `${minutes} minutes from ${cron.trim()}`
      covered.windows.push({ plan: plan.value, durationMs: minutes * 60_000, label })
    }
  }
}

function addIcs(
  definition: CalendarDefinition,
  covered: Covered,
  zones: ZoneLookup,
  zone: ZoneRules,
  faults: ScheduleFault[],
): void {
  if (definition.ics === undefined) return
  const events = readIcs(definition.ics, zones, zone)
  if (!events.ok) {
    faults.push(fault('/ics', events.error))
    return
  }
  for (const span of events.value.spans) covered.spans.push(span)
  for (const recurrence of events.value.recurrences) covered.recurrences.push(recurrence)
  covered.starts = events.value.starts
  covered.instants = events.value.instants
  if (definition.zone === undefined && covered.instants > MAX_INSTANTS) {
    const many = `more than ${MAX_INSTANTS} times are in UTC or in a zone that is named with them`
    faults.push(fault('/ics', `${many}: give the calendar a zone of its own ("zone")`))
  }
}

function shown(text: string): string {
  return JSON.stringify(text.length > 40 ? `${text.slice(0, 40)}…` : text)
}
