/**
 * Putting parts of a workflow run back: reruns and marks by hand. What is put back waits again and is decided
 * anew from the full set of its parents; everything else keeps state, attempts and outputs. Pure; the preview
 * that people see and what is done come from the same function.
 */
import type { EndedTaskState } from '@belfry/contract'
import { reachable, type WorkflowPlan } from './plan.ts'
import { beginWorkflow, isEnded, type OutputFacts, restoreProgress } from './progress.ts'
import type { WorkflowCommand, WorkflowProgress } from './progress.ts'

export type RerunSelection =
  /** What failed, was canceled or was not run, and all that depends on it. */
  | { readonly what: 'failed' }
  /** These tasks and all that depends on them. */
  | { readonly what: 'from'; readonly tasks: readonly string[] }
  /** These tasks; of what depends on them only what has never run. */
  | { readonly what: 'only'; readonly tasks: readonly string[] }
  | { readonly what: 'all' }

const neverRan: ReadonlySet<string> = new Set(['upstream_failed', 'not_run'])
const wentWrong: ReadonlySet<string> = new Set(['failed', 'canceled', 'not_run'])

/** The tasks that a rerun puts back, by number. Setup and teardown around one of them come along. */
export function tasksToReset(progress: WorkflowProgress, selection: RerunSelection): ReadonlySet<number> {
  const { plan, states } = progress
  if (selection.what === 'all') return new Set(plan.tasks.keys())
  const chosen =
    selection.what === 'failed'
      ? plan.tasks.filter((task) => wentWrong.has(states[task.index] ?? '')).map((task) => task.index)
      : selection.tasks.flatMap((id) => plan.byId.get(id)?.index ?? [])
  const below = reachable(plan, chosen, 'children')
  const reset = new Set(
    selection.what === 'only'
      ? [...below].filter((index) => chosen.includes(index) || neverRan.has(states[index] ?? ''))
      : below,
  )
  for (const task of around(plan, reset)) reset.add(task)
  // what follows the main tasks follows them again
  if ([...reset].some((index) => plan.tasks[index]?.role === 'main')) {
    for (const task of plan.tasks) if (task.role !== 'main') reset.add(task.index)
  }
  return reset
}

/** Setups and teardowns whose span holds one of these tasks. */
function around(plan: WorkflowPlan, tasks: ReadonlySet<number>): number[] {
  return plan.tasks.flatMap((teardown) => {
    if (teardown.setup < 0) return []
    const span = reachable(plan, [teardown.setup], 'children')
    const above = reachable(plan, [teardown.index], 'parents')
    const inside = [...tasks].some((task) => span.has(task) && above.has(task))
    return inside ? [teardown.setup, teardown.index] : []
  })
}

/** Puts tasks back and decides them anew; answers what starts. The run goes on from there. */
export function rerunWorkflow(
  progress: WorkflowProgress,
  selection: RerunSelection,
  facts?: OutputFacts,
): {
  readonly progress: WorkflowProgress
  readonly commands: WorkflowCommand[]
  readonly reset: ReadonlySet<number>
} {
  const reset = tasksToReset(progress, selection)
  return { ...putBack(progress, reset, facts), reset }
}

/**
 * Sets an ended or waiting task to a state by hand. What could not run because of it comes back to life, with
 * what follows it.
 */
export function markTask(
  progress: WorkflowProgress,
  task: string,
  state: Extract<EndedTaskState, 'succeeded' | 'failed' | 'skipped'>,
  facts?: OutputFacts,
): { readonly progress: WorkflowProgress; readonly commands: WorkflowCommand[] } {
  const index = progress.plan.byId.get(task)?.index ?? -1
  const states = progress.states.with(index, state)
  const below = [...reachable(progress.plan, [index], 'children')]
  const revived = new Set(below.filter((each) => each !== index && neverRan.has(states[each] ?? '')))
  return putBack({ ...progress, states }, revived, facts)
}

function putBack(
  progress: WorkflowProgress,
  reset: ReadonlySet<number>,
  facts?: OutputFacts,
): { readonly progress: WorkflowProgress; readonly commands: WorkflowCommand[] } {
  const { plan } = progress
  const states = progress.states.map((state, index) =>
    reset.has(index) && isEnded(state) ? ('waiting_for_dependencies' as const) : state,
  )
  const items = new Map([...progress.items].filter(([task]) => !reset.has(task)))
  const again = restoreProgress(plan, { states, items, turn: 'main', stop: null })
  const commands = beginWorkflow(again, facts === undefined ? {} : { facts })
  return { progress: again, commands }
}
