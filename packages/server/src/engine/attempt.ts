/**
 * One attempt: calls the handler, cuts it off when it must end, and says how it ended.
 *
 *   handler answers ───────────────► its answer, unless it was cut off before
 *   timeout, cancel, shutdown ─────► signal ─► answer or grace over ─► the reason of the cut
 *   lease lost ────────────────────► signal ─► answer or grace over ─► no end: the run is somebody else's
 *
 * A success stands even when it comes after the signal. A handler that ignores its signal past the grace is
 * abandoned: the attempt ends without it, and its late answer goes nowhere.
 *
 * The timeout of an attempt runs here and nowhere else, so that it means the same for every kind of handler
 * and a timeout is always recorded as one. The handler knows best where the time went: its words are kept.
 */
import type { JobDefinition, RunError } from '@belfry/contract'
import { type AttemptEnding, judgeAttempt } from '../domain/attempt-outcome.ts'
import { attemptTraceparent } from '../domain/traceparent.ts'
import type { Clock } from '../ports/clock.ts'
import type { AbortReason, Handler, HandlerResult } from '../ports/handler.ts'
import type { Random } from '../ports/random.ts'
import type { ClaimedRun } from '../ports/run-queue.ts'
import type { AttemptEnd } from '../ports/run-store.ts'
import type { DatabaseClock } from './database-clock.ts'

/** Characters of an error message that are kept. */
const maxErrorLength = 4_000

export interface AttemptOptions {
  readonly sessionId: string
  readonly run: ClaimedRun
  readonly definition: JobDefinition
  readonly handler: Handler
  readonly clock: Clock
  readonly databaseClock: DatabaseClock
  readonly random: Random
  readonly abortGraceMs: number
}

export interface AttemptRecord {
  /** Undefined: the lease was lost, nothing may be written. */
  readonly end: AttemptEnd | undefined
  /** Settles when an abandoned handler returns at last; undefined where it returned in time. */
  readonly abandoned: Promise<unknown> | undefined
}

export interface RunningAttempt {
  /** Never rejects. */
  readonly done: Promise<AttemptRecord>
  /** Fires the handler's signal; only the first reason counts. */
  abort(reason: AbortReason): void
}

export function startAttempt(options: AttemptOptions): RunningAttempt {
  const { run, definition, clock, databaseClock, random, abortGraceMs } = options
  const controller = new AbortController()
  const abandoned = Promise.withResolvers<'abandoned'>()
  const startedAtMs = databaseClock.nowMs()
  const startedMs = clock.monotonicMs()
  let reason: AbortReason | undefined
  let grace = clock.setTimer(run.timeoutMs, () => abort('timeout'))

  function abort(why: AbortReason): void {
    if (reason !== undefined) return
    reason = why
    grace.cancel()
    grace = clock.setTimer(abortGraceMs, () => abandoned.resolve('abandoned'))
    controller.abort(why)
  }

  async function execute(): Promise<AttemptRecord> {
    const called = callHandler(options, controller.signal)
    const result = await Promise.race([called, abandoned.promise])
    grace.cancel()
    const endedAtMs = startedAtMs + (clock.monotonicMs() - startedMs)
    const late = result === 'abandoned' ? called : undefined
    const answer = result === 'abandoned' ? undefined : result
    if (reason === 'lease_lost' && answer?.outcome !== 'succeeded') return { end: undefined, abandoned: late }
    const { ending, error } = judgeAnswer(answer, reason, run.timeoutMs)
    const verdict = judgeAttempt(
      {
        ending,
        delivery: definition.delivery,
        retry: definition.retry,
        failures: run.failures,
        crashCount: run.crashCount,
        cancelRequested: reason === 'cancel',
      },
      random.next(),
    )
    const end: AttemptEnd = {
      runId: run.runId,
      leaseEpoch: run.leaseEpoch,
      ...verdict,
      startedAtMs,
      endedAtMs,
      errorCode: error === null ? null : storable(error.code),
      errorMessage: error === null ? null : storable(error.message),
      httpStatus: answer?.httpStatus ?? null,
      response: answer?.response === undefined ? null : answer.response.replaceAll('\u0000', '\uFFFD'),
      responseTruncated: answer?.responseTruncated ?? false,
      result: answer?.outcome === 'succeeded' ? answer.result : undefined,
    }
    return { end, abandoned: late }
  }

  return { done: execute(), abort }
}

async function callHandler(options: AttemptOptions, signal: AbortSignal): Promise<HandlerResult> {
  const { sessionId, run, definition, handler, random } = options
  try {
    return await handler.execute({
      sessionId,
      runId: run.runId,
      tenantId: run.tenantId,
      jobId: run.jobId,
      attempt: run.attempt,
      leaseEpoch: run.leaseEpoch,
      scheduledForMs: run.scheduledForMs,
      idempotencyKey: run.runId,
      input: run.input,
      handler: definition.handler,
      timeoutMs: run.timeoutMs,
      traceparent: attemptTraceparent(
        run.runId,
        Array.from({ length: 8 }, () => random.next()),
      ),
      signal,
    })
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error)
    return { outcome: 'failed', retryable: true, error: { code: 'handler_error', message } }
  }
}

/** How the attempt ended, from what the handler answered (undefined: nothing) and why it was cut off. */
function judgeAnswer(
  answer: HandlerResult | undefined,
  reason: AbortReason | undefined,
  timeoutMs: number,
): { ending: AttemptEnding; error: RunError | null } {
  if (answer?.outcome === 'succeeded') return { ending: { kind: 'succeeded' }, error: null }
  const ignored = answer === undefined ? ' The handler did not react to its signal and was left behind.' : ''
  switch (reason) {
    case 'timeout':
      return {
        ending: { kind: 'timed_out' },
        error: {
          code: 'attempt_timeout',
          message:
            answer === undefined
              ? `The attempt took longer than ${timeoutMs} ms and was cut off.${ignored}`
              : `The attempt was cut off: ${answer.error.message}`,
        },
      }
    case 'cancel':
      return {
        ending: { kind: 'canceled' },
        error: { code: 'canceled', message: `The run was canceled while it ran.${ignored}` },
      }
    case 'shutdown':
    case 'lease_lost':
      return {
        ending: { kind: 'released' },
        error: { code: 'worker_stopped', message: `The worker stopped before the attempt ended.${ignored}` },
      }
    case undefined: {
      if (answer?.outcome === 'canceled') return { ending: { kind: 'canceled' }, error: answer.error }
      const retryAfterMs = answer?.retryAfterMs
      return {
        ending: { kind: 'failed', retryable: answer?.retryable ?? true, retryAfterMs },
        error: answer?.error ?? null,
      }
    }
  }
}

/** Postgres text holds no NUL. */
function storable(text: string): string {
  const clean = text.replaceAll('\u0000', '\uFFFD')
  return clean.length <= maxErrorLength ? clean : `${clean.slice(0, maxErrorLength - 1)}…`
}
