/**
 * The table of API routes: method, path, the scope a key needs, what comes in, what goes out, which errors it
 * documents. The server registers exactly these, the OpenAPI document is made of them, the client and the
 * tests walk them. A route without a scope does not exist: deny is the default.
 */
import { z } from 'zod'
import * as access from './access.ts'
import { dryRunQuery, idSchema } from './common.ts'
import type { ErrorCode } from './errors.ts'
import * as jobs from './jobs.ts'
import * as runs from './runs.ts'
import * as schedules from './schedules.ts'

export type Route = {
  readonly method: 'GET' | 'POST' | 'PATCH' | 'DELETE'
  readonly path: string
  readonly scope: access.Scope | 'any_key'
  readonly tag: string
  readonly summary: string
  readonly params?: z.ZodObject
  readonly query?: z.ZodObject
  readonly body?: z.ZodType
  /** No schema: 204 without a body. */
  readonly response?: z.ZodType
  readonly status: 200 | 201 | 202 | 204
  /** `create`: honours Idempotency-Key. `change`: honours If-Match where the answer carries an ETag. */
  readonly effect: 'none' | 'create' | 'change'
  readonly errors: readonly ErrorCode[]
}

const id = z.strictObject({ id: idSchema })

export const routes = {
  whoami: {
    method: 'GET',
    path: '/v1/whoami',
    scope: 'any_key',
    tag: 'access',
    summary: 'The tenant and scopes of the key',
    response: access.whoamiSchema,
    status: 200,
    effect: 'none',
    errors: [],
  },
  tenantCreate: {
    method: 'POST',
    path: '/v1/tenants',
    scope: 'platform',
    tag: 'access',
    summary: 'Make a tenant',
    query: dryRunQuery,
    body: access.tenantCreateSchema,
    response: access.tenantSchema,
    status: 201,
    effect: 'create',
    errors: ['name_taken'],
  },
  tenantList: {
    method: 'GET',
    path: '/v1/tenants',
    scope: 'platform',
    tag: 'access',
    summary: 'List tenants',
    query: access.tenantListQuery,
    response: access.tenantPageSchema,
    status: 200,
    effect: 'none',
    errors: ['invalid_cursor'],
  },
  keyCreate: {
    method: 'POST',
    path: '/v1/keys',
    scope: 'any_key',
    tag: 'access',
    summary: 'Make an API key; its secret is shown once',
    query: dryRunQuery,
    body: access.keyCreateSchema,
    response: access.keyCreatedSchema,
    status: 201,
    effect: 'create',
    errors: ['name_taken', 'not_found'],
  },
  keyList: {
    method: 'GET',
    path: '/v1/keys',
    scope: 'admin',
    tag: 'access',
    summary: 'List API keys',
    query: access.keyListQuery,
    response: access.keyPageSchema,
    status: 200,
    effect: 'none',
    errors: ['invalid_cursor'],
  },
  keyRevoke: {
    method: 'POST',
    path: '/v1/keys/:id/revoke',
    scope: 'admin',
    tag: 'access',
    summary: 'Revoke an API key',
    params: id,
    query: dryRunQuery,
    body: access.revokeSchema,
    response: access.keySchema,
    status: 200,
    effect: 'change',
    errors: ['not_found'],
  },
  jobCreate: {
    method: 'POST',
    path: '/v1/jobs',
    scope: 'admin',
    tag: 'jobs',
    summary: 'Define a job',
    query: dryRunQuery,
    body: jobs.jobCreateSchema,
    response: jobs.jobSchema,
    status: 201,
    effect: 'create',
    errors: ['name_taken', 'invalid_target'],
  },
  jobList: {
    method: 'GET',
    path: '/v1/jobs',
    scope: 'read',
    tag: 'jobs',
    summary: 'List jobs',
    query: jobs.jobListQuery,
    response: jobs.jobPageSchema,
    status: 200,
    effect: 'none',
    errors: ['invalid_cursor'],
  },
  jobGet: {
    method: 'GET',
    path: '/v1/jobs/:id',
    scope: 'read',
    tag: 'jobs',
    summary: 'Get a job',
    params: id,
    response: jobs.jobSchema,
    status: 200,
    effect: 'none',
    errors: ['not_found'],
  },
  jobUpdate: {
    method: 'PATCH',
    path: '/v1/jobs/:id',
    scope: 'admin',
    tag: 'jobs',
    summary: 'Change a job (a new version)',
    params: id,
    query: dryRunQuery,
    body: jobs.jobUpdateSchema,
    response: jobs.jobSchema,
    status: 200,
    effect: 'change',
    errors: ['not_found', 'invalid_target', 'precondition_failed'],
  },
  jobDelete: {
    method: 'DELETE',
    path: '/v1/jobs/:id',
    scope: 'admin',
    tag: 'jobs',
    summary: 'Delete a job that no schedule uses',
    params: id,
    query: dryRunQuery,
    status: 204,
    effect: 'change',
    errors: ['not_found', 'in_use', 'precondition_failed'],
  },
  scheduleCreate: {
    method: 'POST',
    path: '/v1/schedules',
    scope: 'admin',
    tag: 'schedules',
    summary: 'Create a schedule',
    query: dryRunQuery,
    body: schedules.scheduleCreateSchema,
    response: schedules.scheduleSchema,
    status: 201,
    effect: 'create',
    errors: ['name_taken', 'not_found', 'invalid_schedule', 'invalid_target'],
  },
  scheduleList: {
    method: 'GET',
    path: '/v1/schedules',
    scope: 'read',
    tag: 'schedules',
    summary: 'List schedules',
    query: schedules.scheduleListQuery,
    response: schedules.schedulePageSchema,
    status: 200,
    effect: 'none',
    errors: ['invalid_cursor'],
  },
  scheduleGet: {
    method: 'GET',
    path: '/v1/schedules/:id',
    scope: 'read',
    tag: 'schedules',
    summary: 'Get a schedule',
    params: id,
    response: schedules.scheduleSchema,
    status: 200,
    effect: 'none',
    errors: ['not_found'],
  },
  scheduleUpdate: {
    method: 'PATCH',
    path: '/v1/schedules/:id',
    scope: 'admin',
    tag: 'schedules',
    summary: 'Change a schedule',
    params: id,
    query: dryRunQuery,
    body: schedules.scheduleUpdateSchema,
    response: schedules.scheduleSchema,
    status: 200,
    effect: 'change',
    errors: ['not_found', 'invalid_schedule', 'precondition_failed'],
  },
  scheduleDelete: {
    method: 'DELETE',
    path: '/v1/schedules/:id',
    scope: 'admin',
    tag: 'schedules',
    summary: 'Delete a schedule; its history stays',
    params: id,
    query: dryRunQuery,
    status: 204,
    effect: 'change',
    errors: ['not_found', 'precondition_failed'],
  },
  schedulePause: {
    method: 'POST',
    path: '/v1/schedules/:id/pause',
    scope: 'operate',
    tag: 'schedules',
    summary: 'Pause a schedule',
    params: id,
    query: dryRunQuery,
    body: schedules.pauseSchema,
    response: schedules.scheduleSchema,
    status: 200,
    effect: 'change',
    errors: ['not_found', 'invalid_state', 'precondition_failed'],
  },
  scheduleResume: {
    method: 'POST',
    path: '/v1/schedules/:id/resume',
    scope: 'operate',
    tag: 'schedules',
    summary: 'Resume a schedule from now on; what fell due while paused does not run',
    params: id,
    query: dryRunQuery,
    body: schedules.resumeSchema,
    response: schedules.scheduleSchema,
    status: 200,
    effect: 'change',
    errors: ['not_found', 'invalid_state', 'precondition_failed'],
  },
  scheduleTrigger: {
    method: 'POST',
    path: '/v1/schedules/:id/trigger',
    scope: 'operate',
    tag: 'schedules',
    summary: 'Run the job of a schedule now; its planned times do not move',
    params: id,
    query: dryRunQuery,
    body: schedules.triggerSchema,
    response: runs.runSchema,
    status: 201,
    effect: 'create',
    errors: ['not_found'],
  },
  occurrenceList: {
    method: 'GET',
    path: '/v1/schedules/:id/occurrences',
    scope: 'read',
    tag: 'schedules',
    summary: 'What became of each planned time, newest first',
    params: id,
    query: schedules.occurrenceListQuery,
    response: schedules.occurrencePageSchema,
    status: 200,
    effect: 'none',
    errors: ['not_found', 'invalid_cursor'],
  },
  runCreate: {
    method: 'POST',
    path: '/v1/runs',
    scope: 'enqueue',
    tag: 'runs',
    summary: 'Run a job on demand, now or later',
    query: dryRunQuery,
    body: runs.runCreateSchema,
    response: runs.runSchema,
    status: 201,
    effect: 'create',
    errors: ['not_found'],
  },
  runList: {
    method: 'GET',
    path: '/v1/runs',
    scope: 'read',
    tag: 'runs',
    summary: 'List runs, newest first',
    query: runs.runListQuery,
    response: runs.runPageSchema,
    status: 200,
    effect: 'none',
    errors: ['invalid_cursor'],
  },
  runGet: {
    method: 'GET',
    path: '/v1/runs/:id',
    scope: 'read',
    tag: 'runs',
    summary: 'Get a run with its attempts',
    params: id,
    response: runs.runSchema,
    status: 200,
    effect: 'none',
    errors: ['not_found'],
  },
  runCancel: {
    method: 'POST',
    path: '/v1/runs/:id/cancel',
    scope: 'operate',
    tag: 'runs',
    summary: 'Cancel a run: at once while it waits, by signal while it runs',
    params: id,
    query: dryRunQuery,
    body: runs.cancelSchema,
    response: runs.runSchema,
    status: 202,
    effect: 'change',
    errors: ['not_found', 'invalid_state'],
  },
} as const satisfies Record<string, Route>

export type RouteName = keyof typeof routes

/** Errors that any route with a key may answer, on top of its own. */
export function documentedErrors(route: Route): readonly ErrorCode[] {
  const common: ErrorCode[] = [
    'unauthenticated',
    'forbidden',
    'invalid_request',
    'too_many_requests',
    'internal',
  ]
  if (route.body !== undefined) common.push('malformed_json', 'body_too_large', 'unsupported_media_type')
  if (route.effect === 'create') common.push('idempotency_key_reused')
  common.push('database_unavailable', 'database_timeout', 'shutting_down')
  if (route.effect !== 'none') common.push('database_read_only', 'database_full', 'serialization_conflict')
  return [...new Set([...common, ...route.errors])]
}
