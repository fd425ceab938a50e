/**
 * How the timing of a stored schedule reads: in words, with what comes next, with what people misread in it,
 * and with notes where it was read in a way that may surprise. Pure, and cheap enough for lists: warnings,
 * which look a year ahead, are worked out only when they are asked for.
 */
import { describeCompiled } from '../../domain/schedule/describe-schedule.ts'
import { lostWallTimeOf } from '../../domain/schedule/dst-note.ts'
import type { CompiledSchedule } from '../../domain/schedule/schedule-spec.ts'
import type { ScheduleWarning } from '../../domain/schedule/schedule-warnings.ts'
import { warningsOf } from '../../domain/schedule/schedule-warnings.ts'
import { compileStored } from '../../domain/stored-schedule.ts'
import { toScheduleSpec } from '../../domain/stored-spec.ts'
import type { ScheduleSummaryRecord } from '../../ports/catalog.ts'
import type { ZoneSource } from '../../ports/zones.ts'
import { timesFrom } from './schedule-preview.ts'

/** How many planned times, from the next one on, are looked at. */
const lookedAt = 5

interface Reading {
  readonly words: string
  readonly notes: readonly string[]
  /** The next planned time and what follows it, at most `count`. */
  readonly upcoming: (count: number) => readonly number[]
  readonly warnings: (nowMs: number) => readonly ScheduleWarning[]
}

type Timed = Pick<ScheduleSummaryRecord, 'id' | 'spec' | 'zone' | 'startAtMs' | 'endAtMs' | 'next'>

export function readingOf(schedule: Timed, zones: ZoneSource): Reading {
  const { spec, zone, next } = schedule
  const compiled = compileStored({ ...schedule, scheduleId: schedule.id }, zones)
  const nextMs = next?.scheduledForMs
  if (!compiled.ok) {
    const upcoming = () => (nextMs === undefined ? [] : [nextMs])
    return { words: `Cannot be read: ${compiled.error}`, notes: [], upcoming, warnings: () => [] }
  }
  const times = compiled.value
  const said = toScheduleSpec(spec, zone, schedule.id)
  return {
    words: describeCompiled(said, times),
    notes:
      times.timing.kind === 'plan'
        ? gapNotes(times, timesFrom(times, nextMs ?? null, lookedAt))
        : times.notes,
    upcoming: (count) => timesFrom(times, nextMs ?? null, count),
    // That nothing is left is told by the state.
    warnings: (nowMs) => warningsOf(said, times, nowMs).filter(({ code }) => code !== 'nothing_left'),
  }
}

/** Of the first planned time that stands for one which a gap swallowed. */
function gapNotes(compiled: CompiledSchedule, times: readonly number[]): readonly string[] {
  const { timing, zoneName } = compiled
  if (timing.kind !== 'plan') return []
  for (const atMs of times) {
    const lostMs = lostWallTimeOf(compiled, atMs)
    if (lostMs === null) continue
    const end = wallWords(atMs + timing.zone.offsetAt(atMs))
    const lost = `the wall time ${wallWords(lostMs)} does not exist in ${zoneName}`
    return [`${lost}: the first instant after the gap is used, ${end}`]
  }
  return []
}

const wallWords = (localMs: number): string => new Date(localMs).toISOString().slice(0, 16).replace('T', ' ')
