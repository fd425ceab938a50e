/**
 * Why a task of a workflow run is where it is, from what is stored of the run alone: the first of these that
 * holds.
 *
 *   waits:  the tasks before its part have not ended; those that it needs have not; no resolver looked yet
 *   ended:  it was set by hand; it failed without a run; its rule, then its condition, did not hold; a branch
 *           chose another; its list was empty; the workflow run was stopped; else as its run did
 *
 * Of a task that is at work nothing is said here: its run, or its wait, is looked at by the caller.
 */
import type { Condition, TaskState, WorkflowVerdict } from '@belfry/contract'
import type { ConditionFacts } from './condition.ts'
import { whyFalse } from './condition-words.ts'
import type { PlannedTask } from './plan.ts'
import { isEnded, type WorkflowProgress } from './progress.ts'
import { judgeRule, noParents } from './trigger-rules.ts'

export interface TaskFacts extends Pick<ConditionFacts, 'outputOf' | 'input'> {
  readonly progress: WorkflowProgress
  readonly whenOf: (task: PlannedTask) => Condition | undefined
  /** By number, as text: why it ended without a run, or who set it. */
  readonly notes: Readonly<Record<string, string>>
  readonly hasRuns: (task: PlannedTask) => boolean
}

export interface TaskExplained {
  readonly verdict: WorkflowVerdict
  readonly message: string
  readonly fix: string | null
  /** Tasks because of which it is so, the first cause first. */
  readonly because: readonly PlannedTask[]
}

const mostNamed = 5

/** Whether a note says that a person has set the task. */
export const setByHand = (note: string | undefined): boolean =>
  note !== undefined && /^(?:marked|skipped once) /.test(note)

export function explainTask(task: PlannedTask, facts: TaskFacts): TaskExplained {
  const state = stateOf(facts.progress, task)
  if (state === 'started')
    return { verdict: 'at_work', message: `"${task.id}" is at work.`, fix: null, because: [] }
  return state === 'waiting_for_dependencies' ? waits(task, facts) : ended(task, state, facts)
}

const stateOf = ({ states }: WorkflowProgress, { index }: PlannedTask): TaskState =>
  states[index] ?? 'waiting_for_dependencies'

const parentsOf = ({ plan }: WorkflowProgress, task: PlannedTask): readonly PlannedTask[] =>
  task.parents.flatMap((index) => plan.tasks[index] ?? [])

function waits(task: PlannedTask, { progress }: TaskFacts): TaskExplained {
  const open = (each: PlannedTask): boolean => !isEnded(stateOf(progress, each))
  if (progress.turn !== null && progress.turn !== task.role) {
    const before = progress.plan.tasks.filter((each) => each.role === progress.turn && open(each))
    const part = task.role === 'finally' ? 'It runs at the end' : 'It runs where something failed'
    const message = `${part}, when ${listed(before, progress)} ${before.length === 1 ? 'has' : 'have'} ended.`
    return { verdict: 'waits_for_part', message, fix: null, because: atWorkFirst(before, progress) }
  }
  const parents = parentsOf(progress, task).filter(open)
  if (parents.length > 0) {
    const rule = task.setups.length > 0 ? '' : `, and then is judged by its rule ${task.rule}`
    const message = `It waits for ${listed(parents, progress)}${rule}.`
    return { verdict: 'waits_for_tasks', message, fix: null, because: atWorkFirst(parents, progress) }
  }
  const fix = 'If this lasts, see that a process with the role resolver runs: /readyz?verbose tells.'
  return {
    verdict: 'undecided',
    message: 'All that it needs has ended; a resolver decides it now.',
    fix,
    because: [],
  }
}

function ended(task: PlannedTask, state: TaskState, facts: TaskFacts): TaskExplained {
  const { progress, notes } = facts
  const note = notes[String(task.index)]
  const nothing = { fix: null, because: [] }
  if (setByHand(note)) return { ...nothing, verdict: 'set_by_hand', message: `It was ${note}.` }
  if (note !== undefined && state === 'failed') {
    const fix = `Mend the input or the definition, then run it again (rerun with "from": "${task.id}").`
    return { verdict: 'no_run', message: `It failed without a run: ${note}.`, fix, because: [] }
  }
  if (state === 'not_run' || (state === 'canceled' && !facts.hasRuns(task))) return stopped(progress)
  if (state === 'skipped' || state === 'upstream_failed') return passedBy(task, state, facts)
  return { ...nothing, verdict: 'ended', message: `It has ended ${state}.` }
}

