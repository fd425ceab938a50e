// One-time schedules: `at` is an instant (RFC 3339 with an offset) or a wall time that the schedule's zone
// turns into one. A wall time inside a daylight-saving gap means the first instant after it; one that occurs
// twice, the first.

import { DAY_MS, dayNumber, daysInMonth } from '../zone/civil-date.ts'
import { refuse, type Result, succeed } from '../zone/result.ts'
import type { ZoneRules } from '../zone/zone-rules.ts'
import { fault, type ScheduleFault } from './schedule-fault.ts'

/** `note` tells, in words, when the wall time had to be read as another one. */
export type AtTime = {
  readonly instantMs: number
  readonly note: string | null
  /** The wall time, as UTC, where it does not exist; else null. */
  readonly lostMs: number | null
  readonly isTwofold: boolean
}

type Years = { readonly first: number; readonly last: number }

/** Of planned times, and of instants that are only looked from. */
const PLANNED_YEARS: Years = { first: 1_970, last: 2_199 }
const ANY_YEARS: Years = { first: 1, last: 9_999 }
const EXAMPLE = 'write 2026-03-29T02:30:00Z, 2026-03-29T02:30:00+02:00, or 2026-03-29T02:30:00 with a zone'
const AT_PATTERN =
  /^(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?(?:([Zz])|([+-])(\d\d):(\d\d))?$/

export function parseAt(text: string, zone: ZoneRules): Result<AtTime, ScheduleFault> {
  return parseTime(text, zone, PLANNED_YEARS)
}

/** The same form for an instant that nothing is planned at, such as where a list begins: years 1 to 9999. */
export function parseInstant(text: string, zone: ZoneRules): Result<AtTime, ScheduleFault> {
  return parseTime(text, zone, ANY_YEARS)
}

function parseTime(text: string, zone: ZoneRules, years: Years): Result<AtTime, ScheduleFault> {
  const match = AT_PATTERN.exec(text.trim())
  if (!match) {
    const shown = JSON.stringify(text.length > 64 ? `${text.slice(0, 64)}…` : text)
    return wrong(`${shown} is not a date and time: ${EXAMPLE}`)
  }
  const [year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0] = match
    .slice(1, 7)
    .map((part) => Number(part ?? 0))
  const trouble = checkDate(years, year, month, day) ?? checkTime(hour, minute, second)
  if (trouble) return wrong(trouble)
  const millis = Number((match[7] ?? '').padEnd(3, '0').slice(0, 3))
  const localMs = dayNumber(year, month, day) * DAY_MS + ((hour * 60 + minute) * 60 + second) * 1_000 + millis
  if (match[8] !== undefined) return succeed({ ...plainTime, instantMs: localMs })
  if (match[9] === undefined) return succeed(inZone(localMs, zone))
  const offsetHours = Number(match[10])
  const offsetMinutes = Number(match[11])
  if (offsetHours > 23 || offsetMinutes > 59) return wrong('the UTC offset goes from -23:59 to +23:59')
  const offsetMs = (offsetHours * 60 + offsetMinutes) * 60_000
  const instantMs = match[9] === '-' ? localMs + offsetMs : localMs - offsetMs
  return succeed({ ...plainTime, instantMs })
}

const plainTime = { note: null, lostMs: null, isTwofold: false } as const

function inZone(localMs: number, zone: ZoneRules): AtTime {
  const resolved = zone.resolveLocal(localMs)
  if (resolved.kind === 'unique') return { ...plainTime, instantMs: resolved.instantMs }
  const note =
    resolved.kind === 'gap'
      ? `this wall time does not exist in ${zone.name}: the first instant after the gap is used`
      : `this wall time occurs twice in ${zone.name}: the first of the two is used`
  const lostMs = resolved.kind === 'gap' ? localMs : null
  return { instantMs: resolved.instantMs, note, lostMs, isTwofold: resolved.kind === 'overlap' }
}

function checkDate(years: Years, year: number, month: number, day: number): string | undefined {
  const { first, last } = years
  if (year < first || year > last) return `the year ${year} is outside ${first}-${last}`
  if (month < 1 || month > 12) return `there is no month ${month}: write 01 to 12`
  const lastDay = daysInMonth(year, month)
  if (day < 1 || day > lastDay) return `there is no day ${day} in that month: write 01 to ${lastDay}`
  return undefined
}

function checkTime(hour: number, minute: number, second: number): string | undefined {
  if (hour === 24) return 'there is no hour 24: write 00:00 of the next day'
  if (hour > 23) return `there is no hour ${hour}: write 00 to 23`
  if (minute > 59) return `there is no minute ${minute}: write 00 to 59`
  if (second === 60) return 'leap seconds are not counted: write second 59, or 00 of the next minute'
  if (second > 59) return `there is no second ${second}: write 00 to 59`
  return undefined
}

function wrong(message: string): { readonly ok: false; readonly error: ScheduleFault } {
  return refuse(fault('/at', message))
}
