/**
 * How a worker's free slots are spread over its queues. A worker with a list asks for all of them. A worker
 * for every queue knows those that it heard of lately: by hints, by claims, and by asking for the active ones
 * once a second at most. Shares are even; who comes first rotates, so that a small claim does not always meet
 * the same queue.
 */

/** Queues in one claim. */
const maxQueuesAtOnce = 64
/** A queue that nothing was heard of for so long is left out until it is heard of again. */
const forgetAfterMs = 60_000

export interface QueueShares {
  /** Something was seen or announced in this queue. */
  heard(queue: string, nowMs: number): void
  /** Whether a claim can be asked for without asking for the active queues first. */
  readonly fixed: boolean
  /** Spreads `free` slots; empty when no queue is known. */
  spread(free: number, nowMs: number): readonly { queue: string; limit: number }[]
}

export function createQueueShares(queues: readonly string[] | '*'): QueueShares {
  const lastHeardMs = new Map<string, number>()
  let turn = 0

  function known(nowMs: number): readonly string[] {
    if (queues !== '*') return queues
    for (const [queue, atMs] of lastHeardMs) if (nowMs - atMs > forgetAfterMs) lastHeardMs.delete(queue)
    return [...lastHeardMs.keys()]
  }

  return {
    fixed: queues !== '*',
    heard(queue, nowMs) {
      if (queues === '*') lastHeardMs.set(queue, nowMs)
    },
    spread(free, nowMs) {
      const names = known(nowMs)
      const count = Math.min(names.length, free, maxQueuesAtOnce)
      if (count === 0) return []
      const first = turn++ % names.length
      const base = Math.floor(free / count)
      const rest = free % count
      return Array.from({ length: count }, (_, index) => ({
        queue: names[(first + index) % names.length] ?? '',
        limit: base + (index < rest ? 1 : 0),
      }))
    },
  }
}
