/**
 * One attempt in this process: calls the function, cuts it off when it must end, and says how it ended.
 *
 *   function returns ──────────────► its answer, unless it was cut off before
 *   timeout, cancel, shutdown ─────► signal ─► answer or grace over ─► the reason of the cut
 *   lease lost ────────────────────► signal ─► answer or grace over ─► no report: the run is somebody else's
 *
 * A success stands even when it comes after the signal. A function that ignores its signal past the grace is
 * left behind: its late answer goes nowhere. What an end means for the run, the server decides.
 */
import type { AttemptReport, ClaimedFunctionRun } from '@belfry/contract'
import type { AbortReason, AnyJob, JobLog } from '../functions/define-job.ts'
import { maskingOf } from '../functions/masking.ts'
import { checkedProgress } from '../functions/progress.ts'
import { type FunctionAnswer, runFunction } from '../functions/run-function.ts'

export interface AttemptOptions {
  readonly job: AnyJob
  readonly run: ClaimedFunctionRun
  readonly abortGraceMs: number
  readonly log: JobLog
  readonly onProgress: (progress: unknown) => void
}

export interface EndedAttempt {
  /** Undefined: the lease was lost, nothing may be reported. */
  readonly report: AttemptReport | undefined
  readonly durationMs: number
  /** Settles when a function that was left behind returns at last. */
  readonly abandoned: Promise<unknown> | undefined
}

export interface RunningAttempt {
  /** Never rejects. */
  readonly done: Promise<EndedAttempt>
  /** Fires the signal; only the first reason counts. */
  readonly abort: (reason: AbortReason) => void
}

export function startAttempt(options: AttemptOptions): RunningAttempt {
  const { run, abortGraceMs } = options
  const controller = new AbortController()
  const abandoned = Promise.withResolvers<'abandoned'>()
  const startedMs = performance.now()
  let reason: AbortReason | undefined
  let timer = setTimeout(() => abort('timeout'), run.timeoutMs)

  function abort(why: AbortReason): void {
    if (reason !== undefined) return
    reason = why
    clearTimeout(timer)
    timer = setTimeout(() => abandoned.resolve('abandoned'), abortGraceMs)
    controller.abort(why)
  }

  async function execute(): Promise<EndedAttempt> {
    const called = call(options, controller.signal)
    const first = await Promise.race([called, abandoned.promise])
    clearTimeout(timer)
    const durationMs = Math.round(performance.now() - startedMs)
    const answer = first === 'abandoned' ? undefined : first
    const late = first === 'abandoned' ? called : undefined
    if (reason === 'lease_lost' && answer?.outcome !== 'succeeded')
      return { report: undefined, durationMs, abandoned: late }
    const { runId, leaseEpoch } = run
    const end = endOf(answer, reason, run)
    return { report: { runId, leaseEpoch, durationMs, ...end }, durationMs, abandoned: late }
  }

  return { done: execute(), abort }
}

async function call(
  { job, run, log, onProgress }: AttemptOptions,
  signal: AbortSignal,
): Promise<FunctionAnswer> {
  const { runId, attempt, idempotencyKey, leaseEpoch, traceparent } = run
  const scheduledFor = run.scheduledFor === null ? null : new Date(run.scheduledFor)
  const runDeadline = run.runDeadline === null ? null : new Date(run.runDeadline)
  const limits = { runDeadline, delivery: run.delivery }
  const names = { runId, attempt, idempotencyKey, leaseEpoch, traceparent, scheduledFor, ...limits }
  const { secrets } = run
  const masking = maskingOf(secrets)
  const answer = await runFunction(job, run.input, {
    ...names,
    secrets: secrets ?? {},
    signal,
    log,
    heartbeat: (word) => onProgress(masking.json(checkedProgress(word))),
  })
  return masking.answer(answer)
}

type End = Omit<AttemptReport, 'runId' | 'leaseEpoch' | 'durationMs'>

function endOf(
  answer: FunctionAnswer | undefined,
  reason: AbortReason | undefined,
  run: ClaimedFunctionRun,
): End {
  if (answer?.outcome === 'succeeded') {
    const { result } = answer
    return { outcome: 'succeeded', retryable: true, ...(result === undefined ? {} : { result }) }
  }
  const ignored = answer === undefined ? ' The function did not react to its signal and was left behind.' : ''
  const cut = (outcome: End['outcome'], code: string, message: string): End => ({
    outcome,
    retryable: true,
    error: { code, message: `${message}${ignored}` },
  })
  switch (reason) {
    case 'timeout':
      return cut(
        'timed_out',
        'attempt_timeout',
        `The attempt took longer than the ${run.timeoutMs} ms that it had and was cut off.`,
      )
    case 'cancel':
      return cut('canceled', 'canceled', 'The run was canceled while it ran.')
    case 'shutdown':
    case 'lease_lost':
      return cut('released', 'worker_stopped', 'The worker stopped before the attempt ended.')
    case undefined:
      return answer?.outcome === 'failed'
        ? answer
        : {
            outcome: answer?.outcome ?? 'canceled',
            retryable: true,
            ...(answer === undefined ? {} : { error: answer.error }),
          }
    default:
      return reason satisfies never
  }
}
