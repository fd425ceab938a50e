/**
 * The routes of a server itself, and of what it does for all tenants: a part of the table in routes.ts. None
 * of them changes anything.
 */
import type { Route } from './route.ts'
import { clusterSchema } from './cluster.ts'
import { replanListQuery, replanPageSchema, serverSchema } from './servers.ts'

export const serverRoutes = {
  serverGet: {
    method: 'GET',
    path: '/v1/server',
    permission: 'any_key',
    tag: 'server',
    summary: 'Version, time and zone data of the server that answers',
    response: serverSchema,
    status: 200,
    effect: 'none',
    errors: [],
  },
  clusterGet: {
    method: 'GET',
    path: '/v1/cluster',
    permission: 'cluster.read',
    tag: 'server',
    summary: 'Processes, shards and terms, lag, clock skew, versions, and what is wrong',
    response: clusterSchema,
    status: 200,
    effect: 'none',
    errors: [],
  },
  replanList: {
    method: 'GET',
    path: '/v1/replans',
    permission: 'cluster.read',
    tag: 'server',
    summary: 'Zones whose future times were computed again after new zone data, newest first',
    query: replanListQuery,
    response: replanPageSchema,
    status: 200,
    effect: 'none',
    errors: ['invalid_cursor'],
  },
} as const satisfies Record<string, Route>
