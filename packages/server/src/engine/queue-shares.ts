/**
 * How a worker's free slots are spread over queues.
 *
 * A worker with a list of queues serves what the operator named: all of them evenly, and which come first
 * rotates.
 *
 * A worker for every queue (`*`) serves names that tenants chose, so it shares out by tenant, never by queue:
 *
 * 1. Each tenant has a counter of service, which grows by 1/weight for a run. Slots go one by one to the
 *    tenant whose counter is lowest (start-time fair queueing). So with one tenant in 10,000 queues and
 *    another in one, both get every second slot, and whoever comes new is served first.
 * 2. A tenant's slots go to its queues in turn. Which of a queue's runs comes is up to the tags in it
 *    (domain/fair-queue.ts), so in a queue that many share it may be another tenant's: then three quarters of
 *    it count for the tenant whose run came, one for the tenant whose turn it was. If all counted for the run,
 *    a tenant that waits long in a shared queue would keep on being the lowest, and those in other queues
 *    would wait for it; if all counted for the turn, a queue of its own beside a shared one would double a
 *    tenant's share. As it is it gains a quarter, however many queues it names.
 * 3. A tenant that comes, or comes back, starts at the lowest counter of those who wait: absence is no credit.
 * 4. Who has something where is learned by a bounded look, tenant by tenant (RunQueue.readyQueues), by claims,
 *    and by hints. A hint names no tenant: queues that only hints named share the turns of one more tenant, and
 *    what comes from them counts in full on both sides.
 * 5. A queue that gave less than was asked is not asked again in the same pass, and its slots go to the others
 *    by the same rule. Once nothing was heard of it for a second, it is forgotten until it is heard of again;
 *    that a tenant has something in it is forgotten after ten, so that nobody gains by those who were there.
 */

import { createTenantFlows, type Flow, type TenantQueue } from './tenant-flows.ts'

/** Queues in one claim. */
const maxQueuesAtOnce = 64

/** Of a run, for the tenant whose turn brought it; the rest is for the tenant whose run it is. */
const turnPart = 1 / 4

export interface QueueLimit {
  readonly queue: string
  readonly limit: number
}

export interface QueueShares {
  /** Whether the queues are given, so that none needs to be looked for. */
  readonly fixed: boolean
  /** A hint: something was announced in this queue. */
  heard(queue: string, nowMs: number): void
  /** These tenants have something ready in these queues. */
  found(queues: readonly TenantQueue[], nowMs: number): void
  /** Begins a pass: every queue may be asked again. */
  beginPass(): void
  /** Spreads `free` slots; empty when no queue is left to be asked. */
  spread(free: number, nowMs: number): readonly QueueLimit[]
  /** What a queue gave for its share: the tenants of its runs. */
  gave(share: QueueLimit, tenantIds: readonly string[], nowMs: number): void
}

export function createQueueShares(queues: readonly string[] | '*'): QueueShares {
  return queues === '*' ? createSharesByTenant() : createSharesOfList(queues)
}

function createSharesOfList(queues: readonly string[]): QueueShares {
  const dry = new Set<string>()
  let turn = 0
  return {
    fixed: true,
    heard: () => {},
    found: () => {},
    beginPass: () => dry.clear(),
    spread(free) {
      const names = queues.filter((queue) => !dry.has(queue))
      const count = Math.max(0, Math.min(names.length, free, maxQueuesAtOnce))
      if (count === 0) return []
      const first = turn % names.length
      turn += count
      const base = Math.floor(free / count)
      const rest = free % count
      return Array.from({ length: count }, (_, index) => ({
        queue: names[(first + index) % names.length] ?? '',
        limit: base + (index < rest ? 1 : 0),
      }))
    },
    gave({ queue, limit }, tenantIds) {
      if (tenantIds.length < limit) dry.add(queue)
    },
  }
}

/** A flow that gets slots in a claim. */
interface Turn {
  readonly flow: Flow
  slots: number
}

function createSharesByTenant(): QueueShares {
  const flows = createTenantFlows()
  const dry = new Set<string>()
  /** Whose slots went into each share of the last spread. */
  const turns = new Map<string, Turn[]>()

  function assign({ flow, slots }: Turn, names: readonly string[]): void {
    for (const [index, queue] of names.entries()) {
      const part = Math.floor(slots / names.length) + (index < slots % names.length ? 1 : 0)
      turns.set(queue, [...(turns.get(queue) ?? []), { flow, slots: part }])
      flow.putBack(queue)
    }
  }

  /** Where the turn was no tenant's, the run counts in full on both sides. */
  function charge(queue: string, limit: number, tenantIds: readonly string[], nowMs: number): void {
    let runPart = 1 - turnPart
    for (const { flow, slots } of turns.get(queue) ?? []) {
      const share = slots / limit
      flow.served += ((tenantIds.length * share) / flow.weight) * (flow.isTenant ? turnPart : 1)
      if (!flow.isTenant) runPart += turnPart * share
    }
    for (const tenantId of tenantIds) {
      const flow = flows.seen(tenantId, queue, nowMs)
      flow.served += runPart / flow.weight
    }
  }

  return {
    fixed: false,
    heard: (queue, nowMs) => flows.hinted(queue, nowMs),
    found(found, nowMs) {
      for (const { queue, tenantId, weight } of found) flows.seen(tenantId, queue, nowMs).weight = weight
    },
    beginPass: () => dry.clear(),
    spread(free, nowMs) {
      turns.clear()
      const shares = shareOut(flows.waiting(maxQueuesAtOnce, dry, nowMs), free)
      const maxOfFlow = Math.max(1, Math.floor(maxQueuesAtOnce / Math.max(1, shares.length)))
      for (const turn of shares) {
        assign(turn, flows.queuesOf(turn.flow, Math.min(turn.slots, maxOfFlow), dry, nowMs))
      }
      return [...turns].map(([queue, its]) => ({
        queue,
        limit: its.reduce((sum, turn) => sum + turn.slots, 0),
      }))
    },
    gave({ queue, limit }, tenantIds, nowMs) {
      charge(queue, limit, tenantIds, nowMs)
      if (tenantIds.length >= limit) return
      dry.add(queue)
      flows.quiet(queue, tenantIds.length === 0, nowMs)
    },
  }
}

/** Gives slots one by one to the flow whose counter would be lowest; `flows` are in order of theirs. */
function shareOut(flows: readonly Flow[], free: number): readonly Turn[] {
  const turns: Turn[] = flows.map((flow) => ({ flow, slots: 0 }))
  for (let slot = 0; slot < free && turns.length > 0; slot++) {
    const next = turns.reduce((lowest, turn) => (counterOf(turn) < counterOf(lowest) ? turn : lowest))
    next.slots++
  }
  return turns.filter((turn) => turn.slots > 0)
}

const counterOf = ({ flow, slots }: Turn): number => flow.served + slots / flow.weight
