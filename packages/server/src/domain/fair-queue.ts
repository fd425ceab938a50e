/**
 * Fair order by virtual time (start-time fair queueing). Each ready run carries a tag; a queue is served
 * lowest first.
 *
 * 1. V, the virtual time of a queue, is the highest tag that was claimed from it: where the service stands
 *    now. It only grows, and outlives processes (engine/fair-tags.ts).
 * 2. A tenant's next place is max(V, its last place) + 1/weight. So a tenant with a million waiting runs
 *    stands far ahead of V, and one that comes with a single run stands right behind V: it waits for about
 *    one run, not for the million.
 * 3. Priority moves a run within the lead that its tenant has over V, by at most `placesPerPriority` places a
 *    point. A high one never gets before V, so it cannot push aside other tenants; a low one is overtaken as
 *    V grows, so it ages.
 *
 * Kept in memory only and bounded. A forgotten tenant merely starts again at V; a forgotten queue (the one
 * least lately used) gives no tags until its V is told again, for one that started at 0 would put new runs
 * before all that wait.
 */

/** Places (each worth 1/weight) that one point of priority, of -100 to 100, moves a run at most. */
export const placesPerPriority = 1

/** Queues that are remembered at most. */
export const maxQueues = 2_000
const maxTenantsPerQueue = 10_000

export interface TagRequest {
  readonly queue: string
  readonly tenantId: string
  /** Share of the tenant; 2 gets twice as much as 1. */
  readonly weight: number
  /** -100 to 100, higher runs earlier. */
  readonly priority: number
}

export interface TagClock {
  /**
   * The tag for one more run; each call uses up one place of the tenant. Throws where nothing is known of the
   * queue.
   */
  next(request: TagRequest): number
  /**
   * Takes in that a run with this tag was claimed from the queue, here or elsewhere, or that the service is
   * known to stand there. V only grows.
   */
  observeClaimed(queue: string, tag: number): void
  /** V of a queue; undefined where nothing is known of it. */
  virtualTime(queue: string): number | undefined
}

interface QueueState {
  virtualTime: number
  readonly lastPlaces: Map<string, number>
}

/**
 * Tag of the place `place` when the service stands at `virtualTime`. Pure; exported for tests and simulation.
 */
export function tagOfPlace(virtualTime: number, place: number, weight: number, priority: number): number {
  const step = 1 / weight
  const offset = Math.abs(priority) * placesPerPriority * step
  if (priority <= 0) return place + offset
  // The lead beyond the first place shrinks by nearly `offset` where it is long, and never below nothing
  // where it is short; strictly monotone, so that equal priorities keep their order.
  const lead = Math.max(0, place - virtualTime - step)
  return virtualTime + step + (lead * lead) / (lead + offset)
}

/** The tags of one process. */
export function createTagClock(): TagClock {
  const queues = new Map<string, QueueState>()
  /** The queue that stands last in `queues`. */
  let latest: string | undefined

  /** What is known of a queue; it counts as used now. */
  function use(queue: string): QueueState | undefined {
    const known = queues.get(queue)
    if (known === undefined || queue === latest) return known
    queues.delete(queue)
    queues.set(queue, known)
    latest = queue
    return known
  }

  return {
    next({ queue, tenantId, weight, priority }) {
      const state = use(queue)
      if (state === undefined)
        throw new Error(`Nothing is known of the queue "${queue}" yet: tell its V first.`)
      const place = Math.max(state.virtualTime, state.lastPlaces.get(tenantId) ?? 0) + 1 / weight
      if (!state.lastPlaces.has(tenantId) && state.lastPlaces.size >= maxTenantsPerQueue) forgetServed(state)
      state.lastPlaces.set(tenantId, place)
      return tagOfPlace(state.virtualTime, place, weight, priority)
    },
    observeClaimed(queue, tag) {
      const state = use(queue)
      if (state !== undefined) {
        state.virtualTime = Math.max(state.virtualTime, tag)
        return
      }
      if (queues.size >= maxQueues) forgetFirst(queues)
      queues.set(queue, { virtualTime: tag, lastPlaces: new Map() })
      latest = queue
    },
    virtualTime: (queue) => queues.get(queue)?.virtualTime,
  }
}

/**
 * Drops the tenants that V has caught up with, whose last place says nothing any more; else the one seen
 * first.
 */
function forgetServed(state: QueueState): void {
  for (const [tenantId, place] of state.lastPlaces) {
    if (place <= state.virtualTime) state.lastPlaces.delete(tenantId)
  }
  if (state.lastPlaces.size >= maxTenantsPerQueue) forgetFirst(state.lastPlaces)
}

function forgetFirst(map: Map<string, unknown>): void {
  const first = map.keys().next()
  if (first.done !== true) map.delete(first.value)
}
