/**
 * Which shards are to be read from the timer index, and when. Part of the timer reader.
 *
 * Three reasons: a request (gained, or a timer was found changed) counts at once; hints too while they are
 * few, but in masses they wait until reading again takes up at most a sixth of the time; and every held shard
 * comes up twice a horizon, for hints that were lost.
 */
import type { Clock } from '../ports/clock.ts'

const hintPauseMs = 50

export interface ReadRequests {
  readonly held: ReadonlySet<number>
  request(shards: Iterable<number>): void
  hint(shard: number): void
  /** Wants every held shard now. */
  requestAll(): void
  restrict(held: ReadonlySet<number>): void
  /** In how many ms there is a shard to read; 0 now, Infinity never. */
  waitMs(): number
  /** The shards that are to be read now; they count as served. */
  take(): readonly number[]
  /** Tells how long reading took, to pace hints by. */
  served(durationMs: number): void
}

export function createReadRequests(clock: Clock, horizonMs: number): ReadRequests {
  const wanted = new Set<number>()
  const hinted = new Set<number>()
  let held: ReadonlySet<number> = new Set()
  let nextFullMs = Number.POSITIVE_INFINITY
  let hintsFromMs = Number.NEGATIVE_INFINITY

  const requestAll = (): void => {
    for (const shard of held) wanted.add(shard)
    nextFullMs = held.size === 0 ? Number.POSITIVE_INFINITY : clock.monotonicMs() + horizonMs / 2
  }
  return {
    get held() {
      return held
    },
    request(shards) {
      for (const shard of shards) if (held.has(shard)) wanted.add(shard)
    },
    hint(shard) {
      if (held.has(shard)) hinted.add(shard)
    },
    requestAll,
    restrict(next) {
      held = next
      for (const set of [wanted, hinted]) for (const shard of set) if (!held.has(shard)) set.delete(shard)
      const latestMs = clock.monotonicMs() + horizonMs / 2
      nextFullMs = held.size === 0 ? Number.POSITIVE_INFINITY : Math.min(nextFullMs, latestMs)
    },
    waitMs() {
      if (wanted.size > 0) return 0
      const hintMs = hinted.size > 0 ? hintsFromMs : Number.POSITIVE_INFINITY
      return Math.max(0, Math.min(nextFullMs, hintMs) - clock.monotonicMs())
    },
    take() {
      const nowMs = clock.monotonicMs()
      if (nowMs >= nextFullMs) requestAll()
      if (nowMs >= hintsFromMs && hinted.size > 0) {
        for (const shard of hinted) wanted.add(shard)
        hinted.clear()
        hintsFromMs = nowMs + hintPauseMs
      }
      const shards = [...wanted]
      wanted.clear()
      return shards
    },
    served(durationMs) {
      hintsFromMs = Math.max(hintsFromMs, clock.monotonicMs() + 5 * durationMs)
    },
  }
}
