/**
 * A workflow as the engine walks it: tasks by number, edges in both directions. Made once for a version, from
 * a definition that was found valid (validate.ts), and only read after that. Linear in tasks and edges,
 * without recursion: 5,000 tasks and chains of any length are fine.
 */
import type { Condition, FailFastMode, TaskKind, TriggerRule } from '@belfry/contract'
import type { WaitEnds } from './task-wait.ts'

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
  /** Of a task that runs no job but waits: how it ends when nothing came in time, or it was rejected. */
  readonly waits?: WaitEnds | undefined
  /** It takes down what these tasks, its setups, have set up. */
  readonly teardownOf?: string | readonly string[] | undefined
}

export interface PlannedTask extends TaskShape {
  readonly index: number
  readonly parents: readonly number[]
  readonly children: readonly number[]
  /** Empty: it is no teardown. */
  readonly setups: readonly number[]
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
    const setups = setupsOf(shape).map(indexOf)
    const parents = [...new Set([...shape.needs.map(indexOf), ...setups])]
    for (const parent of parents) children[parent]?.push(index)
    return { ...shape, index, parents, children: children[index] ?? [], setups }
  })
  return { tasks, byId: new Map(tasks.map((task) => [task.id, task])), failFast }
}

/** The tasks that a teardown takes down. */
export const setupsOf = ({ teardownOf }: Pick<TaskShape, 'teardownOf'>): readonly string[] =>
  typeof teardownOf === 'string' ? [teardownOf] : (teardownOf ?? [])

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

/** What the choice of a branch or of a short circuit leaves out. A teardown is never left out. */
export function passedOver(plan: WorkflowPlan, task: PlannedTask, chosen: readonly string[]): number[] {
  if (task.kind === 'short_circuit' && chosen.length > 0) return []
  const named = chosen.flatMap((id) => plan.byId.get(id)?.index ?? [])
  const kept = reachable(plan, named, 'children')
  const candidates = task.kind === 'branch' ? task.children : reachable(plan, task.children, 'children')
  return [...candidates].filter((index) => !kept.has(index) && (plan.tasks[index]?.setups ?? []).length === 0)
}
