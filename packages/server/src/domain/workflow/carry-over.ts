/**
 * How a workflow run moves to a newer version: what its tasks have come to goes along, by their ids. Tasks
 * that are new wait; of those that are gone, what they came to stays with the version before. Pure.
 */
import type { TaskState } from '@belfry/contract'
import type { WorkflowPlan } from './plan.ts'

export interface CarriedRun {
  readonly states: readonly TaskState[]
  readonly items: ReadonlyMap<number, TaskState[]>
  readonly launched: ReadonlyMap<number, number>
  /** By number of the task, as text. */
  readonly notes: Readonly<Record<string, string>>
}

export interface CarriedOver extends CarriedRun {
  /** By the number that a task had: the one that it has now; -1: it is gone. */
  readonly numbers: readonly number[]
}

export function carryOver(from: WorkflowPlan, to: WorkflowPlan, run: CarriedRun): CarriedOver {
  const numbers = from.tasks.map((task) => to.byId.get(task.id)?.index ?? -1)
  const states = to.tasks.map((task): TaskState => {
    const before = from.byId.get(task.id)
    return (before && run.states[before.index]) ?? 'waiting_for_dependencies'
  })
  // a task that runs for each item now and did not before, or the other way round, has no items to keep
  const keepsItems = (old: number): boolean =>
    to.tasks[numbers[old] ?? -1]?.mapped === true && from.tasks[old]?.mapped === true
  const moved = <Value>(entries: Iterable<readonly [number, Value]>): [number, Value][] =>
    [...entries].flatMap(([old, value]): [number, Value][] =>
      keepsItems(old) ? [[numbers[old] ?? -1, value]] : [],
    )
  const notes = Object.entries(run.notes).flatMap(([old, note]) => {
    const now = numbers[Number(old)] ?? -1
    return now < 0 ? [] : [[String(now), note] as const]
  })
  return {
    numbers,
    states,
    items: new Map(moved(run.items)),
    launched: new Map(moved(run.launched)),
    notes: Object.fromEntries(notes),
  }
}
