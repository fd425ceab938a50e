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
import { type PlannedTask, reachable, type TaskRole, type WorkflowPlan } from './plan.ts'
import { countParent, judgeRule, noParents, type ParentCounts, type RuleVerdict } from './trigger-rules.ts'

/** Why no further task starts. */
export type StopCause = 'canceled' | 'timed_out' | 'failed_fast'

export interface WorkflowProgress {
  readonly plan: WorkflowPlan
  readonly states: TaskState[]
  /** Of mapped tasks that were started: one state an item. */
  readonly items: Map<number, TaskState[]>
  /** Follows from `states`. */
  readonly counts: ParentCounts[]
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
    if (state !== undefined && isEnded(state)) tellChildren(counts, task, state)
  })
  const open = plan.tasks.filter((task, index) => {
    return task.role === stored.turn && !isEnded(stored.states[index] ?? 'waiting_for_dependencies')
  }).length
  return { plan, ...stored, counts, open }
}

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
    const state =
      ended.item === undefined ? ended.state : endItem(progress, ended.task, ended.item, ended.state)
    if (state === undefined) continue
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
  if (mapped === undefined || progress.states[task] !== 'started' || progress.items.has(task)) return []
  if (count === 0) return applyEnds(progress, [{ task, state: 'skipped' }], facts)
  progress.items.set(
    task,
    Array.from({ length: count }, () => 'started' as const),
  )
  return []
}

/** Stops the run: what waits ends, what runs is asked to. A second stop changes nothing. */
export function stopWorkflow(
  progress: WorkflowProgress,
  cause: StopCause,
  facts: OutputFacts = noFacts,
): WorkflowCommand[] {
  if (progress.stop !== null || progress.turn === null) return []
  const work = workOn(progress, facts)
  stop(work, cause)
  return finish(work)
}

/** What one of its items means for a mapped task: undefined while others are at work. */
function endItem(
  progress: WorkflowProgress,
  task: number,
  item: number,
  state: EndedTaskState,
): EndedTaskState | undefined {
  const items = progress.items.get(task)
  if (items?.[item] !== 'started') return undefined
  items[item] = state
  if (items.includes('started')) return undefined
  for (const worst of ['failed', 'canceled'] as const) if (items.includes(worst)) return worst
  return items.includes('succeeded') ? 'succeeded' : 'skipped'
}

function tellChildren(counts: ParentCounts[], task: PlannedTask, state: EndedTaskState): void {
  for (const child of task.children) {
    const its = counts[child]
    if (its !== undefined) countParent(its, state, task.allowFailure)
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
  tellChildren(progress.counts, task, state)
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
  if (task.setup >= 0)
    return its.waiting > 0 ? 'wait' : teardownVerdict(plan.tasks[task.setup], states[task.setup])
  const verdict = judgeRule(task.rule, its)
  if (verdict !== 'run' || task.when === undefined) return verdict
  const stateOf = (id: string): TaskState =>
    states[plan.byId.get(id)?.index ?? -1] ?? 'waiting_for_dependencies'
  return judgeCondition(task.when, { ...facts, stateOf })
}

/** Children that were not chosen are skipped, whatever their rule, but for those below a chosen one. */
function choose(work: Work, task: PlannedTask, chosen: readonly string[]): void {
  const { plan, states } = work.progress
  if (task.kind === 'short_circuit' && chosen.length > 0) return
  const kept = reachable(plan, indexesOf(plan, chosen), 'children')
  const passedOver = task.kind === 'branch' ? task.children : reachable(plan, task.children, 'children')
  for (const index of passedOver) {
    const other = plan.tasks[index]
    const waits = states[index] === 'waiting_for_dependencies'
    if (other !== undefined && waits && !kept.has(index) && other.setup < 0) end(work, other, 'skipped')
  }
}

function stop(work: Work, cause: StopCause): void {
  const { progress } = work
  progress.stop = cause
  // what is decided already comes first: whose parent failed is upstream_failed, not merely not run
  drain(work)
  for (const task of progress.plan.tasks) {
    const state = progress.states[task.index]
    if (task.role === 'finally' || task.setup >= 0) continue
    if (state === 'waiting_for_dependencies' && task.role === 'main')
      end(work, task, cause === 'failed_fast' ? 'not_run' : 'canceled')
    else if (state === 'started' && endsWhatRuns(cause, progress.plan, task))
      work.commands.push({ kind: 'cancel', task })
  }
}

function failFast(work: Work, task: PlannedTask, state: EndedTaskState): void {
  const { plan, stop: stopped } = work.progress
  const counts = state === 'failed' && !task.allowFailure && task.role === 'main' && task.setup < 0
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

/** A teardown runs where its setup succeeded, however the work in between ended. */
function teardownVerdict(setup: PlannedTask | undefined, state: TaskState | undefined): RuleVerdict {
  if (state === 'succeeded') return 'run'
  const nothingToDo =
    state === 'skipped' || state === 'not_run' || (state === 'failed' && setup?.allowFailure)
  return nothingToDo === true ? 'skip' : 'upstream_failed'
}

function endsWhatRuns(cause: StopCause, plan: WorkflowPlan, task: PlannedTask): boolean {
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
