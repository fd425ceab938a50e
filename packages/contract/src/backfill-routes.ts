/**
 * The routes of backfills: a part of the table in routes.ts. They begin at their schedule, and are reached by
 * an id of their own from then on.
 */
import { z } from 'zod'
import * as backfills from './backfills.ts'
import { dryRunQuery, idSchema } from './common.ts'
import type { Route } from './route.ts'

const id = z.strictObject({ id: idSchema })

export const backfillRoutes = {
  backfillCreate: {
    method: 'POST',
    path: '/v1/schedules/:id/backfills',
    permission: 'schedule.operate',
    tag: 'backfills',
    summary: 'Run planned times of a schedule that are over; a dry run is the preview',
    params: id,
    query: dryRunQuery,
    body: backfills.backfillCreateSchema,
    response: backfills.backfillSchema,
    status: 201,
    effect: 'create',
    errors: ['not_found', 'invalid_schedule', 'invalid_state'],
  },
  backfillList: {
    method: 'GET',
    path: '/v1/backfills',
    permission: 'schedule.read',
    tag: 'backfills',
    summary: 'List backfills, newest first',
    query: backfills.backfillListQuery,
    response: backfills.backfillPageSchema,
    status: 200,
    effect: 'none',
    errors: ['invalid_cursor'],
  },
  backfillGet: {
    method: 'GET',
    path: '/v1/backfills/:id',
    permission: 'schedule.read',
    tag: 'backfills',
    summary: 'How far a backfill has come',
    params: id,
    response: backfills.backfillSchema,
    status: 200,
    effect: 'none',
    errors: ['not_found'],
  },
  backfillPause: {
    method: 'POST',
    path: '/v1/backfills/:id/pause',
    permission: 'schedule.operate',
    tag: 'backfills',
    summary: 'Pause a backfill; its runs that wait or run go on',
    params: id,
    query: dryRunQuery,
    body: backfills.backfillPauseSchema,
    response: backfills.backfillSchema,
    status: 200,
    effect: 'change',
    errors: ['not_found', 'invalid_state', 'precondition_failed'],
  },
  backfillResume: {
    method: 'POST',
    path: '/v1/backfills/:id/resume',
    permission: 'schedule.operate',
    tag: 'backfills',
    summary: 'Resume a backfill where it stopped',
    params: id,
    query: dryRunQuery,
    body: backfills.backfillResumeSchema,
    response: backfills.backfillSchema,
    status: 200,
    effect: 'change',
    errors: ['not_found', 'invalid_state', 'precondition_failed'],
  },
  backfillCancel: {
    method: 'POST',
    path: '/v1/backfills/:id/cancel',
    permission: 'schedule.operate',
    tag: 'backfills',
    summary: 'End a backfill: no further planned times; by choice its runs too',
    params: id,
    query: dryRunQuery,
    body: backfills.backfillCancelSchema,
    response: backfills.backfillSchema,
    status: 200,
    effect: 'change',
    errors: ['not_found', 'invalid_state', 'precondition_failed'],
  },
} as const satisfies Record<string, Route>
