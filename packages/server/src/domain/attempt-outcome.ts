/**
 * What the end of an attempt means for its run: the one decision that worker and rescuer share. Pure.
 *
 * Order of the rules: success stands, whatever else happened; then a cancel that was asked for; then what
 * the function said of itself; then delivery; then the deadline of the whole run; then the codes that are
 * (never) tried again, and the budget.
 * `at_most_once` means that no second invocation ever happens: whatever is not a success ends the run. Where
 * the handler answered with a failure the reason is `not_retryable`; where nobody can know what it did
 * (timeout, lost worker, cut off by a shutdown) it is `outcome_unknown`.
 */
import type { AttemptOutcome, Delivery, RetryPolicy, RunReason, TerminalRunState } from '@belfry/contract'
import { mayRetry, retryCodesOf } from '@belfry/contract'
import { crashDelayMs, hasAttemptsLeft, maxCrashes, retryDelayMs } from './retry.ts'

/** How an attempt came to its end. */
export type AttemptEnding =
  | { readonly kind: 'succeeded' }
  /** The handler answered with a failure. */
  | { readonly kind: 'failed'; readonly retryable: boolean; readonly retryAfterMs?: number | undefined }
  /**
   * Cut off after its time, by the worker or by the rescuer; `ofRun`: that of the whole run, which was over
   * before that of the attempt.
   */
  | { readonly kind: 'timed_out'; readonly ofRun?: boolean }
  /** Cut off because a cancel was asked for, or called off by the function itself. */
  | { readonly kind: 'canceled' }
  /** The function had nothing to do. */
  | { readonly kind: 'skipped' }
  /** Cut off because the worker stops. */
  | { readonly kind: 'released' }
  /** The worker is gone. */
  | { readonly kind: 'lost' }

export interface AttemptCase {
  readonly ending: AttemptEnding
  readonly delivery: Delivery
  readonly retry: RetryPolicy
  /** Attempts of this run that failed or timed out before this one. */
  readonly failures: number
  /** Attempts of this run that were lost before this one. */
  readonly crashCount: number
  readonly cancelRequested: boolean
  readonly errorCode: string | null
  readonly httpStatus: number | null
  /** What is left of the time for the whole run, in ms, negative when it is over; null: no limit. */
  readonly leftMs: number | null
}

/** Exactly one of `runState` and `retryDelayMs` is null. */
export interface AttemptVerdict {
  readonly outcome: AttemptOutcome
  readonly runState: TerminalRunState | null
  readonly reason: RunReason | null
  readonly retryDelayMs: number | null
  readonly countAs: 'failure' | 'crash' | 'nothing'
}

type Count = AttemptVerdict['countAs']

const countOf: Readonly<Record<AttemptEnding['kind'], Count>> = {
  succeeded: 'nothing',
  failed: 'failure',
  timed_out: 'failure',
  canceled: 'nothing',
  skipped: 'nothing',
  released: 'nothing',
  lost: 'crash',
}

const success: AttemptVerdict = {
  outcome: 'succeeded',
  runState: 'succeeded',
  reason: null,
  retryDelayMs: null,
  countAs: 'nothing',
}

/** Decides what becomes of a run. `random` in [0, 1) draws the jitter of the pause. */
export function judgeAttempt(attempt: AttemptCase, random: number): AttemptVerdict {
  const { ending } = attempt
  if (ending.kind === 'succeeded') return success
  const end = (runState: TerminalRunState, reason: RunReason | null, outcome: AttemptOutcome = ending.kind) =>
    ({ outcome, runState, reason, retryDelayMs: null, countAs: countOf[ending.kind] }) as const
  /** A next attempt that would be due when the run must be over never comes. */
  const again = (delayMs: number): AttemptVerdict =>
    attempt.leftMs !== null && delayMs >= attempt.leftMs
      ? end('failed', 'deadline_exceeded')
      : {
          outcome: ending.kind,
          runState: null,
          reason: null,
          retryDelayMs: delayMs,
          countAs: countOf[ending.kind],
        }

  if (attempt.cancelRequested) return end('canceled', 'canceled_by_request')
  if (ending.kind === 'canceled') return end('canceled', 'canceled_by_handler')
  if (ending.kind === 'skipped') return end('skipped', 'skipped_by_handler')
  if (attempt.delivery === 'at_most_once') return endAtMostOnce(ending, end)
  switch (ending.kind) {
    case 'released':
      return again(0)
    case 'lost': {
      const crashCount = attempt.crashCount + 1
      return crashCount >= maxCrashes ? end('failed', 'quarantined') : again(crashDelayMs(crashCount, random))
    }
    case 'timed_out':
    case 'failed': {
      if (ending.kind === 'timed_out' && ending.ofRun === true) return end('failed', 'deadline_exceeded')
      const codes = retryCodesOf(attempt.errorCode, attempt.httpStatus)
      if (!mayRetry(attempt.retry, codes, ending.kind === 'timed_out' || ending.retryable))
        return end('failed', 'not_retryable')
      const failures = attempt.failures + 1
      if (!hasAttemptsLeft(attempt.retry, failures)) return end('failed', 'attempts_exhausted')
      const askedMs = ending.kind === 'failed' ? ending.retryAfterMs : undefined
      return again(retryDelayMs(attempt.retry, failures, random, askedMs))
    }
    default:
      return ending satisfies never
  }
}

function endAtMostOnce(
  ending: AttemptEnding,
  end: (runState: TerminalRunState, reason: RunReason, outcome?: AttemptOutcome) => AttemptVerdict,
): AttemptVerdict {
  if (ending.kind === 'failed') return end('failed', 'not_retryable')
  // `released` would promise that nothing happened; the handler was already called
  if (ending.kind === 'released') return end('failed', 'outcome_unknown', 'lost')
  return end('failed', 'outcome_unknown')
}
