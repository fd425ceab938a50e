/**
 * The routes of service accounts: a part of the table in routes.ts. An account is
 * never deleted, so there is no route for that.
 */
import { z } from 'zod'
import { dryRunQuery, idSchema } from './common.ts'
import type { Route } from './route.ts'
import * as accounts from './service-accounts.ts'

const id = z.strictObject({ id: idSchema })

export const serviceAccountRoutes = {
  serviceAccountCreate: {
    method: 'POST',
    path: '/v1/service-accounts',
    permission: 'service_account.write',
    tag: 'access',
    summary: 'Make a service account',
    query: dryRunQuery,
    body: accounts.serviceAccountCreateSchema,
    response: accounts.serviceAccountSchema,
    status: 201,
    effect: 'create',
    errors: ['name_taken'],
  },
  serviceAccountList: {
    method: 'GET',
    path: '/v1/service-accounts',
    permission: 'service_account.read',
    tag: 'access',
    summary: 'List service accounts',
    query: accounts.serviceAccountListQuery,
    response: accounts.serviceAccountPageSchema,
    status: 200,
    effect: 'none',
    errors: ['invalid_cursor'],
  },
  serviceAccountGet: {
    method: 'GET',
    path: '/v1/service-accounts/:id',
    permission: 'service_account.read',
    tag: 'access',
    summary: 'Get a service account',
    params: id,
    response: accounts.serviceAccountSchema,
    status: 200,
    effect: 'none',
    errors: ['not_found'],
  },
  serviceAccountUpdate: {
    method: 'PATCH',
    path: '/v1/service-accounts/:id',
    permission: 'service_account.write',
    tag: 'access',
    summary: 'Change, disable or enable a service account',
    params: id,
    query: dryRunQuery,
    body: accounts.serviceAccountUpdateSchema,
    response: accounts.serviceAccountSchema,
    status: 200,
    effect: 'change',
    errors: ['not_found', 'precondition_failed'],
  },
} as const satisfies Record<string, Route>
