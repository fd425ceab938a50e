/**
 * From which tag on a worker claims while a queue has more than it takes: where its last claim ended. Behind
 * that stand what it holds, what has just ended, and the few rows that came with a lower tag since; for these
 * it looks from the low-water mark on (low-water-marks.ts) ten times a second, and whenever a claim was not
 * filled. A claim that finds many of them goes on from there.
 */
import type { LowWaterMarks } from './low-water-marks.ts'

const lookBehindMs = 100
const maxQueues = 10_000

interface Position {
  /** Undefined: the last claim took all there was. */
  tag: number | undefined
  lookedMs: number
}

export function createClaimPositions(marks: LowWaterMarks): LowWaterMarks {
  const positions = new Map<string, Position>()

  return {
    range(queue, nowMs) {
      const position = positions.get(queue)
      if (position?.tag !== undefined && nowMs - position.lookedMs < lookBehindMs)
        return { minTag: position.tag, maxTag: Infinity }
      if (position !== undefined) position.lookedMs = nowMs
      return marks.range(queue, nowMs)
    },
    failed: (claim, afterMs, nowMs) => marks.failed(claim, afterMs, nowMs),
    report(report, nowMs) {
      marks.report(report, nowMs)
      const { queue, filled, highestTag, maxTag } = report
      // a slice says nothing of what lies beyond it
      if (maxTag < Infinity) return
      if (!filled || highestTag === null) {
        positions.delete(queue)
        return
      }
      const known = positions.get(queue)
      if (known !== undefined) known.tag = highestTag
      else if (positions.size < maxQueues) positions.set(queue, { tag: highestTag, lookedMs: nowMs })
    },
  }
}
