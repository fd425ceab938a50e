/**
 * Routes by which tasks that wait are told something: a part of the table in routes.ts. What they take and
 * answer is in workflow-decisions.ts.
 */
import { z } from 'zod'
import { dryRunQuery, idSchema } from './common.ts'
import type { Route } from './route.ts'
import * as decisions from './workflow-decisions.ts'
import { workflowRunSchema } from './workflow-runs.ts'

const id = z.strictObject({ id: idSchema })

export const workflowDecisionRoutes = {
  approvalList: {
    method: 'GET',
    path: '/v1/approvals',
    permission: 'workflow.read',
    tag: 'workflows',
    summary: 'List tasks that wait for an approval, newest first',
    query: decisions.approvalListQuery,
    response: decisions.approvalPageSchema,
    status: 200,
    effect: 'none',
    errors: ['invalid_cursor'],
  },
  workflowRunApprove: {
    method: 'POST',
    path: '/v1/workflow-runs/:id/approve',
    permission: 'workflow.approve',
    tag: 'workflows',
    summary: 'Approve a task that waits for it; who did it and why is kept',
    params: id,
    query: dryRunQuery,
    body: decisions.workflowApproveSchema,
    response: decisions.workflowDecisionSchema,
    status: 200,
    effect: 'change',
    errors: ['not_found', 'invalid_state', 'precondition_failed'],
  },
  workflowRunReject: {
    method: 'POST',
    path: '/v1/workflow-runs/:id/reject',
    permission: 'workflow.approve',
    tag: 'workflows',
    summary: 'Reject a task that waits for an approval; who did it and why is kept',
    params: id,
    query: dryRunQuery,
    body: decisions.workflowRejectSchema,
    response: decisions.workflowDecisionSchema,
    status: 200,
    effect: 'change',
    errors: ['not_found', 'invalid_state', 'precondition_failed'],
  },
  workflowRunSignal: {
    method: 'POST',
    path: '/v1/workflow-runs/:id/signal',
    permission: 'event.send',
    tag: 'workflows',
    summary: 'Send a signal to a workflow run, also before a task waits for it',
    params: id,
    query: dryRunQuery,
    body: decisions.workflowSignalSchema,
    response: workflowRunSchema,
    status: 202,
    effect: 'change',
    errors: ['not_found', 'invalid_state', 'precondition_failed'],
  },
} as const satisfies Record<string, Route>
