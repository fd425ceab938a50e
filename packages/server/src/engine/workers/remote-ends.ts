/**
 * Ends of attempts as workers outside report them. The worker says what happened; what that means for the run
 * is decided here, by the same rule and from the store's own facts, as for attempts in this process
 * (domain/attempt-outcome.ts). All ends of a report are written in one statement.
 */
import type { AttemptReport, RunError, WorkerCompleted } from '@belfry/contract'
import { jobDefinitionSchema } from '@belfry/contract'
import { type AttemptEnding, judgeAttempt } from '../../domain/attempt-outcome.ts'
import { attemptLimit, leftMs, type Overdue } from '../../domain/run-limits.ts'
import type { ClaimedRun } from '../../ports/run-queue.ts'
import type { AppliedEnd, AttemptEnd, RunStore } from '../../ports/run-store.ts'
import type { HeldAttempt } from '../../ports/worker-store.ts'
import type { DefinitionCache } from '../definition-cache.ts'
import { hintEnded } from '../backfill-hints.ts'
import { tellPaused } from '../failure-pauses.ts'
import { overdueEnd } from '../overdue-end.ts'
import { hintTimers } from '../timer-hints.ts'
import { createReportMasks } from './report-masks.ts'
import type { WorkerGateOptions } from './worker-gate.ts'

/** Characters of an error message that are kept. */
const maxErrorLength = 4_000

export interface UnusableRun {
  readonly run: ClaimedRun
  readonly fault: RunError | undefined
  /** Default: no. */
  readonly retryable?: boolean
}

export type OverdueRun = ClaimedRun & { readonly overdue: Overdue }

export interface RemoteEnds {
  /** Masks secrets of functions. Throws `secrets_unavailable`, and as the store does. */
  complete(sessionId: string, ends: readonly AttemptReport[]): Promise<WorkerCompleted['results']>
  /** Ends runs of which nobody can say what to do, or that have a fault. */
  endUnusable(sessionId: string, runs: readonly UnusableRun[]): Promise<void>
  /** Ends runs whose time was over when they were claimed. */
  endOverdue(sessionId: string, runs: readonly OverdueRun[]): Promise<void>
}

/** Decides for a definition that cannot be read: the cautious way. */
const unreadable = jobDefinitionSchema.parse({
  handler: { kind: 'function', name: 'unreadable' },
  delivery: 'at_most_once',
})

type Held = ReadonlyMap<string, HeldAttempt>
/** What is told of an end. */
type Told = Pick<HeldAttempt, 'runId' | 'tenantId' | 'jobId' | 'queue' | 'attempt' | 'backfillOf'>
type Written = Omit<Awaited<ReturnType<RunStore['complete']>>, 'nowMs'>

const nothing: Written = { applied: [], paused: [], timerShards: [] }

export function createRemoteEnds(options: WorkerGateOptions, definitions: DefinitionCache): RemoteEnds {
  const { store, workers, events } = options
  const masks = createReportMasks(options, definitions)

  async function complete(
    sessionId: string,
    given: readonly AttemptReport[],
    ownWords = false,
  ): Promise<WorkerCompleted['results']> {
    const attempts = await workers.heldAttempts(sessionId, given)
    // that secrets cannot be had may be what is to be said
    const reports = ownWords ? given : await masks.ends(given, attempts)
    const held: Held = new Map(attempts.map((attempt) => [attempt.runId, attempt]))
    const ends = await judge(options, definitions, reports, held)
    const written = ends.length === 0 ? nothing : await store.complete(sessionId, ends)
    const { applied } = written
    tell(options, ends, held, written)
    const done = new Map(applied.map((end) => [end.runId, end.runState]))
    const rest = reports.filter((report) => !done.has(report.runId))
    if (rest.length > 0)
      for (const end of await workers.reportedBefore(sessionId, rest)) done.set(end.runId, end.runState)
    return reports.map(({ runId, leaseEpoch }) => {
      const state = done.get(runId)
      if (state === undefined) events.emit('lease_lost', { runId, leaseEpoch, at: 'complete' })
      const isApplied = state !== undefined
      return { runId, leaseEpoch, applied: isApplied, state: isApplied ? (state ?? 'pending') : null }
    })
  }

  return {
    complete: (sessionId, ends) => complete(sessionId, ends),
    async endOverdue(sessionId, runs) {
      const nowMs = options.databaseClock.nowMs()
      const ends = runs.map((run) => overdueEnd(run, run.overdue, nowMs))
      const told = new Map(runs.map((run) => [run.runId, run]))
      tell(options, ends, told, await store.complete(sessionId, ends))
    },
    async endUnusable(sessionId, runs) {
      const unusable = {
        code: 'definition_unusable',
        message: 'The definition of this job version cannot be used; save the job again, or update it.',
      }
      await complete(
        sessionId,
        runs.map(({ run: { runId, leaseEpoch }, fault: error = unusable, retryable = false }) => {
          return { runId, leaseEpoch, outcome: 'failed', durationMs: 0, error, retryable }
        }),
        true,
      )
    },
  }
}

