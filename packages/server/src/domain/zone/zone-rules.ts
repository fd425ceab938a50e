// What a time zone means: the offset at an instant, and the instant of a wall time, with gaps and overlaps
// named. A zone is a timeline of segments with one offset each: the listed changes, then 450 years of the
// footer rule. Beyond that the answer repeats every 400 years, as the calendar does, so any instant costs one
// binary search. Instants are epoch milliseconds; a "local" is a wall time in milliseconds written as if it
// were UTC.

import {
  CALENDAR_CYCLE_MS,
  CALENDAR_CYCLE_YEARS,
  DAY_MS,
  dayNumber,
  packedDate,
  packedYear,
} from './civil-date.ts'
import { changesOfYear, type PosixRule } from './posix-rule.ts'
import type { ZoneTable } from './tzif.ts'

/**
 * Segment i runs from `startsMs[i]` (the first is -Infinity) up to `startsMs[i + 1]` (the last entry is
 * Infinity) with `offsetsMs[i]`. `seenLocalsMs[i]` is the latest local end of all segments before i: a wall
 * time below it has been. Instants at or after `repeatFromMs` are to be moved back by whole calendar cycles
 * first.
 */
export type ZoneTimeline = {
  readonly startsMs: Float64Array
  readonly offsetsMs: Float64Array
  readonly seenLocalsMs: Float64Array
  readonly repeatFromMs: number
}

/**
 * unique: one instant has this wall time. gap: none has; `instantMs` is the first one after the gap, and
 * `gapMs` its width. overlap: two have; `instantMs` is the first, `laterMs` the second.
 */
export type LocalResolution =
  | { readonly kind: 'unique'; readonly instantMs: number }
  | { readonly kind: 'gap'; readonly instantMs: number; readonly gapMs: number }
  | { readonly kind: 'overlap'; readonly instantMs: number; readonly laterMs: number }

export type ZoneRules = {
  readonly name: string
  readonly timeline: ZoneTimeline
  /** Milliseconds east of UTC. */
  offsetAt(instantMs: number): number
  resolveLocal(localMs: number): LocalResolution
}

const RULE_YEARS = CALENDAR_CYCLE_YEARS + 50
const REPEAT_AFTER_YEARS = CALENDAR_CYCLE_YEARS + 2
/** Where a zone has a rule and no listed change at all, the rule is taken to hold from this year on. */
const FIRST_RULE_YEAR = 1_900
/** No zone is or was further from UTC than this, so the instants of a local lie within it on either side. */
const MAX_OFFSET_MS = 26 * 3_600_000

export function makeZoneRules(name: string, table: ZoneTable): ZoneRules {
  const timeline = buildTimeline(table)
  return {
    name,
    timeline,
    offsetAt(instantMs) {
      const shiftMs = cycleShiftMs(timeline, instantMs)
      return timeline.offsetsMs[segmentAt(timeline, instantMs - shiftMs)] ?? 0
    },
    resolveLocal(localMs) {
      const shiftMs = cycleShiftMs(timeline, localMs)
      return shifted(resolveInTimeline(timeline, localMs - shiftMs), shiftMs)
    },
  }
}

/**
 * How far to move an instant (or a local) back so that the timeline covers it; 0 for the next four centuries.
 */
export function cycleShiftMs(timeline: ZoneTimeline, timeMs: number): number {
  if (timeMs < timeline.repeatFromMs) return 0
  return (Math.floor((timeMs - timeline.repeatFromMs) / CALENDAR_CYCLE_MS) + 1) * CALENDAR_CYCLE_MS
}

/** Index of the segment that holds an instant. */
export function segmentAt(timeline: ZoneTimeline, instantMs: number): number {
  const starts = timeline.startsMs
  let low = 0
  let high = starts.length - 2
  while (low < high) {
    const middle = (low + high + 1) >> 1
    if ((starts[middle] as number) <= instantMs) low = middle
    else high = middle - 1
  }
  return low
}

function resolveInTimeline(timeline: ZoneTimeline, localMs: number): LocalResolution {
  const { startsMs, offsetsMs } = timeline
  const found: number[] = []
  let afterGap: LocalResolution | undefined
  for (let i = segmentAt(timeline, localMs - MAX_OFFSET_MS); i < offsetsMs.length; i++) {
    const startMs = startsMs[i] as number
    if (startMs > localMs + MAX_OFFSET_MS) break
    const offsetMs = offsetsMs[i] as number
    const instantMs = localMs - offsetMs
    if (instantMs >= startMs && instantMs < (startsMs[i + 1] as number)) found.push(instantMs)
    else if (instantMs < startMs && !afterGap) {
      const gapMs = startMs + offsetMs - (timeline.seenLocalsMs[i] as number)
      afterGap = { kind: 'gap', instantMs: startMs, gapMs }
    }
  }
  const [first, later] = found
  if (first === undefined) return afterGap ?? { kind: 'unique', instantMs: localMs }
  return later === undefined
    ? { kind: 'unique', instantMs: first }
    : { kind: 'overlap', instantMs: first, laterMs: later }
}

function shifted(resolution: LocalResolution, shiftMs: number): LocalResolution {
  if (shiftMs === 0) return resolution
  const instantMs = resolution.instantMs + shiftMs
  return resolution.kind === 'overlap'
    ? { ...resolution, instantMs, laterMs: resolution.laterMs + shiftMs }
    : { ...resolution, instantMs }
}

function buildTimeline(table: ZoneTable): ZoneTimeline {
  const starts = [Number.NEGATIVE_INFINITY]
  const offsets = [table.initialOffsetMs]
  const add = (atMs: number, offsetMs: number): void => {
    // A change of the abbreviation alone, or two changes at one instant, make no segment.
    if (starts[starts.length - 1] === atMs) {
      starts.pop()
      offsets.pop()
    }
    if (offsets[offsets.length - 1] === offsetMs) return
    starts.push(atMs)
    offsets.push(offsetMs)
  }
  table.changesMs.forEach((atMs, i) => add(atMs, table.offsetsMs[i] ?? 0))
  const repeatFromMs = table.rule?.daylight
    ? addRuleYears(table.rule, lastOf(table.changesMs), add)
    : Infinity
  starts.push(Number.POSITIVE_INFINITY)
  return {
    startsMs: Float64Array.from(starts),
    offsetsMs: Float64Array.from(offsets),
    seenLocalsMs: seenLocals(starts, offsets),
    repeatFromMs,
  }
}

function addRuleYears(
  rule: PosixRule,
  lastChangeMs: number,
  add: (atMs: number, offsetMs: number) => void,
): number {
  const firstYear = Number.isFinite(lastChangeMs)
    ? packedYear(packedDate(Math.floor(lastChangeMs / DAY_MS)))
    : FIRST_RULE_YEAR
  for (let year = firstYear; year < firstYear + RULE_YEARS; year++) {
    for (const [atMs, offsetMs] of changesOfYear(rule, year)) {
      if (atMs > lastChangeMs) add(atMs, offsetMs)
    }
  }
  return dayNumber(firstYear + REPEAT_AFTER_YEARS, 1, 1) * DAY_MS
}

function seenLocals(starts: readonly number[], offsets: readonly number[]): Float64Array {
  const seen = new Float64Array(offsets.length)
  let latest = Number.NEGATIVE_INFINITY
  offsets.forEach((offsetMs, i) => {
    seen[i] = latest
    latest = Math.max(latest, (starts[i + 1] ?? Infinity) + offsetMs)
  })
  return seen
}

function lastOf(values: readonly number[]): number {
  return values[values.length - 1] ?? Number.NEGATIVE_INFINITY
}
