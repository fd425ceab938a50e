/**
 * What follows from what happened to one workflow run: its new states, the runs that start, the tasks that
 * are canceled. The decision is that of domain/workflow/progress.ts; here its facts are fetched (outputs that
 * conditions and inputs look at) and its commands are turned into runs. Nothing is written.
 *
 *   events ─► applyEnds ─► commands ─► inputs, items ─► runs, or an end without a run ─► commands ─► …
 *
 * A mapped task with a limit of concurrency starts its next item when one ends: `launched` counts those that
 * were given a run, in their order.
 */
import type { JsonValue, TaskState, WorkflowTask } from '@belfry/contract'
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
import { type InputFacts, inputOfTask, itemsOfTask } from '../domain/workflow/task-input.ts'
import type { LockedWorkflowRun, SavedProgress, TaskOutput, WorkflowEvent } from '../ports/workflow-runs.ts'
import type { CompiledWorkflow } from './workflow-plans.ts'

export interface WantedTaskRun {
  readonly task: number
  readonly item: number | undefined
  readonly input: JsonValue | undefined
}

export interface Stepped {
  readonly saved: SavedProgress
  readonly starts: readonly WantedTaskRun[]
  readonly cancels: readonly number[]
  /** Runs whose ends were taken in. */
  readonly endedRunIds: readonly string[]
}

type FetchOutputs = (tasks: readonly number[]) => Promise<readonly TaskOutput[]>

interface Step {
  readonly run: LockedWorkflowRun
  readonly compiled: CompiledWorkflow
  readonly progress: WorkflowProgress
  readonly launched: Map<number, number>
  readonly notes: Record<string, string>
  readonly outputs: ReturnType<typeof outputsOf>
  readonly facts: InputFacts
  readonly starts: WantedTaskRun[]
  readonly cancels: Set<number>
}

export async function stepWorkflow(
  run: LockedWorkflowRun,
  compiled: CompiledWorkflow,
  events: readonly WorkflowEvent[],
  fetch: FetchOutputs,
): Promise<Stepped> {
  const step = openStep(run, compiled, fetch)
  const { progress } = step
  const ends = events.flatMap((event) => (event.kind === 'end' ? [event] : []))
  const succeeded = ends.filter(({ state }) => state === 'succeeded').map(({ task }) => task)
  const choosing = succeeded.filter((task) => compiled.plan.tasks[task]?.kind !== 'task')
  const before = compiled.lookedAt.filter((task) => progress.states[task] === 'succeeded')
  const now = compiled.lookedAt.filter((task) => succeeded.includes(task))
  await step.outputs.load([...before, ...now, ...choosing])
  if (events.some(({ kind }) => kind === 'begin') && isUnbegun(progress))
    await carryOut(step, beginWorkflow(progress, { facts: step.facts }))
  await carryOut(
    step,
    applyEnds(
      progress,
      ends.map((end): TaskEnd => ({ ...end, chosen: chosenBy(step, end.task) })),
      step.facts,
    ),
  )
  await launchMore(
    step,
    ends.map(({ task }) => task),
  )
  const canceled = events.some(({ kind }) => kind === 'cancel')
  if (canceled || run.overdue)
    await carryOut(step, stopWorkflow(progress, canceled ? 'canceled' : 'timed_out', step.facts))
  return {
    saved: savedOf(step),
    starts: step.starts.filter(({ task }) => progress.states[task] === 'started'),
    cancels: [...step.cancels],
    endedRunIds: ends.map(({ runId }) => runId),
  }
}

function openStep(run: LockedWorkflowRun, compiled: CompiledWorkflow, fetch: FetchOutputs): Step {
  const { items, launched } = unpackItems(run.items)
  const { turn, stop } = run
  const progress = restoreProgress(compiled.plan, { states: unpackStates(run.states), items, turn, stop })
  const outputs = outputsOf(compiled, progress, fetch)
  const facts = { outputOf: outputs.get, input: run.input, workflowRunId: run.id }
  const notes = { ...run.notes }
  return { run, compiled, progress, launched, notes, outputs, facts, starts: [], cancels: new Set() }
}

const isUnbegun = ({ states }: WorkflowProgress): boolean =>
  states.every((state) => state === 'waiting_for_dependencies')

