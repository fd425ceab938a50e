/**
 * Definitions of calendars, kept by their digest, and compiled once for each zone: however many schedules use
 * one, it is held once. What was changed has another digest and is read again, so nothing here is ever stale,
 * and a change that was rolled back leaves no trace. The least lately used go when they are too much
 * together.
 */
import type { CompiledCalendar } from '../domain/calendar/calendar-definition.ts'
import { compileCalendar } from '../domain/calendar/calendar-definition.ts'
import { readCalendar } from '../domain/calendar/calendar-input.ts'
import type { CalendarRef, CalendarUse } from '../domain/calendar/calendar-lookup.ts'
import { refuse, type Result } from '../domain/zone/result.ts'
import type { ZoneLookup } from '../domain/zone/zone-lookup.ts'
import type { ZoneRules } from '../domain/zone/zone-rules.ts'
import type { CalendarShelf, ReadCalendar } from '../ports/calendars.ts'

/**
 * Characters of all definitions that are kept; what a definition is compiled to takes about as much again.
 */
const mostCharacters = 64 * 1024 * 1024
/** Zones that one calendar is compiled for and kept. */
const mostZones = 64

type Compiled = Result<CompiledCalendar, string>

interface Kept {
  readonly digest: string
  readonly characters: number
  readonly compiled: (name: string, zone: ZoneRules, zones: ZoneLookup) => Compiled
}

export function createCalendarShelf(): CalendarShelf {
  const kept = new Map<string, Kept>()
  let characters = 0

  function keep(id: string, entry: Kept): void {
    characters += entry.characters - (kept.get(id)?.characters ?? 0)
    kept.delete(id)
    kept.set(id, entry)
    for (const [oldest, { characters: size }] of kept) {
      if (characters <= mostCharacters || oldest === id) break
      kept.delete(oldest)
      characters -= size
    }
  }

  return {
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
      for (const [id, entry] of taken) keep(id, entry)
      return (ref) => useOf(ref, taken.get(ref.id))
    },
  }
}

function useOf(ref: CalendarRef, entry: Kept | undefined): CalendarUse {
  const gone = `the calendar ${ref.name} is not there any more`
  return { ...ref, compiled: (zone, zones) => entry?.compiled(ref.name, zone, zones) ?? refuse(gone) }
}

function entryOf({ digest, definition }: ReadCalendar): Kept {
  // By zone data, in case a process ever has newer data beside the old.
  const compiled = new WeakMap<ZoneLookup, Map<string, Compiled>>()
  const ownZone = typeof definition['zone'] === 'string'
  return {
    digest,
    characters: JSON.stringify(definition).length,
    compiled(name, zone, zones) {
      const byZone = compiled.get(zones) ?? new Map<string, Compiled>()
      const key = ownZone ? '' : zone.name
      const known = byZone.get(key)
      if (known !== undefined) return known
      const result = compile(definition, name, zone, zones)
      if (byZone.size >= mostZones) byZone.clear()
      byZone.set(key, result)
      compiled.set(zones, byZone)
      return result
    },
  }
}

function compile(stored: unknown, name: string, zone: ZoneRules, zones: ZoneLookup): Compiled {
  const definition = readCalendar(stored, name)
  const compiled = definition.ok ? compileCalendar(definition.value, zones, zone) : definition
  if (compiled.ok) return compiled
  const faults = compiled.error.slice(0, 3).map(({ pointer, message }) => `${pointer}: ${message}`)
  return refuse(`the calendar ${name} cannot be read: ${faults.join('; ')}`)
}
