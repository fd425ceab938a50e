/**
 * From records of limits to the bodies that the contract describes: pools, queues, holds, and the limits of a
 * job. The rest is in views.ts.
 */
import type { Hold, Job, PauseState, Pool, Queue, QueuedRun, QueueSummary } from '@belfry/contract'
import { holdWords } from '../domain/gate/hold-words.ts'
import { orderWords, priorityEffect } from '../domain/gate/queue-order.ts'
import type {
  HeldGroupRecord,
  HoldRecord,
  PauseRecord,
  PoolRecord,
  QueuedRunRecord,
  QueueRecord,
} from '../ports/limits.ts'

const iso = (ms: number): string => new Date(ms).toISOString()
const isoOrNull = (ms: number | null): string | null => (ms === null ? null : iso(ms))
const rounded = (places: number): number => Math.round(places * 100) / 100

export const pauseView = (pause: PauseRecord | null): PauseState =>
  pause === null ? null : { reason: pause.reason, since: iso(pause.sinceMs) }

/** With the keys in their order, which the database does not keep. */
export function concurrencyView(concurrency: Job['concurrency']): Job['concurrency'] {
  if (concurrency === null) return null
  const { limit, key, keyLimit, pools, onLimit } = concurrency
  return { limit, key, keyLimit, pools: pools.map(({ name, weight }) => ({ name, weight })), onLimit }
}

export function rateLimitView(rateLimit: Job['rateLimit']): Job['rateLimit'] {
  if (rateLimit === null) return null
  const { count, perMs, burst, key } = rateLimit
  return { count, perMs, burst, key }
}

export function poolView(pool: PoolRecord): Pool {
  const { rate } = pool
  return {
    id: pool.id,
    name: pool.name,
    slots: pool.slots,
    rate: rate === null ? null : { count: rate.count, perMs: rate.perMs, burst: rate.burst },
    host: pool.host,
    used: pool.used,
    waiting: pool.waiting,
    version: pool.version,
    createdAt: iso(pool.createdAtMs),
    updatedAt: iso(pool.updatedAtMs),
  }
}

export function queueSummaryView(queue: QueueRecord): QueueSummary {
  const { name, ready, held, running, oldestReadyMs, paused } = queue
  return { name, ready, held, running, oldestReadyAt: isoOrNull(oldestReadyMs), paused: pauseView(paused) }
}

export function queueView(
  queue: QueueRecord,
  weight: number,
  next: readonly QueuedRunRecord[],
  heldGroups: readonly HeldGroupRecord[],
): Queue {
  return {
    ...queueSummaryView(queue),
    weight,
    next: next.map((run, index) => queuedRunView(run, weight, index + 1)),
    heldGroups: heldGroups.map(({ job, runs, firstRunId, hold, nowMs }) => {
      return { job, runs, firstRunId, hold: holdView(hold), why: holdWords(hold, nowMs).message }
    }),
  }
}

function queuedRunView(run: QueuedRunRecord, weight: number, place: number): QueuedRun {
  const { runId, job, priority, tag, virtualTime, availableAtMs } = run
  const placed = { tag, virtualTime, weight, priority }
  return {
    runId,
    job,
    place,
    priority,
    tag,
    ahead: rounded(Math.max(0, (tag - virtualTime) * weight)),
    priorityEffect: rounded(priorityEffect(placed)),
    readySince: iso(availableAtMs),
    why: orderWords(placed, place),
  }
}

export function holdView(hold: HoldRecord): Hold {
  return {
    kind: hold.kind,
    name: hold.name,
    limit: hold.limit,
    used: hold.used,
    holders: [...hold.holders],
    since: isoOrNull(hold.sinceMs),
    until: isoOrNull(hold.untilMs),
    reason: hold.reason,
  }
}
