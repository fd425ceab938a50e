/**
 * The timers that fall due next, first one on top, so that a timer that was read twice stands in it once, as
 * it was read last.
 */
import type { DueTimer } from '../ports/timer-index.ts'
import { createKeyedHeap } from './keyed-heap.ts'

export interface TimerEntry {
  readonly timer: DueTimer
  /** Not to be fired before this, by the estimated database time; left out: the due instant. */
  readonly notBeforeMs?: number
}

export interface TimerHeap<Entry extends TimerEntry> {
  readonly size: number
  /** When the first is to be fired; Infinity when empty. */
  firstDueMs(): number
  /**
   * Adds it, or replaces the one of the same id; false (and nothing changes) if that one has the same due
   * instant and generation, or is of a later one.
   */
  push(entry: Entry): boolean
  /** Whether there is one of the same id, due instant and generation. */
  has(timer: DueTimer): boolean
  remove(id: string): void
  /** Takes out what is to be fired at `nowMs`, first due first, at most `limit`. */
  popDue(nowMs: number, limit: number): Entry[]
  /** Keeps only entries for which `keep` answers true. */
  retain(keep: (entry: Entry) => boolean): void
  /** Keeps the first `limit`; answers the first due instant among those dropped, Infinity if none was. */
  trim(limit: number): number
}

export function createTimerHeap<Entry extends TimerEntry>(): TimerHeap<Entry> {
  const heap = createKeyedHeap<Entry>(({ timer }) => timer.id, isBefore)
  const { entries } = heap

  function has(timer: DueTimer): boolean {
    const present = heap.get(timer.id)
    return present !== undefined && isSame(present.timer, timer)
  }
  return {
    get size() {
      return entries.length
    },
    firstDueMs: () => (entries[0] === undefined ? Number.POSITIVE_INFINITY : keyOf(entries[0])),
    has,
    push(entry) {
      const present = heap.get(entry.timer.id)
      if (present !== undefined && !isNews(entry.timer, present.timer)) return false
      heap.remove(entry.timer.id)
      heap.add(entry)
      return true
    },
    remove: (id) => heap.remove(id),
    popDue(nowMs, limit) {
      const due: Entry[] = []
      for (;;) {
        const [first] = entries
        if (first === undefined || keyOf(first) > nowMs || due.length >= limit) return due
        heap.remove(first.timer.id)
        due.push(first)
      }
    },
    retain(keep) {
      const kept = entries.filter((entry) => keep(entry))
      if (kept.length < entries.length) heap.rebuild(kept)
    },
    trim(limit) {
      if (entries.length <= limit) return Number.POSITIVE_INFINITY
      const sorted = [...entries].sort((a, b) => (isBefore(a, b) ? -1 : 1))
      heap.rebuild(sorted.slice(0, limit))
      return sorted.slice(limit).reduce((least, { timer }) => Math.min(least, timer.dueAtMs), Infinity)
    },
  }
}

const keyOf = ({ timer, notBeforeMs }: TimerEntry): number => notBeforeMs ?? timer.dueAtMs

function isBefore(a: TimerEntry, b: TimerEntry): boolean {
  const [first, second] = [keyOf(a), keyOf(b)]
  if (first !== second) return first < second
  return a.timer.id < b.timer.id
}

const genOf = (timer: DueTimer): number => (timer.kind === 'schedule' ? timer.gen : 0)

function isSame(a: DueTimer, b: DueTimer): boolean {
  return a.dueAtMs === b.dueAtMs && genOf(a) === genOf(b)
}

/** An index that is behind may tell of a generation that has passed. */
function isNews(timer: DueTimer, present: DueTimer): boolean {
  return genOf(timer) >= genOf(present) && !isSame(timer, present)
}
