/**
 * From which tag on the announcer reads a queue: what stands below the first that it saw a second ago has
 * been claimed, though the index may keep it for as long as some snapshot sees it. All of it is read as
 * often as that costs a twentieth of the time, and each ten seconds: rows come up behind the mark, too.
 * What it misses is claimed directly meanwhile.
 */
const markAgeMs = 1_000
const wholeShare = 20
const longestRestMs = 10_000

export interface AnnouncerMark {
  readonly minTag: (nowMs: number) => number
  /** A read that ended at `nowMs` found this first; null: nothing, undefined: it failed. */
  readonly read: (minTag: number, firstTag: number | null | undefined, tookMs: number, nowMs: number) => void
  /** The next one reads all of it. */
  readonly reset: () => void
}

export function createAnnouncerMark(): AnnouncerMark {
  let tag = -Infinity
  let next: { readonly tag: number; readonly sinceMs: number } | undefined
  let wholeMs = -Infinity

  return {
    minTag: (nowMs) => (nowMs >= wholeMs ? -Infinity : tag),
    read(minTag, firstTag, tookMs, nowMs) {
      if (minTag === -Infinity) wholeMs = nowMs + Math.min(longestRestMs, tookMs * wholeShare)
      if (firstTag === null || firstTag === undefined) return
      if (firstTag < tag) tag = firstTag
      if (next !== undefined && firstTag < next.tag) next = undefined
      if (next !== undefined && nowMs - next.sinceMs >= markAgeMs) {
        tag = next.tag
        next = undefined
      }
      next ??= { tag: firstTag, sinceMs: nowMs }
    },
    reset() {
      wholeMs = -Infinity
    },
  }
}
