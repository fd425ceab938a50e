/**
 * Which shards this process believes to hold, and until when. Part of the elector.
 *
 *   term    |---------------------------- termMs ----------------------------|
 *   trust   |------------------ termMs - margin ------------------|
 *           ^ the renewal was sent
 *
 * Trust is measured on the monotonic clock from *before* a renewal was sent, so a slow answer never extends
 * it, and a process that was stopped finds it gone when it wakes. It is a courtesy: what keeps an old holder
 * from firing is the term number that the firing transaction checks.
 */
import type { Clock, Timer } from '../ports/clock.ts'
import type { EventSink } from '../ports/event-sink.ts'
import type { HeldShard } from '../ports/leadership.ts'

const mostMarginMs = 2_000

export interface ShardTrust {
  /** Empty once trust has ended. The same array until the next renewal. */
  held(): readonly HeldShard[]
  /** Takes in the answer to a renewal that was sent at `sentMs` (local monotonic). */
  grant(next: readonly HeldShard[], sentMs: number): void
  end(): void
  /** Calls `listener` after each grant and when trust ends, until the returned function is called. */
  subscribe(listener: () => void): () => void
}

const none: readonly HeldShard[] = []

export function createShardTrust(clock: Clock, events: EventSink, termMs: number): ShardTrust {
  const marginMs = Math.min(mostMarginMs, termMs / 4)
  const listeners = new Set<() => void>()
  let held = none
  let untilMs = Number.NEGATIVE_INFINITY
  let timer: Timer | undefined

  function adopt(next: readonly HeldShard[]): void {
    const before = new Map(held.map(({ shard, term }) => [shard, term]))
    const after = new Map(next.map(({ shard, term }) => [shard, term]))
    held = next
    const gained = [...after].filter(([shard, term]) => before.get(shard) !== term).map(([shard]) => shard)
    const lost = [...before.keys()].filter((shard) => !after.has(shard))
    if (gained.length + lost.length > 0) events.emit('shards_changed', { held: next.length, gained, lost })
    for (const listener of listeners) listener()
  }

  function end(): void {
    timer?.cancel()
    timer = undefined
    untilMs = Number.NEGATIVE_INFINITY
    if (held !== none) adopt(none)
  }

  return {
    held: () => (clock.monotonicMs() < untilMs ? held : none),
    grant(next, sentMs) {
      timer?.cancel()
      untilMs = sentMs + termMs - marginMs
      const leftMs = untilMs - clock.monotonicMs()
      if (leftMs <= 0) return end()
      timer = clock.setTimer(leftMs, end)
      adopt(next)
    },
    end,
    subscribe(listener) {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
  }
}
