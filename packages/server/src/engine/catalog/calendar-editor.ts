/**
 * Decides what a request to make or change a calendar means: what is stored, and whether it is a calendar at
 * all. Pure.
 *
 * A change of the definition reaches the schedules that use the calendar in three steps:
 *
 *   1. in its own transaction the version of the first few thousand of them is counted up (`mostTouched`), so
 *      that a fire that was decided by the calendar as it was is refused and decided anew;
 *   2. in the same transaction a replan is asked for: it goes through all of them, moves next planned times
 *      that are others now, and counts up the versions of the rest;
 *   3. until it has come to one of the rest, a scheduler goes by the calendar as it was for no longer than it
 *      keeps a plan, which is a minute (engine/plan-cache.ts).
 */
import type { CalendarCreate, CalendarUpdate } from '@belfry/contract'
import { BelfryError } from '@belfry/contract'
import { compileCalendar, type CompiledCalendar } from '../../domain/calendar/calendar-definition.ts'
import { readCalendar } from '../../domain/calendar/calendar-input.ts'
import { DEFAULT_ZONE } from '../../domain/schedule/schedule-spec.ts'
import type { ScheduleFault } from '../../domain/schedule/schedule-fault.ts'
import { resolveZone } from '../../domain/zone/zone-lookup.ts'
import type { ZoneRules } from '../../domain/zone/zone-rules.ts'
import type { CalendarRecord, StoredDefinition } from '../../ports/calendars.ts'
import type { ZoneSource } from '../../ports/zones.ts'

const parts = ['zone', 'dates', 'ranges', 'yearly', 'weekdays', 'windows', 'ics'] as const

/** What a new calendar stores: the parts that are given. */
export function newDefinition(wanted: CalendarCreate): StoredDefinition {
  return definitionOf((part) => wanted[part])
}

/** Each part that is given replaces the one before; null takes it away. */
export function mergedDefinition(current: CalendarRecord, wanted: CalendarUpdate): StoredDefinition {
  return definitionOf((part) => (wanted[part] === undefined ? current.definition[part] : wanted[part]))
}

function definitionOf(valueOf: (part: (typeof parts)[number]) => unknown): StoredDefinition {
  const given = parts.map((part) => [part, valueOf(part)] as const)
  return Object.fromEntries(given.filter(([, value]) => value !== undefined && value !== null))
}

export function sameDefinition(one: StoredDefinition, other: StoredDefinition): boolean {
  const text = (definition: StoredDefinition): string => JSON.stringify(parts.map((part) => definition[part]))
  return text(one) === text(other)
}

export interface ReadCalendar {
  readonly compiled: CompiledCalendar
  readonly zone: ZoneRules
}

/**
 * Compiles it, in its own zone, else in the one given. Throws `invalid_calendar` with a pointer to each part
 * that is wrong.
 */
export function compiledCalendar(
  name: string,
  stored: StoredDefinition,
  zones: ZoneSource,
  zoneName = DEFAULT_ZONE,
): ReadCalendar {
  const definition = readCalendar(stored, name)
  if (!definition.ok) throw invalidCalendar(definition.error)
  const zone = resolveZone(zones, definition.value.zone ?? zoneName)
  if (!zone.ok) throw invalidCalendar([{ pointer: '/zone', message: zone.error }])
  const compiled = compileCalendar(definition.value, zones, zone.value)
  if (!compiled.ok) throw invalidCalendar(compiled.error)
  return { compiled: compiled.value, zone: zone.value }
}

const mostShown = 20

function invalidCalendar(faults: readonly ScheduleFault[]): BelfryError {
  const words = faults
    .slice(0, 3)
    .map(({ pointer, message }) => (pointer === '' ? message : `${pointer.slice(1)}: ${message}`))
  const more = faults.length > words.length ? `; and ${faults.length - words.length} more` : ''
  return new BelfryError('invalid_calendar', `The calendar is not valid. ${words.join('; ')}${more}.`, {
    errors: faults.slice(0, mostShown),
  })
}
