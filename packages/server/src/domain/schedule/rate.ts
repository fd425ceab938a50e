// Rates: "every so often", anchored. The k-th planned time is anchor + k * period, for k = 0, 1, 2 …,
// whatever happened before; so nothing drifts, and both the next time and any count are arithmetic, never a
// loop. A day here is 24 hours; a rate knows no time zone.

import { refuse, type Result, succeed } from '../zone/result.ts'
import { fault, type ScheduleFault } from './schedule-fault.ts'

export const MIN_RATE_MS = 1_000
export const MAX_RATE_MS = 100 * 365 * 86_400_000

const UNIT_MS: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 }
const RATE_UNITS: Readonly<Record<string, { readonly plural: string; readonly short: string }>> = {
  minute: { plural: 'minutes', short: 'm' },
  hour: { plural: 'hours', short: 'h' },
  day: { plural: 'days', short: 'd' },
}
const MAX_TEXT_LENGTH = 64

/** Parses `90s`, `5m`, `1h30m`, `1d` or `rate(5 minutes)` into a period in milliseconds. */
export function parseRate(text: string): Result<number, ScheduleFault> {
  const trimmed = text.trim()
  if (trimmed.length > MAX_TEXT_LENGTH) return wrong(`a rate has at most ${MAX_TEXT_LENGTH} characters`)
  const call = /^rate\((.*)\)$/.exec(trimmed)
  if (call) return parseRateCall(call[1] ?? '')
  if (!/^(?:\d+[smhd])+$/.test(trimmed)) {
    return wrong(
      `${JSON.stringify(trimmed)} is not a rate: write a whole number and s, m, h or d, such as 90s or 1h30m`,
    )
  }
  let everyMs = 0
  let previousUnitMs = Number.POSITIVE_INFINITY
  for (const [, amount = '', unit = ''] of trimmed.matchAll(/(\d+)([smhd])/g)) {
    const unitMs = UNIT_MS[unit] ?? 0
    if (unitMs >= previousUnitMs)
      return wrong(`${JSON.stringify(trimmed)}: name each unit once, largest first, as in 1h30m`)
    previousUnitMs = unitMs
    everyMs += Number(amount) * unitMs
  }
  return checkPeriod(everyMs)
}

/** The `@every 1h30m` of Kubernetes: whole seconds are kept, fractions of one are not. */
export function parseEveryMacro(text: string): Result<number, ScheduleFault> {
  const match = /^@every\s+((?:\d{1,9}(?:\.\d{1,9})?(?:h|m|s|ms))+)$/.exec(text)
  if (!match) return wrong('write @every and a duration of h, m and s, as in @every 1h30m')
  let everyMs = 0
  for (const [, amount = '', unit = ''] of (match[1] ?? '').matchAll(/([\d.]+)(h|ms|m|s)/g)) {
    everyMs += Number(amount) * (unit === 'ms' ? 1 : (UNIT_MS[unit] ?? 0))
  }
  return checkPeriod(Math.max(1_000, Math.floor(everyMs / 1_000) * 1_000))
}

/** Refuses periods that are not whole seconds, too short or too long. */
export function checkPeriod(everyMs: number): Result<number, ScheduleFault> {
  if (everyMs === 0) return wrong('the period is 0: write a positive one, such as 5m')
  if (everyMs > MAX_RATE_MS) return wrong('a period is at most 36500 days')
  if (!Number.isInteger(everyMs) || everyMs % 1_000 !== 0)
    return wrong('a period is a whole number of seconds')
  if (everyMs < MIN_RATE_MS) return wrong('a period is at least 1 second')
  return succeed(everyMs)
}

/** The first planned time strictly after `afterMs`; the anchor itself is the first of all. */
export function nextOfRate(anchorMs: number, everyMs: number, afterMs: number): number {
  if (afterMs < anchorMs) return anchorMs
  return afterMs - ((afterMs - anchorMs) % everyMs) + everyMs
}

/** The last planned time at or before `untilMs`, or null before the anchor. */
export function latestOfRate(anchorMs: number, everyMs: number, untilMs: number): number | null {
  return untilMs < anchorMs ? null : untilMs - ((untilMs - anchorMs) % everyMs)
}

/** How many planned times lie in (afterMs, untilMs]. */
export function countOfRate(anchorMs: number, everyMs: number, afterMs: number, untilMs: number): number {
  const firstMs = nextOfRate(anchorMs, everyMs, afterMs)
  const latestMs = latestOfRate(anchorMs, everyMs, untilMs)
  return latestMs === null || latestMs < firstMs ? 0 : (latestMs - firstMs) / everyMs + 1
}

function parseRateCall(inside: string): Result<number, ScheduleFault> {
  const parts = /^(\S+) +(\S+)$/.exec(inside)
  if (!parts) return wrong(`rate(${inside}): write a whole number, a space and a unit, as in rate(5 minutes)`)
  const [, amountText = '', unitText = ''] = parts
  if (!/^\d+$/.test(amountText)) {
    return wrong(`rate(${inside}): ${JSON.stringify(amountText)} is not a positive whole number`)
  }
  const amount = Number(amountText)
  if (amount === 0)
    return wrong(`rate(${inside}): the number is 0: write a positive one, as in rate(5 minutes)`)
  const singular = Object.keys(RATE_UNITS).find(
    (name) => name === unitText || RATE_UNITS[name]?.plural === unitText,
  )
  const unit = singular === undefined ? undefined : RATE_UNITS[singular]
  if (singular === undefined || !unit) {
    return wrong(
      `rate(${inside}): the unit is minute(s), hour(s) or day(s); for others write it short, as in 30s`,
    )
  }
  const expected = amount === 1 ? singular : unit.plural
  if (unitText !== expected) return wrong(`rate(${inside}): write rate(${amount} ${expected})`)
  return checkPeriod(amount * (UNIT_MS[unit.short] ?? 0))
}

function wrong(message: string): { readonly ok: false; readonly error: ScheduleFault } {
  return refuse(fault('/rate', message))
}
