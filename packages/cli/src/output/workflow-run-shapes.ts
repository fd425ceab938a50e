/**
 * How workflow runs look to people: columns of their list, one with the counts of its tasks, and the tasks
 * themselves with their newest run.
 */
import type { WorkflowRun, WorkflowRunSummary, WorkflowRunTask } from '@belfry/contract'
import type { Column, Shape } from './printer.ts'
import type { Clock } from './times.ts'
import { timeWithDistance } from './times.ts'
import { waitWords } from './workflow-decision-shapes.ts'

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
    ...originFields(run, clock),
    ['Tasks', countWords(run)],
    ...(run.parentId === null ? [] : [['Task of', run.parentId] as const]),
    ...(run.priority === null ? [] : [['Priority', String(run.priority)] as const]),
    ['Begun', timeWithDistance(run.createdAt, clock)],
    ['Ended', run.endedAt === null ? '-' : timeWithDistance(run.endedAt, clock)],
    ...(run.output === null ? [] : [['Output', JSON.stringify(run.output)] as const]),
    ...(run.note === null ? [] : [['Note', run.note] as const]),
  ],
}

/** What began it, and the times that it is for. */
function originFields(
  { source, scheduledFor, dataInterval, triggeredBy }: WorkflowRun,
  clock: Clock,
): (readonly [string, string])[] {
  const from = dataInterval?.start ?? null
  return [
    ['Begun by', triggeredBy === null ? source : `${source} ${triggeredBy}`],
    ...(scheduledFor === null ? [] : [['Planned for', timeWithDistance(scheduledFor, clock)] as const]),
    ...(dataInterval === null
      ? []
      : [['Data of', `${from ?? 'the beginning'} to ${dataInterval.end}`] as const]),
  ]
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
    { title: 'WHY', cell: (task) => task.note ?? (task.wait && waitWords(task.wait)) ?? '', flexible: true },
  ],
  fields: () => [],
}

/** "3/5": so many of its items have ended. */
function itemWords({ items }: WorkflowRunTask): string {
  if (items === null) return ''
  return `${items.filter((state) => state !== 'started').length}/${items.length}`
}
