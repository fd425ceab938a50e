/**
 * Putting parts of a workflow run back: reruns, marks and skips by hand. What is put back waits again and is
 * decided anew from the full set of its parents; everything else keeps state, runs and outputs. Pure; the
 * preview that people see and what is done come from the same function.
 *
 *   which tasks ─► their states wait again (`stored`: what is written) ─► decided as at a begin (`progress`,
 *   `commands`: what comes of it)
 *
 * A task that is at work is never put back: whoever acts is told to wait for it or to cancel it.
 */
import type { EndedTaskState, TaskState } from '@belfry/contract'
import { passedOver, type PlannedTask, reachable, type WorkflowPlan } from './plan.ts'
import { beginWorkflow, type OutputFacts, restoreProgress } from './progress.ts'
import type { StoredProgress, WorkflowCommand, WorkflowProgress } from './progress.ts'

export type RerunSelection =
  /**
   * What failed, was canceled or was not run, and all that depends on it. A failure that is allowed counts
   * as a success, here as everywhere.
   */
  | { readonly what: 'failed' }
  /** These tasks and all that depends on them. */
  | { readonly what: 'from'; readonly tasks: readonly string[] }
  /** These tasks; of what depends on them only what has never run. */
  | { readonly what: 'only'; readonly tasks: readonly string[] }
  | { readonly what: 'all' }

export interface PutBackOptions {
  readonly facts?: OutputFacts | undefined
  /** What a branch or a short circuit that is kept has chosen; undefined: that is not known. */
  readonly chosenBy?: ((task: PlannedTask) => readonly string[] | undefined) | undefined
  /** Of what is put back, these are skipped instead. */
  readonly skip?: readonly string[] | undefined
  /** Items of a mapped task that succeeded may be another list's by now: none of them is kept. */
  readonly dropItems?: boolean | undefined
  /** Of marks: the run is being brought to its end, so nothing comes back to life. */
  readonly isStopping?: boolean | undefined
}

export interface PutBack {
  /** What is to be written: nothing is decided yet. */
  readonly stored: StoredProgress
  /** The same, decided as far as it goes now. */
  readonly progress: WorkflowProgress
  readonly commands: WorkflowCommand[]
  /** The tasks that were put back or set. */
  readonly reset: ReadonlySet<number>
}

const neverRan: ReadonlySet<string> = new Set(['upstream_failed', 'not_run'])
const wentWrong: ReadonlySet<string> = new Set(['failed', 'canceled', 'not_run'])

const indexesOf = (plan: WorkflowPlan, ids: readonly string[]): number[] =>
  ids.flatMap((id) => plan.byId.get(id)?.index ?? [])

const needsAnother = (task: PlannedTask, state: string | undefined): boolean =>
  wentWrong.has(state ?? '') && !(state === 'failed' && task.allowFailure)

/** The tasks that a rerun puts back, by number. Setup and teardown around one of them come along. */
export function tasksToReset(progress: WorkflowProgress, selection: RerunSelection): ReadonlySet<number> {
  const { plan, states } = progress
  if (selection.what === 'all') return new Set(plan.tasks.keys())
  const chosen =
    selection.what === 'failed'
      ? plan.tasks.filter((task) => needsAnother(task, states[task.index])).map((task) => task.index)
      : indexesOf(plan, selection.tasks)
  const named = new Set(chosen)
  const below = reachable(plan, chosen, 'children')
  const reset = new Set(
    selection.what === 'only'
      ? [...below].filter((index) => named.has(index) || neverRan.has(states[index] ?? ''))
      : below,
  )
  for (const task of around(plan, reset)) reset.add(task)
  return withWhatFollows(progress, reset)
}

/** Setups and teardowns whose span holds one of these tasks. */
function around(plan: WorkflowPlan, tasks: ReadonlySet<number>): number[] {
  return plan.tasks.flatMap((teardown) => {
    if (teardown.setups.length === 0) return []
    const span = reachable(plan, teardown.setups, 'children')
    const above = reachable(plan, [teardown.index], 'parents')
    const inside = [...tasks].some((task) => span.has(task) && above.has(task))
    return inside ? [...teardown.setups, teardown.index] : []
  })
}

/** What follows the main tasks follows them again. */
function withWhatFollows({ plan }: WorkflowProgress, reset: ReadonlySet<number>): ReadonlySet<number> {
  if (![...reset].some((index) => plan.tasks[index]?.role === 'main')) return reset
  return new Set([...reset, ...plan.tasks.filter((task) => task.role !== 'main').map((task) => task.index)])
}

