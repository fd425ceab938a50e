/**
 * A page of timers over several shards, each read on its own: what may be answered, and where to go on.
 * Keys are (due instant, id).
 *
 * Where a shard had more than was read, nothing after its last key may be answered yet: the page ends at the
 * smallest such key, which is the cursor of the next.
 */

export interface TimerKey {
  readonly dueAtMs: number
  readonly id: string
}

/** Before every key of a due instant. */
const noId = '00000000-0000-0000-0000-000000000000'

/** A shard is never walked for fewer rows than this; a walk costs more than so many rows. */
const leastPerShard = 50

/** How many timers to read of each shard for a page: together about twice its size. */
export function readPerShard(limit: number, shards: number): number {
  return Math.max(leastPerShard, Math.ceil((2 * limit) / Math.max(1, shards)))
}

/** The key after which to read: that of the cursor, or before all of a due instant (null: of all). */
export function keyAfter(cursor: string | null, fromMs: number | null): TimerKey {
  if (cursor === null) return { dueAtMs: fromMs ?? Number.NEGATIVE_INFINITY, id: noId }
  const [dueAtMs = '', id = ''] = cursor.split('/')
  return { dueAtMs: Number(dueAtMs), id }
}

export function byTimerKey(a: TimerKey, b: TimerKey): number {
  if (a.dueAtMs !== b.dueAtMs) return a.dueAtMs - b.dueAtMs
  return a.id === b.id ? 0 : a.id < b.id ? -1 : 1
}

/**
 * At most `limit` of what was read, in order. `walkOf` names the walk that a timer came from; each was ended
 * after `perWalk` timers.
 */
export function timerPage<Timer extends TimerKey>(
  read: readonly Timer[],
  options: {
    readonly limit: number
    readonly perWalk: number
    readonly walkOf: (timer: Timer) => string
  },
): { readonly timers: readonly Timer[]; readonly cursor: string | null } {
  const sorted = [...read].sort(byTimerKey)
  const end = endOfPage(sorted, options)
  if (end === null) return { timers: sorted, cursor: null }
  return {
    timers: sorted.filter((timer) => byTimerKey(timer, end) <= 0),
    cursor: `${end.dueAtMs}/${end.id}`,
  }
}

/**
 * The last key up to which all walks are known in full, and at most `limit` timers stand; null when all were
 * read.
 */
function endOfPage<Timer extends TimerKey>(
  sorted: readonly Timer[],
  {
    limit,
    perWalk,
    walkOf,
  }: { readonly limit: number; readonly perWalk: number; readonly walkOf: (timer: Timer) => string },
): TimerKey | null {
  const counts = new Map<string, number>()
  for (const [index, timer] of sorted.entries()) {
    const walk = walkOf(timer)
    const count = (counts.get(walk) ?? 0) + 1
    counts.set(walk, count)
    if (count === perWalk || (index + 1 === limit && sorted.length > limit)) return timer
  }
  return null
}
