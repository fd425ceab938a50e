/**
 * A workflow run without an engine: the same decisions (progress.ts), with the outcome of every attempt given
 * beforehand. For `belfry workflow simulate`, and for tests of rules in all orders of finishing. Pure and
 * deterministic: what starts first ends first, unless an order is asked for.
 */
import type { EndedTaskState, TaskState } from '@belfry/contract'
import type { PlannedTask, WorkflowPlan } from './plan.ts'
import {
  applyEnds,
  beginWorkflow,
  createProgress,
  expandTask,
  isEnded,
  stopWorkflow,
  type TaskEnd,
  workflowRunState,
} from './progress.ts'
import type { StopCause, WorkflowCommand, WorkflowProgress } from './progress.ts'

/** How one attempt ends; `fail_final` is not tried again. */
export type AttemptScript = 'ok' | 'fail' | 'fail_final' | 'timeout' | 'skip' | 'cancel'

export interface WorkflowScript {
  /** Attempt by attempt; the last repeats; a task that is not listed succeeds. */
  readonly outcomes?: Readonly<Record<string, readonly AttemptScript[]>>
  /** The same for single items of a mapped task. */
  readonly itemOutcomes?: Readonly<Record<string, Readonly<Record<number, readonly AttemptScript[]>>>>
  /** Attempts after the first, at most. */
  readonly retries?: Readonly<Record<string, number>>
  /** How many items a mapped task has. */
  readonly itemCounts?: Readonly<Record<string, number>>
  readonly chooses?: Readonly<Record<string, readonly string[]>>
  /** Of these, one does not end before those before it, as far as they run. */
  readonly finishOrder?: readonly string[]
  /** These end only when nothing else can. */
  readonly slow?: readonly string[]
  /** When nothing but the slow ones is left, the run is stopped. */
  readonly stop?: StopCause | undefined
}

export interface Simulated {
  readonly progress: WorkflowProgress
  readonly run: 'succeeded' | 'failed' | 'canceled' | 'running'
  /** Starts of each task in this simulation; of a mapped one, those of its items. */
  readonly attempts: ReadonlyMap<string, number>
}

/** Plays a run from its beginning to its end. */
export function simulate(plan: WorkflowPlan, script: WorkflowScript, targets?: readonly string[]): Simulated {
  const progress = createProgress(plan)
  return play(progress, beginWorkflow(progress, targets === undefined ? {} : { targets }), script)
}

/** Plays on from where a run stands, with what was just started. */
export function play(
  progress: WorkflowProgress,
  started: readonly WorkflowCommand[],
  script: WorkflowScript,
): Simulated {
  const attempts = new Map<string, number>()
  const running: PlannedTask[] = []
  const asked = new Set<number>()
  let stopped = false

  function take(commands: readonly WorkflowCommand[]): void {
    for (const { kind, task } of commands) {
      if (kind === 'cancel') asked.add(task.index)
      else if (task.mapped) {
        take(expandTask(progress, task.index, script.itemCounts?.[task.id] ?? 0))
        if (progress.states[task.index] === 'started') running.push(task)
        else attempts.set(task.id, attempts.get(task.id) ?? 0)
      } else running.push(task)
    }
  }

  take(started)
  while (running.length > 0) {
    const next = pickNext(running, progress, script, stopped)
    if (next === undefined) {
      stopped = true
      if (script.stop !== undefined) take(stopWorkflow(progress, script.stop))
      continue
    }
    running.splice(running.indexOf(next), 1)
    take(applyEnds(progress, endsOf(next, progress, script, asked.has(next.index), attempts)))
  }
  return { progress, run: workflowRunState(progress) ?? 'running', attempts }
}

/** The next to end; undefined: only slow ones are left, and the stop has not come yet. */
function pickNext(
  running: readonly PlannedTask[],
  progress: WorkflowProgress,
  script: WorkflowScript,
  stopped: boolean,
): PlannedTask | undefined {
  const slow = new Set(script.slow)
  const order = script.finishOrder ?? []
  const mayEnd = (task: PlannedTask): boolean => {
    const place = order.indexOf(task.id)
    const before = place < 0 ? [] : order.slice(0, place)
    return before.every((id) => progress.states[progress.plan.byId.get(id)?.index ?? -1] !== 'started')
  }
  const quick = running.filter((task) => !slow.has(task.id))
  const found = quick.find(mayEnd) ?? quick[0]
  return found ?? (stopped ? running[0] : undefined)
}

/** How a task that runs ends, over all its attempts. */
function endsOf(
  task: PlannedTask,
  progress: WorkflowProgress,
  script: WorkflowScript,
  canceled: boolean,
  attempts: Map<string, number>,
): TaskEnd[] {
  const retries = script.retries?.[task.id] ?? 0
  const count = (made: number): void => {
    attempts.set(task.id, (attempts.get(task.id) ?? 0) + made)
  }
  const own = script.outcomes?.[task.id] ?? ['ok']
  const items = progress.items.get(task.index)
  if (items !== undefined) {
    return items.map((_, item) => {
      const played = playAttempts(script.itemOutcomes?.[task.id]?.[item] ?? own, retries)
      count(played.made)
      return { task: task.index, item, state: canceled ? 'canceled' : played.state }
    })
  }
  const { state, made } = playAttempts(own, retries)
  count(canceled ? 1 : made)
  const chosen = script.chooses?.[task.id]
  return [{ task: task.index, state: canceled ? 'canceled' : state, chosen }]
}

const endOf: Readonly<Record<AttemptScript, EndedTaskState>> = {
  ok: 'succeeded',
  fail: 'failed',
  fail_final: 'failed',
  timeout: 'failed',
  skip: 'skipped',
  cancel: 'canceled',
}

function playAttempts(
  outcomes: readonly AttemptScript[],
  retries: number,
): { readonly state: EndedTaskState; readonly made: number } {
  for (let made = 1; ; made++) {
    const outcome = outcomes[Math.min(made, outcomes.length) - 1] ?? 'ok'
    const again = outcome === 'fail' || outcome === 'timeout'
    if (!again || made > retries) return { state: endOf[outcome], made }
  }
}

/** State of each task, of each item where it is mapped. */
export function statesByTask(progress: WorkflowProgress): Record<string, TaskState | readonly TaskState[]> {
  return Object.fromEntries(
    progress.plan.tasks.map((task) => {
      const state = progress.states[task.index] ?? 'waiting_for_dependencies'
      return [task.id, (isEnded(state) && progress.items.get(task.index)) || state]
    }),
  )
}
