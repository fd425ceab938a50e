/**
 * How workflows look to people: columns of their list, one in full with its tasks, and its versions. What is
 * usual (the rule, no condition) is left out.
 */
import type { Workflow, WorkflowSummary, WorkflowTask, WorkflowVersion } from '@belfry/contract'
import type { Column, Shape } from './printer.ts'
import { targetWords } from './shapes.ts'
import { timeWithDistance } from './times.ts'

type Core = Pick<Workflow, 'name' | 'version' | 'updatedAt'>

const columns = <T extends Core>(tasks: (workflow: T) => number): readonly Column<T>[] => [
  { title: 'NAME', cell: (workflow) => workflow.name, flexible: true },
  { title: 'TASKS', cell: (workflow) => String(tasks(workflow)), align: 'right' },
  { title: 'VERSION', cell: (workflow) => String(workflow.version), align: 'right' },
  { title: 'CHANGED', cell: (workflow, clock) => timeWithDistance(workflow.updatedAt, clock) },
]

export const workflowSummaryShape: Shape<WorkflowSummary> = {
  name: (workflow) => workflow.name,
  columns: columns((workflow) => workflow.tasks),
  fields: () => [],
}

const parts = ['tasks', 'onFailure', 'finally'] as const
const usualRule = 'none_failed_min_one_success'

export const workflowShape: Shape<Workflow> = {
  name: (workflow) => workflow.name,
  columns: columns((workflow) => parts.reduce((sum, part) => sum + workflow[part].length, 0)),
  fields: (workflow, clock) => [
    ['Name', workflow.name],
    ['Id', workflow.id],
    ['Description', workflow.description],
    ['Version', String(workflow.version)],
    ['Fail fast', workflow.failFast],
    ...(workflow.timeoutMs === undefined ? [] : [['Timeout', `${workflow.timeoutMs} ms`] as const]),
    ['Changed', timeWithDistance(workflow.updatedAt, clock)],
    ...taskLines('Task', workflow.tasks),
    ...taskLines('On failure', workflow.onFailure),
    ...taskLines('Finally', workflow.finally),
  ],
}

const taskLines = (label: string, tasks: readonly WorkflowTask[]): (readonly [string, string])[] =>
  tasks.map((task) => [label, taskWords(task)] as const)

/** "load: job load, needs extract, all_done". */
function taskWords(task: WorkflowTask): string {
  const words = [
    bodyWords(task),
    ...(task.needs.length === 0 ? [] : [`needs ${task.needs.join(', ')}`]),
    ...(task.rule === usualRule ? [] : [task.rule]),
    ...(task.when === undefined ? [] : ['when']),
    ...(task.forEach === undefined && task.matrix === undefined ? [] : ['for each']),
    ...(task.allowFailure ? ['may fail'] : []),
    ...(task.teardownOf === undefined ? [] : [`teardown of ${[task.teardownOf].flat().join(', ')}`]),
  ]
  return `${task.id}: ${words.join(', ')}`
}

function bodyWords({ job, handler, workflow, approval, wait }: WorkflowTask): string {
  if (job !== undefined) return `job ${job}`
  if (handler !== undefined) return targetWords({ handler })
  if (workflow !== undefined) return `workflow ${workflow}`
  if (approval !== undefined) return 'approval'
  return wait === undefined ? '' : 'wait'
}

export const workflowVersionShape: Shape<WorkflowVersion> = {
  name: (version) => String(version.version),
  columns: [
    { title: 'VERSION', cell: (version) => `v${version.version}` },
    { title: 'TASKS', cell: (version) => String(version.tasks), align: 'right' },
    { title: 'MADE', cell: (version, clock) => timeWithDistance(version.createdAt, clock) },
  ],
  fields: () => [],
}
