/**
 * Ready runs in fair order. A claim is the start of an attempt and is committed before anything is executed;
 * what it hands out belongs to one session until its end is on record or the session is lost.
 */
import type { Overdue } from '../domain/run-limits.ts'

export interface ClaimedRun {
  readonly runId: string
  readonly tenantId: string
  readonly jobId: string
  readonly jobVersion: number
  readonly queue: string
  readonly tag: number
  readonly priority: number
  readonly attempt: number
  /** Attempts of this run that were lost with their worker. */
  readonly crashCount: number
  /** Attempts of this run that failed or timed out. */
  readonly failures: number
  readonly leaseEpoch: number
  /** The number of the claim that took it. */
  readonly claim: number
  readonly timeoutMs: number
  /** The time for the run was over before it was claimed: it must be ended, and its handler not be called. */
  readonly overdue: Overdue | null
  /** When the whole run must be over, epoch ms; null: no limit. */
  readonly runDeadlineMs: number | null
  readonly scheduledForMs: number | null
  readonly dueAtMs: number
  readonly availableAtMs: number
  /** Id of the schedule, where a backfill made it: that waits for its end. */
  readonly backfillOf: string | null
  readonly input: unknown
}

/** What to take from one queue: at most `limit` runs, lowest tag first, of tags in [`minTag`, `maxTag`). */
export interface QueueShare {
  readonly queue: string
  readonly minTag: number
  /** Unset: no end. */
  readonly maxTag?: number | undefined
  readonly limit: number
}

export interface Claim {
  /** In the order in which they should start. */
  readonly runs: readonly ClaimedRun[]
  /** False: the session had run out, so nothing was claimed. */
  readonly alive: boolean
  /** Database time of the claim, epoch ms. */
  readonly nowMs: number
}

export interface ReadyQueue {
  readonly queue: string
  /** A tenant that has something ready in it; there may be others. */
  readonly tenantId: string
  /** Share of the tenant; 2 gets twice as much as 1. */
  readonly weight: number
}

/** Where a walk over what is ready goes on. */
export interface ReadyCursor {
  /** Null: from the first tenant. */
  readonly afterTenantId: string | null
  /** Tenants with more queues than one look shows. */
  readonly afterQueues: readonly { readonly tenantId: string; readonly queue: string }[]
}

export interface ReadyLook {
  readonly found: readonly ReadyQueue[]
  /** Null: there was no more to see. */
  readonly next: ReadyCursor | null
}

export interface Claimant {
  readonly sessionId: string
  /** What the worker can execute (domain/route.ts). */
  readonly routes: readonly string[]
  readonly deadlineMarginMs: number
  /** Of the session, from 1 on; unset: it does not say which of its claims are over. */
  readonly number?: number | undefined
  /** Claims of which nothing is held any more. */
  readonly overNumbers?: readonly number[] | undefined
}

export interface RunQueue {
  /** It knows by itself from which tag on to look: `minTag` is for what the caller wants to leave out. */
  readonly keepsMarks?: true
  /**
   * Claims runs of one or more queues for a live session, in one transaction. `minTag` is a low-water mark;
   * the caller looks from -Infinity often enough that nothing behind it waits for long
   * (engine/low-water-marks.ts). `deadlineMarginMs` is added to each run's attempt timeout to give its
   * deadline. If it throws, the claim may still have been committed: `RunStore.heldRuns` tells.
   */
  claim(options: Claimant & { readonly shares: readonly QueueShare[] }): Promise<Claim>
  /**
   * Who has something ready now that is no function, and in which queues; for workers that serve every queue.
   * A bounded look, tenant by tenant, with as many queues of each: however many queues one tenant names,
   * another is seen as soon. `cursor` null: from the beginning. Writes nothing.
   */
  readyQueues(cursor: ReadyCursor | null): Promise<ReadyLook>
}

/** A run as it was announced (ports/announcements.ts). */
export interface NamedRun {
  readonly queue: string
  readonly runId: string
  readonly tag: number
}

export interface AnnouncedRuns {
  /**
   * Claims of these runs those that may be claimed and stand where they are said to stand; all that
   * `RunQueue.claim` says of a claim holds of it.
   */
  claimNamed(options: Claimant & { readonly runs: readonly NamedRun[] }): Promise<Claim>
}
