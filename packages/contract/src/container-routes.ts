/**
 * The routes of what containers may be: a tenant reads its own, who manages tenants sets it. A part of the
 * table in routes.ts.
 */
import { z } from 'zod'
import { dryRunQuery, nameSchema } from './common.ts'
import { containerPolicySchema, containerPolicyUpdateSchema } from './container-policies.ts'
import type { Route } from './route.ts'

const tenant = z.strictObject({ tenant: nameSchema.meta({ description: 'Name of the tenant' }) })

export const containerRoutes = {
  containerPolicyGet: {
    method: 'GET',
    path: '/v1/container-policy',
    permission: 'quota.read',
    tag: 'access',
    summary: 'What containers of the tenant may be',
    response: containerPolicySchema,
    status: 200,
    effect: 'none',
    errors: [],
  },
  tenantContainerPolicyGet: {
    method: 'GET',
    path: '/v1/tenants/:tenant/container-policy',
    permission: 'quota.write',
    tag: 'access',
    summary: 'What containers of a tenant may be',
    params: tenant,
    response: containerPolicySchema,
    status: 200,
    effect: 'none',
    errors: ['not_found'],
  },
  tenantContainerPolicyUpdate: {
    method: 'PATCH',
    path: '/v1/tenants/:tenant/container-policy',
    permission: 'quota.write',
    tag: 'access',
    summary: 'Set what containers of a tenant may be; it holds for the next run',
    params: tenant,
    query: dryRunQuery,
    body: containerPolicyUpdateSchema,
    response: containerPolicySchema,
    status: 200,
    effect: 'change',
    errors: ['not_found'],
  },
} as const satisfies Record<string, Route>
