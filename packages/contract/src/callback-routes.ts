/**
 * Routes of targets that Belfry calls, and of what they must know of it: a part of the table in routes.ts.
 * The callback takes no API key: its token is that of one attempt.
 */
import { callbackAnswerSchema, callbackParams, callbackReportSchema } from './callbacks.ts'
import { lambdaAccessSchema } from './lambda-handler.ts'
import type { Route } from './route.ts'

export const callbackRoutes = {
  callbackReport: {
    method: 'POST',
    path: '/v1/callbacks/:runId',
    permission: 'public',
    tag: 'callbacks',
    summary: 'Report on a run that this target took over, with the token of its attempt',
    params: callbackParams,
    body: callbackReportSchema,
    response: callbackAnswerSchema,
    status: 200,
    effect: 'change',
    errors: ['unauthenticated', 'forbidden', 'callback_over', 'too_many_requests'],
  },
  lambdaGet: {
    method: 'GET',
    path: '/v1/lambda',
    permission: 'job.read',
    tag: 'lambda',
    summary: 'External id for roles that Belfry may assume, and the functions that may be called',
    response: lambdaAccessSchema,
    status: 200,
    effect: 'none',
    errors: [],
  },
} as const satisfies Record<string, Route>
