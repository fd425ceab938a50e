// What a calendar covers on its wall clock. What comes once is a list of sorted spans that do not overlap;
// what comes again is laid out as such a list, a stretch of days at a time: when it is first asked for, and
// then kept, so that a look costs two binary searches however many dates, rules and events there are.
//
// The more often something begins, the shorter a stretch is: laying one out costs a step for each event that
// repeats and about MAX_STRETCH_STARTS more. Memory is bounded by the spans that are kept. Nothing here knows
// of a zone, so one cover serves all of them.

import { DAY_MS } from '../zone/civil-date.ts'
import type { CronPlan } from '../schedule/cron-plan.ts'
import { previousLocal } from '../schedule/wall-time.ts'

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
  /** How often those begin in STRETCH_MS, at most. */
  readonly starts: number
}

/** `why` is null where nothing is covered; it stays so, or stays covered, up to `untilMs`, wall time. */
export type LocalLook = { readonly why: string | null; readonly untilMs: number }

export type LocalCover = {
  look(localMs: number): LocalLook
  /** End of the last span, Infinity where something comes again for ever. */
  readonly endMs: number
  /** What comes once. */
  readonly fixed: number
}

type Stretch = readonly CalendarSpan[]

const STRETCH_DAYS = 400
export const STRETCH_MS = STRETCH_DAYS * DAY_MS
const MAX_STRETCH_STARTS = 100
export const MAX_KEPT_SPANS = 1_000
/** How far before the end of a rule its last start is looked for; else the end is taken to be there. */
const MAX_END_MS = 10 * 366 * DAY_MS
const WEEKDAYS = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday']

export function makeLocalCover(parts: LocalParts): LocalCover {
  const fixed = withoutOverlaps(parts.spans)
  const stretchMs = stretchDaysOf(parts) * DAY_MS
  const comesAgain = parts.yearly.size + parts.weekdays + parts.recurrences.length > 0
  const kept = new Map<number, Stretch>()
  let keptSpans = 0

  function stretchAt(index: number): Stretch {
    const known = kept.get(index)
    if (known) return known
    const found = stretchOf(parts, index * stretchMs, stretchMs)
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
    fixed: fixed.length,
    look(localMs) {
      const once = lookIn(fixed, localMs, Number.POSITIVE_INFINITY)
      if (once.why !== null || !comesAgain) return once
      const index = Math.floor(localMs / stretchMs)
      const again = lookIn(stretchAt(index), localMs, (index + 1) * stretchMs)
      return again.why !== null || again.untilMs <= once.untilMs ? again : once
    },
  }
}

function lookIn(spans: Stretch, localMs: number, endMs: number): LocalLook {
  const at = lastFrom(spans, localMs)
  const span = spans[at]
  if (span && span.fromMs <= localMs && localMs < span.toMs) return { why: span.label, untilMs: span.toMs }
  return { why: null, untilMs: spans[at + 1]?.fromMs ?? endMs }
}

/** At least a day. */
function stretchDaysOf({ starts }: LocalParts): number {
  return Math.max(1, Math.floor(STRETCH_DAYS * Math.min(1, MAX_STRETCH_STARTS / Math.max(1, starts))))
}

function stretchOf(parts: LocalParts, startMs: number, stretchMs: number): Stretch {
  const endMs = startMs + stretchMs
  const spans: CalendarSpan[] = []
  addDays(parts, startMs, endMs, spans)
  for (const recurrence of parts.recurrences) addRecurrence(recurrence, startMs, endMs, spans)
  return withoutOverlaps(spans.map((span) => clipped(span, startMs, endMs)))
}

function clipped({ fromMs, toMs, label }: CalendarSpan, startMs: number, endMs: number): CalendarSpan {
  return { fromMs: Math.max(fromMs, startMs), toMs: Math.min(toMs, endMs), label }
}

/** Whole days that come again each year or each week. */
function addDays(
  { yearly, weekdays }: LocalParts,
  startMs: number,
  endMs: number,
  spans: CalendarSpan[],
): void {
  if (yearly.size === 0 && weekdays === 0) return
  for (let fromMs = startMs; fromMs < endMs; fromMs += DAY_MS) {
    const date = new Date(fromMs)
    const label =
      yearly.get((date.getUTCMonth() + 1) * 32 + date.getUTCDate()) ??
      (((weekdays >>> date.getUTCDay()) & 1) === 1 ? WEEKDAYS[date.getUTCDay()] : undefined)
    if (label !== undefined) spans.push({ fromMs, toMs: fromMs + DAY_MS, label })
  }
}

/**
 * From the last start backwards, which never looks before the stretch; what began before a start that reaches
 * into the stretch adds nothing to it.
 */
function addRecurrence(
  { plan, startMs: firstMs, untilMs, durationMs, except, label }: Recurrence,
  startMs: number,
  endMs: number,
  spans: CalendarSpan[],
): void {
  const leastMs = Math.max(firstMs, startMs - durationMs + 1)
  let beforeMs = Math.min(untilMs + 1, endMs)
  while (beforeMs > leastMs) {
    const fromMs = previousLocal(plan, leastMs, beforeMs)
    if (fromMs === Number.NEGATIVE_INFINITY) return
    beforeMs = fromMs
    if (except.has(fromMs)) continue
    spans.push({ fromMs, toMs: fromMs + durationMs, label })
    if (fromMs <= startMs) return
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
  let endMs = fixed.at(-1)?.toMs ?? Number.NEGATIVE_INFINITY
  for (const { plan, startMs, untilMs, durationMs } of parts.recurrences) {
    if (untilMs === Infinity) return Infinity
    const leastMs = Math.max(startMs, untilMs - MAX_END_MS)
    endMs = Math.max(endMs, Math.max(previousLocal(plan, leastMs, untilMs + 1), leastMs) + durationMs)
  }
  return endMs
}
