/**
 * A workflow as the engine walks it: tasks by number, edges in both directions. Made once for a version, from
 * a definition that was found valid (validate.ts), and only read after that. Linear in tasks and edges,
 * without recursion: 5,000 tasks and chains of any length are fine.
 */
import type { Condition, FailFastMode, TaskKind, TriggerRule } from '@belfry/contract'

/** `on_failure` tasks run once the main ones have ended and one has failed, `finally` ones always, last. */
export type TaskRole = 'main' | 'on_failure' | 'finally'

/** What the rules need to know of a task. */
export interface TaskShape {
  readonly id: string
  readonly role: TaskRole
  /** Direct parents; of the same role. */
  readonly needs: readonly string[]
  readonly rule: TriggerRule
  readonly kind: TaskKind
  readonly when?: Condition | undefined
  readonly allowFailure: boolean
  /** One start for each item of a list that is known when it starts. */
  readonly mapped: boolean
  /** It takes down what this task, its setup, has set up. */
  readonly teardownOf?: string | undefined
}

export interface PlannedTask extends TaskShape {
  readonly index: number
  readonly parents: readonly number[]
  readonly children: readonly number[]
  /** Its setup; -1: it is no teardown. */
  readonly setup: number
}

export interface WorkflowPlan {
  readonly tasks: readonly PlannedTask[]
  readonly byId: ReadonlyMap<string, PlannedTask>
  readonly failFast: FailFastMode
}

/** Throws for edges to tasks that are not there: such a definition is refused before. */
export function planWorkflow(shapes: readonly TaskShape[], failFast: FailFastMode = 'off'): WorkflowPlan {
  const indexes = new Map(shapes.map((shape, index) => [shape.id, index]))
  const indexOf = (id: string): number => {
    const index = indexes.get(id)
    if (index === undefined) throw new Error(`There is no task "${id}".`)
    return index
  }
  const children: number[][] = shapes.map(() => [])
  const tasks = shapes.map((shape, index): PlannedTask => {
    const setup = shape.teardownOf === undefined ? -1 : indexOf(shape.teardownOf)
    const parents = [...new Set(shape.needs.map(indexOf).concat(setup < 0 ? [] : [setup]))]
    for (const parent of parents) children[parent]?.push(index)
    return { ...shape, index, parents, children: children[index] ?? [], setup }
  })
  return { tasks, byId: new Map(tasks.map((task) => [task.id, task])), failFast }
}

/** The given tasks and all that can be reached from them, downwards or upwards. */
export function reachable(
  plan: WorkflowPlan,
  from: readonly number[],
  direction: 'children' | 'parents',
): ReadonlySet<number> {
  const seen = new Set(from)
  // a Set is walked in the order of insertion, also over what is added meanwhile
  for (const index of seen) for (const next of plan.tasks[index]?.[direction] ?? []) seen.add(next)
  return seen
}
