/**
 * Sessions and the ends of attempts. Every write to a run names its lease epoch; a stale one changes nothing
 * and is answered as such. Every write may be repeated when its answer was lost.
 */
import type {
  AttemptOutcome,
  Delivery,
  JobDefinition,
  JsonValue,
  RunReason,
  TerminalRunState,
} from '@belfry/contract'

/**
 * How one attempt ended and where that leaves the run: terminal, or due again after a pause. Instants epoch
 * ms, database time.
 */
export interface AttemptEnd {
  readonly runId: string
  readonly leaseEpoch: number
  readonly outcome: AttemptOutcome
  /**
   * Null: the run is tried again `retryDelayMs` after the commit, unless a cancel was asked for meanwhile.
   */
  readonly runState: TerminalRunState | null
  readonly reason: RunReason | null
  readonly retryDelayMs: number | null
  readonly countAs: 'failure' | 'crash' | 'nothing'
  readonly startedAtMs: number
  readonly endedAtMs: number
  readonly errorCode: string | null
  readonly errorMessage: string | null
  readonly httpStatus: number | null
  readonly response: string | null
  readonly responseTruncated: boolean
  /** What a function answered; undefined: nothing. */
  readonly result?: JsonValue | undefined
  /** Headers of the answer that the job asked to keep. */
  readonly responseHeaders?: Readonly<Record<string, string>> | undefined
}

/** What an end led to: `runState` null means that the run waits for its next attempt. */
export interface AppliedEnd {
  readonly runId: string
  readonly runState: TerminalRunState | null
}

/** A schedule that was paused because its last runs, `failures` of them, all failed. */
export interface PausedSchedule {
  readonly scheduleId: string
  readonly tenantId: string
  readonly failures: number
}

export interface SessionRenewal {
  /** False: the lease had run out; abort everything and open a new session. */
  readonly alive: boolean
  /** What the session holds according to the database. */
  readonly heldRunIds: readonly string[]
  /** Those of them whose cancel was asked for. */
  readonly cancelRunIds: readonly string[]
  readonly nowMs: number
}

/** Shards that have timers due by what was done: runs that waited for one that has ended. */
export interface LetGo {
  readonly timerShards: readonly number[]
  /** Tenants of whose limits something is free now. */
  readonly gateTenants?: readonly string[]
}

export interface SessionOwner {
  readonly tenantId: string
  /** Null: it was opened beside the API. */
  readonly keyId: string | null
  readonly functions: readonly string[]
}

export interface HeldRun {
  readonly runId: string
  readonly leaseEpoch: number
  readonly queue: string
}

/** A run whose worker is gone, or whose deadline passed, as the rescuer read it. */
export interface StuckRun {
  readonly runId: string
  readonly tenantId: string
  readonly jobId: string
  readonly queue: string
  readonly sessionId: string
  readonly leaseEpoch: number
  readonly attempt: number
  readonly crashCount: number
  readonly failures: number
  readonly claimedAtMs: number
  /** When the whole run must be over, epoch ms; null: no limit. */
  readonly runDeadlineMs: number | null
  readonly cause: 'session_lost' | 'deadline' | 'cancel_ignored'
  /** By when the target that took the run over had to report its end; null: none did. */
  readonly reportByMs: number | null
  readonly delivery: Delivery
  readonly retry: JobDefinition['retry']
  readonly cancelRequested: boolean
}

export interface JobVersion {
  readonly tenantId: string
  readonly jobId: string
  readonly version: number
}

/** A service account as what is executed as it sees it. */
export interface IdentityRecord {
  readonly tenantId: string
  readonly name: string
  /** Null: every one. */
  readonly queues: readonly string[] | null
  readonly disabled: boolean
}

export interface RunStore {
  /** `owner`: of a worker of functions, which are all of one tenant. */
  openSession(
    session: {
      id: string
      host: string
      version: string
      queues: readonly string[]
      slots: number
      owner?: SessionOwner | undefined
    },
    leaseMs: number,
  ): Promise<{ nowMs: number }>
  renewSession(sessionId: string, leaseMs: number): Promise<SessionRenewal>
  /** Ends the session. If it still holds runs, its lease ends now, so that the rescuer takes them. */
  closeSession(sessionId: string): Promise<void>
  /**
   * Definitions by tenant, job and version, for what was claimed; without those that do not exist, are of
   * another tenant or cannot be read.
   */
  /**
   * Grows when what was read before may not be so any more, versions too: a connection was lost, and a
   * standby that took over may lack the last commits. Left out: that cannot be.
   */
  doubts?(): number
  definitions(
    versions: readonly JobVersion[],
  ): Promise<readonly (JobVersion & { readonly definition: JobDefinition })[]>
  /** Service accounts by tenant and name; without those that do not exist. */
  identities(
    wanted: readonly { readonly tenantId: string; readonly name: string }[],
  ): Promise<readonly IdentityRecord[]>
  /**
   * Ends attempts in one transaction; answers those that were applied, now or by an earlier call whose answer
   * was lost. The others had lost their lease.
   */
  complete(
    sessionId: string,
    ends: readonly AttemptEnd[],
  ): Promise<{
    applied: readonly AppliedEnd[]
    /** Schedules that these ends paused. */
    paused: readonly PausedSchedule[]
    /** Shards with timers that are due by these ends: of runs that waited for one that has ended. */
    timerShards: readonly number[]
    /** Tenants of whose limits something is free now. */
    gateTenants?: readonly string[]
    nowMs: number
  }>
  /**
   * Hands runs back unstarted: no attempt is counted, the next claim may take them at once. Those whose
   * cancel was asked for are not handed back: they end here, as canceled while they waited.
   */
  handBack(
    sessionId: string,
    runs: readonly HeldRun[],
  ): Promise<{ handedBackRunIds: readonly string[] } & LetGo>
  /**
   * What the session holds according to the database; more than its worker knows of if the answer to a claim
   * was lost.
   */
  heldRuns(sessionId: string): Promise<readonly HeldRun[]>
  /**
   * Deletes sessions whose lease ran out, under their row locks, so that a renewal at the same instant wins
   * or loses whole.
   */
  endExpiredSessions(claimsOlderThanMs?: number): Promise<{
    sessionIds: readonly string[]
    /** Whether there are claims to settle, of that age. */
    claims: boolean
    /** Whether runs that a target took over may be due. */
    parkedDue: boolean
  }>
  /**
   * Settles what is held by claims, at most so many of them, for `stuckRuns` to see; answers how many. Either
   * those of that age, or those of these sessions.
   */
  settleClaims(
    limit: number,
    which?: { readonly olderThanMs?: number; readonly sessionIds?: readonly string[] },
  ): Promise<number>
  /**
   * The net below all that: finds what is held by no claim and not settled either, a minute after its
   * claim, and settles it; and what was given back but is not free. Reads so many runs, on from where the
   * answer before ended; null: from the beginning, and after the last.
   */
  healHeldRuns(afterRunId: string | null, limit: number): Promise<{ next: string | null; healed: number }>
  /**
   * Pages through runs that no session holds any more or whose deadline passed; healthy ones take no place in
   * a page.
   */
  stuckRuns(
    after: { sessionId: string; runId: string } | null,
    limit: number,
  ): Promise<{ runs: readonly StuckRun[]; nowMs: number }>
  /** Ends the lost attempts; guarded by the epoch and session that were read. */
  rescue(
    ends: readonly (AttemptEnd & { readonly sessionId: string })[],
  ): Promise<{ applied: readonly AppliedEnd[]; paused: readonly PausedSchedule[] } & LetGo>
}
