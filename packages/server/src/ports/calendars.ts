/**
 * Calendars of a tenant, and how schedules come to them. A definition may be large and is shared by many
 * schedules: it is read once, kept by its digest, and compiled once for each zone (`CalendarShelf`).
 */
import type { CalendarRef, CalendarUse } from '../domain/calendar/calendar-lookup.ts'
import type { PageRequest } from './paging.ts'

/** What is stored of a calendar beside its name: a `CalendarDefinition`, as it was sent. */
export type StoredDefinition = Readonly<Record<string, unknown>>

export interface CalendarSummaryRecord {
  readonly id: string
  readonly name: string
  readonly description: string
  readonly version: number
  /** Without the text of an iCalendar file, which is `true` where there is one. */
  readonly definition: StoredDefinition
  readonly createdAtMs: number
  readonly updatedAtMs: number
}

/** With everything. */
export type CalendarRecord = CalendarSummaryRecord

export interface NewCalendar {
  readonly id: string
  readonly name: string
  readonly description: string
  readonly definition: StoredDefinition
}

export interface CalendarUsers {
  readonly count: number
  /** Names of some, by id. */
  readonly names: readonly string[]
}

export interface CalendarStore {
  /** Throws `name_taken`. */
  insert(calendar: NewCalendar): Promise<CalendarRecord>
  find(id: string): Promise<CalendarRecord | undefined>
  /** Locked until the end of the transaction, before any schedule. */
  lock(id: string): Promise<CalendarRecord | undefined>
  /**
   * Those of these names. Where they are held, against change and deletion until the end of the transaction,
   * that is to be asked before a schedule is locked: a change of a calendar locks it first, its schedules
   * afterwards.
   */
  byNames(names: readonly string[], held: boolean): Promise<readonly Omit<CalendarUse, 'use'>[]>
  /** Names of calendars, to say what was meant. */
  names(limit: number): Promise<readonly string[]>
  list(page: PageRequest, filter: { name: string | undefined }): Promise<readonly CalendarSummaryRecord[]>
  /** Counts `version`. */
  update(id: string, change: { description: string; definition: StoredDefinition }): Promise<CalendarRecord>
  /** Counts `version` of the schedules that use it, at most `limit` of them, by id. */
  touchUsers(id: string, limit: number): Promise<void>
  /** Soft. */
  remove(id: string): Promise<void>
  /** The schedules that use it. */
  usersOf(id: string, names: number): Promise<CalendarUsers>
}

/** The definition of a calendar, as it is now. */
export interface ReadCalendar {
  readonly id: string
  readonly digest: string
  readonly definition: StoredDefinition
}

/**
 * Schedules whose version is counted up together with a change of their calendar. Where there are more, those
 * follow with the replan that the change asks for (ports/replans.ts).
 */
export const mostTouched = 2_000

export type ReadDefinitions = (ids: readonly string[]) => Promise<readonly ReadCalendar[]>

export interface CalendarShelf {
  /**
   * The calendars that schedules name, ready to be compiled; `read` gets the definitions that are not at
   * hand. One that was changed since the schedule was read is taken as it is now. Asks nothing where there
   * are none.
   */
  take(refs: readonly CalendarRef[], read: ReadDefinitions): Promise<(ref: CalendarRef) => CalendarUse>
}
