/**
 * The table of API routes: method, path, the permission that it takes, what comes in, what goes out, which
 * errors it documents. The server registers exactly these, the OpenAPI document is made of them, the client
 * and the tests walk them. A route without a permission does not exist: deny is the default.
 */
import { z } from 'zod'
import * as access from './access.ts'
import { auditRoutes } from './audit-routes.ts'
import { backfillRoutes } from './backfill-routes.ts'
import { calendarRoutes } from './calendar-routes.ts'
import { containerRoutes } from './container-routes.ts'
import { callbackRoutes } from './callback-routes.ts'
import { dryRunQuery, idSchema } from './common.ts'
import { deadLetterRoutes } from './dead-letter-routes.ts'
import type { ErrorCode } from './errors.ts'
import * as jobs from './jobs.ts'
import { limitRoutes } from './limit-routes.ts'
import { quotaRoutes } from './quota-routes.ts'
import { memberRoutes } from './member-routes.ts'
import { runCancelManySchema, runsCanceledSchema } from './run-cancels.ts'
import { runInsightRoutes } from './run-insight-routes.ts'
import * as requests from './run-requests.ts'
import * as runs from './runs.ts'
import type { Route } from './route.ts'
import { scheduleRoutes } from './schedule-routes.ts'
import { secretRoutes } from './secret-routes.ts'
import { serverRoutes } from './server-routes.ts'
import { serviceAccountRoutes } from './service-account-routes.ts'
import { workerRoutes } from './worker-routes.ts'
import { eventRoutes } from './event-routes.ts'
import { workflowActRoutes } from './workflow-act-routes.ts'
import { workflowDecisionRoutes } from './workflow-decision-routes.ts'
import { workflowRoutes } from './workflow-routes.ts'

const id = z.strictObject({ id: idSchema })

export const routes = {
  whoami: {
    method: 'GET',
    path: '/v1/whoami',
    permission: 'any_key',
    tag: 'access',
    summary: 'Who calls: tenant, principal, permissions',
    response: access.whoamiSchema,
    status: 200,
    effect: 'none',
    errors: [],
  },
  tenantCreate: {
    method: 'POST',
    path: '/v1/tenants',
    permission: 'tenant.manage',
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
    permission: 'tenant.manage',
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
    permission: 'any_key',
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
    permission: 'key.read',
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
    permission: 'key.write',
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
    permission: 'job.write',
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
    permission: 'job.read',
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
    permission: 'job.read',
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
    permission: 'job.write',
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
    permission: 'job.write',
    tag: 'jobs',
    summary: 'Delete a job that no schedule or workflow uses; its runs that wait or run go on',
    params: id,
    query: dryRunQuery,
    status: 204,
    effect: 'change',
    errors: ['not_found', 'in_use', 'precondition_failed'],
  },
  ...scheduleRoutes,
  ...backfillRoutes,
  ...calendarRoutes,
  ...callbackRoutes,
  ...workflowRoutes,
  ...eventRoutes,
  ...workflowActRoutes,
  ...workflowDecisionRoutes,
  runCreate: {
    method: 'POST',
    path: '/v1/runs',
    permission: 'run.start',
    tag: 'runs',
    summary: 'Run a job on demand, now or later',
    query: dryRunQuery,
    body: runs.runCreateSchema,
    response: requests.runCreatedSchema,
    status: 201,
    joinedStatus: 200,
    effect: 'create',
    errors: ['not_found'],
  },
  runBatch: {
    method: 'POST',
    path: '/v1/runs/batch',
    permission: 'run.start',
    tag: 'runs',
    summary: 'Ask for up to 1,000 runs in one call, each with a result of its own or all or nothing',
    query: dryRunQuery,
    body: requests.runBatchSchema,
    bodyBytes: requests.maxBatchBytes,
    response: requests.runBatchResultSchema,
    status: 200,
    effect: 'create',
    errors: ['not_found'],
  },
  runList: {
    method: 'GET',
    path: '/v1/runs',
    permission: 'run.read',
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
    permission: 'run.read',
    tag: 'runs',
    summary: 'Get a run with its newest attempts',
    params: id,
    response: runs.runSchema,
    status: 200,
    effect: 'none',
    errors: ['not_found'],
  },
  attemptList: {
    method: 'GET',
    path: '/v1/runs/:id/attempts',
    permission: 'run.read',
    tag: 'runs',
    summary: 'Attempts of a run, newest first',
    params: id,
    query: runs.attemptListQuery,
    response: runs.attemptPageSchema,
    status: 200,
    effect: 'none',
    errors: ['not_found', 'invalid_cursor'],
  },
  runCancel: {
    method: 'POST',
    path: '/v1/runs/:id/cancel',
    permission: 'run.operate',
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
  runCancelMany: {
    method: 'POST',
    path: '/v1/runs/cancel',
    permission: 'run.operate',
    tag: 'runs',
    summary: 'Cancel runs by filter, a bounded number a call; a dry run is the preview',
    query: dryRunQuery,
    body: runCancelManySchema,
    response: runsCanceledSchema,
    status: 200,
    effect: 'change',
    errors: ['invalid_cursor', 'precondition_failed'],
  },
  ...auditRoutes,
  ...containerRoutes,
  ...deadLetterRoutes,
  ...limitRoutes,
  ...quotaRoutes,
  ...runInsightRoutes,
  ...memberRoutes,
  ...secretRoutes,
  ...serverRoutes,
  ...serviceAccountRoutes,
  ...workerRoutes,
} as const satisfies Record<string, Route>

export type { Route } from './route.ts'
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
  if (route.effect === 'create') common.push('idempotency_key_reused', 'idempotency_key_busy')
  common.push('database_unavailable', 'database_timeout', 'shutting_down')
  if (route.effect !== 'none') {
    common.push('database_read_only', 'database_full', 'serialization_conflict')
    common.push('beyond_quota', 'quota_exceeded')
  }
  return [...new Set([...common, ...route.errors])]
}
