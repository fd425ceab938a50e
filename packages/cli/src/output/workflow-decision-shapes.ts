/**
 * How tasks that wait for people look to them, and what became of what they said: lists, rows, and the words
 * in the list of tasks of a workflow run.
 */
import type { OpenApproval, TaskWait, WorkflowDecision } from '@belfry/contract'
import type { Shape } from './printer.ts'
import { timeWithDistance } from './times.ts'

const withItem = (task: string, item: number | null): string => (item === null ? task : `${task}[${item}]`)

export const openApprovalShape: Shape<OpenApproval> = {
  name: (approval) => approval.workflowRunId,
  columns: [
    { title: 'WORKFLOW RUN', cell: (approval) => approval.workflowRunId },
    { title: 'WORKFLOW', cell: (approval) => approval.workflow, flexible: true },
    { title: 'TASK', cell: ({ task, item }) => withItem(task, item), flexible: true },
    { title: 'MESSAGE', cell: (approval) => approval.message, flexible: true },
    { title: 'SINCE', cell: ({ since }, clock) => timeWithDistance(since, clock) },
    { title: 'UNTIL', cell: ({ dueAt }, clock) => (dueAt === null ? '-' : timeWithDistance(dueAt, clock)) },
  ],
  fields: () => [],
}

export const decisionShape: Shape<WorkflowDecision> = {
  name: (decision) => decision.workflowRunId,
  columns: [
    { title: 'WORKFLOW RUN', cell: (decision) => decision.workflowRunId },
    { title: 'TASK', cell: ({ task, item }) => withItem(task, item) },
    { title: 'STATE', cell: (decision) => decision.state },
  ],
  fields: () => [],
}

/** What a task waits for, or how its wait ended where that says something. */
export function waitWords({
  kind,
  message,
  signal,
  workflowRunId,
  state,
  by,
  reason,
  open,
}: TaskWait): string {
  const many = open > 1 ? ` (${open} items)` : ''
  if (state === 'waiting') {
    if (kind === 'approval') return `waits for an approval: ${message ?? ''}${many}`
    if (kind === 'signal') return `waits for the signal ${signal ?? ''}${many}`
    return kind === 'workflow' ? `workflow run ${workflowRunId ?? ''}${many}` : `waits for its time${many}`
  }
  if (kind === 'workflow') return `workflow run ${workflowRunId ?? ''}`
  const decided =
    kind === 'approval' && by !== null
      ? `${state === 'succeeded' ? 'approved' : 'rejected'} by ${by.name}`
      : ''
  return [decided, reason ?? ''].filter((part) => part !== '').join(': ')
}
