/**
 * Parks runs that their target took over: the run leaves its worker, whose slot is free for the next one.
 * Until that is on record the worker holds the run as any other, so a process that dies before has lost it as
 * any other. While the database is away it is tried again, for as long as the run is held.
 */
import type { Clock } from '../../ports/clock.ts'
import type { EventSink } from '../../ports/event-sink.ts'
import type { CallbackStore, ReportLimits } from '../../ports/callbacks.ts'
import type { Random } from '../../ports/random.ts'
import type { ClaimedRun } from '../../ports/run-queue.ts'
import { isFaultOfRows } from '../isolate-fault.ts'

const firstRetryMs = 50
const longestRetryMs = 5_000

export interface ParkerOptions {
  readonly callbacks: Pick<CallbackStore, 'park'>
  readonly clock: Clock
  readonly random: Random
  readonly events: EventSink
}

export interface Parking {
  readonly sessionId: string
  readonly run: ClaimedRun
  readonly limits: ReportLimits
  /** Nobody holds it here any more. */
  readonly onParked: () => void
  /** It could not be parked: the session holds it on paper, until its deadline. */
  readonly onDropped: () => void
}

export interface Parker {
  park(parking: Parking): void
  stop(): void
}

export function createParker(options: ParkerOptions): Parker {
  const { callbacks, clock, random, events } = options
  const stopped = new AbortController()

  async function park({ sessionId, run, limits, onParked, onDropped }: Parking): Promise<void> {
    for (let failures = 0; !stopped.signal.aborted; failures++) {
      try {
        // false is as good: the target has reported its end before, or the run is somebody else's
        await callbacks.park(sessionId, run, limits)
        return onParked()
      } catch (error) {
        const retryInMs = Math.min(longestRetryMs, firstRetryMs * 2 ** failures) * (0.5 + random.next() / 2)
        const isOver = isFaultOfRows(error)
        events.emit('role_failed', { role: 'parker', error, retryInMs: isOver ? 0 : retryInMs })
        if (isOver) return onDropped()
        await clock.sleep(retryInMs, stopped.signal)
      }
    }
  }

  return {
    park: (parking) => void park(parking),
    stop: () => stopped.abort(),
  }
}
