/**
 * How acts by hand on workflow runs look to people: what becomes of each task, in words; and who did what
 * before.
 */
import type { ActEffect, WorkflowRunAct, WorkflowRunActed } from '@belfry/contract'
import type { Shape } from './printer.ts'
import { timeWithDistance } from './times.ts'

const effectWords: Readonly<Record<ActEffect, string>> = {
  starts: 'starts now',
  waits: 'waits for what it needs',
  ends: 'does not run',
  marked: 'is set',
  kept: 'is kept',
}

export const actedTaskShape: Shape<WorkflowRunActed['tasks'][number]> = {
  name: (task) => task.id,
  columns: [
    { title: 'TASK', cell: (task) => task.id, flexible: true },
    { title: 'BEFORE', cell: (task) => task.before ?? 'new' },
    { title: 'AFTER', cell: (task) => task.after },
    { title: 'WHAT', cell: (task) => effectWords[task.effect], flexible: true },
  ],
  fields: () => [],
}

export const workflowActShape: Shape<WorkflowRunAct> = {
  name: (act) => act.at,
  columns: [
    { title: 'WHEN', cell: (act, clock) => timeWithDistance(act.at, clock) },
    { title: 'BY', cell: (act) => act.by.name, flexible: true },
    { title: 'WHAT', cell: whatWords, flexible: true },
    { title: 'WHY', cell: (act) => act.reason ?? '', flexible: true },
  ],
  fields: () => [],
}

function whatWords({ act, what, tasks, tasksTotal, inputChanged, version }: WorkflowRunAct): string {
  const more = tasksTotal - tasks.length
  const named = `${tasks.join(', ')}${more > 0 ? ` and ${more} more` : ''}`
  if (act === 'skip') return `skip ${named}`
  if (act === 'mark') return `mark ${named} ${what}`
  const input = inputChanged ? ', with another input' : ''
  return `rerun ${what} (${named}), on version ${version}${input}`
}
