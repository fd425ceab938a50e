/**
 * Where a workflow run stands, and what follows when something happens to it. The one place that decides
 * which task starts, is skipped or cannot run; the engine and the simulation both drive it.
 *
 *   1. A task is `waiting` until its rule is decided from the states of all its direct parents; then it is
 *      started, or it ends as skipped or upstream_failed, which may decide its children in turn.
 *   2. Main tasks come first. Once all have ended, `on_failure` tasks run if one failed; then `finally` tasks
 *      run, however the rest ended.
 *   3. A stop (cancel, timeout, fail-fast) ends what waits at once and asks what runs to end. Clean-up goes
 *      on: teardowns whose setup succeeded, `finally`, and what already runs under `always` or `all_done`.
 *
 * Every change is monotone: a task that ended stays as it is until a rerun puts it back, so an event that
 * comes twice, or late, changes nothing. Nothing here recurses; a change costs as much as the edges it goes
 * over.
 */
import type { EndedTaskState, TaskState } from '@belfry/contract'
import { type ConditionFacts, judgeCondition } from './condition.ts'
import { type PlannedTask, passedOver, reachable, type TaskRole, type WorkflowPlan } from './plan.ts'
import {
  countEnded,
  judgeRule,
  noParents,
  type ParentCounts,
  type RuleVerdict,
  tallyOf,
} from './trigger-rules.ts'

/** Why no further task starts. */
export type StopCause = 'canceled' | 'timed_out' | 'failed_fast'

export interface WorkflowProgress {
  readonly plan: WorkflowPlan
  readonly states: TaskState[]
  /** Of mapped tasks that were started: one state an item. */
  readonly items: Map<number, TaskState[]>
  /** Follows from `states`. */
  readonly counts: ParentCounts[]
  /** Of a mapped task: how many of its items have not ended. Follows from `items`. */
  readonly openItems: Map<number, number>
  /** The role whose turn it is; null: the run is over. */
  turn: TaskRole | null
  stop: StopCause | null
  /** Tasks of the turn that have not ended. */
  open: number
}

/** What the caller has to do: start a task, or ask one that runs to end. */
export type WorkflowCommand =
  | { readonly kind: 'start'; readonly task: PlannedTask }
  | { readonly kind: 'cancel'; readonly task: PlannedTask }

export type OutputFacts = Pick<ConditionFacts, 'outputOf' | 'input'>

const turns: readonly TaskRole[] = ['main', 'on_failure', 'finally']
const noFacts: OutputFacts = { outputOf: () => undefined, input: undefined }

/** Ended? */
export function isEnded(state: TaskState): state is EndedTaskState {
  return state !== 'waiting_for_dependencies' && state !== 'started'
}

/** A run that has not begun; `beginWorkflow` begins it. */
export function createProgress(plan: WorkflowPlan): WorkflowProgress {
  return restoreProgress(plan, {
    states: plan.tasks.map(() => 'waiting_for_dependencies'),
    items: new Map(),
    turn: 'main',
    stop: null,
  })
}

export type StoredProgress = Pick<WorkflowProgress, 'states' | 'items' | 'turn' | 'stop'>

/** From what is stored: all else follows from it. */
export function restoreProgress(plan: WorkflowPlan, stored: StoredProgress): WorkflowProgress {
  const counts = plan.tasks.map((task) => noParents(task.parents.length))
  plan.tasks.forEach((task, index) => {
    const state = stored.states[index]
    if (state !== undefined && isEnded(state)) tellChildren(counts, task, state, stored.items.get(index))
  })
  const open = plan.tasks.filter((task, index) => {
    return task.role === stored.turn && !isEnded(stored.states[index] ?? 'waiting_for_dependencies')
  }).length
  const openItems = new Map([...stored.items].map(([task, states]) => [task, countStarted(states)]))
  return { plan, ...stored, counts, openItems, open }
}

const countStarted = (states: readonly TaskState[]): number =>
  states.reduce((count, state) => (state === 'started' ? count + 1 : count), 0)

