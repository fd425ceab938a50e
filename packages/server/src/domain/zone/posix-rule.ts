// The rule at the end of a TZif file (a POSIX TZ string, e.g. `CET-1CEST,M3.5.0,M10.5.0/3`): it says how
// daylight-saving time goes on after the last listed transition, for ever. Parsed once, then asked year by
// year.

import { DAY_MS, dayNumber, isLeapYear, weekdayOf } from './civil-date.ts'

/**
 * When in a year a change happens; `timeSeconds` counts from local midnight and may be negative or above a
 * day.
 */
type YearDay =
  | { readonly kind: 'weekday'; month: number; week: number; weekday: number; timeSeconds: number }
  | { readonly kind: 'julian'; day: number; timeSeconds: number }
  | { readonly kind: 'zeroBased'; day: number; timeSeconds: number }

type Daylight = { readonly offsetMs: number; readonly start: YearDay; readonly end: YearDay }

/** Offsets are milliseconds east of UTC. `daylight` is null where the clock never changes again. */
export type PosixRule = { readonly offsetMs: number; readonly daylight: Daylight | null }

const NAME = '(?:[A-Za-z]{3,}|<[A-Za-z0-9+-]{3,}>)'
const TIME = '[+-]?\\d{1,3}(?::\\d{2}){0,2}'
const RULE_PATTERN = new RegExp(`^${NAME}(${TIME})(?:${NAME}(${TIME})?,([^,]+),([^,]+))?$`)
const YEAR_DAY_PATTERN = new RegExp(`^(?:M(\\d{1,2})\\.(\\d)\\.(\\d)|J(\\d{1,3})|(\\d{1,3}))(?:/(${TIME}))?$`)
const DEFAULT_CHANGE_SECONDS = 7_200

/** Returns undefined when the text is not a rule. */
export function parsePosixRule(text: string): PosixRule | undefined {
  const match = RULE_PATTERN.exec(text)
  if (!match) return undefined
  const [, standardText = '', daylightText, startText, endText] = match
  // POSIX counts west of UTC. Subtracting from 0 keeps a zero from becoming -0.
  const offsetMs = 0 - secondsOf(standardText) * 1_000
  if (startText === undefined || endText === undefined) return { offsetMs, daylight: null }
  const start = parseYearDay(startText)
  const end = parseYearDay(endText)
  if (!start || !end) return undefined
  const daylightMs = daylightText === undefined ? offsetMs + 3_600_000 : 0 - secondsOf(daylightText) * 1_000
  return { offsetMs, daylight: { offsetMs: daylightMs, start, end } }
}

/** The two changes of one year in time order: `[instantMs, offsetMs from then on]`. */
export function changesOfYear(rule: PosixRule, year: number): readonly (readonly [number, number])[] {
  if (!rule.daylight) return []
  const { start, end, offsetMs } = rule.daylight
  const intoDaylight = [localChangeMs(start, year) - rule.offsetMs, offsetMs] as const
  const outOfDaylight = [localChangeMs(end, year) - offsetMs, rule.offsetMs] as const
  return intoDaylight[0] <= outOfDaylight[0] ? [intoDaylight, outOfDaylight] : [outOfDaylight, intoDaylight]
}

function parseYearDay(text: string): YearDay | undefined {
  const match = YEAR_DAY_PATTERN.exec(text)
  if (!match) return undefined
  const [, month, week, weekday, julian, zeroBased, time] = match
  const timeSeconds = time === undefined ? DEFAULT_CHANGE_SECONDS : secondsOf(time)
  if (julian !== undefined) return { kind: 'julian', day: Number(julian), timeSeconds }
  if (zeroBased !== undefined) return { kind: 'zeroBased', day: Number(zeroBased), timeSeconds }
  return { kind: 'weekday', month: Number(month), week: Number(week), weekday: Number(weekday), timeSeconds }
}

function localChangeMs(change: YearDay, year: number): number {
  return dayOfChange(change, year) * DAY_MS + change.timeSeconds * 1_000
}

function dayOfChange(change: YearDay, year: number): number {
  if (change.kind === 'zeroBased') return dayNumber(year, 1, 1) + change.day
  if (change.kind === 'julian') {
    // Jn counts 1-365 and never counts 29 February.
    const skipsLeapDay = isLeapYear(year) && change.day >= 60
    return dayNumber(year, 1, 1) + change.day - 1 + (skipsLeapDay ? 1 : 0)
  }
  const monthStart = dayNumber(year, change.month, 1)
  const nextMonthStart =
    change.month === 12 ? dayNumber(year + 1, 1, 1) : dayNumber(year, change.month + 1, 1)
  const firstMatch = monthStart + ((change.weekday - weekdayOf(monthStart) + 7) % 7)
  const wanted = firstMatch + (change.week - 1) * 7
  // Week 5 means the last one, which may be the fourth.
  return wanted < nextMonthStart ? wanted : wanted - 7
}

function secondsOf(text: string): number {
  const negative = text.startsWith('-')
  const [hours = '0', minutes = '0', seconds = '0'] = text.replace(/^[+-]/, '').split(':')
  const total = Number(hours) * 3_600 + Number(minutes) * 60 + Number(seconds)
  return negative ? -total : total
}
