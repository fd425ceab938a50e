/**
 * The end of a run whose time was over when it was claimed (domain/run-limits.ts): its handler is not called.
 * The worker of this process and the gate of remote ones both end such runs by it.
 */
import { type Overdue, overdueWords } from '../domain/run-limits.ts'
import type { ClaimedRun } from '../ports/run-queue.ts'
import type { AttemptEnd } from '../ports/run-store.ts'

export function overdueEnd(
  { runId, leaseEpoch }: Pick<ClaimedRun, 'runId' | 'leaseEpoch'>,
  overdue: Overdue,
  nowMs: number,
): AttemptEnd {
  return {
    runId,
    leaseEpoch,
    outcome: 'expired',
    runState: 'failed',
    reason: overdue,
    retryDelayMs: null,
    countAs: 'nothing',
    startedAtMs: nowMs,
    endedAtMs: nowMs,
    errorCode: overdue,
    errorMessage: overdueWords[overdue],
    httpStatus: null,
    response: null,
    responseTruncated: false,
  }
}
