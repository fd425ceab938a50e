/**
 * The timers that fall due next, first one on top: a binary heap that also finds its entries by id, so that a
 * timer that was read twice stands in it once, as it was read last.
 */
import type { DueTimer } from '../ports/timer-index.ts'

export interface TimerEntry {
  readonly timer: DueTimer
}

export interface TimerHeap<Entry extends TimerEntry> {
  readonly size: number
  /** Due instant of the first; Infinity when empty. */
  firstDueMs(): number
  /**
   * Adds it, or replaces the one of the same id; false (and nothing changes) if that one has the same due
   * instant and generation.
   */
  push(entry: Entry): boolean
  /** Takes out what is due at `nowMs`, first due first, at most `limit`. */
  popDue(nowMs: number, limit: number): Entry[]
  /** Keeps only entries for which `keep` answers true. */
  retain(keep: (entry: Entry) => boolean): void
  /** Keeps the first `limit`; answers the due instant of the first one dropped, Infinity if none was. */
  trim(limit: number): number
}

export function createTimerHeap<Entry extends TimerEntry>(): TimerHeap<Entry> {
  const tree = createTree<Entry>()
  return {
    get size() {
      return tree.entries.length
    },
    firstDueMs: () => tree.entries[0]?.timer.dueAtMs ?? Number.POSITIVE_INFINITY,
    push(entry) {
      const place = tree.placeOf(entry.timer.id)
      const present = place === undefined ? undefined : tree.entries[place]
      if (present !== undefined && isSame(present.timer, entry.timer)) return false
      if (place !== undefined) tree.removeAt(place)
      tree.add(entry)
      return true
    },
    popDue(nowMs, limit) {
      const due: Entry[] = []
      for (;;) {
        const first = tree.entries[0]
        if (first === undefined || first.timer.dueAtMs > nowMs || due.length >= limit) return due
        tree.removeAt(0)
        due.push(first)
      }
    },
    retain(keep) {
      const kept = tree.entries.filter((entry) => keep(entry))
      if (kept.length < tree.entries.length) tree.rebuild(kept)
    },
    trim(limit) {
      if (tree.entries.length <= limit) return Number.POSITIVE_INFINITY
      const sorted = [...tree.entries].sort((a, b) => (isBefore(a, b) ? -1 : 1))
      tree.rebuild(sorted.slice(0, limit))
      return sorted[limit]?.timer.dueAtMs ?? Number.POSITIVE_INFINITY
    },
  }
}

/**
 * The binary tree in an array: the children of place n stand at 2n + 1 and 2n + 2 and never come before it.
 */
function createTree<Entry extends TimerEntry>() {
  const entries: Entry[] = []
  const places = new Map<string, number>()

  function put(entry: Entry, place: number): void {
    entries[place] = entry
    places.set(entry.timer.id, place)
  }

  /** Moves `entry` from the hole at `from` towards the top as far as it belongs. */
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

  /** Moves `entry` from the hole at `from` to where it belongs, downwards or up. */
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

  const add = (entry: Entry): void => rise(entry, entries.length)
  return {
    entries: entries as readonly Entry[],
    placeOf: (id: string) => places.get(id),
    add,
    removeAt(place: number): void {
      const gone = entries[place]
      const last = entries.pop()
      if (gone === undefined || last === undefined) return
      places.delete(gone.timer.id)
      if (last !== gone) sink(last, place)
    },
    rebuild(kept: readonly Entry[]): void {
      entries.length = 0
      places.clear()
      for (const entry of kept) add(entry)
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
