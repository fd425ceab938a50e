/**
 * The route of events that begin workflows: a part of the table in routes.ts. What it takes and answers is in
 * workflow-triggers.ts.
 */
import { dryRunQuery } from './common.ts'
import type { Route } from './route.ts'
import * as triggers from './workflow-triggers.ts'

export const eventRoutes = {
  eventSend: {
    method: 'POST',
    path: '/v1/events',
    permission: 'event.send',
    tag: 'workflows',
    summary: 'Say that something happened: every workflow that names the event begins a run, once a key',
    query: dryRunQuery,
    body: triggers.eventSendSchema,
    response: triggers.eventReceiptSchema,
    status: 201,
    joinedStatus: 200,
    effect: 'create',
    errors: [],
  },
} as const satisfies Record<string, Route>
