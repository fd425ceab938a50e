/**
 * The routes of calendars: a part of the table in routes.ts, which says what such a table is for. What they
 * take and answer is in calendars.ts.
 */
import { z } from 'zod'
import * as calendars from './calendars.ts'
import { dryRunQuery, idSchema } from './common.ts'
import type { Route } from './route.ts'

const id = z.strictObject({ id: idSchema })

export const calendarRoutes = {
  calendarCreate: {
    method: 'POST',
    path: '/v1/calendars',
    permission: 'calendar.write',
    tag: 'calendars',
    summary: 'Create a calendar',
    query: dryRunQuery,
    body: calendars.calendarCreateSchema,
    response: calendars.calendarSchema,
    status: 201,
    effect: 'create',
    errors: ['name_taken', 'invalid_calendar'],
  },
  calendarList: {
    method: 'GET',
    path: '/v1/calendars',
    permission: 'calendar.read',
    tag: 'calendars',
    summary: 'List calendars',
    query: calendars.calendarListQuery,
    response: calendars.calendarPageSchema,
    status: 200,
    effect: 'none',
    errors: ['invalid_cursor'],
  },
  calendarGet: {
    method: 'GET',
    path: '/v1/calendars/:id',
    permission: 'calendar.read',
    tag: 'calendars',
    summary: 'Get a calendar',
    params: id,
    response: calendars.calendarSchema,
    status: 200,
    effect: 'none',
    errors: ['not_found'],
  },
  calendarDays: {
    method: 'GET',
    path: '/v1/calendars/:id/days',
    permission: 'calendar.read',
    tag: 'calendars',
    summary: 'Which days and times a calendar covers, and why',
    params: id,
    query: calendars.calendarDaysQuery,
    response: calendars.calendarDaysSchema,
    status: 200,
    effect: 'none',
    errors: ['not_found', 'invalid_calendar'],
  },
  calendarUpdate: {
    method: 'PATCH',
    path: '/v1/calendars/:id',
    permission: 'calendar.write',
    tag: 'calendars',
    summary: 'Change a calendar; the schedules that use it follow',
    params: id,
    query: dryRunQuery,
    body: calendars.calendarUpdateSchema,
    response: calendars.calendarSchema,
    status: 200,
    effect: 'change',
    errors: ['not_found', 'invalid_calendar', 'precondition_failed'],
  },
  calendarDelete: {
    method: 'DELETE',
    path: '/v1/calendars/:id',
    permission: 'calendar.write',
    tag: 'calendars',
    summary: 'Delete a calendar that no schedule uses',
    params: id,
    query: dryRunQuery,
    status: 204,
    effect: 'change',
    errors: ['not_found', 'in_use', 'precondition_failed'],
  },
} as const satisfies Record<string, Route>
