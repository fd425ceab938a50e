/**
 * A service that does one thing again and again: run, wait, run. The wait ends early on `wake`. A failed
 * round is reported as `role_failed` and tried again after a growing, jittered pause, so one bad round never
 * ends a role. A wake may shorten that pause, to a second: hints that keep coming must not turn a failure
 * into a storm of retries, and a role must not sleep on for long when there is news.
 */
import type { Clock } from '../ports/clock.ts'
import type { EventSink } from '../ports/event-sink.ts'
import type { Random } from '../ports/random.ts'
import type { Service } from '../ports/service.ts'

const firstRetryMs = 100
const defaultLongestRetryMs = 10_000
/** No wake ends the pause after a failed round before this. */
const leastWokenRetryMs = 1_000

export interface LoopOptions {
  readonly name: string
  readonly clock: Clock
  readonly random: Random
  readonly events: EventSink
  /** One round. Answers how long to wait until the next, ms. The signal fires on stop. */
  readonly round: (signal: AbortSignal) => Promise<number>
  /** Limit of the pause after a failed round. Default 10,000. */
  readonly longestRetryMs?: number
  /** Called once after the last round. */
  readonly onStop?: () => Promise<void>
}

export interface Loop extends Service {
  /**
   * Ends the present wait, or makes the next one zero if a round is under way; after a failed round not
   * before a second is over.
   */
  wake(): void
}

export function createLoop(options: LoopOptions): Loop {
  const { clock, random, events, longestRetryMs = defaultLongestRetryMs } = options
  let stopping: AbortController | undefined
  let running: Promise<void> | undefined
  let wait = new AbortController()
  let woken = false
  let failures = 0

  async function round(signal: AbortSignal): Promise<number> {
    try {
      const waitMs = await options.round(signal)
      failures = 0
      return waitMs
    } catch (error) {
      if (signal.aborted) return 0
      const ceilingMs = Math.min(longestRetryMs, firstRetryMs * 2 ** Math.min(failures++, 10))
      const retryInMs = Math.round(ceilingMs * (0.5 + random.next() / 2))
      events.emit('role_failed', { role: options.name, error, retryInMs })
      return retryInMs
    }
  }

  async function run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      woken = false
      const waitMs = await round(signal)
      if (signal.aborted) break
      const deafMs = failures === 0 ? 0 : Math.min(waitMs, leastWokenRetryMs)
      if (deafMs > 0) await clock.sleep(deafMs, signal)
      if (woken || signal.aborted) continue
      wait = new AbortController()
      await clock.sleep(waitMs - deafMs, AbortSignal.any([wait.signal, signal]))
    }
    await options.onStop?.()
  }

  return {
    name: options.name,
    wake() {
      // called for every slot that is freed: an abort costs an error each time
      if (!wait.signal.aborted) wait.abort()
      woken = true
    },
    async start() {
      if (running !== undefined) return
      stopping = new AbortController()
      running = run(stopping.signal)
    },
    async stop() {
      stopping?.abort()
      await running
    },
  }
}