/** Begins a run; with `targets`, only these tasks and what they depend on run. */
export function beginWorkflow(
  progress: WorkflowProgress,
  options: { readonly targets?: readonly string[]; readonly facts?: OutputFacts } = {},
): WorkflowCommand[] {
  const { plan } = progress
  const work = workOn(progress, options.facts ?? noFacts)
  if (options.targets !== undefined) {
    const wanted = reachable(plan, indexesOf(plan, options.targets), 'parents')
    for (const task of plan.tasks) {
      if (task.role === 'main' && !wanted.has(task.index)) end(work, task, 'not_run')
    }
  }
  decideTurn(work)
  return finish(work)
}

export interface TaskEnd {
  readonly task: number
  /** Of a mapped task; left out: the task itself. */
  readonly item?: number | undefined
  readonly state: EndedTaskState
  /** Of a branch that succeeded: the children that it chose. Of a short circuit: empty stops what follows. */
  readonly chosen?: readonly string[] | undefined
}

/** Takes in how tasks ended. An end of a task that is not started changes nothing. */
export function applyEnds(
  progress: WorkflowProgress,
  ends: readonly TaskEnd[],
  facts: OutputFacts = noFacts,
): WorkflowCommand[] {
  const work = workOn(progress, facts)
  for (const ended of ends) {
    const task = progress.plan.tasks[ended.task]
    if (task === undefined || progress.states[ended.task] !== 'started') continue
    if (ended.item !== undefined) {
      applyItem(work, task, ended.item, ended.state)
      continue
    }
    const state = endOfTask(progress.plan, task, ended)
    end(work, task, state)
    if (state === 'succeeded' && ended.chosen !== undefined) choose(work, task, ended.chosen)
    failFast(work, task, state)
  }
  return finish(work)
}

/** A mapped task that starts has so many items; none at all: it is skipped. */
export function expandTask(
  progress: WorkflowProgress,
  task: number,
  count: number,
  facts: OutputFacts = noFacts,
): WorkflowCommand[] {
  const mapped = progress.plan.tasks[task]
  const before = progress.items.get(task)
  const isRerun = before?.includes('waiting_for_dependencies') === true
  if (mapped === undefined || progress.states[task] !== 'started' || (before !== undefined && !isRerun))
    return []
  if (count === 0) {
    progress.items.delete(task)
    return applyEnds(progress, [{ task, state: 'skipped' }], facts)
  }
  // of a rerun, what is kept stays so, as long as it is the same list
  const kept = before?.length === count ? before : []
  const items = Array.from({ length: count }, (_, item): TaskState => {
    const state = kept[item] ?? 'started'
    return state === 'waiting_for_dependencies' ? 'started' : state
  })
  progress.items.set(task, items)
  progress.openItems.set(task, countStarted(items))
  return []
}

/** Of two stops the later one counts where it is the stronger one. */
const strength: Readonly<Record<StopCause, number>> = { failed_fast: 1, timed_out: 2, canceled: 3 }

/** Stops the run: what waits ends, what runs is asked to. The same stop again changes nothing. */
export function stopWorkflow(
  progress: WorkflowProgress,
  cause: StopCause,
  facts: OutputFacts = noFacts,
): WorkflowCommand[] {
  const before = progress.stop === null ? 0 : strength[progress.stop]
  if (before >= strength[cause] || progress.turn === null) return []
  const work = workOn(progress, facts)
  stop(work, cause)
  return finish(work)
}

/** A branch that chooses what is no task of the workflow has failed: nobody can know what was meant. */
function endOfTask({ byId }: WorkflowPlan, task: PlannedTask, { state, chosen }: TaskEnd): EndedTaskState {
  const isStray = task.kind === 'branch' && state === 'succeeded' && chosen?.some((id) => !byId.has(id))
  return isStray === true ? 'failed' : state
}

/** A mapped task ends with the last of its items; the first that fails may stop the run before. */
function applyItem(work: Work, task: PlannedTask, item: number, state: EndedTaskState): void {
  const { items, openItems } = work.progress
  const its = items.get(task.index)
  if (its?.[item] !== 'started') return
  its[item] = state
  const open = (openItems.get(task.index) ?? 0) - 1
  openItems.set(task.index, open)
  if (open === 0) end(work, task, stateOfItems(its))
  failFast(work, task, state)
}

