/**
 * The planned times that a pause passed over, for the ledger: at a resume, at a deletion, and before an edit
 * of the timing, after which nobody could tell any more which they were. Pure.
 *
 * Invariant: bounded, however long the pause and however short the period. The newest get a row each, those
 * before them share one, as after an outage (domain/firing.ts). What a backfill has put on record meanwhile
 * stays as it is: the shared row stands at the first time without a row, and counts those without one.
 */
import { maxCounted, maxMissedRows } from '../../domain/firing.ts'
import type { CompiledSchedule } from '../../domain/schedule/schedule-spec.ts'
import { compileStored } from '../../domain/stored-schedule.ts'
import { columnOf } from '../../domain/stored-spec.ts'
import type { OnRecord, RecordedTime, ScheduleRecord, ScheduleStore } from '../../ports/schedule-store.ts'
import type { ZoneSource } from '../../ports/zones.ts'

export const nothingOnRecord: OnRecord = { timesMs: [], count: 0 }

/** What is on record of the span that a schedule, held by this transaction, is paused for. */
export async function recordedWhilePaused(
  schedules: Pick<ScheduleStore, 'onRecord'>,
  { id, state, pausedFromMs }: Pick<ScheduleRecord, 'id' | 'state' | 'pausedFromMs'>,
  nowMs: number,
): Promise<OnRecord> {
  if (state !== 'paused' || pausedFromMs === null || pausedFromMs >= nowMs) return nothingOnRecord
  return schedules.onRecord(id, { afterMs: pausedFromMs, untilMs: nowMs }, maxCounted)
}

/**
 * What was passed over until now by a paused schedule as it is, and from when on the rest is to be told. A
 * timing that cannot be read names no times.
 */
export function recordUntil(
  current: ScheduleRecord,
  zones: ZoneSource,
  nowMs: number,
  onRecord: OnRecord,
): { readonly records: readonly RecordedTime[]; readonly pausedFromMs: number } {
  const spec = columnOf(current.spec)
  const compiled = compileStored({ ...current, spec, scheduleId: current.id }, zones)
  const records = compiled.ok ? passedOver(current, compiled.value, nowMs, onRecord) : []
  return { records, pausedFromMs: nowMs }
}

/** In the order of their times. The oldest are told as one, also where a calendar left some of them out. */
export function passedOver(
  { pausedFromMs, pausedReason }: Pick<ScheduleRecord, 'pausedFromMs' | 'pausedReason'>,
  times: SpanTimes,
  untilMs: number,
  onRecord: OnRecord,
): readonly RecordedTime[] {
  const fromMs = pausedFromMs ?? untilMs
  const newest: number[] = []
  let timeMs = times.previous(untilMs + 1)
  while (timeMs !== null && timeMs > fromMs && newest.length < maxMissedRows) {
    newest.push(timeMs)
    timeMs = times.previous(timeMs)
  }
  const detail = pausedReason === null || pausedReason === '' ? null : pausedReason
  const recorded = new Set(onRecord.timesMs)
  const missing = newest.toReversed().filter((ms) => !recorded.has(ms))
  const rows = missing.map((scheduledForMs): RecordedTime => {
    const excluded = times.exclusionOf?.(scheduledForMs) ?? null
    return excluded === null
      ? { scheduledForMs, reason: 'paused', detail, missedCount: 1 }
      : { scheduledForMs, reason: 'calendar', detail: excluded.detail, missedCount: 1 }
  })
  const oldestMs = newest.at(-1)
  if (oldestMs === undefined) return rows
  const older = olderWithoutRow(times, fromMs, oldestMs, onRecord)
  return older === undefined ? rows : [{ ...older, reason: 'paused', detail }, ...rows]
}

type SpanTimes = Pick<CompiledSchedule, 'next' | 'previous' | 'missedBetween' | 'exclusionOf'>

/**
 * The first planned time in (fromMs, untilMs) that has no row, and how many have none; a lower bound where
 * there are more than `maxCounted` to count.
 */
function olderWithoutRow(
  times: SpanTimes,
  fromMs: number,
  untilMs: number,
  { timesMs, count }: OnRecord,
): Pick<RecordedTime, 'scheduledForMs' | 'missedCount'> | undefined {
  const before = timesMs.filter((ms) => ms < untilMs)
  const whole = timesMs.length === count
  const planned = times.missedBetween(fromMs, untilMs - 1, maxCounted).count
  const missedCount = planned - (whole ? before.length : count)
  if (whole && missedCount <= 0) return undefined
  const scheduledForMs = firstWithoutRow(times, fromMs, before)
  if (scheduledForMs === null || scheduledForMs >= untilMs) return undefined
  return { scheduledForMs, missedCount: Math.max(1, missedCount) }
}

/** By halving: up to the first gap there are as many rows as planned times. */
function firstWithoutRow(times: SpanTimes, fromMs: number, recorded: readonly number[]): number | null {
  let [low, high] = [0, recorded.length]
  while (low < high) {
    const middle = Math.floor((low + high) / 2)
    const toMs = recorded[middle] ?? fromMs
    if (times.missedBetween(fromMs, toMs, recorded.length + 1).count > middle + 1) high = middle
    else low = middle + 1
  }
  // a row that is no time of the plan, of a calendar that was changed since, may have led astray
  const taken = new Set(recorded)
  let timeMs = times.next(recorded[low - 1] ?? fromMs)
  while (timeMs !== null && taken.has(timeMs)) timeMs = times.next(timeMs)
  return timeMs
}