/** Why a task did not run. */
function passedBy(task: PlannedTask, state: TaskState, facts: TaskFacts): TaskExplained {
  const { progress } = facts
  const parents = parentsOf(progress, task)
  if (task.setups.length > 0) {
    const setups = parents.filter(({ index }) => task.setups.includes(index))
    const message = `It takes down what ${listed(setups, progress)} set up, and there was nothing.`
    return { verdict: 'rule_not_met', message, fix: null, because: wrongFirst(setups, progress) }
  }
  const counts = progress.counts[task.index] ?? noParents(0)
  if (judgeRule(task.rule, counts) !== 'run') {
    const because = wrongFirst(parents, progress)
    const message = `Its rule ${task.rule} did not hold: ${listed(because, progress)}.`
    const fix =
      state === 'upstream_failed'
        ? 'Mend what failed and rerun it, or mark it: this one then comes back to life.'
        : null
    return { verdict: 'rule_not_met', message, fix, because }
  }
  const when = facts.whenOf(task)
  const seen = {
    outputOf: facts.outputOf,
    input: facts.input,
    stateOf: (id: string): TaskState => progress.states[progress.plan.byId.get(id)?.index ?? -1] ?? 'not_run',
  }
  const why = when === undefined ? '' : whyFalse(when, seen)
  if (why !== '')
    return {
      verdict: 'condition_false',
      message: `Its condition did not hold: ${why}.`,
      fix: null,
      because: [],
    }
  if (task.role === 'on_failure')
    return {
      verdict: 'nothing_failed',
      message: 'Nothing failed, so it had nothing to do.',
      fix: null,
      because: [],
    }
  const choosers = parents.filter(({ kind }) => kind !== 'task')
  if (choosers.length > 0) {
    const message = `It was not chosen by ${listed(choosers, progress)}.`
    return { verdict: 'not_chosen', message, fix: null, because: choosers }
  }
  if (task.mapped)
    return {
      verdict: 'no_items',
      message: 'Its list was empty, so there was nothing to run.',
      fix: null,
      because: [],
    }
  return { verdict: 'ended', message: `It has ended ${state}.`, fix: null, because: [] }
}

/** Why tasks were not begun. */
function stopped(progress: WorkflowProgress): TaskExplained {
  const { plan, stop, states } = progress
  const rerun = 'Run it again with a rerun of what failed: that takes what was not run along.'
  if (stop === 'canceled')
    return {
      verdict: 'stopped',
      message: 'The workflow run was canceled before it.',
      fix: rerun,
      because: [],
    }
  if (stop === 'timed_out') {
    const fix = `Raise "timeoutMs" of the workflow, or make it faster. ${rerun}`
    return { verdict: 'stopped', message: 'The workflow run ran out of time before it.', fix, because: [] }
  }
  const failed = plan.tasks.filter((task) => states[task.index] === 'failed' && !task.allowFailure)
  const message = `The workflow run stops at the first failure ("failFast"): ${listed(failed, progress)}.`
  return { verdict: 'stopped', message, fix: rerun, because: failed }
}

/** "a" (failed), "b" (started) and 3 more. */
export function listed(tasks: readonly PlannedTask[], progress: WorkflowProgress): string {
  const shown = tasks.slice(0, mostNamed).map((task) => `"${task.id}" (${stateOf(progress, task)})`)
  const more = tasks.length - shown.length
  return more > 0 ? `${shown.join(', ')} and ${more} more` : shown.join(', ')
}

const order = (progress: WorkflowProgress, states: readonly TaskState[]) => (task: PlannedTask) => {
  const place = states.indexOf(stateOf(progress, task))
  return place < 0 ? states.length : place
}

function sortedBy(tasks: readonly PlannedTask[], rank: (task: PlannedTask) => number): PlannedTask[] {
  return [...tasks].sort((a, b) => rank(a) - rank(b) || a.index - b.index)
}

const atWorkFirst = (tasks: readonly PlannedTask[], progress: WorkflowProgress): PlannedTask[] =>
  sortedBy(tasks, order(progress, ['started']))

const wrongFirst = (tasks: readonly PlannedTask[], progress: WorkflowProgress): PlannedTask[] =>
  sortedBy(tasks, order(progress, ['failed', 'canceled', 'upstream_failed', 'skipped', 'not_run']))

/**
 * From a task to its first cause, each because of the next: ends at one that is at work, that failed by
 * itself, or that nobody else explains. Follows one cause of each, and none twice.
 */
export function causesOf(task: PlannedTask, facts: TaskFacts): PlannedTask[] {
  const path = [task]
  const seen = new Set(path)
  for (let at: PlannedTask | undefined = task; ; ) {
    const because: readonly PlannedTask[] = explainTask(at, facts).because
    at = because.find((each) => !seen.has(each) && stateOf(facts.progress, each) !== 'succeeded')
    if (at === undefined) return path
    path.push(at)
    seen.add(at)
  }
}