async function judge(
  { random }: WorkerGateOptions,
  definitions: DefinitionCache,
  reports: readonly AttemptReport[],
  held: Held,
): Promise<readonly AttemptEnd[]> {
  const versionOf = ({ tenantId, jobId, jobVersion: version }: HeldAttempt) => ({ tenantId, jobId, version })
  const definitionOf = await definitions.load([...held.values()].map(versionOf))
  return reports.flatMap((report) => {
    const attempt = held.get(report.runId)
    if (attempt === undefined) return []
    const { delivery, retry } = definitionOf(versionOf(attempt)) ?? unreadable
    const { failures, crashCount, cancelRequested } = attempt
    const ending = endingOf(report)
    const { claimedAtMs, nowMs, timeoutMs, runDeadlineMs } = attempt
    // the worker was given the lesser of both limits, so it does not know which it was
    const { ofRun } = attemptLimit(timeoutMs, runDeadlineMs, claimedAtMs)
    const facts = {
      ending: ending.kind === 'timed_out' ? { ...ending, ofRun } : ending,
      delivery,
      retry,
      failures,
      crashCount,
      cancelRequested,
      errorCode: report.error?.code ?? report.outcome,
      httpStatus: null,
      leftMs: leftMs(runDeadlineMs, nowMs),
    }
    return [endOf(report, attempt, judgeAttempt(facts, random.next()))]
  })
}

function tell(
  options: WorkerGateOptions,
  ends: readonly AttemptEnd[],
  held: ReadonlyMap<string, Told>,
  { applied, paused, ...letGo }: Written,
): void {
  const { events, hints } = options
  const states: ReadonlyMap<string, AppliedEnd['runState']> = new Map(
    applied.map((end) => [end.runId, end.runState]),
  )
  for (const end of ends) {
    const attempt = held.get(end.runId)
    const state = states.get(end.runId)
    if (attempt === undefined || state === undefined) continue
    const { runId, tenantId, jobId, queue } = attempt
    const durationMs = end.endedAtMs - end.startedAtMs
    const { outcome, errorCode } = end
    const facts = { runId, tenantId, jobId, queue, attempt: attempt.attempt, outcome, durationMs }
    events.emit('attempt_ended', { ...facts, errorCode, state: state ?? 'pending' })
  }
  hintTimers(hints, applied, letGo)
  hintEnded(hints, held.values(), states)
  tellPaused(options, paused)
}

function endingOf({ outcome, retryable, retryAfterMs }: AttemptReport): AttemptEnding {
  return outcome === 'failed' ? { kind: 'failed', retryable, retryAfterMs } : { kind: outcome }
}

/** The store's clock alone is believed; of the worker's only how long it took. */
function endOf(
  report: AttemptReport,
  attempt: HeldAttempt,
  verdict: ReturnType<typeof judgeAttempt>,
): AttemptEnd {
  const { claimedAtMs, nowMs } = attempt
  const { error, result } = report
  const succeeded = report.outcome === 'succeeded'
  return {
    runId: report.runId,
    leaseEpoch: report.leaseEpoch,
    ...verdict,
    startedAtMs: claimedAtMs,
    endedAtMs: Math.max(claimedAtMs, Math.min(nowMs, claimedAtMs + report.durationMs)),
    errorCode: succeeded ? null : (error?.code ?? report.outcome),
    errorMessage: succeeded ? null : (error?.message ?? '').slice(0, maxErrorLength),
    httpStatus: null,
    response: null,
    responseTruncated: false,
    result: succeeded ? result : undefined,
  }
}
