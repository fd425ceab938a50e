/**
 * A walk over what lies behind the low-water mark, where one look over all of it would take too long: some
 * old snapshot keeps every row alive that was ever claimed since. The walk goes up in slices of tags, each as
 * wide as takes some 50 ms; how dense tags stand is found out on the way. A slice that took too long for the
 * database is tried again in parts.
 */

/** Of tags: from the first on, below the second. */
export interface TagRange {
  readonly minTag: number
  readonly maxTag: number
}

export interface SliceReport extends TagRange {
  /** Highest tag that was found. */
  readonly highestTag: number | null
  /** Whether more may be left in it. */
  readonly filled: boolean
  readonly durationMs: number
}

const wantedMs = 50
/** A slice that takes longer has something in it, alive or dead. */
const emptyMs = 5
const firstWidth = 4_096
/** Beyond any tag. */
const highest = 1e15

export interface TagSlices {
  /** The next slice below `end`; undefined: the walk has arrived there, and begins anew. */
  next(end: number): TagRange | undefined
  report(report: SliceReport): void
  /** Nothing is known of it. */
  failed(slice: TagRange, tookTooLong: boolean): void
  /** How long the walk has taken since its beginning. */
  costMs(): number
  /** Where the last slice began in which there was something. */
  lastFilledTag(): number
}

export function createTagSlices(): TagSlices {
  let cursor = -Infinity
  let width = firstWidth
  let costMs = 0
  let lastFilledTag = -Infinity

  const goBackTo = (tag: number): void => {
    cursor = Math.min(cursor, tag)
  }

  return {
    next(end) {
      if (cursor >= Math.min(end, highest)) {
        cursor = -Infinity
        costMs = 0
        return undefined
      }
      const maxTag = Math.min(end, cursor === -Infinity ? 0 : cursor + width)
      const slice = { minTag: cursor, maxTag }
      cursor = maxTag
      return slice
    },
    report({ minTag, maxTag, highestTag, filled, durationMs }) {
      costMs += durationMs
      if (durationMs > emptyMs) lastFilledTag = minTag
      if (filled && highestTag !== null) goBackTo(highestTag)
      // the first and the last of a walk say nothing of how wide one may be
      else if (durationMs < wantedMs / 2 && minTag > -Infinity && maxTag - minTag >= width) width *= 2
      if (durationMs > wantedMs) width = Math.max(1, width / 2)
    },
    failed({ minTag, maxTag }, tookTooLong) {
      if (tookTooLong) width = Math.max(1, Math.min(width, maxTag - Math.max(0, minTag)) / 8)
      // one that cannot be made smaller is left out this time
      if (!tookTooLong || (maxTag - minTag > 1 && maxTag > 0)) goBackTo(minTag)
    },
    costMs: () => costMs,
    lastFilledTag: () => lastFilledTag,
  }
}
