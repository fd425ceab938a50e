/**
 * The timers that fall due next, first one on top: a binary heap that also finds its entries by id, so that a timer that
 * was read twice stands in it once, as it was read last.
 */
import type { DueTimer } from '../ports/timer-index.ts'

export interface TimerEntry {
  readonly timer: DueTimer
}

export interface TimerHeap<Entry extends TimerEntry> {
  readonly size: number
  /** Due instant of the first; Infinity when empty. */
  firstDueMs(): number
  /** Adds it, or replaces the one of the same id; false (and nothing changes) if that one has the same due instant and generation. */
  push(entry: Entry): boolean
  /** Takes out what is due at `nowMs`, first due first, at most `limit`. */
  popDue(nowMs: number, limit: number): Entry[]
  /** Keeps only entries for which `keep` answers true. */
  retain(keep: (entry: Entry) => boolean): void
  /** Keeps the first `limit`; answers the due instant of the first one dropped, Infinity if none was. */
  trim(limit: number): number
}

export function createTimerHeap<Entry extends TimerEntry>(): TimerHeap<Entry> {
  let entries: Entry[] = []
  const places = new Map<string, number>()

  function put(entry: Entry, place: number): void {
    entries[place] = entry
    places.set(entry.timer.id, place)
  }

  /** Moves `entry` from the hole at `place` towards the top as far as it belongs. */
  function rise(entry: Entry, from: number): void {
    let place = from
    while (place > 0) {
      const above = (place - 1) >> 1
      const parent = entries[above]
      if (parent === undefined || !isBefore(entry, parent)) break
      put(parent, place)
      place = above
    }
    put(entry, place)
  }

  function sink(entry: Entry, from: number): void {
    let place = from
    for (;;) {
      const left = entries[2 * place + 1]
      const right = entries[2 * place + 2]
      if (left === undefined) break
      const takeRight = right !== undefined && isBefore(right, left)
      const child = takeRight ? right : left
      if (!isBefore(child, entry)) break
      put(child, place)
      place = 2 * place + (takeRight ? 2 : 1)
    }
    rise(entry, place)
  }

  function removeAt(place: number): void {
    const gone = entries[place]
    const last = entries.pop()
    if (gone === undefined || last === undefined) return
    places.delete(gone.timer.id)
    if (last !== gone) sink(last, place)
  }

  function rebuild(kept: Entry[]): void {
    entries = []
    places.clear()
    for (const entry of kept) rise(entry, entries.length)
  }

  return {
    get size() {
      return entries.length
    },
    firstDueMs: () => entries[0]?.timer.dueAtMs ?? Number.POSITIVE_INFINITY,
    push(entry) {
      const place = places.get(entry.timer.id)
      if (place === undefined) {
        rise(entry, entries.length)
        return true
      }
      const present = entries[place]
      if (present !== undefined && isSame(present.timer, entry.timer)) return false
      removeAt(place)
      rise(entry, entries.length)
      return true
    },
    popDue(nowMs, limit) {
      const due: Entry[] = []
      for (;;) {
        const first = entries[0]
        if (first === undefined || first.timer.dueAtMs > nowMs || due.length >= limit) return due
        removeAt(0)
        due.push(first)
      }
    },
    retain(keep) {
      const kept = entries.filter(keep)
      if (kept.length < entries.length) rebuild(kept)
    },
    trim(limit) {
      if (entries.length <= limit) return Number.POSITIVE_INFINITY
      const sorted = [...entries].sort((a, b) => (isBefore(a, b) ? -1 : 1))
      rebuild(sorted.slice(0, limit))
      return sorted[limit]?.timer.dueAtMs ?? Number.POSITIVE_INFINITY
    },
  }
}

function isBefore(a: TimerEntry, b: TimerEntry): boolean {
  const { timer: first } = a
  const { timer: second } = b
  if (first.dueAtMs !== second.dueAtMs) return first.dueAtMs < second.dueAtMs
  return first.id < second.id
}

function isSame(a: DueTimer, b: DueTimer): boolean {
  const genOf = (timer: DueTimer): number => (timer.kind === 'schedule' ? timer.gen : 0)
  return a.dueAtMs === b.dueAtMs && genOf(a) === genOf(b)
}
