// A bounded reader of iCalendar (RFC 5545), as far as holidays and blackouts need it: VEVENTs with DTSTART,
// DTEND or DURATION, RRULE, EXDATE, RDATE, RECURRENCE-ID and STATUS. Times become wall times of the
// calendar's zone. What the reader does not know and what would change the days is refused, never left out in
// silence.

import { DAY_MS } from '../zone/civil-date.ts'
import { refuse, type Result, succeed } from '../zone/result.ts'
import type { ZoneLookup } from '../zone/zone-lookup.ts'
import type { ZoneRules } from '../zone/zone-rules.ts'
import { countLocals, type SearchMeter } from '../schedule/wall-time.ts'
import { localOf } from './calendar-dates.ts'
import { readRecurrence } from './ics-recurrence.ts'
import { type CalendarSpan, type Recurrence, STRETCH_MS } from './local-cover.ts'
import { ianaOfWindows } from './windows-zones.ts'

export type IcsEvents = {
  readonly spans: readonly CalendarSpan[]
  readonly recurrences: readonly Recurrence[]
  /** How often the events that repeat begin in a stretch of STRETCH_MS, at most. */
  readonly starts: number
  /** Times that are instants, and so wall times that differ from zone to zone. */
  readonly instants: number
}

const MAX_CHARACTERS = 1_000_000
const MAX_EVENTS = 5_000
const MAX_LABEL = 80
const MAX_REPEATED_DAYS = 366
const MAX_REPEATING = 400
/** Starts of all events that repeat in STRETCH_MS: ten times a day. */
const MAX_STARTS = 4_000
const STAMP = /^(\d{4})(\d\d)(\d\d)(?:T(\d\d)(\d\d)(\d\d)(Z)?)?$/

type Property = { readonly name: string; readonly zone: string | undefined; readonly value: string }
type Clock = { readonly zones: ZoneLookup; readonly zone: ZoneRules; instants: number }
/** What was read so far. */
type Read = {
  readonly spans: CalendarSpan[]
  readonly recurrences: Recurrence[]
  readonly meter: SearchMeter
  starts: number
}

/** The error says which line or event (by its number) and what is wrong with it. */
export function readIcs(text: string, zones: ZoneLookup, zone: ZoneRules): Result<IcsEvents, string> {
  if (text.length > MAX_CHARACTERS) return refuse(`the file has more than ${MAX_CHARACTERS} characters`)
  const found = eventsIn(text)
  if (!found.ok) return found
  const events = found.value
  if (events.length === 0) return refuse('the file has no VEVENT: export a calendar as .ics')
  if (events.length > MAX_EVENTS) return refuse(`the file has more than ${MAX_EVENTS} events`)
  const clock: Clock = { zones, zone, instants: 0 }
  const moved = movedStarts(events, clock)
  const read: Read = { spans: [], recurrences: [], starts: 0, meter: { months: 0, segments: 0 } }
  for (const [i, event] of events.entries()) {
    const trouble = readEvent(event, clock, moved, read)
    if (trouble !== undefined) return refuse(`event ${i + 1} (${labelOf(event)}): ${trouble}`)
  }
  return succeed({ ...read, instants: clock.instants })
}

/** The properties of each event; what lies deeper, such as alarms, is none of them. */
function eventsIn(text: string): Result<readonly (readonly Property[])[], string> {
  const events: Property[][] = []
  const open: { readonly part: string; readonly lineNo: number }[] = []
  let current: Property[] | undefined
  for (const { lineNo, line } of unfolded(text)) {
    const property = propertyOf(line)
    if (!property) continue
    const value = property.value.toUpperCase()
    if (/^begin$/i.test(property.name)) {
      open.push({ part: value, lineNo })
      if (value === 'VEVENT') current = []
    } else if (property.name === 'END') {
      const begun = open.pop()
      if (begun === undefined) return refuse(`line ${lineNo}: END:${value} has no BEGIN:${value}`)
      if (begun.part !== value) return refuse(unended(begun))
      if (value === 'VEVENT' && current) {
        events.push(current)
        current = undefined
      }
    } else if (open.at(-1)?.part === 'VEVENT') current?.push(property)
  }
  const begun = open.at(-1)
  return begun === undefined ? succeed(events) : refuse(unended(begun))
}

