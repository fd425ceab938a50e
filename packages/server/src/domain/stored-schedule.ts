/**
 * From a schedule as the database keeps it to one that answers "when next?". The stored form was checked when
 * it was written, but data and zone tables outlive versions, so a fault is an expected outcome here and comes
 * back as words.
 */
import type { CompiledCalendar } from './calendar/calendar-definition.ts'
import type { CalendarUse } from './calendar/calendar-lookup.ts'
import { withCalendars } from './calendar/calendar-schedule.ts'
import type { ExclusionRules, OnExcluded } from './calendar/occurrence-exclusion.ts'
import { compileScheduleIn, type CompiledSchedule } from './schedule/schedule-spec.ts'
import type { ScheduleFault } from './schedule/schedule-fault.ts'
import { readStoredSpec, toScheduleSpec } from './stored-spec.ts'
import { refuse, type Result, succeed } from './zone/result.ts'
import type { ZoneLookup } from './zone/zone-lookup.ts'
import type { ZoneRules } from './zone/zone-rules.ts'

export interface StoredSchedule {
  /** What H of a Jenkins expression draws from. */
  readonly scheduleId: string
  /** A StoredSpec, unless the data is damaged or newer than this version. */
  readonly spec: unknown
  readonly zone: string
  readonly startAtMs: number | null
  readonly endAtMs: number | null
  /** In the order in which they are asked; left out: none. */
  readonly calendars?: readonly CalendarUse[]
  readonly onExcluded?: OnExcluded
}

export function compileStored(stored: StoredSchedule, zones: ZoneLookup): Result<CompiledSchedule, string> {
  const spec = readStoredSpec(stored.spec)
  if (spec === undefined)
    return refuse(`the stored timing ${JSON.stringify(stored.spec)} is none that is known`)
  const compiled = compileScheduleIn(toScheduleSpec(spec, stored.zone, stored.scheduleId), zones, {
    ...(stored.startAtMs === null ? {} : { startAtMs: stored.startAtMs }),
    ...(stored.endAtMs === null ? {} : { endAtMs: stored.endAtMs }),
  })
  if (!compiled.ok) return refuse(wordsOf(compiled.error))
  const uses = stored.calendars ?? []
  const zone = uses.length === 0 ? undefined : zones.get(compiled.value.zoneName)
  if (zone === undefined) return compiled
  const rules = rulesOf(uses, stored.onExcluded ?? 'skip', zone, zones)
  if (!rules.ok) return rules
  const under = withCalendars(compiled.value, zone, rules.value)
  return under.ok ? under : refuse(wordsOf(under.error))
}

/** The calendars of a schedule, compiled for its zone. */
export function rulesOf(
  uses: readonly CalendarUse[],
  onExcluded: OnExcluded,
  zone: ZoneRules,
  zones: ZoneLookup,
): Result<ExclusionRules, string> {
  const skipOn: CompiledCalendar[] = []
  const onlyOn: CompiledCalendar[] = []
  for (const use of uses) {
    const compiled = use.compiled(zone, zones)
    if (!compiled.ok) return compiled
    if (use.use === 'skip') skipOn.push(compiled.value)
    else onlyOn.push(compiled.value)
  }
  return succeed({ skipOn, onlyOn, onExcluded })
}

const wordsOf = (faults: readonly ScheduleFault[]): string =>
  faults.map((fault) => `${fault.pointer}: ${fault.message}`).join('; ')
