/**
 * Timers that could not be fired as they are: refused although they looked due, or faulty in themselves. Each
 * rests for a growing time, so that it neither blocks the others nor is tried in a circle. What was read of a
 * timer (due instant and generation) is what rests: as soon as it changes, it is a new one. Bounded; the
 * oldest is forgotten first.
 */
import type { Clock } from '../ports/clock.ts'
import type { DueTimer } from '../ports/timer-index.ts'

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
  readonly version: string
  readonly shard: number
  readonly untilMs: number
  readonly times: number
  resting: boolean
}

export function createSetAside(clock: Clock): SetAside {
  const all = new Map<string, Resting>()

  const versionOf = (timer: DueTimer): string =>
    `${timer.dueAtMs}/${timer.kind === 'schedule' ? timer.gen : timer.queue}`

  return {
    add(timer) {
      const version = versionOf(timer)
      const before = all.get(timer.id)
      const times = before?.version === version ? before.times + 1 : 0
      const restMs = Math.min(longestRestMs, firstRestMs * 2 ** Math.min(times, 10))
      all.delete(timer.id)
      const untilMs = clock.monotonicMs() + restMs
      all.set(timer.id, { version, shard: timer.shard, untilMs, times, resting: true })
      const oldest = all.size > maxResting ? all.keys().next().value : undefined
      if (oldest !== undefined) all.delete(oldest)
      return restMs
    },
    holds(timer) {
      const found = all.get(timer.id)
      return found !== undefined && found.version === versionOf(timer) && clock.monotonicMs() < found.untilMs
    },
    clear(id) {
      all.delete(id)
    },
    takeRested() {
      const shards = new Set<number>()
      const nowMs = clock.monotonicMs()
      for (const found of all.values()) {
        if (!found.resting || found.untilMs > nowMs) continue
        found.resting = false
        shards.add(found.shard)
      }
      return shards
    },
    waitMs() {
      let firstMs = Number.POSITIVE_INFINITY
      for (const found of all.values()) if (found.resting) firstMs = Math.min(firstMs, found.untilMs)
      return Math.max(0, firstMs - clock.monotonicMs())
    },
  }
}
