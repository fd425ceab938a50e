/**
 * Takes runs from workers that are gone. Runs in every process with the role `scheduler`; two at once do no
 * harm.
 *
 * 1. Sessions whose lease ran out are deleted under their row locks: a renewal at that instant either came
 *    first, and the session lives, or finds no row, and the worker gives up.
 * 2. What is held by claims is settled: only then do the indexes know of it. First those of the sessions that
 *    ended, then what is older than two seconds: most are over sooner. So many statements a round, and where
 *    that was not enough the next round comes at once; sweeping and expiring never wait for the rest.
 * 3. Runs held by sessions that are no more, past their deadline, or a minute after their cancel was asked
 *    for, are read in keyset pages; SQL leaves the healthy ones out. Read only when step 1 ended a session
 *    (and once more in the round after that: another rescuer may have been settling claims of it), when a
 *    target that took a run over did not report in time, when a round before was cut short, and each
 *    `sweepMs` for other deadlines and for what a rescuer that died left half-done. As often, some pages of
 *    all that is ready are looked through for runs that nobody would see (RunStore.healHeldRuns).
 * 4. Each is judged as any other attempt (domain/attempt-outcome.ts) and ended under the epoch that was read:
 *    whoever is second, a rescuer or the worker itself, changes nothing. The run's epoch grows, so what the
 *    old holder sends is refused. A run whose end cannot be stored keeps no other from being ended
 *    (isolate-fault.ts): it is reported, and tried again with the next sweep.
 * 5. In each round: what waits past its time is ended (expirer.ts).
 */
import { parkedSession } from '../domain/parked.ts'
import type { CallbackStore } from '../ports/callbacks.ts'
import type { Clock } from '../ports/clock.ts'
import type { EventSink } from '../ports/event-sink.ts'
import type { Hints } from '../ports/hints.ts'
import type { Random } from '../ports/random.ts'
import type { AppliedEnd, RunStore, StuckRun } from '../ports/run-store.ts'
import type { Service } from '../ports/service.ts'
import type { OverdueRuns } from '../ports/overdue-runs.ts'
import { createExpirer } from './expirer.ts'
import { tellPaused } from './failure-pauses.ts'
import { isolateFault } from './isolate-fault.ts'
import { createLoop } from './loop.ts'
import { rescueEnd } from './rescue-end.ts'
import { hintTimers } from './timer-hints.ts'
import { settledWithin } from './within.ts'

const stopWithinMs = 2_000
/** Claims, of up to 500 runs each. */
const settledAtOnce = 50
const settlingsOfRound = 100
const settledAfterMs = 2_000
/** Rows that are looked through as often as there is a sweep, some 20 ms a page. */
const healedAtOnce = 10_000
const healingsOfSweep = 5
/** Where rows that are gone stay for an old snapshot, a page is costly: it gets a hundredth of the time. */
const healRestShare = 100

