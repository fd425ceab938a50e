// What a change of the clock did to one planned time, in a few words: it stands for a wall time that does not
// exist, or its wall time comes twice. For lists of times that people read.

import { cycleShiftMs, segmentAt, type ZoneRules } from '../zone/zone-rules.ts'
import { holdsTimeInGap } from './cron-search.ts'
import type { CompiledSchedule } from './schedule-spec.ts'
import { wallOf } from './schedule-warnings.ts'
import { nextLocal, previousLocal } from './wall-time.ts'

/**
 * The wall time, as UTC, that a planned time stands for because the clock leaps over it; null when it stands
 * for itself.
 */
export function lostWallTimeOf({ timing }: CompiledSchedule, timeMs: number): number | null {
  if (timing.kind === 'at') return timing.lostMs
  if (timing.kind === 'rate') return null
  const { plan, policy, zone } = timing
  const { startsMs, offsetsMs, seenLocalsMs } = zone.timeline
  const instantMs = timeMs - cycleShiftMs(zone.timeline, timeMs)
  const i = segmentAt(zone.timeline, instantMs)
  if (startsMs[i] !== instantMs || policy.gap !== 'next_valid') return null
  if (!holdsTimeInGap(plan, zone.timeline, i)) return null
  const lostMs = previousLocal(plan, seenLocalsMs[i] ?? 0, instantMs + (offsetsMs[i] ?? 0))
  return lostMs + timeMs - instantMs
}

/** The wall time, as UTC, that a planned time is meant for: that of a stand-in only if it is planned too. */
export function nominalWallTimeOf(compiled: CompiledSchedule, timeMs: number, zone: ZoneRules): number {
  const localMs = timeMs + zone.offsetAt(timeMs)
  const lostMs = lostWallTimeOf(compiled, timeMs)
  if (lostMs === null) return localMs
  const { timing } = compiled
  if (timing.kind !== 'plan') return lostMs
  const shiftMs = cycleShiftMs(timing.zone.timeline, timeMs)
  return nextLocal(timing.plan, localMs - shiftMs, undefined) === localMs - shiftMs ? localMs : lostMs
}

/** `timeMs` is one of the schedule's planned times; null when no change of the clock touches it. */
export function dstNoteOf(compiled: CompiledSchedule, timeMs: number): string | null {
  const { timing, notes } = compiled
  if (timing.kind === 'at') return notes[0] ?? null
  if (timing.kind !== 'plan') return null
  const { zone } = timing
  const { timeline } = zone
  const instantMs = timeMs - cycleShiftMs(timeline, timeMs)
  const i = segmentAt(timeline, instantMs)
  const localMs = instantMs + (timeline.offsetsMs[i] ?? 0)
  const lostMs = lostWallTimeOf(compiled, timeMs)
  if (lostMs !== null) {
    const seenMs = timeline.seenLocalsMs[i] ?? 0
    const leap = `the clock leaps from ${wallOf(seenMs).clock} to ${wallOf(localMs).clock}`
    return `stands for ${wallOf(lostMs).clock}: ${leap}`
  }
  const resolved = zone.resolveLocal(localMs)
  if (resolved.kind !== 'overlap') return null
  const { clock } = wallOf(localMs)
  return resolved.instantMs === instantMs
    ? `the first ${clock} of two: the clock is set back`
    : `the second ${clock} of two: the clock was set back`
}
