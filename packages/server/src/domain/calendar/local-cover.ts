// What a calendar covers on its wall clock, as sorted spans that do not overlap, a stretch of 400 days at a
// time. A stretch is worked out when it is first asked for and kept, so that a look costs one binary search
// however many dates, rules and events there are. Memory is bounded by the spans that are kept.

import { DAY_MS } from '../zone/civil-date.ts'
import type { CronPlan } from '../schedule/cron-plan.ts'
import { nextLocal, previousLocal } from '../schedule/wall-time.ts'

/** [fromMs, toMs) in wall time. */
export type CalendarSpan = { readonly fromMs: number; readonly toMs: number; readonly label: string }

/**
 * Starts of the plan in [startMs, untilMs], for `durationMs`, but for those in `except`; all in wall time.
 */
export type Recurrence = {
  readonly plan: CronPlan
  readonly startMs: number
  readonly untilMs: number
  readonly durationMs: number
  readonly except: ReadonlySet<number>
  readonly label: string
}

/** Everything in wall time of the calendar's zone. */
export type LocalParts = {
  /** In any order; they may overlap. */
  readonly spans: readonly CalendarSpan[]
  /** By month * 32 + day. */
  readonly yearly: ReadonlyMap<number, string>
  /** Bit w for weekday w, 0 = Sunday. */
  readonly weekdays: number
  readonly recurrences: readonly Recurrence[]
}

/** `why` is null where nothing is covered; it stays so, or stays covered, up to `untilMs`, wall time. */
export type LocalLook = { readonly why: string | null; readonly untilMs: number }

export type LocalCover = {
  look(localMs: number): LocalLook
  /** End of the last span, Infinity where something comes again for ever. */
  readonly endMs: number
}

type Stretch = readonly CalendarSpan[]

const STRETCH_DAYS = 400
export const STRETCH_MS = STRETCH_DAYS * DAY_MS
/** A calendar with more in one stretch keeps that one only. */
const MAX_KEPT_SPANS = 40_000
const WEEKDAYS = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday']

export function makeLocalCover(parts: LocalParts): LocalCover {
  const fixed = withoutOverlaps(parts.spans)
  const kept = new Map<number, Stretch>()
  let keptSpans = 0

  function stretchAt(index: number): Stretch {
    const known = kept.get(index)
    if (known) return known
    const found = stretchOf(parts, fixed, index * STRETCH_MS)
    if (keptSpans + found.length > MAX_KEPT_SPANS) {
      kept.clear()
      keptSpans = 0
    }
    kept.set(index, found)
    keptSpans += found.length
    return found
  }

  return {
    endMs: endOf(parts, fixed),
    look(localMs) {
      const index = Math.floor(localMs / STRETCH_MS)
      const spans = stretchAt(index)
      const at = lastFrom(spans, localMs)
      const span = spans[at]
      if (span && localMs < span.toMs) return { why: span.label, untilMs: span.toMs }
      return { why: null, untilMs: spans[at + 1]?.fromMs ?? (index + 1) * STRETCH_MS }
    },
  }
}

function stretchOf(parts: LocalParts, fixed: readonly CalendarSpan[], startMs: number): Stretch {
  const endMs = startMs + STRETCH_MS
  const spans: CalendarSpan[] = []
  for (let i = Math.max(0, lastFrom(fixed, startMs)); i < fixed.length; i++) {
    const span = fixed[i]
    if (!span || span.fromMs >= endMs) break
    spans.push(span)
  }
  addDays(parts, startMs, spans)
  for (const recurrence of parts.recurrences) addRecurrence(recurrence, startMs, endMs, spans)
  return withoutOverlaps(spans.map((span) => clipped(span, startMs, endMs)))
}

function clipped({ fromMs, toMs, label }: CalendarSpan, startMs: number, endMs: number): CalendarSpan {
  return { fromMs: Math.max(fromMs, startMs), toMs: Math.min(toMs, endMs), label }
}

/** Whole days that come again each year or each week. */
function addDays({ yearly, weekdays }: LocalParts, startMs: number, spans: CalendarSpan[]): void {
  if (yearly.size === 0 && weekdays === 0) return
  for (let i = 0; i < STRETCH_DAYS; i++) {
    const fromMs = startMs + i * DAY_MS
    const date = new Date(fromMs)
    const label =
      yearly.get((date.getUTCMonth() + 1) * 32 + date.getUTCDate()) ??
      (((weekdays >>> date.getUTCDay()) & 1) === 1 ? WEEKDAYS[date.getUTCDay()] : undefined)
    if (label !== undefined) spans.push({ fromMs, toMs: fromMs + DAY_MS, label })
  }
}

function addRecurrence(
  { plan, startMs: firstMs, untilMs, durationMs, except, label }: Recurrence,
  startMs: number,
  endMs: number,
  spans: CalendarSpan[],
): void {
  const lastMs = Math.min(untilMs, endMs - 1)
  let fromMs = Math.max(firstMs, startMs - durationMs + 1)
  while (fromMs <= lastMs) {
    const nextMs = nextLocal(plan, fromMs, undefined)
    if (nextMs > lastMs) break
    if (!except.has(nextMs)) spans.push({ fromMs: nextMs, toMs: nextMs + durationMs, label })
    fromMs = nextMs + 1
  }
}

/** Sorted; of two that overlap the later one begins where the earlier one ends. */
function withoutOverlaps(spans: readonly CalendarSpan[]): readonly CalendarSpan[] {
  const found: CalendarSpan[] = []
  let coveredMs = Number.NEGATIVE_INFINITY
  for (const span of spans.toSorted((a, b) => a.fromMs - b.fromMs)) {
    if (span.toMs <= coveredMs) continue
    found.push(span.fromMs >= coveredMs ? span : { ...span, fromMs: coveredMs })
    coveredMs = span.toMs
  }
  return found
}

/** Index of the last span that begins at or before `localMs`; -1 when all begin later. */
function lastFrom(spans: readonly CalendarSpan[], localMs: number): number {
  let low = -1
  let high = spans.length - 1
  while (low < high) {
    const middle = (low + high + 1) >> 1
    if ((spans[middle]?.fromMs ?? Infinity) <= localMs) low = middle
    else high = middle - 1
  }
  return low
}

function endOf(parts: LocalParts, fixed: readonly CalendarSpan[]): number {
  if (parts.yearly.size > 0 || parts.weekdays !== 0) return Number.POSITIVE_INFINITY
  const ends = parts.recurrences.map(({ plan, startMs, untilMs, durationMs }) =>
    untilMs === Infinity ? Infinity : previousLocal(plan, startMs, untilMs + 1) + durationMs,
  )
  return Math.max(fixed.at(-1)?.toMs ?? Number.NEGATIVE_INFINITY, ...ends)
}
