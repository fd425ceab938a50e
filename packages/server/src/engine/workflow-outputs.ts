/**
 * Outputs of tasks of one workflow run, as conditions, choices and inputs look at them: fetched when they are
 * asked for, each once. A task that did not succeed has none, whatever an earlier run of it answered; that of
 * a task with items is the list of those of its items. What a person gave with a mark goes first.
 */
import type { JsonValue } from '@belfry/contract'
import type { PlannedTask, WorkflowPlan } from '../domain/workflow/plan.ts'
import { isEnded, type WorkflowProgress } from '../domain/workflow/progress.ts'
import type { TaskOutput } from '../ports/workflow-runs.ts'

export type FetchOutputs = (tasks: readonly number[]) => Promise<readonly TaskOutput[]>

export interface TaskOutputs {
  /** Undefined too where it was not loaded. */
  readonly get: (id: string) => JsonValue | undefined
  /**
   * Of a task with items: what those that succeeded gave. Undefined: of another, or a person gave its
   * output.
   */
  readonly ofItems: (id: string) => readonly JsonValue[] | undefined
  readonly load: (tasks: readonly number[]) => Promise<void>
}

export function outputsOf(
  plan: WorkflowPlan,
  progress: Pick<WorkflowProgress, 'states' | 'items'>,
  fetch: FetchOutputs,
): TaskOutputs {
  const known = new Map<number, readonly TaskOutput[]>()
  const lists = new Map<number, JsonValue>()

  /** An item that has failed may have succeeded in an earlier run. */
  function listOf(task: number, its: readonly TaskOutput[]): JsonValue | undefined {
    const states = progress.items.get(task)
    const made = lists.get(task)
    if (states === undefined || made !== undefined) return made
    const byItem = new Map(its.map((each) => [each.item, each.output]))
    const isKept = (item: number): boolean => states[item] === 'succeeded' || states[item] === 'started'
    const list = states.map((_, item) => (isKept(item) ? (byItem.get(item) ?? null) : null))
    if (!states.includes('started')) lists.set(task, list)
    return list
  }

  return {
    get(id) {
      const index = plan.byId.get(id)?.index ?? -1
      const state = progress.states[index]
      const its = known.get(index)
      if (its === undefined || state === undefined || state === 'skipped') return undefined
      const [first] = its
      if (first?.given === true) return state === 'succeeded' ? first.output : undefined
      if (plan.tasks[index]?.mapped === true) return listOf(index, its)
      // one that is about to succeed is started as yet
      if (isEnded(state) && state !== 'succeeded') return undefined
      return its.find((each) => each.item === undefined)?.output
    },
    ofItems(id) {
      const task = plan.byId.get(id)
      const its = task?.mapped === true ? known.get(task.index) : undefined
      if (task === undefined || its === undefined || its[0]?.given === true) return undefined
      if (progress.states[task.index] === 'skipped') return []
      const states = progress.items.get(task.index)
      const byItem = new Map(its.map((each) => [each.item, each.output]))
      return states?.flatMap((state, item) => (state === 'succeeded' ? [byItem.get(item) ?? null] : []))
    },
    async load(tasks) {
      const missing = [...new Set(tasks)].filter((task) => !known.has(task))
      if (missing.length === 0) return
      const found = Map.groupBy(await fetch(missing), ({ task }) => task)
      for (const task of missing) known.set(task, given(found.get(task) ?? []))
    },
  }
}

const given = (its: readonly TaskOutput[]): readonly TaskOutput[] => {
  const byHand = its.find((each) => each.given)
  return byHand === undefined ? its : [byHand]
}

/** The children that a branch chose; none where a short circuit says that nothing follows. */
export function choiceOf(
  plan: WorkflowPlan,
  task: PlannedTask,
  output: JsonValue | undefined,
): readonly string[] | undefined {
  if (task.kind === 'task') return undefined
  const idOf = (child: number): string => plan.tasks[child]?.id ?? ''
  if (task.kind === 'short_circuit') return isNothing(output) ? [] : task.children.map(idOf)
  const named = Array.isArray(output) ? (output as readonly JsonValue[]) : [output]
  return named.filter((each) => typeof each === 'string')
}

const isNothing = (output: JsonValue | undefined): boolean =>
  output === undefined || output === null || output === false || output === 0 || output === ''
