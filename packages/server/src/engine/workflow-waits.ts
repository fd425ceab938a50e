/**
 * Tasks that run no job, on their way from the decision to start them to what is written: waits, and runs
 * of other workflows. What such a workflow run may not be begun with, or how deep it would lie, is found
 * here, in words; its task fails with them.
 */
import type { JsonValue, WorkflowTask } from '@belfry/contract'
import { maxWorkflowDepth } from '@belfry/contract'
import { checkInput } from '../domain/workflow/input-schema.ts'
import type { PlannedWait } from '../domain/workflow/task-wait.ts'
import { refuse, type Result, succeed } from '../domain/zone/result.ts'
import type { Ids } from '../ports/ids.ts'
import type { LockedWorkflowRun } from '../ports/workflow-runs.ts'
import type { ChildEnd, NewChildRun, NewTaskWait, SubWorkflow, WaitingTx } from '../ports/workflow-waits.ts'
import type { CompiledWorkflow } from './workflow-plans.ts'

interface Place {
  readonly task: number
  readonly item: number | undefined
}

export interface WantedWait extends Place {
  readonly wait: PlannedWait
}

export interface WantedChild extends Place {
  readonly workflow: SubWorkflow
  readonly input: JsonValue | undefined
}

/** Workflows that tasks run, as they are now; each is read once. */
export interface SubWorkflows {
  readonly load: (tasks: readonly number[]) => Promise<void>
  readonly of: (task: number) => SubWorkflow | undefined
}

export function subWorkflowsOf(
  { tasks, taskJobs }: CompiledWorkflow,
  fetch: (ids: readonly string[]) => Promise<readonly SubWorkflow[]>,
): SubWorkflows {
  const known = new Map<string, SubWorkflow>()
  const idOf = (task: number): string | undefined =>
    tasks[task]?.workflow === undefined ? undefined : taskJobs[task]?.jobId
  return {
    async load(wanted) {
      const ids = new Set(wanted.flatMap((task) => idOf(task) ?? []))
      const missing = [...ids].filter((id) => !known.has(id))
      if (missing.length === 0) return
      for (const workflow of await fetch(missing)) known.set(workflow.id, workflow)
    },
    of: (task) => known.get(idOf(task) ?? ''),
  }
}

/** The workflow run that a task begins; undefined where it begins none. */
export function childOfTask(
  { depth }: Pick<LockedWorkflowRun, 'depth'>,
  workflow: SubWorkflow | undefined,
  { workflow: name = '' }: WorkflowTask,
  input: JsonValue | undefined,
): Result<Pick<WantedChild, 'workflow' | 'input'>, string> {
  if (workflow === undefined || workflow.deleted) return refuse(`there is no workflow "${name}" any more`)
  if (depth >= maxWorkflowDepth)
    return refuse(`"${name}" would lie ${depth + 1} deep; workflows go ${maxWorkflowDepth} deep at most`)
  if (workflow.inputSchema === undefined) return succeed({ workflow, input })
  const checked = checkInput(workflow.inputSchema, input, '')
  if (checked.ok) return succeed({ workflow, input: checked.value })
  const faults = checked.error.slice(0, 3).map(({ pointer, message }) => `${pointer || 'it'} ${message}`)
  return refuse(`the input does not fit "${name}": ${faults.join('; ')}`)
}

interface WaitingStarts {
  readonly run: LockedWorkflowRun
  readonly compiled: CompiledWorkflow
  readonly waits: readonly WantedWait[]
  readonly children: readonly WantedChild[]
}

/** Writes what tasks begin that run no job. */
async function startWaiting(
  tx: WaitingTx,
  wanted: readonly WaitingStarts[],
  ids: Ids,
  nowMs: number,
): Promise<void> {
  const newId = (): string => ids.uuidv7(Math.floor(nowMs))
  const waits: NewTaskWait[] = []
  const children: NewChildRun[] = []
  for (const { run, compiled, ...its } of wanted) {
    const placeOf = ({ task, item }: Place) => {
      const place = { id: newId(), tenantId: run.tenantId, workflowRunId: run.id, task, item }
      return { ...place, taskId: compiled.tasks[task]?.id ?? '' }
    }
    for (const each of its.waits) waits.push({ ...placeOf(each), wait: each.wait })
    for (const each of its.children) {
      const { workflow, input } = each
      const priority = compiled.tasks[each.task]?.priority ?? run.priority
      children.push({ ...placeOf(each), childId: newId(), workflow, input, depth: run.depth + 1, priority })
    }
  }
  await tx.start(waits)
  await tx.startChildren(children)
}

interface Moved extends WaitingStarts {
  readonly cancels: readonly number[]
  readonly signaled: boolean
  readonly output: JsonValue | undefined
  /** How it ended; null: it goes on. */
  readonly state: ChildEnd['state'] | null
}

/**
 * All that follows from a round beside runs of jobs: waits and workflow runs begin, are canceled or have
 * their signal, and what is over tells the task above. True where an event came of it.
 */
export async function writeWaiting(
  tx: WaitingTx,
  moved: readonly Moved[],
  ids: Ids,
  nowMs: number,
): Promise<boolean> {
  await startWaiting(tx, moved, ids, nowMs)
  let told = moved.some(({ children }) => children.length > 0)
  for (const { run, compiled, cancels } of moved) {
    const waiting = cancels.filter((task) => compiled.waiting.has(task))
    if (waiting.length > 0) await tx.cancel(run.id, waiting)
    told ||= waiting.length > 0
  }
  const signaled = moved.filter((each) => each.signaled).map(({ run }) => run.id)
  await tx.endSignaled(signaled)
  await tx.keepOutputs(
    moved.flatMap(({ run, output }) => (output === undefined ? [] : [{ id: run.id, output }])),
  )
  const ended = moved.flatMap(({ run: { waitId }, state, output }): ChildEnd[] =>
    waitId === null || state === null ? [] : [{ waitId, state, output }],
  )
  await tx.endChildren(ended)
  return told || signaled.length > 0 || ended.length > 0
}

/** How long until the first of what these begin is due, ms; Infinity: none of it ever is. */
export function firstDueMs(moved: readonly Moved[], nowMs: number): number {
  const dues = moved.flatMap(({ waits }) =>
    waits.map(({ wait: { dueInMs, dueAtMs } }) => dueInMs ?? (dueAtMs === null ? Infinity : dueAtMs - nowMs)),
  )
  return dues.reduce((first, each) => Math.min(first, each), Infinity)
}
