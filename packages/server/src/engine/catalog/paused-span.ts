/**
 * The planned times that a pause passed over, for the ledger: at a resume, at a deletion, and before an edit
 * of the timing, after which nobody could tell any more which they were. Pure.
 *
 * Invariant: bounded, however long the pause and however short the period. The newest get a row each, those
 * before them share one, as after an outage (domain/firing.ts).
 */
import { maxCounted, maxMissedRows } from '../../domain/firing.ts'
import type { CompiledSchedule } from '../../domain/schedule/schedule-spec.ts'
import { compileStored } from '../../domain/stored-schedule.ts'
import { columnOf } from '../../domain/stored-spec.ts'
import type { RecordedTime, ScheduleRecord } from '../../ports/schedule-store.ts'
import type { ZoneSource } from '../../ports/zones.ts'

/**
 * What was passed over until now by a paused schedule as it is, and from when on the rest is to be told. A
 * timing that cannot be read names no times.
 */
export function recordUntil(
  current: ScheduleRecord,
  zones: ZoneSource,
  nowMs: number,
): { readonly records: readonly RecordedTime[]; readonly pausedFromMs: number } {
  const spec = columnOf(current.spec)
  const compiled = compileStored({ ...current, spec, scheduleId: current.id }, zones)
  const records = compiled.ok ? passedOver(current, compiled.value, nowMs) : []
  return { records, pausedFromMs: nowMs }
}

/** In the order of their times. The oldest are told as one, also where a calendar left some of them out. */
export function passedOver(
  { pausedFromMs, pausedReason }: Pick<ScheduleRecord, 'pausedFromMs' | 'pausedReason'>,
  times: Pick<CompiledSchedule, 'next' | 'previous' | 'missedBetween' | 'exclusionOf'>,
  untilMs: number,
): readonly RecordedTime[] {
  const fromMs = pausedFromMs ?? untilMs
  const newest: number[] = []
  let timeMs = times.previous(untilMs + 1)
  while (timeMs !== null && timeMs > fromMs && newest.length < maxMissedRows) {
    newest.push(timeMs)
    timeMs = times.previous(timeMs)
  }
  const detail = pausedReason === null || pausedReason === '' ? null : pausedReason
  const rows = newest.toReversed().map((scheduledForMs): RecordedTime => {
    const excluded = times.exclusionOf?.(scheduledForMs) ?? null
    return excluded === null
      ? { scheduledForMs, reason: 'paused', detail, missedCount: 1 }
      : { scheduledForMs, reason: 'calendar', detail: excluded.detail, missedCount: 1 }
  })
  const oldestMs = newest.at(-1)
  const firstMs = times.next(fromMs)
  if (oldestMs === undefined || firstMs === null || firstMs >= oldestMs) return rows
  const missedCount = times.missedBetween(fromMs, oldestMs - 1, maxCounted).count
  return [{ scheduledForMs: firstMs, reason: 'paused', detail, missedCount }, ...rows]
}
