/**
 * Rows that stand for many planned times, so that an outage, a sleep or a closed calendar leaves a bounded
 * number of rows however long it was: one for all that were missed, one for all that were asleep, one for all
 * that were excluded. Each stands at the first of its times.
 */
import type { DecidedOccurrence } from './fire-policy.ts'

export interface Sums {
  /** Counts `count` planned times, of which `occurrence` is the first, to the row of its kind. */
  add(occurrence: DecidedOccurrence, count: number): void
  /** In the order of their times. */
  rows(): readonly DecidedOccurrence[]
}

export function createSums(): Sums {
  const kinds = new Map<string, DecidedOccurrence>()
  return {
    add(occurrence, count) {
      const kind = kindOf(occurrence)
      const sum = kinds.get(kind)
      if (sum === undefined) {
        kinds.set(kind, { ...occurrence, missedCount: count })
      } else {
        const first = occurrence.scheduledForMs < sum.scheduledForMs ? occurrence : sum
        kinds.set(kind, { ...first, missedCount: sum.missedCount + count })
      }
    },
    rows: () => [...kinds.values()].toSorted((a, b) => a.scheduledForMs - b.scheduledForMs),
  }
}

/** Whether nothing happened at its time but that it passed: such rows may be summed. */
export function isQuiet({ outcome, reason }: DecidedOccurrence): boolean {
  return outcome === 'missed' || reason === 'asleep' || reason === 'calendar'
}

function kindOf({ outcome, reason }: DecidedOccurrence): string {
  return outcome === 'missed' ? outcome : String(reason)
}
