/**
 * How a run is executed. One implementation for each kind of handler; a handler never throws for what the
 * target does, it answers.
 */
import type { Delivery, HandlerKind, JobDefinition, JsonValue, RunError } from '@belfry/contract'
import type { ReportLimits } from './callbacks.ts'

export interface HandlerRequest {
  /** Of the worker, which holds the run. */
  readonly sessionId: string
  readonly runId: string
  readonly tenantId: string
  readonly jobId: string
  readonly attempt: number
  readonly leaseEpoch: number
  /** Nominal time of the occurrence, epoch ms; null for a run on demand. */
  readonly scheduledForMs: number | null
  /** Same over all attempts of the run. */
  readonly idempotencyKey: string
  readonly input: unknown
  readonly handler: JobDefinition['handler']
  /** Of the version that runs. */
  readonly runAs: JobDefinition['runAs']
  /** For words: the worker's signal fires when it is over. */
  readonly timeoutMs: number
  /** When the whole run must be over, epoch ms; null: no limit. */
  readonly runDeadlineMs: number | null
  readonly delivery: Delivery
  /** W3C trace context of this attempt. */
  readonly traceparent: string
  /** Fires on timeout, cancel, lost lease and shutdown; `signal.reason` is an AbortReason. */
  readonly signal: AbortSignal
}

export type AbortReason = 'timeout' | 'cancel' | 'lease_lost' | 'shutdown'

export interface HandlerFacts {
  readonly httpStatus?: number
  /** What the target answered, capped; text. */
  readonly response?: string
  readonly responseTruncated?: boolean
  /** Those that the job asked to keep; lower-case names, no secret in any value. */
  readonly responseHeaders?: Readonly<Record<string, string>>
}

export type HandlerResult =
  | ({
      readonly outcome: 'succeeded'
      /** What a function answered: JSON that can be kept (contract's `resultFault`). Undefined: nothing. */
      readonly result?: JsonValue | undefined
    } & HandlerFacts)
  /** The function called its run off, or had nothing to do. */
  | ({ readonly outcome: 'canceled' | 'skipped'; readonly error: RunError } & HandlerFacts)
  | ({
      readonly outcome: 'failed'
      readonly error: RunError
      /** False: trying again cannot help (for example a target that is not allowed). */
      readonly retryable: boolean
      /** What the target asked for, at least this long until the next attempt; granted up to a day. */
      readonly retryAfterMs?: number
    } & HandlerFacts)
  /**
   * The target took the run over and reports its end later, by a token that was opened for this attempt
   * before (ports/callbacks.ts). The attempt goes on, without this worker.
   */
  | ({ readonly outcome: 'accepted'; readonly limits: ReportLimits } & HandlerFacts)

export interface Handler {
  readonly kind: HandlerKind
  /** What it can execute, where that is less than every job of its kind (domain/route.ts). */
  readonly routes?: readonly string[]
  /** Ends soon after `signal` fires. The worker decides from the signal's reason what that end means. */
  execute(request: HandlerRequest): Promise<HandlerResult>
  close(): Promise<void>
}
