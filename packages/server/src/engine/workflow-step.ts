/**
 * What follows from what happened to one workflow run: its new states, the runs that start, the tasks that
 * are canceled. The decision is that of domain/workflow/progress.ts; here its facts are fetched (outputs that
 * conditions and inputs look at) and its commands are turned into runs. Nothing is written.
 *
 *   events ─► applyEnds ─► commands ─► inputs, items ─► runs, or an end without a run ─► commands ─► …
 *
 * A mapped task with a limit of concurrency starts its next item when one ends: `launched` counts those that
 * were given a run, in their order. And no more than `mostStarts` runs begin at once: what is left waits for
 * the next round, so that workers need not wait until ten thousand runs are written.
 */
import type { JsonValue, TaskState, WorkflowTask } from '@belfry/contract'
import { dropWorkflow } from '../domain/workflow/drop.ts'
import { stopAgain } from '../domain/workflow/stop-again.ts'
import type { PlannedTask } from '../domain/workflow/plan.ts'
import {
  applyEnds,
  beginWorkflow,
  expandTask,
  restoreProgress,
  stopWorkflow,
  type TaskEnd,
  type WorkflowCommand,
  type WorkflowProgress,
  workflowRunState,
} from '../domain/workflow/progress.ts'
import { packItems, packStates, unpackItems, unpackStates } from '../domain/workflow/stored-states.ts'
import { type InputFacts, inputOfTask, itemsOfTask, outputOfRun } from '../domain/workflow/task-input.ts'
import { untilOf, waitOfTask } from '../domain/workflow/task-wait.ts'
import type { BegunWith, LockedWorkflowRun, SavedProgress, WorkflowEvent } from '../ports/workflow-runs.ts'
import type { SubWorkflow } from '../ports/workflow-waits.ts'
import { refusalNote } from './catalog/workflow-input.ts'
import type { GatePlace } from './workflow-gates.ts'
import { choiceOf, type FetchOutputs, outputsOf, type TaskOutputs } from './workflow-outputs.ts'
import type { CompiledWorkflow } from './workflow-plans.ts'
import {
  childOfTask,
  type SubWorkflows,
  subWorkflowsOf,
  type WantedChild,
  type WantedWait,
} from './workflow-waits.ts'

const mostStarts = 2_000
/** Where nothing of it is at work, so that workers soon have something to do. */
const firstStarts = 500

export interface WantedTaskRun {
  readonly task: number
  readonly item: number | undefined
  readonly input: JsonValue | undefined
}

export interface Stepped {
  readonly saved: SavedProgress
  readonly starts: readonly WantedTaskRun[]
  readonly waits: readonly WantedWait[]
  readonly children: readonly WantedChild[]
  readonly cancels: readonly number[]
  /** What a run that is over gives. */
  readonly output: JsonValue | undefined
  /** Something that waits for a signal may have it. */
  readonly signaled: boolean
  /** There is more to start. */
  readonly goesOn: boolean
}

export interface StepFacts {
  readonly outputs: FetchOutputs
  readonly begunWith: BegunWith | undefined
  readonly subWorkflows: (ids: readonly string[]) => Promise<readonly SubWorkflow[]>
  readonly place: GatePlace
}

interface Step {
  readonly run: LockedWorkflowRun
  readonly compiled: CompiledWorkflow
  readonly progress: WorkflowProgress
  readonly launched: Map<number, number>
  /** Of mapped tasks: items that have yet to be given a run. */
  readonly unlaunched: Map<number, number>
  readonly notes: Record<string, string>
  readonly outputs: TaskOutputs
  readonly facts: InputFacts
  readonly subWorkflows: SubWorkflows
  readonly starts: WantedTaskRun[]
  readonly waits: WantedWait[]
  readonly children: WantedChild[]
  readonly cancels: Set<number>
  /** How many runs may begin in this round. */
  readonly mayStart: number
  goesOn: boolean
}

