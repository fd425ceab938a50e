/**
 * How workflow runs look to people: columns of their list, one with the counts of its tasks, and the tasks
 * themselves with their newest run.
 */
import type { WorkflowRun, WorkflowRunSummary, WorkflowRunTask } from '@belfry/contract'
import type { Column, Shape } from './printer.ts'
import { timeWithDistance } from './times.ts'

const columns: readonly Column<WorkflowRunSummary>[] = [
  { title: 'ID', cell: (run) => run.id },
  { title: 'WORKFLOW', cell: (run) => run.workflow, flexible: true },
  { title: 'VERSION', cell: (run) => String(run.version), align: 'right' },
  { title: 'STATE', cell: (run) => run.state },
  { title: 'BEGUN', cell: (run, clock) => timeWithDistance(run.createdAt, clock) },
]

export const workflowRunSummaryShape: Shape<WorkflowRunSummary> = {
  name: (run) => run.id,
  columns,
  fields: () => [],
}

export const workflowRunShape: Shape<WorkflowRun> = {
  name: (run) => run.id,
  columns,
  fields: (run, clock) => [
    ['Id', run.id],
    ['Workflow', run.workflow],
    ['Version', String(run.version)],
    ['State', run.state],
    ['Tasks', countWords(run)],
    ['Begun', timeWithDistance(run.createdAt, clock)],
    ['Ended', run.endedAt === null ? '-' : timeWithDistance(run.endedAt, clock)],
  ],
}

const countWords = ({ taskCounts }: WorkflowRun): string =>
  Object.entries(taskCounts)
    .map(([state, count]) => `${count} ${state}`)
    .join(', ')

export const workflowRunTaskShape: Shape<WorkflowRunTask> = {
  name: (task) => task.id,
  columns: [
    { title: 'TASK', cell: (task) => task.id, flexible: true },
    { title: 'STATE', cell: (task) => task.state },
    { title: 'ITEMS', cell: itemWords, align: 'right' },
    { title: 'RUNS', cell: (task) => String(task.runs), align: 'right' },
    { title: 'NEWEST RUN', cell: (task) => task.runId ?? '-' },
    { title: 'WHY', cell: (task) => task.note ?? '', flexible: true },
  ],
  fields: () => [],
}

/** "3/5": so many of its items have ended. */
function itemWords({ items }: WorkflowRunTask): string {
  if (items === null) return ''
  return `${items.filter((state) => state !== 'started').length}/${items.length}`
}
