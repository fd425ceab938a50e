/**
 * Ends runs that wait past their time, in the rounds of the rescuer. What a worker claims too late it ends by
 * itself (overdue-end.ts), so nothing starts because this comes late; it only shows later that it will not.
 *
 * 1. A page of what is overdue is read; with nothing there, that is all.
 * 2. They are ended, each once, whoever tries. A run whose end cannot be stored keeps no other from being
 *    ended (isolate-fault.ts).
 * 3. Full pages are followed by further ones, while they get anywhere.
 */
import type { EventSink } from '../ports/event-sink.ts'
import type { Hints } from '../ports/hints.ts'
import type { ExpiredRun, OverdueRun, OverdueRuns } from '../ports/overdue-runs.ts'
import { tellPaused } from './failure-pauses.ts'
import { isolateFault } from './isolate-fault.ts'
import { hintTimers } from './timer-hints.ts'

const pageSize = 500

export interface ExpirerOptions {
  readonly overdueRuns: OverdueRuns
  readonly hints: Pick<Hints, 'publish'>
  readonly events: EventSink
}

/** Answers a function that ends what is overdue now, and answers how many that were. */
export function createExpirer(options: ExpirerOptions): (signal?: AbortSignal) => Promise<number> {
  const { overdueRuns, events, hints } = options

  async function end(page: readonly OverdueRun[]): Promise<number> {
    let count = 0
    await isolateFault(
      page,
      async (runs) => {
        const { ended, paused, timerShards } = await overdueRuns.end(runs)
        count += ended.length
        for (const run of ended) tell(run)
        hintTimers(hints, [], { timerShards })
        tellPaused(options, paused)
      },
      setAside,
    )
    // which of them were a backfill's is not known here; the look that this brings about is cheap
    if (count > 0) hints.publish({ topic: 'backfills', key: 'any' })
    return count
  }

  function tell({ reason, ...run }: ExpiredRun): void {
    const end = { attempt: 0, outcome: 'expired', state: 'failed', durationMs: 0, errorCode: reason } as const
    events.emit('attempt_ended', { ...run, ...end })
  }

  function setAside({ runId }: OverdueRun, cause: unknown): void {
    const why = cause instanceof Error ? cause.message : String(cause)
    const error = new Error(`The run ${runId}, whose time is over, cannot be ended: ${why}`, { cause })
    events.emit('role_failed', { role: 'rescuer', error, retryInMs: 0 })
  }

  return async (signal) => {
    let total = 0
    while (signal?.aborted !== true) {
      const page = await overdueRuns.list(pageSize)
      const count = page.length === 0 ? 0 : await end(page)
      total += count
      if (count === 0 || page.length < pageSize) break
    }
    return total
  }
}
