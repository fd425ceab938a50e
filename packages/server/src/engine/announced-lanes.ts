/**
 * Which way a worker claims from each queue, where runs are announced:
 *
 *   announced    by what was announced, and directly at first and once a second
 *   silent       runs were found that had waited and were not announced here: directly, until something is
 *
 * The direct claim once a second, in tag order, is what bounds all that can go wrong with announcements: one
 * that was lost, that another worker sits on, that a run with a lower tag has overtaken.
 */

const maxQueues = 10_000
/** An announcer at work needs less; so a run that waited longer, and was not announced, speaks against it. */
const lateMs = 250

interface Lane {
  silent: boolean
  heardMs: number
  directMs: number
  /** When it was last asked whether to claim directly. */
  askedMs: number
}

export interface AnnouncedLanes {
  /** Something of the queue was announced here. */
  readonly heard: (queue: string, nowMs: number) => void
  /** Whether the queue is claimed by what is announced; one that nothing is known of is not. */
  readonly isAnnounced: (queue: string) => boolean
  /** Whether to claim directly now; if so it is on record that it was done. */
  readonly takeTurn: (queue: string, nowMs: number) => boolean
  /** A direct claim found, of what was not announced here, one that had waited so long. */
  readonly missed: (queue: string, waitedMs: number, nowMs: number) => void
  readonly silent: () => number
}

export function createAnnouncedLanes(directEveryMs: number): AnnouncedLanes {
  const lanes = new Map<string, Lane>()

  /** The least recently used is forgotten: it begins anew. */
  function laneOf(queue: string): Lane {
    const lane: Lane = lanes.get(queue) ?? {
      silent: false,
      heardMs: -Infinity,
      directMs: -Infinity,
      askedMs: -Infinity,
    }
    lanes.delete(queue)
    lanes.set(queue, lane)
    const oldest = lanes.size > maxQueues ? lanes.keys().next().value : undefined
    if (oldest !== undefined) lanes.delete(oldest)
    return lane
  }

  return {
    heard(queue, nowMs) {
      const lane = laneOf(queue)
      lane.silent = false
      lane.heardMs = nowMs
    },
    isAnnounced: (queue) => lanes.get(queue)?.silent === false,
    takeTurn(queue, nowMs) {
      const lane = laneOf(queue)
      // who finds nothing waits twice as long each time (claimer.ts), so the next time may be too late; one
      // that an announcement woke begins with short waits anew
      const nextMs = nowMs + 2 * (nowMs - Math.max(lane.askedMs, lane.heardMs))
      lane.askedMs = nowMs
      if (!lane.silent && nextMs - lane.directMs < directEveryMs) return false
      lane.directMs = nowMs
      return true
    },
    missed(queue, waitedMs, nowMs) {
      const lane = laneOf(queue)
      if (waitedMs >= lateMs && nowMs - lane.heardMs >= directEveryMs) lane.silent = true
    },
    silent: () => [...lanes.values()].filter(({ silent }) => silent).length,
  }
}
