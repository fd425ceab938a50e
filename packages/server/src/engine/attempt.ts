/**
 * One attempt: calls the handler, cuts it off when it must end, and says how it ended.
 *
 *   handler answers ───────────────► its answer, unless it was cut off before
 *   timeout, cancel, shutdown ─────► signal ─► answer or grace over ─► the reason of the cut
 *   lease lost ────────────────────► signal ─► answer or grace over ─► no end: the run is somebody else's
 *
 * A success stands even when it comes after the signal, and so does the word of a target that it took the run
 * over: the attempt goes on then, parked and without this worker (callbacks/parker.ts). A handler that
 * ignores its signal past the grace is abandoned: the attempt ends without it, and its late answer goes
 * nowhere.
 *
 * The timeout of an attempt runs here and nowhere else, that of the attempt or that of the whole run,
 * whichever comes first (domain/run-limits.ts): so that it means the same for every kind of handler
 * and a timeout is always recorded as one. The handler knows best where the time went: its words are kept.
 */
import type { JobDefinition, RunError } from '@belfry/contract'
import { type AttemptEnding, judgeAttempt } from '../domain/attempt-outcome.ts'
import { attemptLimit, leftMs } from '../domain/run-limits.ts'
import { attemptTraceparent } from '../domain/traceparent.ts'
import type { Clock, Timer } from '../ports/clock.ts'
import type { ReportLimits } from '../ports/callbacks.ts'
import type { AbortReason, Handler, HandlerRequest, HandlerResult } from '../ports/handler.ts'
import type { Random } from '../ports/random.ts'
import type { ClaimedRun } from '../ports/run-queue.ts'
import type { AttemptEnd } from '../ports/run-store.ts'
import type { DatabaseClock } from './database-clock.ts'

/** Characters of an error message that are kept. */
const maxErrorLength = 4_000

export interface AttemptOptions {
  readonly clock: Clock
  readonly databaseClock: DatabaseClock
  readonly random: Random
  readonly abortGraceMs: number
}

export interface Started {
  readonly sessionId: string
  readonly run: ClaimedRun
  readonly definition: JobDefinition
  readonly handler: Handler
}

export interface AttemptRecord {
  /** Undefined: the lease was lost and nothing may be written, or the run is to be parked. */
  readonly end: AttemptEnd | undefined
  /** The target took the run over. */
  readonly accepted?: ReportLimits
  /** Settles when an abandoned handler returns at last; undefined where it returned in time. */
  readonly abandoned: Promise<unknown> | undefined
}

export interface RunningAttempt {
  /** Fires the handler's signal; only the first reason counts. */
  abort(reason: AbortReason): void
}

/** Calls the handler at once, and `onDone` when the attempt is over: once, never before this returns. */
export function startAttempt(
  options: AttemptOptions,
  started: Started,
  onDone: (record: AttemptRecord) => void,
): RunningAttempt {
  return new Attempt(options, started, onDone)
}

/** A class, because closures for each attempt are most of what it would leave to the garbage collector. */
class Attempt implements RunningAttempt {
  readonly #options: AttemptOptions
  readonly #started: Started
  readonly #onDone: (record: AttemptRecord) => void
  readonly #limit: ReturnType<typeof attemptLimit>
  readonly #startedAtMs: number
  readonly #startedMs: number
  readonly #called: Promise<HandlerResult>
  #controller: AbortController | undefined
  #reason: AbortReason | undefined
  #over = false
  #grace: Timer

  constructor(options: AttemptOptions, started: Started, onDone: (record: AttemptRecord) => void) {
    const { clock, databaseClock, random } = options
    const { run } = started
    this.#options = options
    this.#started = started
    this.#onDone = onDone
    this.#startedAtMs = databaseClock.nowMs()
    this.#startedMs = clock.monotonicMs()
    this.#limit = attemptLimit(run.timeoutMs, run.runDeadlineMs, this.#startedAtMs)
    this.#grace = clock.setTimer(this.#limit.limitMs, () => this.abort('timeout'))
    this.#called = callHandler(started, random, this.#limit.limitMs, this)
    this.#called.then(
      (answer) => this.#finish(answer, undefined),
      (error: unknown) => this.#finish(thrown(error), undefined),
    )
  }

  get signal(): AbortSignal {
    return this.#controlled().signal
  }

  abort(why: AbortReason): void {
    if (this.#reason !== undefined) return
    const { clock, abortGraceMs } = this.#options
    this.#reason = why
    this.#grace.cancel()
    const leave = (): void => this.#finish(undefined, this.#called.then(nothing, nothing))
    this.#grace = clock.setTimer(abortGraceMs, leave)
    this.#controlled().abort(why)
  }

  #controlled(): AbortController {
    this.#controller ??= new AbortController()
    return this.#controller
  }

  #finish(answer: HandlerResult | undefined, abandoned: Promise<unknown> | undefined): void {
    if (this.#over) return
    this.#over = true
    this.#grace.cancel()
    const { clock, random } = this.#options
    const startedAtMs = this.#startedAtMs
    const endedAtMs = startedAtMs + (clock.monotonicMs() - this.#startedMs)
    const reason = this.#reason
    if (answer?.outcome === 'accepted') {
      const { limits: accepted } = answer
      this.#onDone(
        reason === 'lease_lost' ? { end: undefined, abandoned } : { end: undefined, accepted, abandoned },
      )
      return
    }
    const isOthers = reason === 'lease_lost' && answer?.outcome !== 'succeeded'
    const course = { answer, reason, limit: this.#limit, startedAtMs, endedAtMs }
    this.#onDone({ end: isOthers ? undefined : endOf(this.#started, random, course), abandoned })
  }
}

