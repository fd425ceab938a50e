// How a stored schedule comes to its calendars: it names them, and whoever reads it gives it the means to
// compile each one, once for all schedules of a zone (engine/calendar-shelf.ts).

import type { Result } from '../zone/result.ts'
import type { ZoneLookup } from '../zone/zone-lookup.ts'
import type { ZoneRules } from '../zone/zone-rules.ts'
import type { CompiledCalendar } from './calendar-definition.ts'

/** A calendar as a schedule names it. */
export interface CalendarRef {
  readonly id: string
  readonly name: string
  readonly use: 'skip' | 'only'
  /** Tells its definition from another one. */
  readonly digest: string
}

/** The same with its definition at hand. */
export interface CalendarUse extends CalendarRef {
  /** As it is seen from a schedule of this zone, or in words why it is not to be had. */
  readonly compiled: (zone: ZoneRules, zones: ZoneLookup) => Result<CompiledCalendar, string>
}
