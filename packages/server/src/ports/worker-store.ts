/**
 * What workers of functions need of the store beyond RunStore and RunQueue: whose a session is, what the end
 * of an attempt is judged by, progress and logs. Every write names session and epoch; a stale one changes
 * nothing.
 */
import type { JsonValue, LogLine } from '@belfry/contract'
import type { AppliedEnd } from './run-store.ts'

/** A session, from its opening to its end. */
export interface SessionFacts {
  readonly tenantId: string
  /** Null: it was opened beside the API. */
  readonly keyId: string | null
  readonly queues: readonly string[]
  readonly functions: readonly string[]
}

export interface HeldName {
  readonly runId: string
  readonly leaseEpoch: number
}

export interface HeldAttempt extends HeldName {
  readonly tenantId: string
  readonly jobId: string
  readonly jobVersion: number
  readonly queue: string
  readonly attempt: number
  readonly crashCount: number
  readonly failures: number
  readonly claimedAtMs: number
  readonly nowMs: number
  readonly cancelRequested: boolean
  /** Limit of one attempt. */
  readonly timeoutMs: number
  /** When the whole run must be over, epoch ms; null: no limit. */
  readonly runDeadlineMs: number | null
  /** Id of the schedule, where a backfill made the run: that waits for its end. */
  readonly backfillOf: string | null
}

export interface LogAppend extends HeldName {
  /** Whose quota of log bytes it counts for; left out: nobody's. */
  readonly tenantId?: string | undefined
  /** Number of the first line among those of the attempt, from 0. */
  readonly firstLine: number
  readonly lines: readonly LogLine[]
}

export interface LogKept extends HeldName {
  readonly kept: boolean
  /** Nothing more of this attempt is kept. */
  readonly full: boolean
}

/** A queue and a route that somebody waits for. */
export interface Wanted {
  readonly queue: string
  readonly route: string
}

export interface WorkerStore {
  /** Undefined: there is no such session any more, or it is a server's. */
  findSession(sessionId: string): Promise<SessionFacts | undefined>
  /** Those that the session holds. */
  heldAttempts(sessionId: string, runs: readonly HeldName[]): Promise<readonly HeldAttempt[]>
  /** Which of these ends the worker had reported before, so that they are on record. */
  reportedBefore(
    sessionId: string,
    ends: readonly (HeldName & { readonly outcome: string })[],
  ): Promise<readonly AppliedEnd[]>
  reportProgress(
    sessionId: string,
    reports: readonly (HeldName & { readonly progress: JsonValue })[],
  ): Promise<void>
  /** Adds lines to logs, up to the cap of each attempt; what was added before is kept once. */
  appendLogs(sessionId: string, chunks: readonly LogAppend[]): Promise<readonly LogKept[]>
  /** How many runs wait for each, up to `limit`; those without any are left out. */
  supply(wanted: readonly Wanted[], limit: number): Promise<readonly (Wanted & { readonly count: number })[]>
}
