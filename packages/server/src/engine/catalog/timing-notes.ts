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
import { columnOf, isReadable, toScheduleSpec } from '../../domain/stored-spec.ts'
import type { ScheduleSummaryRecord } from '../../ports/schedule-store.ts'
import type { ZoneSource } from '../../ports/zones.ts'
import { type NextRunning, runningNext, type RunningTimes } from './schedule-preview.ts'

/** How many planned times that run, from the next one on, are looked at. */
const lookedAt = 5
/** Of those that calendars leave out, in a row: a list shows many schedules. */
const mostLooks = 400

export interface Reading {
  readonly words: string
  readonly notes: readonly string[]
  /**
   * The next planned time that runs: no calendar leaves it out, and it is not slept through. Null where there
   * is none, or none near enough.
   */
  readonly nextMs: number | null
  /** That time and what follows it, at most `count`, which is no more than are looked at. */
  readonly upcoming: (count: number) => readonly number[]
  readonly warnings: (nowMs: number) => readonly ScheduleWarning[]
}

type Timed = Pick<
  ScheduleSummaryRecord,
  'id' | 'spec' | 'zone' | 'startAtMs' | 'endAtMs' | 'calendars' | 'onExcluded' | 'next' | 'sleep'
>

/** `mostTimes` is how many of those that run are looked for under calendars; fewer in a list. */
export function readingOf(schedule: Timed, zones: ZoneSource, mostTimes = lookedAt): Reading {
  const { spec, zone, next, sleep } = schedule
  const stored = { ...schedule, spec: columnOf(spec), scheduleId: schedule.id }
  const compiled = compileStored(stored, zones)
  const nextMs = next?.scheduledForMs ?? null
  if (!compiled.ok || !isReadable(spec)) {
    const why = compiled.ok ? 'its timing is none that is known' : compiled.error
    const upcoming = () => (nextMs === null ? [] : [nextMs])
    return { words: `Cannot be read: ${why}`, notes: [], nextMs, upcoming, warnings: () => [] }
  }
  const times = compiled.value
  const said = toScheduleSpec(spec, zone, schedule.id)
  const wanted = times.search === undefined ? lookedAt : mostTimes
  const running = runningNext(times, nextMs, sleep?.untilMs ?? null, wanted, mostLooks)
  return {
    words: describeCompiled(said, times),
    notes: [
      ...(times.timing.kind === 'plan' ? gapNotes(times, running.times) : times.notes),
      ...sleepNotes(times, running, sleep),
      ...exclusionNotes(times, running),
    ],
    nextMs: running.times[0] ?? null,
    upcoming: (count) => running.times.slice(0, count),
    // That nothing is left is told by the state.
    warnings: (nowMs) => warningsOf(said, times, nowMs).filter(({ code }) => code !== 'nothing_left'),
  }
}

/** Of the next planned time, where it is slept through: a calendar that leaves it out counts first. */
function sleepNotes(
  compiled: CompiledSchedule,
  { sleptMs, times, lookedToMs }: NextRunning,
  sleep: Timed['sleep'],
): readonly string[] {
  if (sleptMs === null || sleep === null) return []
  const asleep = `the schedule is asleep until ${new Date(sleep.untilMs).toISOString()}`
  const why = sleep.reason === '' ? asleep : `${asleep}: ${sleep.reason}`
  const left = compiled.exclusionOf?.(sleptMs)?.detail ?? why
  const none = times.length === 0 && lookedToMs === null ? ['nothing that runs is planned after that'] : []
  return [`${new Date(sleptMs).toISOString()} does not run: ${left}`, ...none]
}

/** Of the next planned time, where a calendar leaves it out; and where none that does was found. */
function exclusionNotes(
  compiled: CompiledSchedule,
  { times, excluded, lookedToMs }: RunningTimes,
): readonly string[] {
  const [first] = excluded
  const [runs] = times
  if (first === undefined || (runs !== undefined && runs < first.timeMs)) return []
  const why = compiled.exclusionOf?.(first.timeMs)?.detail ?? first.reason
  const left = `${new Date(first.timeMs).toISOString()} does not run: ${why}`
  if (runs !== undefined) return [left]
  const all =
    lookedToMs === null
      ? 'every planned time'
      : `every planned time up to ${new Date(lookedToMs).toISOString()}`
  return [left, `the calendars leave out ${all}`]
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
