/**
 * From which tag on a claim looks, queue by queue. The claim index keeps entries of rows that were claimed
 * long ago for as long as some snapshot may see them; walking over them each time is what makes queues in
 * Postgres collapse. So a claim starts at the tag up to which everything was claimed a second ago: a tag may
 * be handed out up to a second before its row commits.
 *
 * Rows can still come up behind the mark (handed back, enqueued by a process whose idea of the virtual time
 * is old, or skipped because another claim had them locked). Those are found by a full scan from -Infinity:
 * at least each 10 s, and as often as it costs no more than a twentieth of the time, which without dead rows
 * is nearly always.
 */

const markAgeMs = 1_000
const spacingMs = 125
const longestMarkedMs = 10_000
const fullScanShare = 20
const maxQueues = 10_000

interface Progress {
  readonly atMs: number
  readonly tag: number
}

interface QueueMark {
  mark: number
  /**
   * Highest tag claimed so far, by time; the first is the candidate for the mark. Thinned out to some ten
   * entries: a mark may be older than a second by `spacingMs`.
   */
  progress: Progress[]
  lastFullScanMs: number
  lastFullScanCostMs: number
}

export interface ClaimReport {
  readonly queue: string
  /** As it was asked for. */
  readonly minTag: number
  /** Highest tag that was claimed; null: the queue had nothing from `minTag` on. */
  readonly highestTag: number | null
  /** Whether the share was used up, so that more may be waiting. */
  readonly filled: boolean
  /** How long the claim took, all queues together. */
  readonly durationMs: number
}

export interface LowWaterMarks {
  /** Where the next claim of the queue begins, at local monotonic time `nowMs`. */
  minTag(queue: string, nowMs: number): number
  /** Takes in what a claim that ended at `nowMs` found. */
  report(report: ClaimReport, nowMs: number): void
}

export function createLowWaterMarks(): LowWaterMarks {
  const marks = new Map<string, QueueMark>()

  function markOf(queue: string): QueueMark {
    const known = marks.get(queue)
    const mark = known ?? {
      mark: -Infinity,
      progress: [],
      lastFullScanMs: -Infinity,
      lastFullScanCostMs: 0,
    }
    // the least recently used goes first; a forgotten mark costs one full scan
    marks.delete(queue)
    marks.set(queue, mark)
    const oldest = marks.size > maxQueues ? marks.keys().next().value : undefined
    if (oldest !== undefined) marks.delete(oldest)
    return mark
  }

  return {
    minTag(queue, nowMs) {
      const state = markOf(queue)
      const restMs = Math.min(longestMarkedMs, state.lastFullScanCostMs * fullScanShare)
      if (nowMs - state.lastFullScanMs >= restMs) return -Infinity
      while ((state.progress[0]?.atMs ?? Infinity) <= nowMs - markAgeMs) {
        state.mark = Math.max(state.mark, state.progress.shift()?.tag ?? state.mark)
      }
      return state.mark
    },
    report({ queue, minTag, highestTag, filled, durationMs }, nowMs) {
      const state = markOf(queue)
      if (minTag === -Infinity) {
        state.lastFullScanMs = nowMs
        state.lastFullScanCostMs = durationMs
        // More may wait right behind what was taken, before the mark: go back to there.
        if (filled && highestTag !== null && highestTag < state.mark) {
          state.mark = highestTag
          state.progress = []
        }
      }
      if (highestTag === null) return
      const last = state.progress.at(-1)
      if (last !== undefined && highestTag <= last.tag) return
      const isClose = last !== undefined && last.atMs - (state.progress.at(-2)?.atMs ?? -Infinity) < spacingMs
      if (isClose) state.progress.pop()
      state.progress.push({ atMs: nowMs, tag: highestTag })
    },
  }
}