function unended({ part, lineNo }: { readonly part: string; readonly lineNo: number }): string {
  const shown = part.slice(0, 40)
  return `line ${lineNo}: BEGIN:${shown} has no END:${shown}: the file is cut short, export it again`
}

/** Lines with those that continue them, by the number of the first. */
function unfolded(text: string): { readonly lineNo: number; line: string }[] {
  const lines: { readonly lineNo: number; line: string }[] = []
  for (const [index, line] of text.split(/\r?\n/).entries()) {
    const last = lines.at(-1)
    if (last !== undefined && /^[ \t]/.test(line)) last.line += line.slice(1)
    else lines.push({ lineNo: index + 1, line })
  }
  return lines
}

function propertyOf(line: string): Property | undefined {
  const match = /^([A-Za-z-]+)((?:;[A-Za-z-]+=(?:"[^"]*"|[^":;]*))*):(.*)$/.exec(line)
  if (!match) return undefined
  const [, name = '', parameters = '', value = ''] = match
  const zone = /;TZID=(?:"([^"]*)"|([^;]*))/i.exec(parameters)
  return { name: name.toUpperCase(), zone: zone?.[1] ?? zone?.[2], value: value.trim() }
}

function readEvent(
  event: readonly Property[],
  clock: Clock,
  moved: ReadonlyMap<string, ReadonlySet<number>>,
  read: Read,
): string | undefined {
  if (find(event, 'STATUS')?.value.toUpperCase() === 'CANCELLED') return undefined
  const started = find(event, 'DTSTART')
  const start = started && stampOf(started, started.value, clock)
  if (!started || !start) return 'DTSTART: it is missing'
  if (typeof start === 'string') return `DTSTART: ${start}`
  const durationMs = durationOf(event, start, clock)
  if (typeof durationMs === 'string') return durationMs
  const label = labelOf(event)
  const extra: number[] = []
  const except = new Set(moved.get(find(event, 'UID')?.value ?? ''))
  for (const property of event) {
    if (property.name !== 'EXDATE' && property.name !== 'RDATE') continue
    for (const value of property.value.split(',')) {
      const stamp = stampOf(property, value, clock)
      if (typeof stamp === 'string') return `${property.name}: ${stamp}`
      if (property.name === 'RDATE') extra.push(stamp.localMs)
      else except.add(stamp.localMs)
    }
  }
  const rule = find(event, 'RRULE')
  const single = rule === undefined ? [start.localMs] : []
  for (const fromMs of [...single, ...extra]) read.spans.push({ fromMs, toMs: fromMs + durationMs, label })
  if (!rule) return undefined
  if (durationMs > MAX_REPEATED_DAYS * DAY_MS)
    return `RRULE: an event that repeats lasts at most ${MAX_REPEATED_DAYS} days`
  const until = /(?:^|;)UNTIL=([^;]*)/i.exec(rule.value)?.[1]
  const untilStamp = until === undefined ? undefined : stampOf(started, until, clock)
  if (typeof untilStamp === 'string') return `RRULE: UNTIL: ${untilStamp}`
  const recurrence = readRecurrence(rule.value, start.localMs, read.meter)
  if (!recurrence.ok) return `RRULE: ${recurrence.error}`
  // A last date without a time includes that whole day.
  const untilMs = untilStamp ? untilStamp.localMs + (untilStamp.wholeDay ? DAY_MS - 1 : 0) : Infinity
  const { plan, lastMs } = recurrence.value
  const startMs = start.localMs
  const lastStartMs = Math.min(untilMs, lastMs)
  const endMs = Math.min(lastStartMs + 1, startMs + STRETCH_MS)
  read.starts += countLocals(plan, startMs, endMs)
  if (read.starts > MAX_STARTS) {
    const often = `more than ${MAX_STARTS} times in ${STRETCH_MS / DAY_MS} days`
    return `RRULE: the events up to here begin ${often}: split the file, or write dense ones as "windows"`
  }
  if (read.recurrences.length >= MAX_REPEATING)
    return `RRULE: more than ${MAX_REPEATING} events repeat: split the file, or list their dates`
  read.recurrences.push({ plan, startMs, untilMs: lastStartMs, durationMs, except, label })
  return undefined
}

