/**
 * How much of a queue is announced ahead of claims: about twice the slots that there are for it, of which
 * each worker then holds one half while it works on the other. Where runs are so short that the announcer
 * finds its window used up, it doubles, and halves again where most of it is still there.
 */
import type { NextRun, ServedSlots } from '../ports/ready-windows.ts'

const timesSlots = 2
const leastWindow = 4
export const mostWindow = 5_000

/** Of each queue, from the slots that serve it: those of a worker are spread over the queues it serves. */
export function baseWindows(
  queues: readonly string[],
  slots: readonly ServedSlots[],
): ReadonlyMap<string, number> {
  const windows = new Map<string, number>()
  for (const { queues: served, slots: count } of slots) {
    const its = served === '*' ? queues : queues.filter((queue) => served.includes(queue))
    const each = Math.ceil((timesSlots * count) / Math.max(1, its.length))
    for (const queue of its) windows.set(queue, (windows.get(queue) ?? 0) + each)
  }
  for (const [queue, window] of windows) {
    windows.set(queue, Math.min(mostWindow, Math.max(leastWindow, window)))
  }
  return windows
}

export interface QueueWindow {
  /** Nothing is announced where it is 0: nobody serves the queue. */
  readonly size: () => number
  readonly base: (size: number) => void
  /** Runs that were announced and that nobody has claimed. */
  readonly unclaimed: () => number
  /** Takes in what comes next; answers what is to be announced of it. */
  readonly look: (next: readonly NextRun[], nowMs: number) => readonly NextRun[]
  /** They went out; answers how many had before. */
  readonly announced: (runs: readonly NextRun[], nowMs: number) => number
  /** Nobody has heard of them. */
  readonly forget: () => void
}

interface Announced {
  readonly leaseEpoch: number
  readonly atMs: number
}

export function createQueueWindow(againMs: number): QueueWindow {
  let base = 0
  let size = 0
  /** Of what came next at the last look; so it is never longer than the window. */
  let known = new Map<string, Announced>()

  function fit(left: number, filled: boolean): void {
    if (filled && left <= size / 4) size = Math.min(mostWindow, size * 2)
    else if (left > (size * 3) / 4) size = Math.max(base, Math.ceil(size / 2))
  }

  return {
    size: () => size,
    base(window) {
      base = window
      size = base === 0 ? 0 : Math.max(base, size)
    },
    unclaimed: () => known.size,
    look(next, nowMs) {
      const before = known
      known = new Map()
      const fresh: NextRun[] = []
      for (const run of next) {
        const its = before.get(run.runId)
        const holds = its !== undefined && its.leaseEpoch === run.leaseEpoch
        if (holds) known.set(run.runId, its)
        if (!holds || nowMs - its.atMs >= againMs) fresh.push(run)
      }
      if (before.size > 0) fit(known.size, next.length >= size)
      return fresh
    },
    announced(runs, nowMs) {
      let again = 0
      for (const { runId, leaseEpoch } of runs) {
        if (known.has(runId)) again++
        known.set(runId, { leaseEpoch, atMs: nowMs })
      }
      return again
    },
    forget: () => known.clear(),
  }
}
