/**
 * What the timeline and the explanation of a run go by: how it stands, what was tried, and the moment it is
 * asked at. Data alone; it was read in one snapshot. Instants are epoch ms, database time.
 */
import type { AttemptOutcome, Delivery, RetryPolicy, RunReason, RunState } from '@belfry/contract'

export interface TriedAttempt {
  readonly number: number
  readonly outcome: AttemptOutcome
  readonly startedAtMs: number
  readonly endedAtMs: number
  readonly retryAtMs: number | null
  readonly errorCode: string | null
  readonly errorMessage: string | null
}

/** A target took the run over and is to report its end. */
export interface AwaitedReport {
  readonly acceptedAtMs: number
  readonly reportByMs: number
  /** When it last gave a sign of life; null: not yet. */
  readonly heardAtMs: number | null
  /** By when it must give the next one; null: none is asked for. */
  readonly heartbeatByMs: number | null
}

export interface RunInsightFacts {
  readonly state: RunState
  readonly reason: RunReason | null
  readonly delivery: Delivery
  readonly retry: RetryPolicy
  readonly createdAtMs: number
  readonly dueAtMs: number
  readonly finishedAtMs: number | null
  /** Null while it runs, has ended, or waits for another run. */
  readonly nextAttemptAtMs: number | null
  readonly cancelRequested: boolean
  /** The newest that ended, in the order they began. */
  readonly tried: readonly TriedAttempt[]
  /** How many came before those. */
  readonly olderAttempts: number
  readonly present: {
    readonly number: number
    readonly startedAtMs: number
    /** Unset or null: it runs on a worker. */
    readonly awaited?: AwaitedReport | null
  } | null
  /** Since when a limit or a pause holds it; null: none does. */
  readonly heldSinceMs: number | null
  readonly nowMs: number
}
