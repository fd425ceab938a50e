/**
 * A binary heap that also finds its entries by id. First one on top: the children of place n stand at 2n + 1
 * and 2n + 2 and never come before it.
 */

export interface KeyedHeap<Entry> {
  /** In no order, but the first one first. */
  readonly entries: readonly Entry[]
  get(id: string): Entry | undefined
  /** The entry's id must not be there yet. */
  add(entry: Entry): void
  /** Takes it out, if it is there. */
  remove(id: string): void
  /** Replaces all. */
  rebuild(entries: readonly Entry[]): void
}

export function createKeyedHeap<Entry>(
  idOf: (entry: Entry) => string,
  isBefore: (a: Entry, b: Entry) => boolean,
): KeyedHeap<Entry> {
  const entries: Entry[] = []
  const places = new Map<string, number>()

  function put(entry: Entry, place: number): void {
    entries[place] = entry
    places.set(idOf(entry), place)
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
    entries,
    get: (id) => entries[places.get(id) ?? -1],
    add,
    remove(id) {
      const place = places.get(id)
      const last = place === undefined ? undefined : entries.pop()
      if (place === undefined || last === undefined) return
      places.delete(id)
      if (place < entries.length) sink(last, place)
    },
    rebuild(kept) {
      const all = [...kept]
      entries.length = 0
      places.clear()
      for (const entry of all) add(entry)
    },
  }
}