/** Outputs that were fetched, each once. That of a mapped task is the list of those of its items. */
function outputsOf({ plan }: CompiledWorkflow, progress: WorkflowProgress, fetch: FetchOutputs) {
  const known = new Map<number, JsonValue | undefined>()
  return {
    get: (id: string): JsonValue | undefined => {
      const index = plan.byId.get(id)?.index ?? -1
      return progress.states[index] === 'skipped' ? undefined : known.get(index)
    },
    async load(tasks: readonly number[]): Promise<void> {
      const missing = [...new Set(tasks)].filter((task) => !known.has(task))
      if (missing.length === 0) return
      const found = await fetch(missing)
      for (const task of missing) {
        const its = found.filter((each) => each.task === task)
        const single = its.find((each) => each.item === undefined)?.output
        const byItem = new Map(its.map((each) => [each.item, each.output]))
        const items = progress.items.get(task)?.map((_, item) => byItem.get(item) ?? null)
        known.set(task, plan.tasks[task]?.mapped === true ? items : single)
      }
    },
  }
}

/** The children that a branch chose; none where a short circuit says that nothing follows. */
function chosenBy({ compiled, outputs }: Step, index: number): readonly string[] | undefined {
  const task = compiled.plan.tasks[index]
  if (task === undefined || task.kind === 'task') return undefined
  const output = outputs.get(task.id)
  const idOf = (child: number): string => compiled.plan.tasks[child]?.id ?? ''
  // what is not known yet is not skipped: get() looks at states, and this one is about to succeed
  if (task.kind === 'short_circuit') return isNothing(output) ? [] : task.children.map(idOf)
  const named = Array.isArray(output) ? (output as readonly JsonValue[]) : [output]
  return named.filter((each) => typeof each === 'string')
}

const isNothing = (output: JsonValue | undefined): boolean =>
  output === undefined || output === null || output === false || output === 0 || output === ''

/** Turns commands into runs, and what cannot start into ends, until nothing follows. */
async function carryOut(step: Step, commands: readonly WorkflowCommand[]): Promise<void> {
  const { progress, compiled } = step
  for (let wave = commands; wave.length > 0; ) {
    const starting = wave.filter(({ kind }) => kind === 'start').map(({ task }) => task)
    await step.outputs.load(starting.flatMap((task) => inputsOf(compiled, task)))
    const next: WorkflowCommand[] = []
    for (const { kind, task } of wave) {
      if (kind === 'cancel') next.push(...cancelTask(step, task))
      else if (progress.states[task.index] === 'started') next.push(...startTask(step, task))
    }
    wave = next
  }
}

/** Tasks whose outputs a task is given. */
function inputsOf({ tasks, plan }: CompiledWorkflow, { index }: PlannedTask): number[] {
  const task = tasks[index]
  const from = task?.forEach?.from
  const named = [
    ...(from !== undefined && 'task' in from ? [from.task] : []),
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
  return [...commands, ...launch(step, task, index, items.value)]
}

/** Items that may run now are given a run each. */
function launch(
  step: Step,
  task: WorkflowTask,
  index: number,
  items: readonly JsonValue[],
): WorkflowCommand[] {
  const { progress, launched } = step
  const most = task.forEach?.concurrency ?? items.length
  const commands: WorkflowCommand[] = []
  for (;;) {
    const next = launched.get(index) ?? 0
    const states = progress.items.get(index) ?? []
    if (next >= items.length || progress.states[index] !== 'started') return commands
    if (states.slice(0, next).filter((state) => state === 'started').length >= most) return commands
    launched.set(index, next + 1)
    commands.push(...startOne(step, task, index, next, items[next]))
  }
}

function startOne(
  step: Step,
  task: WorkflowTask,
  index: number,
  item: number | undefined,
  value: JsonValue | undefined,
): WorkflowCommand[] {
  const input = inputOfTask(task, step.facts, value)
  if (!input.ok) return fail(step, index, item, input.error)
  step.starts.push({ task: index, item, input: input.value })
  return []
}

/** It ends without a run, and the reason stays with the workflow run. */
function fail(step: Step, task: number, item: number | undefined, why: string): WorkflowCommand[] {
  step.notes[String(task)] ??= item === undefined ? why : `item ${item}: ${why}`
  return applyEnds(step.progress, [{ task, item, state: 'failed' }], step.facts)
}

/** Mapped tasks of which an item ended, and others wait for their turn. */
async function launchMore(step: Step, tasks: readonly number[]): Promise<void> {
  const { progress, compiled, launched } = step
  for (const index of new Set(tasks)) {
    const [task, planned] = [compiled.tasks[index], compiled.plan.tasks[index]]
    const states = progress.items.get(index)
    const waiting = states !== undefined && (launched.get(index) ?? 0) < states.length
    if (task === undefined || planned === undefined || !waiting || progress.states[index] !== 'started')
      continue
    await step.outputs.load(inputsOf(compiled, planned))
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
