/**
 * Which of many things that are tried again and again is left alone for a while, because it failed: each for
 * itself, longer with each failure, to half a minute.
 */
import type { Clock } from '../ports/clock.ts'
import type { Random } from '../ports/random.ts'

const firstMs = 500
const longestMs = 30_000

export interface BackOff {
  isDue(name: string): boolean
  /** Answers for how long it is left alone, ms. */
  failed(name: string): number
  succeeded(name: string): void
  /** How long until the next is due; undefined: none is left alone. */
  nextMs(): number | undefined
}

export function createBackOff(clock: Pick<Clock, 'monotonicMs'>, random: Random): BackOff {
  const failing = new Map<string, { readonly failures: number; readonly dueMs: number }>()
  return {
    isDue: (name) => clock.monotonicMs() >= (failing.get(name)?.dueMs ?? -Infinity),
    failed(name) {
      const failures = (failing.get(name)?.failures ?? 0) + 1
      const ceilingMs = Math.min(longestMs, firstMs * 2 ** Math.min(failures - 1, 10))
      const waitMs = Math.round(ceilingMs * (0.5 + random.next() / 2))
      failing.set(name, { failures, dueMs: clock.monotonicMs() + waitMs })
      return waitMs
    },
    succeeded: (name) => void failing.delete(name),
    nextMs() {
      if (failing.size === 0) return undefined
      const next = Math.min(...[...failing.values()].map(({ dueMs }) => dueMs))
      return Math.max(0, next - clock.monotonicMs())
    },
  }
}