export async function stepWorkflow(
  run: LockedWorkflowRun,
  compiled: CompiledWorkflow,
  events: readonly WorkflowEvent[],
  given: StepFacts,
): Promise<Stepped> {
  const step = openStep(run, compiled, given)
  const { progress } = step
  const canceled = events.some(({ kind }) => kind === 'cancel')
  if (run.notes[refusalNote] !== undefined) {
    dropWorkflow(progress, canceled ? 'canceled' : null)
    return steppedOf(step, events, canceled ? undefined : 'failed')
  }
  if (given.place === 'waits' || given.place === 'skip') {
    const isOver = canceled || given.place === 'skip'
    if (isOver) dropWorkflow(progress, canceled ? 'canceled' : null)
    return steppedOf(step, events, isOver && !canceled ? 'skipped' : undefined)
  }
  const ends = events.flatMap((event) => (event.kind === 'end' ? [event] : []))
  const succeeded = ends.filter(({ state }) => state === 'succeeded').map(({ task }) => task)
  const choosing = succeeded.filter((task) => compiled.plan.tasks[task]?.kind !== 'task')
  const before = compiled.lookedAt.filter((task) => progress.states[task] === 'succeeded')
  const news = new Set(succeeded)
  const now = compiled.lookedAt.filter((task) => news.has(task))
  await step.outputs.load([...before, ...now, ...choosing])
  // at its begin, and after an act by hand: all that waits is decided; what is decided stays so
  if (given.place === 'begin' || events.some(({ kind }) => kind === 'begin'))
    await carryOut(step, beginWorkflow(progress, { facts: step.facts }))
  await carryOut(
    step,
    applyEnds(
      progress,
      ends.map((end): TaskEnd => ({ ...end, chosen: chosenBy(step, end) })),
      step.facts,
    ),
  )
  await launchMore(step)
  if (canceled || run.overdue)
    await carryOut(step, stopWorkflow(progress, canceled ? 'canceled' : 'timed_out', step.facts))
  if (canceled || events.some(({ kind }) => kind === 'begin')) await carryOut(step, stopAgain(progress))
  return steppedOf(step, events, await outputOf(step))
}

type Ended = { readonly output: JsonValue | undefined } | 'skipped' | 'failed' | undefined

function steppedOf(step: Step, events: readonly WorkflowEvent[], ended: Ended): Stepped {
  const { progress } = step
  const isStarted = ({ task }: { readonly task: number }): boolean => progress.states[task] === 'started'
  const waits = step.waits.filter(isStarted)
  const saved = savedOf(step)
  return {
    saved: typeof ended === 'string' ? { ...saved, state: ended } : saved,
    starts: step.starts.filter(isStarted),
    waits,
    children: step.children.filter(isStarted),
    cancels: [...step.cancels],
    output: typeof ended === 'object' ? ended.output : undefined,
    signaled:
      events.some(({ kind }) => kind === 'signal') || waits.some(({ wait }) => wait.kind === 'signal'),
    goesOn: step.goesOn && progress.turn !== null,
  }
}

/** What a run gives that has succeeded; where it cannot be made, its notes say why. */
async function outputOf(step: Step): Promise<Ended> {
  const { compiled, progress, facts, notes } = step
  const { output: base, outputFrom, plan } = compiled
  const isGiven = base !== undefined || outputFrom.length > 0
  if (!isGiven || workflowRunState(progress) !== 'succeeded') return undefined
  const named = outputFrom.flatMap((mapping) => ('task' in mapping ? mapping.task : []))
  await step.outputs.load(named.flatMap((id) => plan.byId.get(id)?.index ?? []))
  const output = outputOfRun(base, outputFrom, facts)
  if (output.ok) return { output: output.value }
  notes['output'] = output.error
  return undefined
}