/** By UID: the starts of a series that an event of their own replaces. */
function movedStarts(events: readonly (readonly Property[])[], clock: Clock): Map<string, Set<number>> {
  const moved = new Map<string, Set<number>>()
  for (const event of events) {
    const replaced = find(event, 'RECURRENCE-ID')
    const stamp = replaced && stampOf(replaced, replaced.value, clock)
    if (!stamp || typeof stamp === 'string') continue
    const uid = find(event, 'UID')?.value ?? ''
    const starts = moved.get(uid)
    if (starts) starts.add(stamp.localMs)
    else moved.set(uid, new Set([stamp.localMs]))
  }
  return moved
}

/** A date or a time as wall time of the calendar's zone, or what is wrong with it. */
function stampOf(
  property: Property,
  value: string,
  clock: Clock,
): { readonly localMs: number; readonly wholeDay: boolean } | string {
  const { zones, zone } = clock
  const match = STAMP.exec(value.trim())
  const local = match ? localOf(match.slice(1, 7)) : undefined
  if (!match || !local) return `${JSON.stringify(value.slice(0, 30))} is no date such as 20261225`
  if (local.wholeDay) return local
  if (match[7] === 'Z' || property.zone !== undefined) clock.instants++
  if (match[7] === 'Z') return { localMs: local.localMs + zone.offsetAt(local.localMs), wholeDay: false }
  if (property.zone === undefined || property.zone === zone.name) return local
  const own = zones.get(property.zone) ?? zones.get(ianaOfWindows(property.zone) ?? '')
  if (!own) {
    const named = JSON.stringify(property.zone.slice(0, 40))
    return `there is no time zone ${named}: write the IANA name, such as TZID=Europe/Berlin, or export in UTC`
  }
  const { instantMs } = own.resolveLocal(local.localMs)
  return { localMs: instantMs + zone.offsetAt(instantMs), wholeDay: false }
}

function durationOf(
  event: readonly Property[],
  start: { readonly localMs: number; readonly wholeDay: boolean },
  clock: Clock,
): number | string {
  const ended = find(event, 'DTEND')
  if (ended) {
    const end = stampOf(ended, ended.value, clock)
    if (typeof end === 'string') return `DTEND: ${end}`
    return end.localMs > start.localMs ? end.localMs - start.localMs : 'DTEND: it is not after DTSTART'
  }
  const duration = find(event, 'DURATION')
  if (!duration) return start.wholeDay ? DAY_MS : 'DTEND: an event with a time needs an end'
  const match =
    /^\+?P(?:(\d{1,4})W|(?:(\d{1,4})D)?(?:T(?:(\d{1,4})H)?(?:(\d{1,4})M)?(?:(\d{1,4})S)?)?)$/.exec(
      duration.value,
    )
  const [weeks = 0, days = 0, hours = 0, minutes = 0, seconds = 0] = (match ?? [])
    .slice(1)
    .map((part) => Number(part ?? 0))
  const ms = (weeks * 7 + days) * DAY_MS + ((hours * 60 + minutes) * 60 + seconds) * 1_000
  return ms > 0 ? ms : 'DURATION: write it as P1D or PT2H'
}

function find(event: readonly Property[], name: string): Property | undefined {
  return event.find((property) => property.name === name)
}

function labelOf(event: readonly Property[]): string {
  const summary = find(event, 'SUMMARY')
    ?.value.replace(/\\([,;\\])/g, '$1')
    .replace(/\\n/gi, ' ')
  return (summary ?? '').trim().slice(0, MAX_LABEL) || 'without a summary'
}
