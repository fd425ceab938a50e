/**
 * From which tag on a claim looks, queue by queue. The claim index keeps entries of rows that were claimed
 * long ago for as long as some snapshot may see them; walking over them each time is what makes queues in
 * Postgres collapse. So a claim starts at the tag up to which everything was claimed a second ago: a tag may
 * be handed out up to a second before its row commits.
 *
 * Rows can still come up behind the mark (handed back, enqueued by a process whose idea of the virtual time
 * is old, or skipped because another claim had them locked). Those are found
 *
 *   - by a full scan from -Infinity, as often as it costs no more than a twentieth of the time, which without
 *     dead rows is nearly always;
 *   - once two full scans in a row took 100 ms, or one longer than the database allows: what came lately by
 *     claims that begin where the mark stood ten seconds ago, all else slice by slice (tag-slices.ts); each
 *     costs a twentieth of the time. Who has no mark yet walks over the slices until it finds something.
 */
import { createTagSlices, type TagRange, type TagSlices } from './tag-slices.ts'

const markAgeMs = 1_000
const spacingMs = 125
const nearMs = 10_000
const longestNearMs = 10_000
const fullScanShare = 20
/** A full scan that takes as long is not repeated. */
const slowScanMs = 100
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
  /** Where the mark stood, about once a second; the first some ten seconds ago. */
  trail: Progress[]
  /** When a full scan, or a look at what came lately, is due. */
  nextScanMs: number
  /** How long the last of these took. */
  lastScanMs: number
  /** Undefined: a full scan is quick. */
  slices: TagSlices | undefined
  nextSliceMs: number
}

export interface ClaimReport extends TagRange {
  readonly queue: string
  /** Highest tag that was claimed; null: the queue had nothing in the range. */
  readonly highestTag: number | null
  /** Whether the share was used up, so that more may be waiting. */
  readonly filled: boolean
  /** How long the claim took, all queues together. */
  readonly durationMs: number
}

export interface LowWaterMarks {
  /** Where the next claim of the queue looks, at local monotonic time `nowMs`. */
  range(queue: string, nowMs: number): TagRange
  /** Takes in what a claim that ended at `nowMs` found. */
  report(report: ClaimReport, nowMs: number): void
  /** A claim of this range failed: given up after so long, or (undefined) for another reason. */
  failed(claim: TagRange & { readonly queue: string }, afterMs: number | undefined, nowMs: number): void
}

const from = (minTag: number): TagRange => ({ minTag, maxTag: Infinity })
const isSlice = ({ maxTag }: TagRange): boolean => maxTag < Infinity
const restMs = (costMs: number): number => costMs * fullScanShare

export function createLowWaterMarks(): LowWaterMarks {
  const marks = new Map<string, QueueMark>()

  function markOf(queue: string): QueueMark {
    const known = marks.get(queue)
    const mark = known ?? {
      mark: -Infinity,
      progress: [],
      trail: [],
      nextScanMs: -Infinity,
      lastScanMs: slowScanMs - 1,
      slices: undefined,
      nextSliceMs: -Infinity,
    }
    // the least recently used goes first; a forgotten mark costs one full scan
    marks.delete(queue)
    marks.set(queue, mark)
    const oldest = marks.size > maxQueues ? marks.keys().next().value : undefined
    if (oldest !== undefined) marks.delete(oldest)
    return mark
  }

  return {
    range(queue, nowMs) {
      const state = markOf(queue)
      const { slices } = state
      if (slices === undefined && nowMs >= state.nextScanMs) return from(-Infinity)
      moveOn(state, nowMs)
      if (slices === undefined) return from(state.mark)
      const slice = nextSlice(state, slices, nowMs)
      if (slice !== undefined) return slice
      if (nowMs < state.nextScanMs) return from(state.mark)
      return from(state.trail[0]?.tag ?? state.mark)
    },
    report(report, nowMs) {
      const state = markOf(report.queue)
      const { minTag, highestTag, filled, durationMs } = report
      if (isSlice(report)) {
        state.slices?.report(report)
        state.nextSliceMs = filled ? nowMs : nowMs + restMs(durationMs)
        // nothing lies before it: claims begin here
        if (highestTag !== null && state.mark === -Infinity) state.mark = minTag
        return
      }
      const isNear = state.slices !== undefined && minTag < state.mark && nowMs >= state.nextScanMs
      if (minTag === -Infinity || isNear) {
        const costMs = costOfScan(state, durationMs)
        state.nextScanMs = nowMs + Math.min(longestNearMs, restMs(costMs))
        if (minTag === -Infinity && costMs >= slowScanMs) state.slices ??= createTagSlices()
        // More may wait right behind what was taken, before the mark: go back to there.
        if (filled && highestTag !== null && highestTag < state.mark) {
          state.mark = highestTag
          state.progress = []
          state.trail = []
        }
      }
      if (highestTag !== null) noteProgress(state, highestTag, nowMs)
    },
    failed({ queue, minTag, maxTag }, afterMs, nowMs) {
      const state = markOf(queue)
      if (maxTag < Infinity) {
        state.slices?.failed({ minTag, maxTag }, afterMs !== undefined)
        state.nextSliceMs = nowMs + restMs(afterMs ?? 0)
      } else if (afterMs !== undefined && (minTag < state.mark || minTag === -Infinity)) {
        state.nextScanMs = nowMs + Math.min(longestNearMs, restMs(afterMs))
        if (minTag === -Infinity) state.slices ??= createTagSlices()
      }
    },
  }
}

/**
 * What a scan costs, as far as two in a row say: one alone may have waited for a connection, while the
 * database was away.
 */
function costOfScan(state: QueueMark, durationMs: number): number {
  const costMs = Math.min(durationMs, state.lastScanMs)
  state.lastScanMs = durationMs
  return costMs
}

/** The mark follows what was claimed, at its distance. */
function moveOn(state: QueueMark, nowMs: number): void {
  while ((state.progress[0]?.atMs ?? Infinity) <= nowMs - markAgeMs) {
    state.mark = Math.max(state.mark, state.progress.shift()?.tag ?? state.mark)
  }
  if (state.slices === undefined || state.mark === -Infinity) return
  if (nowMs - (state.trail.at(-1)?.atMs ?? -Infinity) >= markAgeMs)
    state.trail.push({ atMs: nowMs, tag: state.mark })
  while ((state.trail[1]?.atMs ?? Infinity) <= nowMs - nearMs) state.trail.shift()
}

/** The slice that is due; where the walk has arrived, it says what comes of it. */
function nextSlice(state: QueueMark, slices: TagSlices, nowMs: number): TagRange | undefined {
  const { mark } = state
  if (mark === -Infinity) {
    const slice = slices.next(Infinity)
    if (slice === undefined) state.mark = slices.lastFilledTag()
    return slice
  }
  if (nowMs < state.nextSliceMs) return undefined
  const costMs = slices.costMs()
  const slice = slices.next(mark)
  if (slice === undefined) {
    if (costMs < slowScanMs) state.slices = undefined
    return undefined
  }
  // one at a time, until it is reported
  state.nextSliceMs = Infinity
  return slice
}

function noteProgress(state: QueueMark, highestTag: number, nowMs: number): void {
  const last = state.progress.at(-1)
  if (last !== undefined && highestTag <= last.tag) return
  const isClose = last !== undefined && last.atMs - (state.progress.at(-2)?.atMs ?? -Infinity) < spacingMs
  if (isClose) state.progress.pop()
  state.progress.push({ atMs: nowMs, tag: highestTag })
}