function openStep(run: LockedWorkflowRun, compiled: CompiledWorkflow, given: StepFacts): Step {
  const { items, launched } = unpackItems(run.items)
  const { turn, stop } = run
  const progress = restoreProgress(compiled.plan, { states: unpackStates(run.states), items, turn, stop })
  const outputs = outputsOf(compiled.plan, progress, given.outputs)
  const { begunWith } = given
  const { get: outputOf, ofItems } = outputs
  const facts = { outputOf, ofItems, input: begunWith?.input, workflowRunId: run.id, begunWith }
  const notes = { ...run.notes }
  const subWorkflows = subWorkflowsOf(compiled, given.subWorkflows)
  const unlaunched = new Map(
    [...items].map(([task, states]) => [task, startedFrom(states, launched.get(task) ?? states.length)]),
  )
  const made = {
    subWorkflows,
    unlaunched,
    starts: [],
    waits: [],
    children: [],
    cancels: new Set<number>(),
    mayStart: progress.states.includes('started') ? mostStarts : firstStarts,
    goesOn: false,
  }
  return { run, compiled, progress, launched, notes, outputs, facts, ...made }
}

/** Items that have not ended, from one on. */
function startedFrom(states: readonly TaskState[], first: number): number {
  let count = 0
  for (let item = first; item < states.length; item++) if (states[item] === 'started') count += 1
  return count
}

function chosenBy(step: Step, { task: index, state }: TaskEnd): readonly string[] | undefined {
  const { compiled, outputs, progress, notes } = step
  const task = compiled.plan.tasks[index]
  const chosen = task && choiceOf(compiled.plan, task, outputs.get(task.id))
  const stray = chosen?.find((id) => !compiled.plan.byId.has(id))
  // its run succeeded, and yet the task fails (progress.ts): here is why
  if (stray !== undefined && state === 'succeeded' && progress.states[index] === 'started')
    notes[String(index)] ??= `it chose "${stray}", which is no task of this workflow`
  return chosen
}

/** Turns commands into runs, and what cannot start into ends, until nothing follows. */
async function carryOut(step: Step, commands: readonly WorkflowCommand[]): Promise<void> {
  const { progress } = step
  for (let wave = commands; wave.length > 0; ) {
    const starting = wave.filter(({ kind }) => kind === 'start').map(({ task }) => task)
    await loadFor(step, starting)
    const next: WorkflowCommand[] = []
    for (const { kind, task } of wave) {
      if (kind === 'cancel') next.push(...cancelTask(step, task))
      else if (progress.states[task.index] === 'started')
        next.push(...(isFull(step) ? putOff(step, task) : startTask(step, task)))
    }
    wave = next
  }
}

const isFull = ({ starts, waits, children, mayStart }: Step): boolean =>
  starts.length + waits.length + children.length >= mayStart

/** It waits again, to be decided anew in the next round. */
function putOff(step: Step, { index }: PlannedTask): WorkflowCommand[] {
  step.progress.states[index] = 'waiting_for_dependencies'
  step.goesOn = true
  return []
}

/** What their start looks at. */
async function loadFor(
  { outputs, subWorkflows, compiled }: Step,
  tasks: readonly PlannedTask[],
): Promise<void> {
  await outputs.load(tasks.flatMap((task) => inputsOf(compiled, task)))
  await subWorkflows.load(tasks.map(({ index }) => index))
}

/** Tasks whose outputs a task is given. */
function inputsOf({ tasks, plan }: CompiledWorkflow, { index }: PlannedTask): number[] {
  const task = tasks[index]
  const from = task?.forEach?.from
  const until = task && untilOf(task)
  const named = [
    ...(from !== undefined && 'task' in from ? [from.task] : []),
    ...(until !== undefined && 'task' in until ? [until.task] : []),
    ...(task?.inputFrom ?? []).flatMap((mapping) => ('task' in mapping ? mapping.task : [])),
  ]
  return named.flatMap((id) => plan.byId.get(id)?.index ?? [])
}

function startTask(step: Step, { index, mapped }: PlannedTask): WorkflowCommand[] {
  const task = step.compiled.tasks[index]
  if (task === undefined) return []
  if (!mapped) return startOne(step, task, index, undefined, undefined)
  const items = itemsOfTask(task, step.facts)
  if (!items.ok) return fail(step, index, undefined, items.error)
  const commands = expandTask(step.progress, index, items.value.length, step.facts)
  step.launched.set(index, 0)
  step.unlaunched.set(index, step.progress.openItems.get(index) ?? 0)
  return [...commands, ...launch(step, task, index, items.value)]
}

