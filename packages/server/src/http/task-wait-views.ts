/**
 * Waits of tasks as the contract describes them: what one waits for or how it ended, and approvals that are
 * open.
 */
import type { OpenApproval, TaskWait } from '@belfry/contract'
import type { OpenApprovalRecord, TaskWaitRecord } from '../ports/task-waits.ts'

const iso = (instantMs: number): string => new Date(instantMs).toISOString()
const isoOrNull = (instantMs: number | null): string | null => (instantMs === null ? null : iso(instantMs))

export function taskWaitView(wait: TaskWaitRecord): TaskWait {
  const { kind, item, message, signal, childId, by, reason, open } = wait
  return {
    kind,
    item,
    message,
    signal,
    workflowRunId: childId,
    since: iso(wait.createdAtMs),
    dueAt: isoOrNull(wait.dueAtMs),
    state: wait.state ?? 'waiting',
    endedAt: isoOrNull(wait.endedAtMs),
    by,
    reason,
    open,
  }
}

export function openApprovalView(approval: OpenApprovalRecord): OpenApproval {
  const { workflowRunId, workflowName: workflow, taskId: task, item, message } = approval
  const since = iso(approval.createdAtMs)
  return { workflowRunId, workflow, task, item, message, since, dueAt: isoOrNull(approval.dueAtMs) }
}
