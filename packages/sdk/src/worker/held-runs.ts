/**
 * What a worker holds: a slot is taken when a run is claimed and free when its end was reported. Functions
 * that ignored their signal and still run hold no slot, until there are as many of them as slots; from then
 * on each one more does, so that a function that always hangs cannot pile up without end.
 *
 * Runs whose end could not be reported hold no slot either, and yet are never said to be unstarted: their
 * names are kept as long as their session is.
 */
import type { AbortReason } from '../functions/define-job.ts'
import type { AttemptName } from './log-buffer.ts'

export interface Held extends AttemptName {
  readonly sessionId: string
  /** When it was taken: `process.hrtime.bigint()`. */
  readonly since: bigint
  readonly abort: (reason: AbortReason) => void
}

export interface HeldRuns {
  readonly free: () => number
  readonly busy: () => number
  readonly leftBehind: () => number
  readonly all: () => readonly Held[]
  /** What was started under this session, and is not known to be over: what must not be given back. */
  readonly startedUnder: (sessionId: string) => readonly AttemptName[]
  /** Answers the way to free the slot; `over` is whether the end is known at the server. */
  readonly take: (held: Held) => (over: boolean) => void
  readonly leaveBehind: (settled: Promise<unknown>) => void
  /** Resolves when nothing is held, or after `limitMs`. */
  readonly emptied: (limitMs: number) => Promise<void>
}

export function createHeldRuns(slots: number, onFreed: () => void): HeldRuns {
  const held = new Set<Held>()
  const untold = new Set<Held>()
  const waiting = new Set<() => void>()
  let leftBehind = 0

  return {
    free: () => slots - held.size - Math.max(0, leftBehind - slots),
    busy: () => held.size,
    leftBehind: () => leftBehind,
    all: () => [...held],
    startedUnder(sessionId) {
      // of a session that is over nothing is given back any more
      for (const each of untold) if (each.sessionId !== sessionId) untold.delete(each)
      const its = [...held, ...untold].filter((each) => each.sessionId === sessionId)
      return its.map(({ runId, leaseEpoch }) => ({ runId, leaseEpoch }))
    },
    take(each) {
      held.add(each)
      return (over) => {
        held.delete(each)
        if (!over) untold.add(each)
        if (held.size === 0) for (const resolve of waiting) resolve()
        onFreed()
      }
    },
    leaveBehind(settled) {
      leftBehind++
      void settled.then(() => {
        leftBehind--
        onFreed()
      })
    },
    async emptied(limitMs) {
      if (held.size === 0) return
      const done = Promise.withResolvers<void>()
      const limit = setTimeout(done.resolve, limitMs)
      waiting.add(done.resolve)
      await done.promise
      waiting.delete(done.resolve)
      clearTimeout(limit)
    },
  }
}