/** How many items may be given a run now. */
function room(step: Step, task: WorkflowTask, index: number): number {
  const { progress } = step
  if (progress.states[index] !== 'started') return 0
  const unlaunched = step.unlaunched.get(index) ?? 0
  // those that have not ended are the ones that run and the ones that were not launched
  const running = (progress.openItems.get(index) ?? 0) - unlaunched
  return Math.min(unlaunched, (task.forEach?.concurrency ?? Infinity) - running)
}

/** Items that may run now are given a run each. */
function launch(
  step: Step,
  task: WorkflowTask,
  index: number,
  items: readonly JsonValue[],
): WorkflowCommand[] {
  const commands: WorkflowCommand[] = []
  while (room(step, task, index) > 0) {
    if (isFull(step)) {
      step.goesOn = true
      break
    }
    const next = nextItem(step, index)
    step.launched.set(index, next + 1)
    step.unlaunched.set(index, (step.unlaunched.get(index) ?? 0) - 1)
    commands.push(...startOne(step, task, index, next, items[next]))
  }
  return commands
}

/** Of a rerun, items that are kept are passed over. */
function nextItem({ progress, launched }: Step, index: number): number {
  const states = progress.items.get(index) ?? []
  const next = states.indexOf('started', launched.get(index) ?? 0)
  return next < 0 ? states.length : next
}

function startOne(
  step: Step,
  task: WorkflowTask,
  index: number,
  item: number | undefined,
  value: JsonValue | undefined,
): WorkflowCommand[] {
  const wait = waitOfTask(task, step.facts, value)
  if (!wait.ok) return fail(step, index, item, wait.error)
  if (wait.value !== undefined) {
    step.waits.push({ task: index, item, wait: wait.value })
    return []
  }
  const input = inputOfTask(task, step.facts, value)
  if (!input.ok) return fail(step, index, item, input.error)
  if (task.workflow === undefined) {
    step.starts.push({ task: index, item, input: input.value })
    return []
  }
  const child = childOfTask(step.run, step.subWorkflows.of(index), task, input.value)
  if (!child.ok) return fail(step, index, item, child.error)
  step.children.push({ task: index, item, ...child.value })
  return []
}

/** It ends without a run, and the reason stays with the workflow run. */
function fail(step: Step, task: number, item: number | undefined, why: string): WorkflowCommand[] {
  step.notes[String(task)] ??= item === undefined ? why : `item ${item}: ${why}`
  return applyEnds(step.progress, [{ task, item, state: 'failed' }], step.facts)
}

/** Mapped tasks of which items wait for their turn, which has come. */
async function launchMore(step: Step): Promise<void> {
  const { progress, compiled } = step
  for (const index of progress.items.keys()) {
    const [task, planned] = [compiled.tasks[index], compiled.plan.tasks[index]]
    if (task === undefined || planned === undefined || room(step, task, index) <= 0) continue
    await loadFor(step, [planned])
    const items = itemsOfTask(task, step.facts)
    await carryOut(
      step,
      items.ok ? launch(step, task, index, items.value) : fail(step, index, undefined, items.error),
    )
  }
}

/** What has a run is asked to end; items that have none end at once. */
function cancelTask(step: Step, { index }: PlannedTask): WorkflowCommand[] {
  const { progress, launched } = step
  step.cancels.add(index)
  const states: readonly TaskState[] = progress.items.get(index) ?? []
  const first = launched.get(index) ?? states.length
  launched.set(index, states.length)
  step.unlaunched.set(index, 0)
  const ends = states.slice(first).map((_, offset): TaskEnd => {
    return { task: index, item: first + offset, state: 'canceled' }
  })
  return applyEnds(progress, ends, step.facts)
}

function savedOf({ run, progress, launched, notes }: Step): SavedProgress {
  return {
    id: run.id,
    state: workflowRunState(progress) ?? null,
    states: packStates(progress.states),
    items: packItems(progress.items, launched),
    notes,
    turn: progress.turn,
    stop: progress.stop,
  }
}
