/**
 * The routes of what people do to workflow runs by hand, and of why one is as it is: a part of the table in
 * routes.ts. As a dry run each act answers its preview.
 */
import { z } from 'zod'
import { dryRunQuery, idSchema } from './common.ts'
import type { Route } from './route.ts'
import * as acts from './workflow-acts.ts'
import { workflowExplainQuery, workflowRunExplanationSchema } from './workflow-explanations.ts'

const act = {
  method: 'POST',
  permission: 'workflow.operate',
  tag: 'workflows',
  params: z.strictObject({ id: idSchema }),
  query: dryRunQuery,
  response: acts.workflowRunActedSchema,
  status: 200,
  effect: 'create',
} as const

export const workflowActRoutes = {
  workflowRunRerun: {
    ...act,
    path: '/v1/workflow-runs/:id/rerun',
    summary: 'Run parts of a workflow run again, in the same workflow run',
    body: acts.workflowRunRerunSchema,
    errors: ['not_found', 'invalid_state', 'precondition_failed'],
  },
  workflowRunMark: {
    ...act,
    path: '/v1/workflow-runs/:id/mark',
    summary: 'Set tasks to a state by hand; what could not run because of them comes back to life',
    body: acts.workflowRunMarkSchema,
    errors: ['not_found', 'invalid_state', 'precondition_failed'],
  },
  workflowRunSkip: {
    ...act,
    path: '/v1/workflow-runs/:id/skip',
    summary: 'Skip tasks that wait, this once',
    body: acts.workflowRunSkipSchema,
    errors: ['not_found', 'invalid_state', 'precondition_failed'],
  },
  workflowRunExplain: {
    method: 'GET',
    path: '/v1/workflow-runs/:id/explanation',
    permission: 'workflow.read',
    tag: 'workflows',
    summary: 'What holds a workflow run or a task of it now, or why it ended as it did',
    params: act.params,
    query: workflowExplainQuery,
    response: workflowRunExplanationSchema,
    status: 200,
    effect: 'none',
    errors: ['not_found'],
  },
  workflowRunHistory: {
    method: 'GET',
    path: '/v1/workflow-runs/:id/history',
    permission: 'workflow.read',
    tag: 'workflows',
    summary: 'What was done to a workflow run by hand: who, when, why',
    params: act.params,
    response: acts.workflowRunHistorySchema,
    status: 200,
    effect: 'none',
    errors: ['not_found'],
  },
} as const satisfies Record<string, Route>
