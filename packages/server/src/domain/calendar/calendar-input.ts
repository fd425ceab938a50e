// A calendar as it comes from outside (a file, a request) checked into a definition: unknown fields and wrong
// types are faults with a pointer. What the dates themselves say is checked when it is compiled.

import { nearest } from '@belfry/contract'
import { refuse, type Result, succeed } from '../zone/result.ts'
import { CRON_DIALECT_NAMES, findDialect } from '../schedule/cron-dialect.ts'
import { fault, type ScheduleFault } from '../schedule/schedule-fault.ts'
import type { CalendarDefinition, CalendarWindow } from './calendar-definition.ts'

type Fields = Readonly<Record<string, unknown>>
type Faults = ScheduleFault[]
type Reader = (value: unknown, pointer: string, faults: Faults) => unknown

const MAX_NAME_LENGTH = 128

const FIELDS: Readonly<Record<keyof CalendarDefinition, Reader>> = {
  name: readText,
  zone: readText,
  dates: readTexts,
  ranges: readRanges,
  yearly: readTexts,
  weekdays: readTexts,
  windows: readWindows,
  ics: readText,
}

/** `fallbackName` is used where the calendar does not name itself. */
export function readCalendar(
  value: unknown,
  fallbackName: string,
): Result<CalendarDefinition, readonly ScheduleFault[]> {
  const faults: Faults = []
  const fields = readFields(value, '', Object.keys(FIELDS), faults)
  if (fields === undefined) return refuse(faults)
  const read = Object.entries(FIELDS).flatMap(([name, reader]) => {
    const given = fields[name]
    return given === undefined || given === null ? [] : [[name, reader(given, `/${name}`, faults)]]
  })
  const definition = { name: fallbackName, ...Object.fromEntries(read) } as CalendarDefinition
  if (faults.length === 0 && (definition.name === '' || definition.name.length > MAX_NAME_LENGTH))
    faults.push(fault('/name', `a name has 1 to ${MAX_NAME_LENGTH} characters`))
  return faults.length > 0 ? refuse(faults) : succeed(definition)
}

function readFields(
  value: unknown,
  pointer: string,
  known: readonly string[],
  faults: Faults,
): Fields | undefined {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    faults.push(fault(pointer, `write an object with ${known.join(', ')}`))
    return undefined
  }
  for (const name of Object.keys(value)) {
    if (known.includes(name)) continue
    const near = nearest(name, known)
    const fix = near === undefined ? `the fields are ${known.join(', ')}` : `did you mean ${near}?`
    faults.push(fault(`${pointer}/${escaped(name)}`, `there is no such field here: ${fix}`))
  }
  return value as Fields
}

function readText(value: unknown, pointer: string, faults: Faults): string {
  if (typeof value === 'string') return value
  faults.push(fault(pointer, 'write a text; in YAML put quotes around dates'))
  return ''
}

function readList(value: unknown, pointer: string, faults: Faults): readonly unknown[] {
  if (Array.isArray(value)) return value as readonly unknown[]
  faults.push(fault(pointer, 'write a list'))
  return []
}

function readTexts(value: unknown, pointer: string, faults: Faults): readonly string[] {
  return readList(value, pointer, faults).map((item, i) => readText(item, `${pointer}/${i}`, faults))
}

function readRanges(value: unknown, pointer: string, faults: Faults): CalendarDefinition['ranges'] {
  return readList(value, pointer, faults).map((item, i) => {
    const at = `${pointer}/${i}`
    const fields = readFields(item, at, ['from', 'to'], faults) ?? {}
    return {
      from: readText(fields['from'], `${at}/from`, faults),
      to: readText(fields['to'], `${at}/to`, faults),
    }
  })
}

function readWindows(value: unknown, pointer: string, faults: Faults): readonly CalendarWindow[] {
  return readList(value, pointer, faults).map((item, i) => {
    const at = `${pointer}/${i}`
    const fields = readFields(item, at, ['cron', 'dialect', 'minutes'], faults) ?? {}
    const { cron, dialect = 'unix', minutes } = fields
    const known = typeof dialect === 'string' ? findDialect(dialect) : undefined
    if (known === undefined)
      faults.push(fault(`${at}/dialect`, `write one of ${CRON_DIALECT_NAMES.join(', ')}`))
    if (typeof minutes !== 'number') faults.push(fault(`${at}/minutes`, 'write a number of minutes'))
    return {
      cron: readText(cron, `${at}/cron`, faults),
      dialect: known ?? 'unix',
      minutes: typeof minutes === 'number' ? minutes : 0,
    }
  })
}

/** A name as a part of a JSON pointer. */
function escaped(name: string): string {
  return name.slice(0, 64).replaceAll('~', '~0').replaceAll('/', '~1')
}
