/**
 * Timers that could not be fired as they are: refused although they looked due, or faulty in themselves. Each
 * rests for a growing time, so that it neither blocks the others nor is tried in a circle. What was read of a
 * timer (due instant and generation) is what rests: as soon as it changes, it is a new one. Bounded; the
 * oldest is forgotten first.
 */
import type { Clock } from '../ports/clock.ts'
import type { DueTimer } from '../ports/timer-index.ts'
import { createKeyedHeap } from './keyed-heap.ts'

const firstRestMs = 1_000
const longestRestMs = 60_000
const maxResting = 10_000

export interface SetAside {
  /** Lets this timer rest; answers for how long. */
  add(timer: DueTimer): number
  /** Whether this very timer is to be left alone now. */
  holds(timer: DueTimer): boolean
  /** Forgets a timer that was fired after all. */
  clear(id: string): void
  /** The shards of those whose rest is over; each is answered once. */
  takeRested(): ReadonlySet<number>
  /** In how many ms the next one has rested; Infinity if none rests. */
  waitMs(): number
}

interface Resting {
  readonly id: string
  readonly version: string
  readonly shard: number
  readonly untilMs: number
  readonly times: number
}

export function createSetAside(clock: Clock): SetAside {
  /** In the order in which they were set aside, also those that have rested. */
  const all = new Map<string, Resting>()
  const resting = createKeyedHeap<Resting>(
    ({ id }) => id,
    (a, b) => a.untilMs < b.untilMs,
  )

  const versionOf = (timer: DueTimer): string =>
    `${timer.dueAtMs}/${timer.kind === 'schedule' ? timer.gen : timer.queue}`
  const forget = (id: string): void => {
    all.delete(id)
    resting.remove(id)
  }

  return {
    add(timer) {
      const { id, shard } = timer
      const version = versionOf(timer)
      const before = all.get(id)
      const times = before?.version === version ? before.times + 1 : 0
      const restMs = Math.min(longestRestMs, firstRestMs * 2 ** Math.min(times, 10))
      forget(id)
      const added = { id, version, shard, untilMs: clock.monotonicMs() + restMs, times }
      all.set(id, added)
      resting.add(added)
      const oldest = all.size > maxResting ? all.keys().next().value : undefined
      if (oldest !== undefined) forget(oldest)
      return restMs
    },
    holds(timer) {
      const found = all.get(timer.id)
      return found !== undefined && found.version === versionOf(timer) && clock.monotonicMs() < found.untilMs
    },
    clear: forget,
    takeRested() {
      const shards = new Set<number>()
      const nowMs = clock.monotonicMs()
      for (;;) {
        const [first] = resting.entries
        if (first === undefined || first.untilMs > nowMs) return shards
        resting.remove(first.id)
        shards.add(first.shard)
      }
    },
    waitMs: () => Math.max(0, (resting.entries[0]?.untilMs ?? Infinity) - clock.monotonicMs()),
  }
}
