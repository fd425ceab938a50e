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
import { endOfWait, type WaitEnds } from './task-wait.ts'
import type { StopCause, WorkflowCommand, WorkflowProgress } from './progress.ts'

/**
 * How one attempt ends; `fail_final` is not tried again. Of a task that waits: `ok` is what it waits for,
 * `timeout` that nothing came in time.
 */
export type AttemptScript = 'ok' | 'fail' | 'fail_final' | 'timeout' | 'skip' | 'cancel' | 'reject'

export interface WorkflowScript {
  /** Attempt by attempt; the last repeats; a task that is not listed succeeds. */
  readonly outcomes?: Readonly<Record<string, readonly AttemptScript[]>>
  /** The same for single items of a mapped task. */
  readonly itemOutcomes?: Readonly<Record<string, Readonly<Record<number, readonly AttemptScript[]>>>>
  /** Attempts after the first, at most. */
  readonly retries?: Readonly<Record<string, number>>
  /** How many items a mapped task has; null: what it should run for is no list, or one that is too long. */
  readonly itemCounts?: Readonly<Record<string, number | null>>
  /** What gives a mapped task its items; of one with items itself those that succeeded, unless counted. */
  readonly itemSources?: Readonly<Record<string, readonly string[]>>
  readonly chooses?: Readonly<Record<string, readonly string[]>>
  /** Of these, one does not end before those before it, as far as they run. */
  readonly finishOrder?: readonly string[]
  /** These end only when nothing else can. */
  readonly slow?: readonly string[]
  /** When nothing but the slow ones is left, the run is stopped. */
  readonly stop?: StopCause | undefined
  /** Of the slow ones, these wait for a worker when the stop comes: it spares them their first attempt. */
  readonly unstarted?: readonly string[]
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
  const running = createRunning(progress, script)
  const asked = new Set<number>()

  function take(commands: readonly WorkflowCommand[]): void {
    for (const { kind, task } of commands) {
      if (kind === 'cancel') asked.add(task.index)
      else if (task.mapped) {
        attempts.set(task.id, attempts.get(task.id) ?? 0)
        const count = itemCountOf(task, progress, script)
        const failed = [{ task: task.index, state: 'failed' as const }]
        take(count === null ? applyEnds(progress, failed) : expandTask(progress, task.index, count))
        if (progress.states[task.index] === 'started') running.add(task)
      } else running.add(task)
    }
  }

  take(started)
  for (;;) {
    const next = running.next()
    if (next !== undefined) {
      for (const end of endsOf(next, progress, script, asked, attempts)) take(applyEnds(progress, [end]))
    } else if (!running.letSlowEnd()) break
    else if (script.stop !== undefined) take(stopWorkflow(progress, script.stop))
  }
  return { progress, run: workflowRunState(progress) ?? 'running', attempts }
}

/** A record is asked for what is its own: a task may be called "constructor". */
function own<Value>(record: Readonly<Record<string, Value>> | undefined, id: string): Value | undefined {
  return record !== undefined && Object.hasOwn(record, id) ? record[id] : undefined
}

/** As itemsOfTask of the engine: what gave no list is a fault of the task that asks for one. */
function itemCountOf(task: PlannedTask, progress: WorkflowProgress, script: WorkflowScript): number | null {
  const counted = own(script.itemCounts, task.id)
  const sources = (own(script.itemSources, task.id) ?? []).map((id) => progress.plan.byId.get(id))
  let product = 1
  for (const source of sources) {
    const state = progress.states[source?.index ?? -1]
    const items = progress.items.get(source?.index ?? -1)
    const isList =
      source?.mapped === true ? items !== undefined || state === 'skipped' : state === 'succeeded'
    if (!isList) return null
    product *= items?.filter((each) => each === 'succeeded').length ?? (state === 'skipped' ? 0 : 1)
  }
  if (counted !== undefined) return counted
  return sources.length === 0 ? 0 : product
}

