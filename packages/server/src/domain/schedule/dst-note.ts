// What a change of the clock did to one planned time, in a few words: it stands for a wall time that does not
// exist, or its wall time comes twice. For lists of times that people read.

import { cycleShiftMs, segmentAt } from '../zone/zone-rules.ts'
import { holdsTimeInGap } from './cron-search.ts'
import type { CompiledSchedule } from './schedule-spec.ts'
import { wallOf } from './schedule-warnings.ts'
import { previousLocal } from './wall-time.ts'

/** `timeMs` is one of the schedule's planned times; null when no change of the clock touches it. */
export function dstNoteOf({ timing, notes }: CompiledSchedule, timeMs: number): string | null {
  if (timing.kind === 'at') return notes[0] ?? null
  if (timing.kind !== 'plan') return null
  const { plan, policy, zone } = timing
  const { timeline } = zone
  const { startsMs, offsetsMs, seenLocalsMs } = timeline
  const instantMs = timeMs - cycleShiftMs(timeline, timeMs)
  const i = segmentAt(timeline, instantMs)
  const localMs = instantMs + (offsetsMs[i] ?? 0)
  if (startsMs[i] === instantMs && policy.gap === 'next_valid' && holdsTimeInGap(plan, timeline, i)) {
    const seenMs = seenLocalsMs[i] ?? 0
    const lost = wallOf(previousLocal(plan, seenMs, localMs)).clock
    return `stands for ${lost}: the clock leaps from ${wallOf(seenMs).clock} to ${wallOf(localMs).clock}`
  }
  const resolved = zone.resolveLocal(localMs)
  if (resolved.kind !== 'overlap') return null
  const { clock } = wallOf(localMs)
  return resolved.instantMs === instantMs
    ? `the first ${clock} of two: the clock is set back`
    : `the second ${clock} of two: the clock was set back`
}
