/**
 * The routes of the worker protocol (workers.ts says how they go together): part of the one table of routes.
 * They take a key with the scope `worker`; its queues bound what it may serve.
 */
import { z } from 'zod'
import { idSchema } from './common.ts'
import * as workers from './workers.ts'

const id = z.strictObject({ id: idSchema })

const call = { method: 'POST', permission: 'worker.serve', tag: 'workers', effect: 'change' } as const

export const workerRoutes = {
  runLog: {
    method: 'GET',
    path: '/v1/runs/:id/log',
    permission: 'run.read',
    tag: 'runs',
    summary: 'What an attempt of a function logged, line by line',
    params: id,
    query: workers.runLogQuery,
    response: workers.runLogSchema,
    status: 200,
    effect: 'none',
    errors: ['not_found'],
  },
  functionRegister: {
    ...call,
    path: '/v1/functions',
    summary: 'Make the jobs of functions, or bring them up to date with their definitions in code',
    body: workers.functionRegisterSchema,
    response: workers.functionRegisteredSchema,
    status: 200,
    errors: ['name_taken'],
  },
  workerOpen: {
    ...call,
    path: '/v1/workers',
    summary: 'Open a session',
    body: workers.workerOpenSchema,
    response: workers.workerOpenedSchema,
    status: 200,
    errors: [],
  },
  workerList: {
    method: 'GET',
    path: '/v1/workers',
    permission: 'worker.read',
    tag: 'workers',
    summary: 'List the workers of functions that are alive',
    query: workers.workerListQuery,
    response: workers.workerPageSchema,
    status: 200,
    effect: 'none',
    errors: ['invalid_cursor'],
  },
  workerClaim: {
    ...call,
    path: '/v1/workers/:id/claim',
    summary: 'Claim runs; waits for some, and brings cancels',
    params: id,
    body: workers.workerClaimSchema,
    response: workers.workerClaimedSchema,
    status: 200,
    errors: ['session_lost'],
  },
  workerHeartbeat: {
    ...call,
    path: '/v1/workers/:id/heartbeat',
    summary: 'Keep the session alive; reports progress, brings cancels',
    params: id,
    body: workers.workerHeartbeatSchema,
    response: workers.workerHeartbeatAnswerSchema,
    status: 200,
    errors: ['session_lost'],
  },
  workerComplete: {
    ...call,
    path: '/v1/workers/:id/complete',
    summary: 'Say how attempts ended; answers which ends were applied',
    params: id,
    body: workers.workerCompleteSchema,
    response: workers.workerCompletedSchema,
    status: 200,
    errors: ['session_lost'],
  },
  workerRelease: {
    ...call,
    path: '/v1/workers/:id/release',
    summary: 'Give back runs that were not begun; no attempt is counted',
    params: id,
    body: workers.workerReleaseSchema,
    response: workers.workerReleasedSchema,
    status: 200,
    errors: ['session_lost'],
  },
  workerLog: {
    ...call,
    path: '/v1/workers/:id/log',
    summary: 'Add lines to the logs of running attempts',
    params: id,
    body: workers.workerLogSchema,
    response: workers.workerLoggedSchema,
    status: 200,
    errors: ['session_lost'],
  },
  workerClose: {
    ...call,
    path: '/v1/workers/:id/close',
    summary: 'End the session; what it still holds goes to others at once',
    params: id,
    body: workers.workerCloseSchema,
    status: 204,
    errors: ['session_lost'],
  },
} as const
