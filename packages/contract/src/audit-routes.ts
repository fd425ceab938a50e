/**
 * The routes of the audit log: a part of
 * the table in routes.ts.
 */
import * as audit from './audit.ts'
import type { Route } from './route.ts'

export const auditRoutes = {
  auditList: {
    method: 'GET',
    path: '/v1/audit',
    permission: 'audit.read',
    tag: 'audit',
    summary: 'List what was done and refused, by whom and from where, newest first',
    query: audit.auditListQuery,
    response: audit.auditPageSchema,
    status: 200,
    effect: 'none',
    errors: ['invalid_cursor'],
  },
  auditStatus: {
    method: 'GET',
    path: '/v1/audit/status',
    permission: 'audit.read',
    tag: 'audit',
    summary: 'How long the chain is, how much of it is signed, and by which keys',
    response: audit.auditStatusSchema,
    status: 200,
    effect: 'none',
    errors: [],
  },
  auditExport: {
    method: 'GET',
    path: '/v1/audit/export',
    permission: 'audit.export',
    tag: 'audit',
    summary: 'The chain itself, oldest first, with its hashes, checkpoints and cuts',
    query: audit.auditExportQuery,
    response: audit.auditExportSchema,
    status: 200,
    effect: 'none',
    errors: ['invalid_cursor'],
  },
} as const satisfies Record<string, Route>
