/**
 * Endpoints of calendars: what schedules leave out or keep to. How a change reaches the schedules that use
 * one is told in engine/catalog/calendar-editor.ts.
 */
import { BelfryError } from '@belfry/contract'
import { coveredSpans } from '../../domain/calendar/covered-spans.ts'
import { DAY_MS } from '../../domain/zone/civil-date.ts'
import type { ZoneRules } from '../../domain/zone/zone-rules.ts'
import { resolveZone } from '../../domain/zone/zone-lookup.ts'
import {
  compiledCalendar,
  mergedDefinition,
  newDefinition,
  sameDefinition,
} from '../../engine/catalog/calendar-editor.ts'
import { type CalendarRecord, mostTouched } from '../../ports/calendars.ts'
import type { CatalogTx } from '../../ports/catalog.ts'
import { calendarDaysView, calendarSummaryView, calendarView } from '../calendar-views.ts'
import type { Endpoints, Tools } from '../endpoint.ts'
import { checkIfMatch } from '../etag.ts'
import { noSuch } from '../missing.ts'
import { pageById } from '../page.ts'
import { invalidRequest } from '../validation.ts'

type CalendarEndpoints = Pick<
  Endpoints,
  'calendarCreate' | 'calendarList' | 'calendarGet' | 'calendarDays' | 'calendarUpdate' | 'calendarDelete'
>

/** Schedules that are named with a calendar. */
const mostNamed = 10
const mostSpans = 1_000
const usualDays = 366

export const calendarEndpoints: CalendarEndpoints = {
  calendarCreate: {
    as: 'tenant',
    async answer({ tx, tools, body }) {
      const definition = newDefinition(body)
      compiledCalendar(body.name, definition, tools.zones)
      const id = tools.ids.uuidv7(await tx.nowMs())
      const { name, description } = body
      const calendar = await tx.calendars.insert({ id, name, description, definition })
      return { ...(await answerOf(tx, tools, calendar)), location: `/v1/calendars/${id}` }
    },
  },
  calendarList: {
    as: 'tenant',
    async answer({ tx, query, credential }) {
      const filter = { name: query.name }
      const scope = { list: 'calendars', tenantId: credential.tenantId, filter }
      const read = (page: Parameters<typeof tx.calendars.list>[0]) => tx.calendars.list(page, filter)
      return { body: await pageById(scope, query, read, calendarSummaryView) }
    },
  },
  calendarGet: {
    as: 'tenant',
    answer: async ({ tx, tools, params }) => answerOf(tx, tools, await found(tx, params.id)),
  },
  calendarDays: {
    as: 'tenant',
    async answer({ tx, tools, params, query }) {
      const { name, definition } = await found(tx, params.id)
      if (query.zone !== undefined) {
        const named = resolveZone(tools.zones, query.zone)
        if (!named.ok) throw invalidRequest([{ pointer: '/query/zone', message: named.error }])
      }
      const { compiled, zone } = compiledCalendar(name, definition, tools.zones, query.zone)
      const nowMs = await tx.nowMs()
      const today = Math.floor((nowMs + zone.offsetAt(nowMs)) / DAY_MS)
      const fromMs = query.from === undefined ? startOf(today, zone) : instantOf(query.from, zone)
      const toMs = query.to === undefined ? fromMs + usualDays * DAY_MS : instantOf(query.to, zone)
      if (toMs <= fromMs) throw invalidRequest([{ pointer: '/query/to', message: 'must be after "from"' }])
      const spans = coveredSpans(compiled, zone, fromMs, toMs, mostSpans)
      return { body: calendarDaysView(zone.name, { fromMs, toMs }, spans) }
    },
  },
  calendarUpdate: {
    as: 'tenant',
    async answer({ tx, tools, params, body, ifMatch, after }) {
      const current = await held(tx, params.id, ifMatch)
      const definition = mergedDefinition(current, body)
      const description = body.description ?? current.description
      const same = sameDefinition(current.definition, definition)
      if (same && description === current.description) return answerOf(tx, tools, current)
      if (!same) compiledCalendar(current.name, definition, tools.zones)
      const calendar = await tx.calendars.update(current.id, { description, definition })
      const { count: total } = await tx.calendars.usersOf(current.id, 0)
      if (!same && total > 0) {
        await tx.calendars.touchUsers(current.id, mostTouched)
        const id = tools.ids.uuidv7(await tx.nowMs())
        const [fromVersion, toVersion] = [current.version, calendar.version]
        await tx.replans.requestForCalendar({ id, calendarId: current.id, fromVersion, toVersion, total })
        after({ kind: 'hint', hint: { topic: 'replans', key: 'asked' } })
      }
      return answerOf(tx, tools, calendar)
    },
  },
  calendarDelete: {
    as: 'tenant',
    async answer({ tx, params, ifMatch }) {
      const calendar = await held(tx, params.id, ifMatch)
      const { count, names } = await tx.calendars.usersOf(calendar.id, mostNamed)
      if (count > 0) {
        const listed = names.map((name) => `"${name}"`).join(', ')
        const more = count > names.length ? ` and ${count - names.length} more` : ''
        const use = count === 1 ? 'The schedule' : 'The schedules'
        const does = count === 1 ? 'uses' : 'use'
        const message =
          `${use} ${listed}${more} ${does} the calendar "${calendar.name}"; ` +
          `take it out of ${count === 1 ? 'its' : 'their'} "skipOn" and "onlyOn" first.`
        throw new BelfryError('in_use', message)
      }
      await tx.calendars.remove(calendar.id)
      return { body: undefined, audited: { subjectName: calendar.name } }
    },
  },
}

async function found(tx: CatalogTx, id: string): Promise<CalendarRecord> {
  const calendar = await tx.calendars.find(id)
  if (calendar === undefined) throw noSuch('calendar', id)
  return calendar
}

async function held(tx: CatalogTx, id: string, ifMatch: string | undefined): Promise<CalendarRecord> {
  const calendar = await tx.calendars.lock(id)
  if (calendar === undefined) throw noSuch('calendar', id)
  checkIfMatch(ifMatch, calendar.version)
  return calendar
}

async function answerOf(tx: CatalogTx, tools: Tools, calendar: CalendarRecord) {
  const users = await tx.calendars.usersOf(calendar.id, mostNamed)
  const replan = await tx.replans.lastOfCalendar(calendar.id)
  const body = calendarView(calendar, readable(calendar, tools), users, replan)
  return { body, version: calendar.version }
}

/** Zone data and versions come and go: what cannot be read any more can still be looked at. */
function readable({ name, definition }: CalendarRecord, { zones }: Tools) {
  try {
    return compiledCalendar(name, definition, zones).compiled
  } catch (error) {
    if (error instanceof BelfryError) return undefined
    throw error
  }
}

function startOf(dayNo: number, zone: ZoneRules): number {
  return zone.resolveLocal(dayNo * DAY_MS).instantMs
}

/** A date of the zone, or an instant. */
function instantOf(text: string, zone: ZoneRules): number {
  return text.length > 10 ? Date.parse(text) : startOf(Date.parse(text) / DAY_MS, zone)
}
