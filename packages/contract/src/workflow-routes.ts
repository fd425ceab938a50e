/**
 * The routes of workflows: a part of the table in routes.ts, which says what such a table is for. What they
 * take and answer is in workflows.ts and workflow-catalog.ts.
 */
import { z } from 'zod'
import { dryRunQuery, idSchema } from './common.ts'
import type { Route } from './route.ts'
import * as catalog from './workflow-catalog.ts'
import { workflowFileSchema } from './workflows.ts'

const id = z.strictObject({ id: idSchema })

export const workflowRoutes = {
  workflowApply: {
    method: 'POST',
    path: '/v1/workflows',
    scope: 'admin',
    tag: 'workflows',
    summary: 'Make the workflow of this name, or give it a new version where it differs',
    query: dryRunQuery,
    body: workflowFileSchema,
    response: catalog.workflowAppliedSchema,
    status: 200,
    effect: 'create',
    errors: ['not_found', 'invalid_target', 'precondition_failed'],
  },
  workflowList: {
    method: 'GET',
    path: '/v1/workflows',
    scope: 'read',
    tag: 'workflows',
    summary: 'List workflows',
    query: catalog.workflowListQuery,
    response: catalog.workflowPageSchema,
    status: 200,
    effect: 'none',
    errors: ['invalid_cursor'],
  },
  workflowGet: {
    method: 'GET',
    path: '/v1/workflows/:id',
    scope: 'read',
    tag: 'workflows',
    summary: 'Get a workflow, in its newest version or another one',
    params: id,
    query: catalog.workflowGetQuery,
    response: catalog.workflowSchema,
    status: 200,
    effect: 'none',
    errors: ['not_found'],
  },
  workflowVersionList: {
    method: 'GET',
    path: '/v1/workflows/:id/versions',
    scope: 'read',
    tag: 'workflows',
    summary: 'Versions of a workflow, newest first',
    params: id,
    query: catalog.workflowVersionListQuery,
    response: catalog.workflowVersionPageSchema,
    status: 200,
    effect: 'none',
    errors: ['not_found', 'invalid_cursor'],
  },
  workflowDiff: {
    method: 'GET',
    path: '/v1/workflows/:id/diff',
    scope: 'read',
    tag: 'workflows',
    summary: 'What differs between two versions of a workflow, in words',
    params: id,
    query: catalog.workflowDiffQuery,
    response: catalog.workflowDiffSchema,
    status: 200,
    effect: 'none',
    errors: ['not_found'],
  },
  workflowDelete: {
    method: 'DELETE',
    path: '/v1/workflows/:id',
    scope: 'admin',
    tag: 'workflows',
    summary: 'Delete a workflow; its runs that are under way go on',
    params: id,
    query: dryRunQuery,
    status: 204,
    effect: 'change',
    errors: ['not_found', 'precondition_failed'],
  },
} as const satisfies Record<string, Route>
