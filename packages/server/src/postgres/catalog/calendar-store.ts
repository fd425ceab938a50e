/**
 * Calendars of one tenant. The digest that tells one definition from another is made of the text that is
 * sent, with its keys in order.
 */
import { createHash } from 'node:crypto'
import type {
  CalendarRecord,
  CalendarShelf,
  CalendarStore,
  ReadDefinitions,
  StoredDefinition,
} from '../../ports/calendars.ts'
import type { Transaction } from '../database.ts'
import type { CalendarRow } from '../statements/calendars.ts'
import * as statements from '../statements/calendars.ts'
import { lastId, msOf, only, refusingTaken } from './values.ts'

export function createCalendarStore(tx: Transaction, shelf: CalendarShelf): CalendarStore {
  const first = (rows: readonly CalendarRow[]): CalendarRecord | undefined => rows.map(calendarRecord)[0]
  return {
    async insert({ id, name, description, definition }) {
      const taken = `A calendar named "${name}" exists; choose another name or change that calendar.`
      const write = tx.query(statements.insertCalendar, [id, name, ...columnsOf(description, definition)])
      return calendarRecord(only(await refusingTaken('calendar_name', taken, write)))
    },
    find: async (id) => first(await tx.query(statements.findCalendar, [id])),
    lock: async (id) => first(await tx.query(statements.lockCalendar, [id])),
    async byNames(names, held) {
      const statement = held ? statements.holdCalendarsByName : statements.findCalendarsByName
      const found = await tx.query(statement, [names])
      const refs = found.map((row) => ({ ...row, use: 'skip' }) as const)
      const useOf = await shelf.take(refs, readDefinitions(tx.query))
      return refs.map(useOf)
    },
    names: async (limit) => (await tx.query(statements.listCalendarNames, [limit])).map((row) => row.name),
    async list({ beforeId, limit }, { name }) {
      const page = [beforeId ?? lastId, limit] as const
      const rows =
        name === undefined
          ? await tx.query(statements.listCalendars, page)
          : await tx.query(statements.listCalendarsNamed, [...page, name])
      return rows.map(calendarRecord)
    },
    async update(id, { description, definition }) {
      return calendarRecord(
        only(await tx.query(statements.updateCalendar, [id, ...columnsOf(description, definition)])),
      )
    },
    async touchUsers(id, limit) {
      await tx.query(statements.touchCalendarUsers, [id, limit])
    },
    async remove(id) {
      await tx.query(statements.removeCalendar, [id])
    },
    usersOf: async (id, names) => only(await tx.query(statements.calendarUsers, [id, names])),
  }
}

/** Definitions for the shelf, within the caller's rights. */
export const readDefinitions =
  (query: Pick<Transaction, 'query'>['query']): ReadDefinitions =>
  async (ids) =>
    (await query(statements.calendarDefinitions, [ids])).map(({ id, digest, definition }) => {
      return { id, digest, definition: definition as StoredDefinition }
    })

function columnsOf(description: string, definition: StoredDefinition) {
  const ordered = Object.fromEntries(Object.entries(definition).sort(([a], [b]) => (a < b ? -1 : 1)))
  const text = JSON.stringify(ordered)
  return [description, text, createHash('sha256').update(text).digest()] as const
}

function calendarRecord(row: CalendarRow): CalendarRecord {
  return {
    id: row.id,
    name: row.name,
    description: row.description,
    version: row.version,
    definition: row.definition as StoredDefinition,
    createdAtMs: msOf(row.created_at),
    updatedAtMs: msOf(row.updated_at),
  }
}
