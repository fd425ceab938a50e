/**
 * The layers of a workflow for drawing it: a task stands one layer below the lowest of its parents; within a
 * layer, tasks stand near their parents (barycentres, two sweeps), so that few edges cross. Deterministic.
 */
import type { PlannedTask, WorkflowPlan } from './plan.ts'

/** Layers from the top; `onFailure` and `finally` tasks come below the last of what precedes them. */
export function layersOf(plan: WorkflowPlan): readonly (readonly PlannedTask[])[] {
  const layerOf = new Map<number, number>()
  let below = 0
  for (const role of ['main', 'on_failure', 'finally'] as const) {
    const its = inOrder(plan).filter((task) => task.role === role)
    for (const task of its) {
      const lowest = Math.max(below - 1, ...task.parents.map((parent) => layerOf.get(parent) ?? 0))
      layerOf.set(task.index, lowest + 1)
    }
    below = its.reduce((last, task) => Math.max(last, (layerOf.get(task.index) ?? 0) + 1), below)
  }
  const layers: PlannedTask[][] = Array.from({ length: below }, () => [])
  for (const task of plan.tasks) layers[layerOf.get(task.index) ?? 0]?.push(task)
  return untangle(layers)
}

/** Parents before children. */
function inOrder(plan: WorkflowPlan): PlannedTask[] {
  const left = plan.tasks.map((task) => task.parents.length)
  const order = plan.tasks.filter((task) => task.parents.length === 0)
  for (const task of order) {
    for (const child of task.children) {
      left[child] = (left[child] ?? 0) - 1
      const next = plan.tasks[child]
      if (left[child] === 0 && next !== undefined) order.push(next)
    }
  }
  return order
}

function untangle(layers: readonly PlannedTask[][]): readonly (readonly PlannedTask[])[] {
  const places = new Map<number, number>()
  const note = (layer: readonly PlannedTask[]): void => {
    for (const [place, task] of layer.entries()) places.set(task.index, place / layer.length)
  }
  for (const layer of layers) note(layer)
  const sortBy = (layer: PlannedTask[], neighbours: 'parents' | 'children'): void => {
    const centre = new Map(
      layer.map((task) => {
        const at = task[neighbours].map((index) => places.get(index) ?? 0)
        const own = places.get(task.index) ?? 0
        return [task, at.length === 0 ? own : at.reduce((sum, each) => sum + each, 0) / at.length]
      }),
    )
    layer.sort((one, other) => (centre.get(one) ?? 0) - (centre.get(other) ?? 0))
    note(layer)
  }
  for (const layer of layers) sortBy(layer, 'parents')
  for (const layer of layers.toReversed()) sortBy(layer, 'children')
  for (const layer of layers) sortBy(layer, 'parents')
  return layers
}
