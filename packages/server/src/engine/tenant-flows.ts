/**
 * Whom a worker of every queue knows to wait, and where: part of queue-shares.ts, which has the rules. Kept in
 * memory only, and bounded; what is forgotten is found again by looking.
 */

/** How long a queue that gives nothing is still asked: as long as a lost hint delays anything anyway. */
const forgetQueueAfterMs = 1_000
/** How long a tenant counts as waiting in a queue without having been seen there: a few looks. */
const forgetTenantAfterMs = 10_000
const maxQueues = 10_000
const maxTenants = 2_000
const maxHinted = 256

export interface TenantQueue {
  readonly queue: string
  readonly tenantId: string
  readonly weight: number
}

/** A tenant, as far as this worker serves it; one more flow is of queues that only hints named. */
export interface Flow {
  served: number
  weight: number
  readonly isTenant: boolean
  /** When it was last seen in each of its queues; the next to be asked is first. */
  readonly ring: Map<string, number>
  /** Puts a queue behind the others of this flow. */
  putBack(queue: string): void
}

export interface TenantFlows {
  /** This tenant has, or had a moment ago, something ready in this queue. */
  seen(tenantId: string, queue: string, nowMs: number): Flow
  /** A hint named this queue. */
  hinted(queue: string, nowMs: number): void
  /** A queue gave less than was asked, or nothing. */
  quiet(queue: string, nothing: boolean, nowMs: number): void
  /** Up to `count` flows with a queue that is not in `except`; those with the lowest counters, in order. */
  waiting(count: number, except: ReadonlySet<string>, nowMs: number): readonly Flow[]
  /** Up to `count` queues of a flow that are not in `except`, those first that were put back longest ago. */
  queuesOf(flow: Flow, count: number, except: ReadonlySet<string>, nowMs: number): readonly string[]
}

export function createTenantFlows(): TenantFlows {
  const flows = new Map<string, Flow>()
  const byHints = createFlow(false, 0)
  /** When each queue was last heard of; one that is not in here is not asked. */
  const lastHeardMs = new Map<string, number>()
  /** The lowest counter of those who wait; never falls. */
  let floor = 0

  function flowOf(tenantId: string): Flow {
    const known = flows.get(tenantId)
    if (known !== undefined) return known
    if (flows.size >= maxTenants) forgetOldest(flows)
    const fresh = createFlow(true, floor)
    flows.set(tenantId, fresh)
    return fresh
  }

  function enter(flow: Flow, queue: string, nowMs: number): void {
    if (flow.ring.size === 0) flow.served = Math.max(flow.served, floor)
    flow.ring.set(queue, nowMs)
    lastHeardMs.delete(queue)
    lastHeardMs.set(queue, nowMs)
    if (lastHeardMs.size > maxQueues) forgetOldest(lastHeardMs)
  }

  function queuesOf(
    flow: Flow,
    count: number,
    except: ReadonlySet<string>,
    nowMs: number,
  ): readonly string[] {
    const next: string[] = []
    for (const [queue, atMs] of flow.ring) {
      if (next.length === count) break
      if (nowMs - atMs > forgetTenantAfterMs || !lastHeardMs.has(queue)) flow.ring.delete(queue)
      else if (!except.has(queue)) next.push(queue)
    }
    return next
  }

  return {
    seen(tenantId, queue, nowMs) {
      const flow = flowOf(tenantId)
      enter(flow, queue, nowMs)
      byHints.ring.delete(queue)
      return flow
    },
    hinted(queue, nowMs) {
      // then a flow has it already
      if (nowMs - (lastHeardMs.get(queue) ?? -Infinity) < forgetTenantAfterMs) return
      enter(byHints, queue, nowMs)
      const oldest = byHints.ring.size > maxHinted ? byHints.ring.keys().next().value : undefined
      if (oldest === undefined) return
      byHints.ring.delete(oldest)
      lastHeardMs.delete(oldest)
    },
    quiet(queue, nothing, nowMs) {
      const wasHinted = byHints.ring.delete(queue)
      const isQuiet = nowMs - (lastHeardMs.get(queue) ?? -Infinity) >= forgetQueueAfterMs
      if (isQuiet || (wasHinted && nothing)) lastHeardMs.delete(queue)
    },
    waiting(count, except, nowMs) {
      const all = [byHints, ...flows.values()].filter((flow) => flow.ring.size > 0)
      const first: Flow[] = []
      for (const flow of all.sort((a, b) => a.served - b.served)) {
        if (first.length === count) break
        if (queuesOf(flow, 1, except, nowMs).length > 0) first.push(flow)
      }
      floor = Math.max(floor, first[0]?.served ?? floor)
      return first
    },
    queuesOf,
  }
}

function createFlow(isTenant: boolean, served: number): Flow {
  const ring = new Map<string, number>()
  return {
    served,
    weight: 1,
    isTenant,
    ring,
    putBack(queue) {
      const atMs = ring.get(queue)
      if (atMs === undefined) return
      ring.delete(queue)
      ring.set(queue, atMs)
    },
  }
}

/** Drops what has been in a map for longest. */
function forgetOldest(all: Map<string, unknown>): void {
  const oldest = all.keys().next()
  if (oldest.done !== true) all.delete(oldest.value)
}
