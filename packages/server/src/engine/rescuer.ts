/**
 * Takes runs from workers that are gone. Runs in every process with the role `scheduler`; two at once do no
 * harm.
 *
 * 1. Sessions whose lease ran out are deleted under their row locks: a renewal at that instant either came
 *    first, and the session lives, or finds no row, and the worker gives up.
 * 2. What is held by claims since the last round is settled: only then do the indexes know of it.
 * 3. Runs held by sessions that are no more, past their deadline, or a minute after their cancel was asked
 *    for, are read in keyset pages; SQL leaves the healthy ones out. Read only when step 1 ended a session,
 *    when a round before was cut short, and each `sweepMs` for deadlines and for what a rescuer that died
 *    left half-done.
 * 4. Each is judged as any other attempt (domain/attempt-outcome.ts) and ended under the epoch that was read:
 *    whoever is second, a rescuer or the worker itself, changes nothing. The run's epoch grows, so what the
 *    old holder sends is refused. A run whose end cannot be stored keeps no other from being ended
 *    (isolate-fault.ts): it is reported, and tried again with the next sweep.
 * 5. In each round: what waits past its time is ended (expirer.ts).
 */
import { judgeAttempt } from '../domain/attempt-outcome.ts'
import { leftMs } from '../domain/run-limits.ts'
import type { Clock } from '../ports/clock.ts'
import type { EventSink } from '../ports/event-sink.ts'
import type { Hints } from '../ports/hints.ts'
import type { Random } from '../ports/random.ts'
import type { AppliedEnd, AttemptEnd, RunStore, StuckRun } from '../ports/run-store.ts'
import type { Service } from '../ports/service.ts'
import type { OverdueRuns } from '../ports/overdue-runs.ts'
import { createExpirer } from './expirer.ts'
import { tellPaused } from './failure-pauses.ts'
import { isolateFault } from './isolate-fault.ts'
import { createLoop } from './loop.ts'
import { hintTimers } from './timer-hints.ts'
import { settledWithin } from './within.ts'

const stopWithinMs = 2_000
/** Claims, of up to 500 runs each. */
const settledAtOnce = 50

export interface RescuerOptions {
  readonly store: Pick<RunStore, 'endExpiredSessions' | 'settleClaims' | 'stuckRuns' | 'rescue'>
  readonly overdueRuns: OverdueRuns
  readonly hints: Pick<Hints, 'publish'>
  readonly clock: Clock
  readonly random: Random
  readonly events: EventSink
  /** Default 5 s. */
  readonly intervalMs?: number
  /** Default 30 s. */
  readonly sweepMs?: number
  /** Runs read and ended at a time. Default 500. */
  readonly pageSize?: number
}

export interface Rescuer extends Service {
  /**
   * One round, all steps; for tests and for a person who does not want to wait. Answers how many runs were
   * rescued.
   */
  readonly runOnce: () => Promise<number>
}

type RescueEnd = AttemptEnd & { readonly sessionId: string }

export function createRescuer(options: RescuerOptions): Rescuer {
  const { store, clock, random, events } = options
  const intervalMs = options.intervalMs ?? 5_000
  const sweepMs = options.sweepMs ?? 30_000
  const pageSize = options.pageSize ?? 500
  const expire = createExpirer(options)
  let nextSweepMs = -Infinity

  async function endSessions(signal?: AbortSignal): Promise<number> {
    const { sessionIds, claims } = await store.endExpiredSessions()
    // of a session that was ended just now, a claim may have been committed since this was seen
    if (claims || sessionIds.length > 0) await settleAll(store, signal)
    for (const sessionId of sessionIds) events.emit('session_lost', { sessionId, role: 'worker' })
    return sessionIds.length
  }

  async function round(signal: AbortSignal): Promise<number> {
    const ended = await endSessions(signal)
    if (ended > 0 || clock.monotonicMs() >= nextSweepMs) await sweep(signal)
    await expire(signal)
    return intervalMs * (0.8 + random.next() * 0.4)
  }

  async function sweep(signal?: AbortSignal): Promise<number> {
    // until this sweep is through, the next round sweeps again
    nextSweepMs = -Infinity
    let after: { sessionId: string; runId: string } | null = null
    let rescued = 0
    while (signal?.aborted !== true) {
      const page: Awaited<ReturnType<typeof store.stuckRuns>> = await store.stuckRuns(after, pageSize)
      await isolateFault(
        page.runs,
        async (runs) => {
          const ends = runs.map((run) => rescueEnd(run, page.nowMs, random))
          const { applied, paused, ...letGo } = await store.rescue(ends)
          rescued += applied.length
          tell(options, runs, applied)
          hintTimers(options.hints, applied, letGo)
          tellPaused(options, paused)
        },
        (run, cause) => setAside(events, run, cause, sweepMs),
      )
      const last = page.runs.at(-1)
      if (last === undefined || page.runs.length < pageSize) break
      after = { sessionId: last.sessionId, runId: last.runId }
    }
    nextSweepMs = clock.monotonicMs() + sweepMs
    return rescued
  }

  const loop = createLoop({ name: 'rescuer', clock, random, events, round })
  return {
    ...loop,
    async stop() {
      // a database that answers nothing must not keep the process; what is under way is safe to leave
      await settledWithin(clock, stopWithinMs, loop.stop())
    },
    async runOnce() {
      await endSessions()
      const rescued = await sweep()
      await expire()
      return rescued
    },
  }
}