function stateOfItems(items: readonly TaskState[]): EndedTaskState {
  for (const worst of ['failed', 'canceled'] as const) if (items.includes(worst)) return worst
  return items.includes('succeeded') ? 'succeeded' : 'skipped'
}

/** Item by item, unless the task was set to another state by hand. */
function tellChildren(
  counts: ParentCounts[],
  task: PlannedTask,
  state: EndedTaskState,
  items: readonly TaskState[] = [],
): void {
  const byItem = items.length > 0 && items.every(isEnded) && stateOfItems(items) === state
  const tally = tallyOf(byItem ? items : [state], task.allowFailure)
  for (const child of task.children) {
    const its = counts[child]
    if (its !== undefined) countEnded(its, tally)
  }
}

function indexesOf(plan: WorkflowPlan, ids: readonly string[]): number[] {
  return ids.flatMap((id) => plan.byId.get(id)?.index ?? [])
}

/** One change of a run: what it asks for, and which tasks it has yet to look at. */
interface Work {
  readonly progress: WorkflowProgress
  readonly facts: OutputFacts
  readonly commands: WorkflowCommand[]
  readonly undecided: PlannedTask[]
}

const workOn = (progress: WorkflowProgress, facts: OutputFacts): Work => ({
  progress,
  facts,
  commands: [],
  undecided: [],
})

function end({ progress, undecided }: Work, task: PlannedTask, state: EndedTaskState): void {
  if (isEnded(progress.states[task.index] ?? 'not_run')) return
  progress.states[task.index] = state
  if (task.role === progress.turn) progress.open -= 1
  tellChildren(progress.counts, task, state, progress.items.get(task.index))
  for (const child of task.children) {
    const next = progress.plan.tasks[child]
    if (next !== undefined) undecided.push(next)
  }
}

function decide(work: Work, task: PlannedTask): void {
  const { states, turn } = work.progress
  if (states[task.index] !== 'waiting_for_dependencies' || task.role !== turn) return
  const verdict = verdictOf(work, task)
  if (verdict === 'run') {
    states[task.index] = 'started'
    work.commands.push({ kind: 'start', task })
  } else if (verdict !== 'wait') end(work, task, verdict === 'skip' ? 'skipped' : 'upstream_failed')
}

function verdictOf({ progress, facts }: Work, task: PlannedTask): RuleVerdict {
  const { plan, states, counts } = progress
  const its = counts[task.index] ?? noParents(0)
  if (task.setups.length > 0) return its.waiting > 0 ? 'wait' : teardownVerdict(plan, states, task.setups)
  const verdict = judgeRule(task.rule, its)
  if (verdict !== 'run' || task.when === undefined) return verdict
  const stateOf = (id: string): TaskState =>
    states[plan.byId.get(id)?.index ?? -1] ?? 'waiting_for_dependencies'
  return judgeCondition(task.when, { ...facts, stateOf })
}

/** Children that were not chosen are skipped, whatever their rule, but for those below a chosen one. */
function choose(work: Work, task: PlannedTask, chosen: readonly string[]): void {
  const { plan, states } = work.progress
  for (const index of passedOver(plan, task, chosen)) {
    const other = plan.tasks[index]
    if (other !== undefined && states[index] === 'waiting_for_dependencies') end(work, other, 'skipped')
  }
}

function stop(work: Work, cause: StopCause): void {
  const { progress } = work
  progress.stop = cause
  // what is decided already comes first: whose parent failed is upstream_failed, not merely not run
  drain(work)
  if (cause === 'failed_fast') endBelowFailures(work)
  for (const task of progress.plan.tasks) {
    const state = progress.states[task.index]
    if (task.role === 'finally' || task.setups.length > 0) continue
    if (state === 'waiting_for_dependencies' && task.role === 'main')
      end(work, task, cause === 'failed_fast' ? 'not_run' : 'canceled')
    else if (state === 'started' && endsWhatRuns(cause, progress.plan, task))
      work.commands.push({ kind: 'cancel', task })
  }
}