const nothing = (): void => undefined

type EndResult = Exclude<HandlerResult, { outcome: 'accepted' }>

interface Course {
  /** Undefined: the handler was left behind. */
  readonly answer: EndResult | undefined
  readonly reason: AbortReason | undefined
  readonly limit: ReturnType<typeof attemptLimit>
  readonly startedAtMs: number
  readonly endedAtMs: number
}

function endOf(
  { run, definition }: Started,
  random: Random,
  { answer, reason, limit, startedAtMs, endedAtMs }: Course,
): AttemptEnd {
  const { ending, error } = judgeAnswer(answer, reason, limit)
  const verdict = judgeAttempt(
    {
      ending,
      delivery: definition.delivery,
      retry: definition.retry,
      failures: run.failures,
      crashCount: run.crashCount,
      cancelRequested: reason === 'cancel',
      errorCode: error?.code ?? null,
      httpStatus: answer?.httpStatus ?? null,
      leftMs: leftMs(run.runDeadlineMs, endedAtMs),
    },
    random.next(),
  )
  return {
    runId: run.runId,
    leaseEpoch: run.leaseEpoch,
    outcome: verdict.outcome,
    runState: verdict.runState,
    reason: verdict.reason,
    retryDelayMs: verdict.retryDelayMs,
    countAs: verdict.countAs,
    startedAtMs,
    endedAtMs,
    errorCode: error === null ? null : storable(error.code),
    errorMessage: error === null ? null : storable(error.message),
    httpStatus: answer?.httpStatus ?? null,
    response: answer?.response === undefined ? null : answer.response.replaceAll('\u0000', '\uFFFD'),
    responseTruncated: answer?.responseTruncated ?? false,
    result: answer?.outcome === 'succeeded' ? answer.result : undefined,
    responseHeaders: answer?.responseHeaders,
  }
}

function callHandler(
  started: Started,
  random: Random,
  timeoutMs: number,
  attempt: { readonly signal: AbortSignal },
): Promise<HandlerResult> {
  try {
    return started.handler.execute(new AttemptRequest(started, random, timeoutMs, attempt))
  } catch (error) {
    return Promise.resolve(thrown(error))
  }
}

/** A class, because few handlers ask for the signal or the trace: each is made when it is asked for. */
class AttemptRequest implements HandlerRequest {
  readonly sessionId: string
  readonly runId: string
  readonly tenantId: string
  readonly jobId: string
  readonly attempt: number
  readonly leaseEpoch: number
  readonly scheduledForMs: number | null
  readonly idempotencyKey: string
  readonly input: unknown
  readonly handler: JobDefinition['handler']
  readonly runAs: JobDefinition['runAs']
  readonly timeoutMs: number
  readonly runDeadlineMs: number | null
  readonly delivery: JobDefinition['delivery']
  readonly #random: Random
  readonly #attempt: { readonly signal: AbortSignal }
  #traceparent: string | undefined

  constructor(
    { sessionId, run, definition }: Started,
    random: Random,
    timeoutMs: number,
    running: { readonly signal: AbortSignal },
  ) {
    this.sessionId = sessionId
    this.runId = run.runId
    this.tenantId = run.tenantId
    this.jobId = run.jobId
    this.attempt = run.attempt
    this.leaseEpoch = run.leaseEpoch
    this.scheduledForMs = run.scheduledForMs
    this.idempotencyKey = run.runId
    this.input = run.input
    this.handler = definition.handler
    this.runAs = definition.runAs
    this.timeoutMs = timeoutMs
    this.runDeadlineMs = run.runDeadlineMs
    this.delivery = definition.delivery
    this.#random = random
    this.#attempt = running
  }

  get signal(): AbortSignal {
    return this.#attempt.signal
  }

  get traceparent(): string {
    this.#traceparent ??= attemptTraceparent(this.runId, this.#random.next(), this.#random.next())
    return this.#traceparent
  }
}

function thrown(error: unknown): HandlerResult {
  const message = error instanceof Error ? error.message : String(error)
  return { outcome: 'failed', retryable: true, error: { code: 'handler_error', message } }
}

const overRun = 'The time for the whole run was over and the attempt was cut off'

/** How the attempt ended, from what the handler answered (undefined: nothing) and why it was cut off. */
function judgeAnswer(
  answer: EndResult | undefined,
  reason: AbortReason | undefined,
  { limitMs, ofRun }: ReturnType<typeof attemptLimit>,
): { ending: AttemptEnding; error: RunError | null } {
  if (answer?.outcome === 'succeeded') return { ending: { kind: 'succeeded' }, error: null }
  const ignored = answer === undefined ? ' The handler did not react to its signal and was left behind.' : ''
  switch (reason) {
    case 'timeout':
      return {
        ending: { kind: 'timed_out', ofRun },
        error: {
          code: ofRun ? 'deadline_exceeded' : 'attempt_timeout',
          message:
            answer === undefined
              ? `${ofRun ? overRun : `The attempt took longer than ${limitMs} ms and was cut off`}.${ignored}`
              : `${ofRun ? overRun : 'The attempt was cut off'}: ${answer.error.message}`,
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
      if (answer !== undefined && answer.outcome !== 'failed')
        return { ending: { kind: answer.outcome }, error: answer.error }
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
