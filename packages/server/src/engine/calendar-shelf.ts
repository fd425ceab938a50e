/**
 * Definitions of calendars, kept by their digest, and compiled once: however many schedules use one, it is
 * held once, for all zones together where it says the same on every wall clock, else once a zone. What was
 * changed has another digest and is read again, so nothing here is ever stale, and a change that was rolled
 * back leaves no trace. The least lately used go when they are too much together: definitions by the
 * calendar, what they are compiled to by calendar and zone.
 */
import type { CalendarParts, CompiledCalendar } from '../domain/calendar/calendar-definition.ts'
import { calendarIn, readParts } from '../domain/calendar/calendar-definition.ts'
import { readCalendar } from '../domain/calendar/calendar-input.ts'
import type { CalendarRef, CalendarUse } from '../domain/calendar/calendar-lookup.ts'
import { refuse, type Result, succeed } from '../domain/zone/result.ts'
import type { ZoneLookup } from '../domain/zone/zone-lookup.ts'
import type { ZoneRules } from '../domain/zone/zone-rules.ts'
import type { CalendarShelf, ReadCalendar } from '../ports/calendars.ts'

/** Characters of all definitions that are kept. */
const mostCharacters = 32 * 1024 * 1024
/** Of what they are compiled to, by its own estimate. */
const mostBytes = 64 * 1024 * 1024
/** What a calendar takes in one more zone, but for its windows, or to know why it cannot be read. */
const bytesOfZone = 1_000

type Read = Result<CalendarParts, string>
type Compiled = Result<CompiledCalendar, string>

interface Kept {
  readonly digest: string
  readonly characters: number
  readonly compiled: (name: string, zone: ZoneRules, zones: ZoneLookup) => Compiled
}

export interface MeasuredShelf extends CalendarShelf {
  /** Of what is compiled and kept. */
  readonly bytes: () => number
}

export function createCalendarShelf(): MeasuredShelf {
  const kept = lruOf<Kept>(mostCharacters)
  const compiled = lruOf<Read | Compiled>(mostBytes)
  const numbers = new WeakMap<object, number>()
  let counted = 0

  /** Tells entries, and zone data in case a process ever has newer data beside the old, from one another. */
  function numberOf(one: object): number {
    const number = numbers.get(one) ?? counted++
    numbers.set(one, number)
    return number
  }

  function entryOf({ digest, definition }: ReadCalendar): Kept {
    const characters = JSON.stringify(definition).length
    const ownZone = typeof definition['zone'] === 'string'
    const entry: Kept = {
      digest,
      characters,
      compiled(name, zone, zones) {
        const key = `${numberOf(entry)} ${numberOf(zones)}`
        const zoneKey = ownZone ? `${key} in` : `${key} in ${zone.name}`
        const known = compiled.get(zoneKey)
        if (known !== undefined) return known as Compiled
        const shared = compiled.get(key) as Read | undefined
        const parts = shared ?? partsOf(definition, name, zone, zones)
        const everyZone = shared !== undefined || (parts.ok && parts.value.everyZone)
        const result = parts.ok ? succeed(calendarIn(name, parts.value, zone)) : parts
        const bytes = parts.ok ? parts.value.bytes : 0
        const windows = parts.ok ? parts.value.windows.length : 0
        if (everyZone) compiled.keep(key, parts, bytes)
        compiled.keep(zoneKey, result, bytesOfZone + windows * 500 + (everyZone ? 0 : bytes))
        return result
      },
    }
    return entry
  }

  return {
    bytes: compiled.size,
    async take(refs, read) {
      const taken = new Map<string, Kept>()
      const missing = new Set<string>()
      for (const { id, digest } of refs) {
        const known = kept.get(id)
        if (known?.digest === digest) taken.set(id, known)
        else missing.add(id)
      }
      for (const calendar of missing.size === 0 ? [] : await read([...missing])) {
        const known = kept.get(calendar.id)
        taken.set(calendar.id, known?.digest === calendar.digest ? known : entryOf(calendar))
      }
      for (const [id, entry] of taken) kept.keep(id, entry, entry.characters)
      return (ref) => useOf(ref, taken.get(ref.id))
    },
  }
}

function useOf(ref: CalendarRef, entry: Kept | undefined): CalendarUse {
  const gone = `the calendar ${ref.name} is not there any more`
  return { ...ref, compiled: (zone, zones) => entry?.compiled(ref.name, zone, zones) ?? refuse(gone) }
}

function partsOf(stored: unknown, name: string, zone: ZoneRules, zones: ZoneLookup): Read {
  const definition = readCalendar(stored, name)
  const parts = definition.ok ? readParts(definition.value, zones, zone) : definition
  if (parts.ok) return parts
  const faults = parts.error.slice(0, 3).map(({ pointer, message }) => `${pointer}: ${message}`)
  return refuse(`the calendar ${name} cannot be read: ${faults.join('; ')}`)
}

interface Lru<Value> {
  readonly get: (key: string) => Value | undefined
  /** The newest is kept however large it is. */
  readonly keep: (key: string, value: Value, size: number) => void
  readonly size: () => number
}

function lruOf<Value>(mostSize: number): Lru<Value> {
  const entries = new Map<string, { readonly value: Value; readonly size: number }>()
  let total = 0
  const drop = (key: string): void => {
    total -= entries.get(key)?.size ?? 0
    entries.delete(key)
  }
  return {
    size: () => total,
    get(key) {
      const entry = entries.get(key)
      if (entry === undefined) return undefined
      entries.delete(key)
      entries.set(key, entry)
      return entry.value
    },
    keep(key, value, size) {
      drop(key)
      entries.set(key, { value, size })
      total += size
      for (const oldest of entries.keys()) {
        if (total <= mostSize || oldest === key) break
        drop(oldest)
      }
    },
  }
}