/** Tasks that wait for others besides one that failed are upstream_failed too, however the others end. */
function endBelowFailures(work: Work): void {
  const { plan, states, counts } = work.progress
  const left = [...plan.tasks]
  // the list grows by what stands below those that end
  for (const task of left) {
    const its = counts[task.index] ?? noParents(0)
    const waits = states[task.index] === 'waiting_for_dependencies' && task.role === 'main'
    if (!waits || task.setups.length > 0) continue
    const rest = { ...its, waiting: 0, skipped: its.skipped + its.waiting }
    if (judgeRule(task.rule, rest) !== 'upstream_failed') continue
    end(work, task, 'upstream_failed')
    for (const child of task.children) left.push(...plan.tasks.slice(child, child + 1))
  }
}

function failFast(work: Work, task: PlannedTask, state: EndedTaskState): void {
  const { plan, stop: stopped } = work.progress
  const counts = state === 'failed' && !task.allowFailure && task.role === 'main' && task.setups.length === 0
  if (counts && plan.failFast !== 'off' && stopped === null) stop(work, 'failed_fast')
}

function drain(work: Work): void {
  for (let task = work.undecided.pop(); task !== undefined; task = work.undecided.pop()) decide(work, task)
}

function decideTurn(work: Work): void {
  const { progress } = work
  const its = progress.plan.tasks.filter((task) => task.role === progress.turn)
  progress.open = its.filter((task) => !isEnded(progress.states[task.index] ?? 'not_run')).length
  for (const task of its) decide(work, task)
}

/** Goes on to the next turn as long as nothing is open in this one. */
function finish(work: Work): WorkflowCommand[] {
  const { progress } = work
  drain(work)
  while (progress.turn !== null && progress.open === 0) {
    progress.turn = turns[turns.indexOf(progress.turn) + 1] ?? null
    if (progress.turn === 'on_failure' && !callsForHelp(progress)) {
      for (const task of progress.plan.tasks) if (task.role === 'on_failure') end(work, task, 'skipped')
      work.undecided.length = 0
    }
    decideTurn(work)
    drain(work)
  }
  // a start that a later decision of the same change has overtaken is none
  return work.commands.filter(({ kind, task }) => {
    return kind === 'cancel' || progress.states[task.index] === 'started'
  })
}

/** A teardown runs where one of its setups succeeded, however the work in between ended. */
function teardownVerdict(
  plan: WorkflowPlan,
  states: readonly TaskState[],
  setups: readonly number[],
): RuleVerdict {
  if (setups.some((setup) => states[setup] === 'succeeded')) return 'run'
  const nothingToDo = setups.every((setup) => {
    const state = states[setup]
    return (
      state === 'skipped' ||
      state === 'not_run' ||
      (state === 'failed' && plan.tasks[setup]?.allowFailure === true)
    )
  })
  return nothingToDo ? 'skip' : 'upstream_failed'
}

export function endsWhatRuns(cause: StopCause, plan: WorkflowPlan, task: PlannedTask): boolean {
  if (cause === 'failed_fast' && plan.failFast !== 'cancel_running') return false
  return cause === 'timed_out' || (task.rule !== 'always' && task.rule !== 'all_done')
}

/** Whether `on_failure` tasks have a reason to run: a failure or a timeout, but no cancel. */
function callsForHelp(progress: WorkflowProgress): boolean {
  if (progress.stop === 'canceled') return false
  return progress.stop === 'timed_out' || failedTasks(progress).length > 0
}

function failedTasks({ plan, states }: WorkflowProgress): readonly PlannedTask[] {
  return plan.tasks.filter((task) => states[task.index] === 'failed' && !task.allowFailure)
}

/**
 * The state of the run: undefined while it goes on. Any failure that is not allowed fails it, in clean-up
 * too; a success of clean-up hides nothing.
 */
export function workflowRunState(
  progress: WorkflowProgress,
): 'succeeded' | 'failed' | 'canceled' | undefined {
  if (progress.turn !== null) return undefined
  if (progress.stop === 'canceled') return 'canceled'
  if (progress.stop === 'timed_out' || failedTasks(progress).length > 0) return 'failed'
  if (progress.states.includes('canceled')) return 'canceled'
  return progress.states.includes('upstream_failed') ? 'failed' : 'succeeded'
}
