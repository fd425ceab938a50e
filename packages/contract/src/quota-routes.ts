/**
 * The routes of quotas, the own ones and those of other tenants; a part of the table in routes.ts. A tenant
 * reads its own; whoever manages tenants reads and sets those of any.
 */
import { z } from 'zod'
import { dryRunQuery, nameSchema } from './common.ts'
import * as quotas from './quotas.ts'
import type { Route } from './route.ts'

const tenant = z.strictObject({ tenant: nameSchema.meta({ description: 'Name of the tenant' }) })

export const quotaRoutes = {
  quotaList: {
    method: 'GET',
    path: '/v1/quotas',
    permission: 'quota.read',
    tag: 'access',
    summary: 'What the tenant may have, and how much of it is used',
    response: quotas.quotaListSchema,
    status: 200,
    effect: 'none',
    errors: [],
  },
  tenantQuotaList: {
    method: 'GET',
    path: '/v1/tenants/:tenant/quotas',
    permission: 'quota.write',
    tag: 'access',
    summary: 'What a tenant may have',
    params: tenant,
    response: quotas.quotaListSchema,
    status: 200,
    effect: 'none',
    errors: ['not_found'],
  },
  tenantQuotaUpdate: {
    method: 'PATCH',
    path: '/v1/tenants/:tenant/quotas',
    permission: 'quota.write',
    tag: 'access',
    summary: 'Set what a tenant may have; it holds within seconds',
    params: tenant,
    query: dryRunQuery,
    body: quotas.quotaUpdateSchema,
    response: quotas.quotaListSchema,
    status: 200,
    effect: 'change',
    errors: ['not_found'],
  },
} as const satisfies Record<string, Route>