/** Puts tasks back and decides them anew; answers what starts. The run goes on from there. */
export function rerunWorkflow(
  progress: WorkflowProgress,
  selection: RerunSelection,
  options: PutBackOptions = {},
): PutBack {
  const named = 'tasks' in selection ? indexesOf(progress.plan, selection.tasks) : []
  const keepsItems = selection.what === 'failed' && options.dropItems !== true
  return putBack(progress, tasksToReset(progress, selection), { ...options, named, keepsItems })
}

/**
 * Sets tasks to a state by hand. What could not run because of them comes back to life, with what follows it.
 */
export function markTasks(
  progress: WorkflowProgress,
  tasks: readonly string[],
  state: Extract<EndedTaskState, 'succeeded' | 'failed' | 'skipped'>,
  options: PutBackOptions = {},
): PutBack {
  const { plan } = progress
  const marked = indexesOf(plan, tasks)
  const set = new Set(marked)
  const states = progress.states.map((each, index) => (set.has(index) ? state : each))
  const below = options.isStopping === true ? [] : [...reachable(plan, marked, 'children')]
  const revived = new Set(below.filter((each) => !set.has(each) && neverRan.has(states[each] ?? '')))
  const reset = [...withWhatFollows(progress, revived)].filter((index) => !set.has(index))
  const items = new Map(
    [...progress.items].map(([task, each]) => [task, set.has(task) ? each.map(endedItem) : each]),
  )
  const done = putBack({ ...progress, states, items }, new Set(reset), options)
  return { ...done, reset: new Set([...marked, ...done.reset]) }
}

/** Of a task that is set while it is at work, what runs is canceled. */
const endedItem = (state: TaskState): TaskState => (state === 'started' ? 'canceled' : state)

export const markTask = (
  progress: WorkflowProgress,
  task: string,
  state: Extract<EndedTaskState, 'succeeded' | 'failed' | 'skipped'>,
  options: PutBackOptions = {},
): PutBack => markTasks(progress, [task], state, options)

/** Tasks that are at work and would have to be put back: nothing can be done before they have ended. */
export const atWork = ({ plan, states }: WorkflowProgress, reset: Iterable<number>): string[] =>
  [...reset].filter((index) => states[index] === 'started').map((index) => plan.tasks[index]?.id ?? '')

interface Choice extends PutBackOptions {
  /** Tasks that were asked for by their ids. */
  readonly named?: readonly number[]
  /** Of mapped tasks only the items run again that did not succeed. */
  readonly keepsItems?: boolean
}

function putBack(progress: WorkflowProgress, reset: ReadonlySet<number>, options: Choice): PutBack {
  const { plan } = progress
  const skipped = new Set([...notChosen(progress, reset, options), ...indexesOf(plan, options.skip ?? [])])
  const states = progress.states.map((state, index): TaskState => {
    if (!reset.has(index) || state === 'started') return state
    return skipped.has(index) ? 'skipped' : 'waiting_for_dependencies'
  })
  const items = new Map(
    [...progress.items].flatMap(([task, states]): [number, TaskState[]][] => {
      if (!reset.has(task)) return [[task, states]]
      const isSameList = plan.tasks[task]?.parents.some((parent) => reset.has(parent)) === false
      return options.keepsItems === true && isSameList ? [[task, states.map(rerunItem)]] : []
    }),
  )
  const stop = reset.size === 0 ? progress.stop : null
  const stored: StoredProgress = { states, items, turn: 'main', stop }
  const again = restoreProgress(plan, { ...stored, states: [...states], items: new Map(items) })
  const commands = beginWorkflow(again, options.facts === undefined ? {} : { facts: options.facts })
  return { stored, progress: again, commands, reset }
}

const rerunItem = (state: TaskState): TaskState =>
  state === 'succeeded' || state === 'skipped' ? state : 'waiting_for_dependencies'

/** What a branch or a short circuit that is kept has passed over stays so, unless it is asked for by name. */
function notChosen(
  { plan, states }: WorkflowProgress,
  reset: ReadonlySet<number>,
  { chosenBy, named = [] }: Choice,
): number[] {
  const wanted = new Set(named)
  return plan.tasks.flatMap((task) => {
    if (task.kind === 'task' || reset.has(task.index) || states[task.index] !== 'succeeded') return []
    const chosen = chosenBy?.(task)
    return chosen === undefined ? [] : passedOver(plan, task, chosen).filter((index) => !wanted.has(index))
  })
}
