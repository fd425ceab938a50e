/**
 * A small memory of values that cost a call: each is kept for a while, all together weigh at most so much,
 * and those who ask for the same one at the same time wait for one call. A failure is not kept.
 */
import type { Clock } from '../../ports/clock.ts'

interface Entry<Value> {
  readonly value: Promise<Value>
  readonly untilMs: number
  /** Of one that is not there yet: 1. */
  weight: number
}

export interface BoundedCache<Value> {
  get(key: string, make: () => Promise<Value>): Promise<Value>
}

export function createBoundedCache<Value>(options: {
  readonly clock: Clock
  readonly keepMs: number
  readonly most: number
  /** Default 1. */
  readonly weightOf?: (value: Value) => number
}): BoundedCache<Value> {
  const { clock, keepMs, most, weightOf = () => 1 } = options
  /** In the order in which they end. */
  const entries = new Map<string, Entry<Value>>()
  let weight = 0

  function drop(key: string, entry: Entry<Value>): void {
    if (entries.get(key) !== entry) return
    entries.delete(key)
    weight -= entry.weight
  }

  function makeRoom(nowMs: number): void {
    for (const [key, entry] of entries) {
      if (entry.untilMs > nowMs && weight <= most) return
      drop(key, entry)
    }
  }

  function weigh(key: string, entry: Entry<Value>, value: Value): void {
    if (entries.get(key) !== entry) return
    weight += weightOf(value) - entry.weight
    entry.weight = weightOf(value)
    makeRoom(clock.monotonicMs())
  }

  return {
    get(key, make) {
      const nowMs = clock.monotonicMs()
      const known = entries.get(key)
      if (known !== undefined && known.untilMs > nowMs) return known.value
      if (known !== undefined) drop(key, known)
      const entry: Entry<Value> = { value: make(), untilMs: nowMs + keepMs, weight: 1 }
      entries.set(key, entry)
      weight += 1
      makeRoom(nowMs)
      entry.value.then(
        (value) => weigh(key, entry, value),
        () => drop(key, entry),
      )
      return entry.value
    },
  }
}