export interface RescuerOptions {
  readonly store: Pick<
    RunStore,
    'endExpiredSessions' | 'settleClaims' | 'healHeldRuns' | 'stuckRuns' | 'rescue'
  >
  readonly overdueRuns: OverdueRuns
  /** Unset: what targets do not report of is found by the sweeps alone. */
  readonly callbacks?: Pick<CallbackStore, 'anyDue'>
  /** `subscribe`: to hear of the cancels of parked runs; unset: the next sweep finds them. */
  readonly hints: Pick<Hints, 'publish'> & Partial<Pick<Hints, 'subscribe'>>
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

interface Settled {
  /** Some claims may not be settled. */
  readonly left: boolean
  readonly fault?: Error
}

export function createRescuer(options: RescuerOptions): Rescuer {
  const { store, clock, random, events } = options
  const intervalMs = options.intervalMs ?? 5_000
  const sweepMs = options.sweepMs ?? 30_000
  const pageSize = options.pageSize ?? 500
  const expire = createExpirer(options)
  const sessions = createSessionEnder(options)
  const healer = createHealer(options, sweepMs)
  let nextSweepMs = -Infinity

  async function round(signal: AbortSignal): Promise<number> {
    const { lost, left, parkedDue, fault } = await sessions.end(settledAfterMs, signal)
    const unreported = parkedDue && ((await options.callbacks?.anyDue()) ?? false)
    if (lost || unreported || clock.monotonicMs() >= nextSweepMs) await sweep(signal)
    sessions.swept()
    await expire(signal)
    if (fault !== undefined) throw fault
    // what it finds is for the sweep of the next round
    if (healer.isDue() && (await healer.heal(signal)) > 0) nextSweepMs = -Infinity
    return left ? 0 : intervalMs * (0.8 + random.next() * 0.4)
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
  const unsubscribe = onParkedCancel(options, () => (nextSweepMs = -Infinity))
  return {
    ...loop,
    async stop() {
      unsubscribe?.()
      // a database that answers nothing must not keep the process; what is under way is safe to leave
      await settledWithin(clock, stopWithinMs, loop.stop())
    },
    async runOnce() {
      const { fault } = await sessions.end(0)
      await healer.heal()
      const rescued = await sweep()
      sessions.swept()
      await expire()
      if (fault !== undefined) throw fault
      return rescued
    },
  }
}

/** Calls `heard` when a cancel was asked for of a run that its target has; answers what ends that. */
function onParkedCancel({ hints }: RescuerOptions, heard: () => void): (() => void) | undefined {
  return hints.subscribe?.((hint) => {
    if (hint.topic === 'cancel' && hint.key === parkedSession) heard()
  })
}

function setAside(events: EventSink, { runId }: StuckRun, cause: unknown, retryInMs: number): void {
  const why = cause instanceof Error ? cause.message : String(cause)
  const error = new Error(`The lost attempt of run ${runId} cannot be ended: ${why}`, { cause })
  events.emit('role_failed', { role: 'rescuer', error, retryInMs })
}

interface Due {
  /** It is time to look for runs of lost sessions. */
  readonly lost: boolean
  readonly parkedDue: boolean
}

/** Ends sessions and settles claims. */
function createSessionEnder({ store, events }: RescuerOptions) {
  let ended: readonly string[] = []
  /** With those that ended before and are not through. */
  let lost: readonly string[] = []
  let left = false

  return {
    async end(olderThanMs: number, signal?: AbortSignal): Promise<Settled & Due> {
      const { sessionIds, claims, parkedDue } = await store.endExpiredSessions(olderThanMs)
      ended = sessionIds
      for (const sessionId of ended) events.emit('session_lost', { sessionId, role: 'worker' })
      lost = [...lost, ...ended]
      const which = { sessionIds: lost, olderThanMs: claims ? olderThanMs : undefined }
      const settled = await settle(store, which, signal).catch((cause: unknown) => ({
        left: true,
        fault: cause instanceof Error ? cause : new Error(String(cause)),
      }))
      left = settled.left
      return { ...settled, lost: lost.length > 0, parkedDue }
    },
    /** Their runs were looked for; for those that ended just now that is done once more. */
    swept(): void {
      if (!left) lost = ended
    },
  }
}

function createHealer({ store, clock }: RescuerOptions, everyMs: number) {
  let nextMs = -Infinity
  let upTo: string | null = null

  return {
    isDue: (): boolean => clock.monotonicMs() >= nextMs,
    /** Answers how many. */
    async heal(signal?: AbortSignal): Promise<number> {
      const startedMs = clock.monotonicMs()
      let count = 0
      try {
        for (let n = 0; n < healingsOfSweep && signal?.aborted !== true; n++) {
          const { next, healed } = await store.healHeldRuns(upTo, healedAtOnce)
          upTo = next
          count += healed
          if (next === null) break
        }
        return count
      } finally {
        const nowMs = clock.monotonicMs()
        nextMs = nowMs + Math.max(everyMs, healRestShare * (nowMs - startedMs))
      }
    },
  }
}

async function settle(
  store: Pick<RunStore, 'settleClaims'>,
  { sessionIds, olderThanMs }: { sessionIds: readonly string[]; olderThanMs: number | undefined },
  signal?: AbortSignal,
): Promise<Settled> {
  const steps = [
    ...(sessionIds.length > 0 ? [{ sessionIds }] : []),
    ...(olderThanMs === undefined ? [] : [{ olderThanMs }]),
  ]
  let [step] = steps.splice(0, 1)
  for (let n = 0; step !== undefined && n < settlingsOfRound && signal?.aborted !== true; n++) {
    const count = await store.settleClaims(settledAtOnce, step)
    if (count < settledAtOnce) [step] = steps.splice(0, 1)
  }
  return { left: step !== undefined }
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