function setAside(events: EventSink, { runId }: StuckRun, cause: unknown, retryInMs: number): void {
  const why = cause instanceof Error ? cause.message : String(cause)
  const error = new Error(`The lost attempt of run ${runId} cannot be ended: ${why}`, { cause })
  events.emit('role_failed', { role: 'rescuer', error, retryInMs })
}

async function settleAll(store: Pick<RunStore, 'settleClaims'>, signal?: AbortSignal): Promise<void> {
  while (signal?.aborted !== true && (await store.settleClaims(settledAtOnce)) >= settledAtOnce);
}

function tell(
  { events, hints }: RescuerOptions,
  runs: readonly StuckRun[],
  applied: readonly AppliedEnd[],
): void {
  const states = new Map(applied.map((end) => [end.runId, end.runState]))
  for (const cause of ['session_lost', 'deadline', 'cancel_ignored'] as const) {
    const ended = runs.filter((run) => run.cause === cause && states.has(run.runId))
    if (ended.length === 0) continue
    const requeued = ended.filter((run) => states.get(run.runId) === null).length
    events.emit('runs_rescued', {
      count: ended.length,
      reason: cause,
      requeued,
      failed: ended.length - requeued,
    })
  }
  // which of them were a backfill's is not known here; the look that this brings about is cheap
  if (applied.some(({ runState }) => runState !== null)) hints.publish({ topic: 'backfills', key: 'any' })
}

/** A hung handler used up an attempt as any timeout does; a lost worker did not. */
function rescueEnd(run: StuckRun, nowMs: number, random: Random): RescueEnd {
  const { delivery, retry, failures, crashCount, cancelRequested } = run
  const kind = endings[run.cause]
  const verdict = judgeAttempt(
    {
      ending: { kind },
      delivery,
      retry,
      failures,
      crashCount,
      cancelRequested,
      errorCode: faults[run.cause].errorCode,
      httpStatus: null,
      leftMs: leftMs(run.runDeadlineMs, nowMs),
    },
    random.next(),
  )
  return {
    runId: run.runId,
    sessionId: run.sessionId,
    leaseEpoch: run.leaseEpoch,
    ...verdict,
    startedAtMs: run.claimedAtMs,
    endedAtMs: Math.max(nowMs, run.claimedAtMs),
    ...faults[run.cause],
    httpStatus: null,
    response: null,
    responseTruncated: false,
  }
}

const endings = { session_lost: 'lost', deadline: 'timed_out', cancel_ignored: 'canceled' } as const

const faults = {
  session_lost: {
    errorCode: 'worker_lost',
    errorMessage: 'The worker stopped answering while it ran this attempt; what the handler did is unknown.',
  },
  deadline: {
    errorCode: 'deadline_passed',
    errorMessage: 'The worker did not end the attempt by its deadline; what the handler did is unknown.',
  },
  cancel_ignored: {
    errorCode: 'canceled',
    errorMessage: 'The worker did not stop the canceled run and lost it; what the handler did is unknown.',
  },
} as const
