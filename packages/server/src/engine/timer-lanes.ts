/**
 * The timers in memory, in two lanes, so that a backlog never stands before what is due now:
 *
 *   on time   due within the last second, or later
 *   late      due before that: after an outage, or behind a big instant
 *
 * Both are fired in turns, the first one first, each in its own transactions. A timer that waits too long
 * moves over. Bounded: of each lane the latest due are dropped where it is full; they stay in the database
 * and are read again when there is room (timer-reader.ts).
 */
import { createTimerHeap, type TimerEntry } from './timer-heap.ts'

/** A timer is late when it was due so long ago. */
export const lateAfterMs = 1_000
/** Of a full lane, this part is kept. */
const keptShare = 0.75
/** What the late lane may hold of the memory: it is read in due order anyway. */
const lateShare = 0.25
/** Late timers in memory below which more are read. */
const fewLate = 2_500

export interface TimerLanes<Entry extends TimerEntry> {
  readonly size: number
  /** Whether much was dropped of the lane on time, so that all should be read again. */
  readonly hasRoom: boolean
  /** Whether more late ones should be read. */
  readonly hasRoomForLate: boolean
  /** When the first is to be fired; Infinity when empty. */
  firstDueMs(): number
  /** Adds or replaces; false if the very same timer is there. */
  push(entry: Entry): boolean
  popOnTime(nowMs: number, limit: number): Entry[]
  popLate(nowMs: number, limit: number): Entry[]
  retain(keep: (entry: Entry) => boolean): void
  /**
   * Keeps to the bounds. Answers from which due instant on the lane on time is incomplete (Infinity: nowhere)
   * and whether late ones were dropped.
   */
  trim(nowMs: number): { readonly ceilingMs: number; readonly droppedLate: boolean }
}

export function createTimerLanes<Entry extends TimerEntry>(maxTimers: number): TimerLanes<Entry> {
  const onTime = createTimerHeap<Entry>()
  const late = createTimerHeap<Entry>()
  const mostLate = Math.floor(maxTimers * lateShare)
  const mostOnTime = maxTimers - mostLate

  function sortOut(nowMs: number): void {
    for (const entry of onTime.popDue(nowMs - lateAfterMs, Infinity)) late.push(entry)
  }

  return {
    get size() {
      return onTime.size + late.size
    },
    get hasRoom() {
      return onTime.size < mostOnTime / 2
    },
    get hasRoomForLate() {
      return late.size < Math.min(fewLate, mostLate / 2)
    },
    firstDueMs: () => Math.min(onTime.firstDueMs(), late.firstDueMs()),
    push(entry) {
      if (late.has(entry.timer)) return false
      late.remove(entry.timer.id)
      return onTime.push(entry)
    },
    popOnTime(nowMs, limit) {
      sortOut(nowMs)
      return onTime.popDue(nowMs, limit)
    },
    popLate: (nowMs, limit) => late.popDue(nowMs, limit),
    retain(keep) {
      onTime.retain(keep)
      late.retain(keep)
    },
    trim(nowMs) {
      sortOut(nowMs)
      const full = onTime.size >= mostOnTime
      return {
        ceilingMs: full ? onTime.trim(Math.floor(mostOnTime * keptShare)) : Infinity,
        droppedLate: late.size > mostLate && late.trim(Math.floor(mostLate * keptShare)) < Infinity,
      }
    },
  }
}
