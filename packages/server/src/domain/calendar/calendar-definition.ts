// Named calendars: holidays, blackout windows, business days. A schedule leaves out the times that one
// covers (skipOn) or keeps only those (onlyOn). A calendar is data as people write it, compiled once into
// days, spans and recurrences on the wall clock of its zone, so that "is this instant covered?" is a look-up.

import { DAY_MS } from '../zone/civil-date.ts'
import { refuse, type Result, succeed } from '../zone/result.ts'
import { resolveZone, type ZoneLookup } from '../zone/zone-lookup.ts'
import type { ZoneRules } from '../zone/zone-rules.ts'
import type { CronDialect } from '../schedule/cron-dialect.ts'
import { parseCron } from '../schedule/cron-parser.ts'
import type { CronPlan } from '../schedule/cron-plan.ts'
import { FIXED_TIME_POLICY, INTERVAL_POLICY, previousOfCron } from '../schedule/cron-search.ts'
import { fault, type ScheduleFault } from '../schedule/schedule-fault.ts'
import { previousLocal } from '../schedule/wall-time.ts'
import { parseLocal, parseMonthDay, weekdayBits } from './calendar-dates.ts'
import { type CalendarSpan, type Recurrence, readIcs } from './ics-reader.ts'

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
}

const MAX_ENTRIES = 5_000
const MAX_WINDOWS = 50
const MAX_WINDOW_MINUTES = 366 * 1_440
/** Longer spans are kept as spans; shorter ones of whole days become days. */
const MAX_LISTED_DAYS = 400

type Window = { readonly plan: CronPlan; readonly durationMs: number; readonly label: string }

/** Everything in wall time of the calendar's zone. */
type Covered = {
  readonly days: Map<number, string>
  readonly yearly: Map<number, string>
  weekdays: number
  readonly spans: CalendarSpan[]
  readonly recurrences: Recurrence[]
  readonly windows: Window[]
}

export function compileCalendar(
  definition: CalendarDefinition,
  zones: ZoneLookup,
  scheduleZone: ZoneRules,
): Result<CompiledCalendar, readonly ScheduleFault[]> {
  const named = definition.zone === undefined ? succeed(scheduleZone) : resolveZone(zones, definition.zone)
  if (!named.ok) return refuse([fault('/zone', named.error)])
  const zone = named.value
  const faults: ScheduleFault[] = []
  const covered: Covered = {
    days: new Map(),
    yearly: new Map(),
    weekdays: 0,
    spans: [],
    recurrences: [],
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
  return succeed({ name: definition.name, covers: (instantMs) => reasonFor(covered, zone, instantMs) })
}

function reasonFor(covered: Covered, zone: ZoneRules, instantMs: number): string | null {
  const localMs = instantMs + zone.offsetAt(instantMs)
  const dayNo = Math.floor(localMs / DAY_MS)
  const day = covered.days.get(dayNo)
  if (day !== undefined) return day
  const date = new Date(dayNo * DAY_MS)
  const yearly = covered.yearly.get((date.getUTCMonth() + 1) * 32 + date.getUTCDate())
  if (yearly !== undefined) return yearly
  if (((covered.weekdays >>> date.getUTCDay()) & 1) === 1) {
    return (
      ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday'][date.getUTCDay()] ?? ''
    )
  }
  const span = covered.spans.find(({ fromMs, toMs }) => fromMs <= localMs && localMs < toMs)
  if (span) return span.label
  for (const { plan, durationMs, untilMs, except, label } of covered.recurrences) {
    const startMs = previousLocal(plan, localMs - durationMs + 1, Math.min(localMs, untilMs) + 1)
    if (startMs !== Number.NEGATIVE_INFINITY && !except.has(startMs)) return label
  }
  for (const { plan, durationMs, label } of covered.windows) {
    const policy = plan.fixedTime ? FIXED_TIME_POLICY : INTERVAL_POLICY
    const startMs = previousOfCron(plan, zone.timeline, policy, instantMs + 1)
    if (startMs !== null && instantMs < startMs + durationMs) return label
  }
  return null
}

function isEmpty(covered: Covered): boolean {
  const { days, yearly, weekdays, spans, recurrences, windows } = covered
  return days.size + yearly.size + spans.length + recurrences.length + windows.length === 0 && weekdays === 0
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
    if (local?.wholeDay) covered.days.set(local.localMs / DAY_MS, text.trim())
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
    else addSpan(covered, { fromMs: from.localMs, toMs, label: `${range.from} to ${range.to}` })
  }
}

/** Short spans of whole days are looked up by day, which stays fast however many there are. */
function addSpan(covered: Covered, span: CalendarSpan): void {
  const firstDay = span.fromMs / DAY_MS
  const days = (span.toMs - span.fromMs) / DAY_MS
  if (!Number.isInteger(firstDay) || !Number.isInteger(days) || days > MAX_LISTED_DAYS)
    covered.spans.push(span)
  else for (let day = firstDay; day < firstDay + days; day++) covered.days.set(day, span.label)
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
  for (const span of events.value.spans) addSpan(covered, span)
  covered.recurrences.push(...events.value.recurrences)
}

function shown(text: string): string {
  return JSON.stringify(text.length > 40 ? `${text.slice(0, 40)}…` : text)
}
