/**
 * Why a planned time ran or did not, decided from facts alone (facts.ts): the first of these that holds.
 *
 *   1. what is on record at this very time;
 *   2. it lies outside the bounds of the schedule, or before it was made, where it may be no planned time;
 *   3. it is still to come: whether it will run, by how the schedule stands now;
 *   4. history of it is gone, or the timing was another one then: nobody can tell;
 *   5. it is no planned time;
 *   6. the schedule was deleted or is paused; it is due and has not fired; one row stands for many;
 *   7. no record although it is planned: by other zone data or calendars it was not.
 *
 * The sentences stand in verdict-words.ts.
 */
import type { ExplainVerdict } from '@belfry/contract'
import type { ExplainMoment, KnownTimes, RecordFacts, ScheduleFacts } from './facts.ts'
import * as words from './verdict-words.ts'

export interface Explained {
  readonly scheduledForMs: number
  readonly verdict: ExplainVerdict
  /** A sentence or two. */
  readonly message: string
  /** What to change, or what to do about it; null where there is nothing. */
  readonly fix: string | null
  /** The row that tells it, also where it stands for more than this time. */
  readonly record: RecordFacts | null
}

/** What was read around the time. */
export interface Known {
  readonly schedule: ScheduleFacts
  readonly times: KnownTimes
  readonly moment: ExplainMoment
  /** Rows that stand for many times, in order of their times. */
  readonly sums: readonly RecordFacts[]
}

type Told = Omit<Explained, 'scheduledForMs' | 'record'>

export function explainTime(known: Known, timeMs: number, record: RecordFacts | undefined): Explained {
  const at = { scheduledForMs: timeMs }
  if (record !== undefined) return { ...at, ...ofRecord(known, record), record }
  const sum = known.sums.findLast((each) => each.scheduledForMs < timeMs && each.firedAtMs >= timeMs)
  const told = outside(known, timeMs) ?? toCome(known, timeMs) ?? unknowable(known, timeMs)
  if (told !== undefined) return { ...at, ...told, record: null }
  if (!isPlanned(known, timeMs)) return { ...at, ...words.notPlanned(known, timeMs), record: null }
  const standing = ofStanding(known, timeMs)
  if (standing !== undefined) return { ...at, ...standing, record: null }
  if (sum !== undefined) return { ...at, verdict: 'summed', ...words.summed(known, sum), record: sum }
  return { ...at, verdict: 'no_record', ...words.noRecord(known), record: null }
}

/**
 * Without times that can be read, whatever is asked for is taken to be meant. The timer may have a time of
 * its own: a single one that was over and runs at once.
 */
function isPlanned({ times, schedule }: Known, timeMs: number): boolean {
  return times === null || times.next(timeMs - 1) === timeMs || schedule.next?.scheduledForMs === timeMs
}

function ofRecord(known: Known, record: RecordFacts): Told {
  const { schedule, moment } = known
  const verdict = record.outcome
  if (verdict === 'ran') return { verdict, ...words.ran(record, moment) }
  return { verdict, ...words.leftOut(record, schedule, moment, isPlanned(known, record.scheduledForMs)) }
}

function outside(known: Known, timeMs: number): Told | undefined {
  const { schedule, moment } = known
  const { createdAtMs, startAtMs, endAtMs } = schedule
  if (startAtMs !== null && timeMs < startAtMs)
    return { verdict: 'before_start', ...words.beforeStart(startAtMs, moment) }
  if (endAtMs !== null && timeMs >= endAtMs)
    return { verdict: 'after_end', ...words.afterEnd(endAtMs, moment) }
  if (timeMs <= createdAtMs && !isPlanned(known, timeMs)) return words.notPlanned(known, timeMs)
  if (timeMs <= createdAtMs)
    return { verdict: 'before_creation', ...words.beforeCreation(createdAtMs, moment) }
  return undefined
}

function toCome(known: Known, timeMs: number): Told | undefined {
  const { schedule, times, moment } = known
  if (timeMs <= moment.nowMs) return undefined
  if (!isPlanned(known, timeMs)) return words.notPlanned(known, timeMs)
  return { verdict: 'not_yet', ...words.notYet(schedule, times, moment, timeMs) }
}

function unknowable({ schedule, moment, times }: Known, timeMs: number): Told | undefined {
  if (timeMs < moment.keptFromMs) return { verdict: 'pruned', ...words.pruned(moment) }
  // what came due at the very moment of the edit was fired before it
  if (timeMs > schedule.timingSinceMs) return undefined
  if (schedule.state === 'deleted' || times === null) return undefined
  return { verdict: 'older_timing', ...words.olderTiming(schedule.timingSinceMs, moment) }
}

function ofStanding({ schedule, times, moment }: Known, timeMs: number): Told | undefined {
  const { state, deletedAtMs, pausedFromMs, next } = schedule
  if (state === 'deleted') {
    const gone = deletedAtMs !== null && timeMs > deletedAtMs
    return { verdict: gone ? 'deleted' : 'no_record', ...words.deleted(schedule, gone, moment) }
  }
  if (times === null) return { verdict: 'no_record', ...words.unreadable() }
  if (state === 'paused' && pausedFromMs !== null && timeMs > pausedFromMs)
    return { verdict: 'paused', ...words.paused(schedule, moment) }
  if (next !== null && timeMs >= next.scheduledForMs) {
    const waits = timeMs === next.scheduledForMs && next.dueAtMs > moment.nowMs
    if (waits) return { verdict: 'waiting', ...words.waiting(next.dueAtMs, timeMs, moment) }
    return { verdict: 'due', ...words.due(timeMs, moment) }
  }
  if (state === 'completed') return completedBefore(schedule, moment)
  return undefined
}

function completedBefore(schedule: ScheduleFacts, moment: ExplainMoment): Told {
  return { verdict: 'completed', ...words.completed(schedule, moment) }
}
