/**
 * From a schedule as the database keeps it to one that answers "when next?". The stored form was checked when
 * it was written, but data and zone tables outlive versions, so a fault is an expected outcome here and comes
 * back as words.
 */
import { compileScheduleIn, type CompiledSchedule } from './schedule/schedule-spec.ts'
import { readStoredSpec, toScheduleSpec } from './stored-spec.ts'
import { refuse, type Result } from './zone/result.ts'
import type { ZoneLookup } from './zone/zone-lookup.ts'

export interface StoredSchedule {
  /** What H of a Jenkins expression draws from. */
  readonly scheduleId: string
  /** A StoredSpec, unless the data is damaged or newer than this version. */
  readonly spec: unknown
  readonly zone: string
  readonly startAtMs: number | null
  readonly endAtMs: number | null
}

export function compileStored(stored: StoredSchedule, zones: ZoneLookup): Result<CompiledSchedule, string> {
  const spec = readStoredSpec(stored.spec)
  if (spec === undefined)
    return refuse(`the stored timing ${JSON.stringify(stored.spec)} is none that is known`)
  const compiled = compileScheduleIn(toScheduleSpec(spec, stored.zone, stored.scheduleId), zones, {
    ...(stored.startAtMs === null ? {} : { startAtMs: stored.startAtMs }),
    ...(stored.endAtMs === null ? {} : { endAtMs: stored.endAtMs }),
  })
  return compiled.ok
    ? compiled
    : refuse(compiled.error.map((fault) => `${fault.pointer}: ${fault.message}`).join('; '))
}
