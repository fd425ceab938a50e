/**
 * Sessions and the ends of attempts. Every write to a run names its lease epoch; a stale one changes nothing and is
 * answered as such.
 */
import type { AttemptOutcome, Delivery, JobDefinition, RunReason, TerminalRunState } from '@belfry/contract'

/** How one attempt ended and where that leaves the run: terminal, or delayed until `retryAtMs`. Instants epoch ms, database time. */
export interface AttemptEnd {
  readonly runId: string
  readonly leaseEpoch: number
  readonly outcome: AttemptOutcome
  readonly runState: TerminalRunState | null
  readonly reason: RunReason | null
  readonly startedAtMs: number
  readonly endedAtMs: number
  readonly retryAtMs: number | null
  readonly countAsCrash: boolean
  readonly errorCode: string | null
  readonly errorMessage: string | null
  readonly httpStatus: number | null
  readonly response: string | null
  readonly responseTruncated: boolean
}

export interface SessionRenewal {
  /** False: the lease had run out; abort everything and open a new session. */
  readonly alive: boolean
  /** Runs of this session whose cancel was asked for. */
  readonly cancelRunIds: readonly string[]
  readonly nowMs: number
}

/** A run whose worker is gone, or whose deadline passed, as the rescuer read it. */
export interface StuckRun {
  readonly runId: string
  readonly tenantId: string
  readonly sessionId: string
  readonly leaseEpoch: number
  readonly attempt: number
  readonly crashCount: number
  readonly claimedAtMs: number
  readonly cause: 'session_lost' | 'deadline'
  readonly delivery: Delivery
  readonly retry: JobDefinition['retry']
  readonly cancelRequested: boolean
}

export interface RunStore {
  openSession(session: { id: string; host: string; version: string; queues: readonly string[]; slots: number }, leaseMs: number): Promise<{ nowMs: number }>
  renewSession(sessionId: string, leaseMs: number): Promise<SessionRenewal>
  /** Ends the session after its runs are done or handed back. */
  closeSession(sessionId: string): Promise<void>
  /** Definitions by job and version, for what was claimed. */
  definitions(versions: readonly { jobId: string; version: number }[]): Promise<readonly { jobId: string; version: number; definition: JobDefinition }[]>
  /** Ends attempts in one transaction; answers the run ids that were applied. The others had lost their lease. */
  complete(sessionId: string, ends: readonly AttemptEnd[]): Promise<{ appliedRunIds: readonly string[]; nowMs: number }>
  /** Hands runs back unstarted: no attempt is counted, the next claim may take them at once. */
  handBack(sessionId: string, runs: readonly { runId: string; leaseEpoch: number }[]): Promise<{ handedBackRunIds: readonly string[] }>
  /** Deletes sessions whose lease ran out, then pages through runs that nobody holds any more or whose deadline passed. */
  stuckRuns(after: string | null, limit: number): Promise<readonly StuckRun[]>
  /** Ends the lost attempts; guarded by the epoch that was read. */
  rescue(ends: readonly (AttemptEnd & { readonly sessionId: string })[]): Promise<{ appliedRunIds: readonly string[] }>
}
