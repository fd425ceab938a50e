/**
 * Where a run may be claimed. Every live run stands in `ready` under its queue and its route: the kind of its
 * handler for what servers execute, `function:<tenant>:<name>` for a function. A worker names the routes
 * that it can execute, so a claim is one walk along the index for each of them: a worker is never handed a
 * run of a function that it does not have, nor one of another tenant, and nothing has to be given back.
 *
 * Fair order counts by lane. Runs that servers execute share the lane of their queue; the functions of a
 * tenant have one of their own in each queue, because its workers serve nobody else: how fast they are says
 * nothing about the turn of others.
 */
import { handlerKinds, type JobDefinition } from '@belfry/contract'

/**
 * Of what any worker of a server can execute, which may be announced. Containers need an engine: the workers
 * that have one claim them directly.
 */
export const serverRoutes: readonly string[] = ['http', 'lambda']

/** Of all that servers execute, whichever of them. */
export const sharedRoutes: readonly string[] = handlerKinds.filter((kind) => kind !== 'function')

/** What the routes of functions begin with; the same in SQL. */
const functionMark = 'function:'

export function functionRoute(tenantId: string, name: string): string {
  return `${functionMark}${tenantId}:${name}`
}

export function routeOf(handler: JobDefinition['handler'], tenantId: string): string {
  return handler.kind === 'function' ? functionRoute(tenantId, handler.name) : handler.kind
}

/** Name of the function that a route leads to; undefined: to none. */
export function functionOfRoute(route: string): string | undefined {
  if (!route.startsWith(functionMark)) return undefined
  return route.slice(route.indexOf(':', functionMark.length) + 1)
}

/** The lane of the functions of a tenant in a queue. Names of queues hold no slash. */
export function functionLane(queue: string, tenantId: string): string {
  return `${queue}/${tenantId}`
}

export function laneOf(queue: string, route: string): string {
  if (!route.startsWith(functionMark)) return queue
  const tenantId = route.slice(functionMark.length, route.indexOf(':', functionMark.length))
  return functionLane(queue, tenantId)
}

/** The parts of a lane; no tenant: it is the queue's own. */
export function partsOfLane(lane: string): { readonly queue: string; readonly tenantId: string | null } {
  const at = lane.indexOf('/')
  return at < 0 ? { queue: lane, tenantId: null } : { queue: lane.slice(0, at), tenantId: lane.slice(at + 1) }
}
