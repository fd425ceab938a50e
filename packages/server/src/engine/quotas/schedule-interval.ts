/**
 * The least time between planned times of a schedule, looked for among the next ones: bursts (two minutes of
 * each day, a second of each minute) stand together, so they are met. Calendars only take times out.
 */
import { compileStored } from '../../domain/stored-schedule.ts'
import { columnOf } from '../../domain/stored-spec.ts'
import type { ScheduleSettings } from '../../ports/schedule-store.ts'
import type { StoredSpec, UnreadableSpec } from '../../domain/stored-spec.ts'
import type { ZoneSource } from '../../ports/zones.ts'

/** Of one that fires each second, so many seconds. */
const lookedAt = 200

/** Null: it has no two planned times, or cannot be read. */
export function leastIntervalMs(
  scheduleId: string,
  settings: ScheduleSettings<StoredSpec | UnreadableSpec>,
  zones: ZoneSource,
  nowMs: number,
): number | null {
  const { zone, startAtMs, endAtMs } = settings
  const stored = { scheduleId, spec: columnOf(settings.spec), zone, startAtMs, endAtMs }
  const compiled = compileStored(stored, zones)
  if (!compiled.ok) return null
  let least: number | null = null
  let before = compiled.value.next(nowMs)
  for (let looked = 1; before !== null && looked < lookedAt; looked++) {
    const next = compiled.value.next(before)
    if (next === null) break
    least = Math.min(least ?? Infinity, next - before)
    before = next
  }
  return least
}
