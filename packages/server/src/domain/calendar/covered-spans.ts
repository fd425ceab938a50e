// What a calendar covers within a range, day by day, for people to look at: the whole day, or the spans of
// it, each with what covers it. The range may be cut short; then the answer says where to go on.

import { DAY_MS } from '../zone/civil-date.ts'
import type { ZoneRules } from '../zone/zone-rules.ts'
import type { CompiledCalendar } from './calendar-definition.ts'

/** [fromMs, toMs) on one day of the zone; `dayNo` counts from 1970-01-01. */
export type CoveredSpan = {
  readonly dayNo: number
  readonly fromMs: number
  readonly toMs: number
  readonly wholeDay: boolean
  readonly reason: string
}

/** `nextMs` is where to go on, where `limit` or the work that a look through a range may be was reached. */
export type CoveredSpans = { readonly spans: readonly CoveredSpan[]; readonly nextMs: number | null }

const MAX_LOOKS = 20_000

export function coveredSpans(
  calendar: CompiledCalendar,
  zone: ZoneRules,
  fromMs: number,
  toMs: number,
  limit: number,
): CoveredSpans {
  const spans: CoveredSpan[] = []
  let looksLeft = Math.ceil(MAX_LOOKS / calendar.effort)
  let instantMs = fromMs
  while (instantMs < toMs) {
    if (looksLeft-- <= 0) return { spans, nextMs: instantMs }
    const reason = calendar.covers(instantMs)
    const untilMs = calendar.steadyUntil(instantMs)
    if (reason === null) {
      instantMs = untilMs
      continue
    }
    const dayNo = Math.floor((instantMs + zone.offsetAt(instantMs)) / DAY_MS)
    const dayEndMs = zone.resolveLocal((dayNo + 1) * DAY_MS).instantMs
    const endMs = Math.min(untilMs, toMs, dayEndMs > instantMs ? dayEndMs : Infinity)
    const last = spans.at(-1)
    const goesOn = last !== undefined && last.toMs === instantMs && last.dayNo === dayNo
    if (goesOn && last.reason === reason) spans.pop()
    else if (spans.length >= limit) return { spans, nextMs: instantMs }
    const startMs = goesOn && last.reason === reason ? last.fromMs : instantMs
    const wholeDay = startMs <= zone.resolveLocal(dayNo * DAY_MS).instantMs && endMs >= dayEndMs
    spans.push({ dayNo, fromMs: startMs, toMs: endMs, wholeDay, reason })
    instantMs = endMs
  }
  return { spans, nextMs: null }
}
