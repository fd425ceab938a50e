/**
 * How the timing of a schedule was read, in words, where that may surprise: what the evaluator says of an
 * `at`, and the next planned time of a cron expression that daylight saving moves. Pure, and cheap enough for
 * lists: the second look, without the zone, is taken only where a clock goes forward.
 */
import type { CompiledSchedule } from '../../domain/schedule/schedule-spec.ts'
import { compileScheduleIn } from '../../domain/schedule/schedule-spec.ts'
import type { StoredSpec } from '../../domain/stored-spec.ts'
import { toScheduleSpec } from '../../domain/stored-spec.ts'
import type { ScheduleSummaryRecord } from '../../ports/catalog.ts'
import type { ZoneSource } from '../../ports/zones.ts'

/** How many planned times, from the next one on, are looked at. */
const lookedAt = 5

type Timed = Pick<ScheduleSummaryRecord, 'spec' | 'zone' | 'next' | 'endAtMs'>

export function notesOf({ spec, zone, next, endAtMs }: Timed, zones: ZoneSource): readonly string[] {
  if ('every' in spec) return []
  const compiled = compileScheduleIn(toScheduleSpec(spec, zone), zones)
  if (!compiled.ok) return []
  if ('at' in spec) return compiled.value.notes
  const note = gapNote(spec, zone, planned(compiled.value, next?.scheduledForMs, endAtMs), zones)
  return note === undefined ? [] : [note]
}

function planned(times: CompiledSchedule, nextMs: number | undefined, endAtMs: number | null): number[] {
  const found: number[] = []
  for (let atMs = nextMs ?? null; atMs !== null && found.length < lookedAt; atMs = times.next(atMs)) {
    if (endAtMs !== null && atMs >= endAtMs) break
    found.push(atMs)
  }
  return found
}

/** Of the first planned time that stands for one which a gap swallowed. */
function gapNote(
  spec: StoredSpec,
  zone: string,
  times: readonly number[],
  zones: ZoneSource,
): string | undefined {
  const rules = zones.get(zone)
  if (rules === undefined) return undefined
  for (const atMs of times) {
    const offsetMs = rules.offsetAt(atMs)
    const before = rules.offsetAt(atMs - 1)
    if (offsetMs <= before) continue
    // As wall times alone: is there one in the gap, and none at its end?
    const walls = compileScheduleIn(toScheduleSpec(spec, 'UTC'), zones)
    const lostMs = walls.ok ? walls.value.next(atMs + before - 1) : null
    const asked = walls.ok && walls.value.next(atMs + offsetMs - 1) === atMs + offsetMs
    if (asked || lostMs === null || lostMs >= atMs + offsetMs) continue
    const instead = `the first instant after the gap is used, ${wallWords(atMs + offsetMs)}`
    return `the wall time ${wallWords(lostMs)} does not exist in ${zone}: ${instead}`
  }
  return undefined
}

const wallWords = (localMs: number): string => new Date(localMs).toISOString().slice(0, 16).replace('T', ' ')
