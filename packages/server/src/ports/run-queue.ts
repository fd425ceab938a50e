/**
 * Ready runs in fair order. A claim is the start of an attempt and is committed before anything is executed;
 * what it hands out belongs to one session until its end is on record or the session is lost.
 */
import type { HandlerKind } from '@belfry/contract'

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
  readonly timeoutMs: number
  readonly scheduledForMs: number | null
  readonly dueAtMs: number
  readonly availableAtMs: number
  readonly input: unknown
}

/** What to take from one queue: at most `limit` runs, lowest tag first, from `minTag` on. */
export interface QueueShare {
  readonly queue: string
  readonly minTag: number
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

export interface RunQueue {
  /**
   * Claims runs of one or more queues for a live session, in one transaction. `minTag` is a low-water mark;
   * the caller looks from -Infinity often enough that nothing behind it waits for long
   * (engine/low-water-marks.ts). `deadlineMarginMs` is added to each run's attempt timeout to give its
   * deadline. If it throws, the claim may still have been committed: `RunStore.heldRuns` tells.
   */
  claim(options: {
    sessionId: string
    shares: readonly QueueShare[]
    handlers: readonly HandlerKind[]
    deadlineMarginMs: number
  }): Promise<Claim>
  /** Names of queues that have ready runs now; for workers that serve every queue. */
  activeQueues(): Promise<readonly string[]>
}
