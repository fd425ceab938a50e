// Dates, wall times and weekdays as calendars write them, in "local milliseconds" (wall time written as if it
// were UTC). Everything that does not name a real day is answered with undefined.

import { DAY_MS, dayNumber, daysInMonth } from '../zone/civil-date.ts'

export type LocalTime = { readonly localMs: number; readonly wholeDay: boolean }

const WEEKDAYS = ['sunday', 'monday', 'tuesday', 'wednesday', 'thursday', 'friday', 'saturday']
const BUSINESS_DAYS = 0b0111110

/** 2026-12-25 or 2026-12-24T12:00[:30]. */
export function parseLocal(text: string): LocalTime | undefined {
  const match = /^(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d))?)?$/.exec(text.trim())
  return match ? localOf(match.slice(1)) : undefined
}

/** From the digits of year, month, day and, where there is a time, hour, minute and second. */
export function localOf(parts: readonly (string | undefined)[]): LocalTime | undefined {
  const [year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0] = parts.map((part) =>
    Number(part ?? 0),
  )
  if (year < 1 || month < 1 || month > 12 || day < 1 || day > daysInMonth(year, month)) return undefined
  if (hour > 23 || minute > 59 || second > 59) return undefined
  const timeMs = ((hour * 60 + minute) * 60 + second) * 1_000
  return { localMs: dayNumber(year, month, day) * DAY_MS + timeMs, wholeDay: parts[3] === undefined }
}

/** 12-25, or 02-29 for leap years. */
export function parseMonthDay(text: string): { readonly month: number; readonly day: number } | undefined {
  const match = /^(\d\d)-(\d\d)$/.exec(text.trim())
  const [month = 0, day = 0] = (match ?? []).slice(1).map(Number)
  return month >= 1 && month <= 12 && day >= 1 && day <= daysInMonth(2_000, month)
    ? { month, day }
    : undefined
}

/** Bit w for weekday w, 0 = Sunday; 0 when the text names none. */
export function weekdayBits(text: string): number {
  const name = text.trim().toLowerCase()
  if (name === 'business_days') return BUSINESS_DAYS
  const index = WEEKDAYS.findIndex((day) => day === name || day.slice(0, 3) === name)
  return index < 0 ? 0 : 1 << index
}