/** The tasks that run, in the order in which they end. */
function createRunning(progress: WorkflowProgress, script: WorkflowScript) {
  const slow = new Set(script.slow)
  const order = script.finishOrder ?? []
  const [quick, late] = [new Set<PlannedTask>(), new Set<PlannedTask>()]
  let stopped = false
  const mayEnd = (task: PlannedTask): boolean => {
    const place = order.indexOf(task.id)
    const before = place < 0 ? [] : order.slice(0, place)
    return before.every((id) => progress.states[progress.plan.byId.get(id)?.index ?? -1] !== 'started')
  }
  return {
    add: (task: PlannedTask) => (slow.has(task.id) ? late : quick).add(task),
    /** Undefined: none, or only slow ones, which may not end yet. */
    next(): PlannedTask | undefined {
      const [first] = quick
      const [slowest] = stopped ? late : []
      const found = (order.length === 0 ? first : [...quick].find(mayEnd)) ?? first ?? slowest
      if (found !== undefined && !quick.delete(found)) late.delete(found)
      return found
    },
    /** Nothing else can end any more. False: that has been said before. */
    letSlowEnd(): boolean {
      const isNews = !stopped && late.size > 0
      stopped = true
      return isNews
    },
  }
}

/** How a task that runs ends, over all its attempts; of a mapped one item by item, as they are asked for. */
function* endsOf(
  task: PlannedTask,
  progress: WorkflowProgress,
  script: WorkflowScript,
  asked: ReadonlySet<number>,
  attempts: Map<string, number>,
): Generator<TaskEnd> {
  const retries = own(script.retries, task.id) ?? 0
  const canceled = {
    state: 'canceled' as const,
    made: script.unstarted?.includes(task.id) === true ? 0 : 1,
  }
  const end = (outcomes: readonly AttemptScript[]): EndedTaskState => {
    const { state, made } = asked.has(task.index) ? canceled : playAttempts(task, outcomes, retries)
    attempts.set(task.id, (attempts.get(task.id) ?? 0) + made)
    return state
  }
  const outcomes = own(script.outcomes, task.id) ?? ['ok']
  const items = progress.items.get(task.index)
  if (items === undefined) {
    yield { task: task.index, state: end(outcomes), chosen: own(script.chooses, task.id) }
    return
  }
  const byItem = own(script.itemOutcomes, task.id) ?? {}
  const outcomesOf = (item: number): readonly AttemptScript[] => byItem[item] ?? outcomes
  // what a rerun kept has ended
  const order = [...items.keys()].filter((item) => items[item] === 'started')
  // where a failure ends what runs, every item runs still when the first one fails
  const first =
    progress.plan.failFast === 'cancel_running'
      ? order.filter((item) => playAttempts(task, outcomesOf(item), retries).state === 'failed')
      : []
  for (const item of new Set([...first, ...order]))
    yield { task: task.index, item, state: end(outcomesOf(item)) }
}

const endOf: Readonly<Record<AttemptScript, EndedTaskState>> = {
  ok: 'succeeded',
  fail: 'failed',
  fail_final: 'failed',
  timeout: 'failed',
  skip: 'skipped',
  cancel: 'canceled',
  reject: 'failed',
}

/** A task that waits is not tried again. */
function endOfScriptedWait(ends: WaitEnds, outcome: AttemptScript): EndedTaskState {
  if (outcome === 'timeout') return endOfWait(ends, 'due')
  return outcome === 'reject' || outcome === 'fail' ? endOfWait(ends, 'rejected') : endOf[outcome]
}

function playAttempts(
  { waits }: PlannedTask,
  outcomes: readonly AttemptScript[],
  retries: number,
): { readonly state: EndedTaskState; readonly made: number } {
  if (waits !== undefined) return { state: endOfScriptedWait(waits, outcomes[0] ?? 'ok'), made: 1 }
  const isTriedAgain = (outcome: AttemptScript): boolean => outcome === 'fail' || outcome === 'timeout'
  const settled = outcomes.findIndex((outcome) => !isTriedAgain(outcome))
  if (settled >= 0 && settled <= retries)
    return { state: endOf[outcomes[settled] ?? 'ok'], made: settled + 1 }
  // the last one repeats for as long as there are attempts
  return outcomes.length === 0 ? { state: 'succeeded', made: 1 } : { state: 'failed', made: retries + 1 }
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
