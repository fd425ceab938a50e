/**
 * Ready runs in fair order. A claim is the start of an attempt and is committed before anything is executed.
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
  readonly crashCount: number
  readonly leaseEpoch: number
  readonly timeoutMs: number
  readonly scheduledForMs: number | null
  readonly dueAtMs: number
  readonly availableAtMs: number
  readonly input: unknown
}

export interface Claim {
  readonly runs: readonly ClaimedRun[]
  /** Database time of the claim, epoch ms. */
  readonly nowMs: number
}

export interface RunQueue {
  /**
   * Claims up to `limit` runs of one queue for a live session, lowest tag first, from `minTag` on (a low-water mark; the
   * caller looks from -Infinity every 10 s). The session must be alive, else nothing is claimed. `deadlineMarginMs` is
   * added to each run's attempt timeout to give its deadline.
   */
  claim(options: {
    sessionId: string
    queue: string
    handlers: readonly HandlerKind[]
    minTag: number
    limit: number
    deadlineMarginMs: number
  }): Promise<Claim>
  /** Names of queues that have ready runs now; for workers that serve every queue. */
  activeQueues(): Promise<readonly string[]>
}
