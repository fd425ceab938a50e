/**
 * Runs that their target took over, and what it reports of them.
 *
 * 1. `open`: before the target is called, the hash of a new token is stored with run and epoch. The target
 *    may report from then on.
 * 2. `park`: it answered 202. The run leaves its worker and stands as running until the report, or until the
 *    rescuer takes it.
 * 3. `find`: a report came. It counts while the run is held under the epoch of the token, by whomever.
 *
 * Nothing here ends a run: that is done as for every other attempt (RunStore.complete, .rescue), guarded by
 * epoch and session.
 */
import type { JobDefinition, JsonValue, TerminalRunState } from '@belfry/contract'

export interface AttemptName {
  readonly tenantId: string
  readonly runId: string
  readonly leaseEpoch: number
}

/** How long the target may take, from its 202 on. */
export interface ReportLimits {
  readonly deadlineMs: number
  readonly heartbeatMs: number | null
}

/** What a token is for. Instants are epoch ms. */
export interface FoundCallback extends AttemptName {
  /** The session that holds the run under the token's epoch; null: nobody does, the attempt is over. */
  readonly sessionId: string | null
  /** Both null where the run is past its retention. */
  readonly jobId: string | null
  readonly jobVersion: number | null
  readonly cancelRequested: boolean
  readonly claimedAtMs: number | null
  readonly reportByMs: number | null
  readonly heartbeatByMs: number | null
  readonly nowMs: number
}

/** The end that stands on record for an attempt. */
export interface RecordedEnd {
  readonly outcome: string
  readonly errorCode: string | null
  /** Of the run by this attempt; null: it was tried again. */
  readonly runState: TerminalRunState | null
  /** Whether this result, or none, is what was stored. */
  readonly sameResult: boolean
}

/** What handlers need: a token and an address for the target of one attempt. */
export interface CallbackDoor {
  /** Undefined: the session does not hold the run any more. Throws `invalid_config`, and as the store. */
  open(
    sessionId: string,
    attempt: AttemptName,
  ): Promise<{ readonly token: string; readonly url: string } | undefined>
}

export interface CallbackStore {
  /** False: the session does not hold the run any more. */
  open(sessionId: string, attempt: AttemptName, tokenHash: Uint8Array): Promise<boolean>
  /**
   * Takes the run from the session. False: the session does not hold it any more, for example because the
   * target has reported its end already. May be repeated when its answer was lost.
   */
  park(sessionId: string, attempt: AttemptName, limits: ReportLimits): Promise<boolean>
  find(tokenHash: Uint8Array): Promise<FoundCallback | undefined>
  /** Notes a sign of life of a parked run and puts off the next one. */
  hear(attempt: AttemptName): Promise<void>
  /** Undefined: none is on record (any more). */
  endOf(attempt: AttemptName, result: JsonValue | undefined): Promise<RecordedEnd | undefined>
  /** An attempt that is over is due no more. */
  settle(attempt: AttemptName): Promise<void>
  /** Whether parked runs are due for the rescuer. */
  anyDue(): Promise<boolean>
}

/** A report as it came in. */
export interface SentReport {
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>
  readonly body: Uint8Array
}

export interface CallbackSignatures {
  /** Why the report is not taken; undefined: it is. Throws `secrets_unavailable`. */
  fault(
    of: Pick<JobDefinition, 'handler' | 'runAs'> & {
      readonly tenantId: string
      readonly jobId: string
      /** That the token is for. */
      readonly runId: string
    },
    sent: SentReport,
  ): Promise<string | undefined>
}

/** A new token: `token` is handed to the target, only `hash` is stored. */
export interface MintedToken {
  readonly token: string
  readonly hash: Uint8Array
}

export interface CallbackTokens {
  mint(): MintedToken
  /** The hash of what was sent; undefined where it cannot be a token. */
  hashOf(text: string): Uint8Array | undefined
}
