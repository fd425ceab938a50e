/**
 * `@belfry/server/workflow`: the rules of workflows as a library, the same that the engine decides by. It
 * needs no server and no database. What is wrong with an input comes back as a value.
 */
import type { FailFastMode } from '@belfry/contract'
import { planWorkflow, type TaskShape, type WorkflowPlan } from './domain/workflow/plan.ts'
import { shapeFaults, type WorkflowFault } from './domain/workflow/validate.ts'
import { refuse, type Result, succeed } from './domain/zone/result.ts'

export { definitionFaults, definitionWarnings, shapesOf } from './domain/workflow/definition.ts'
export type { WorkflowWarning } from './domain/workflow/definition.ts'
export { layersOf } from './domain/workflow/layers.ts'
export { carryOver } from './domain/workflow/carry-over.ts'
export { reachable } from './domain/workflow/plan.ts'
export { beginWorkflow, createProgress, restoreProgress } from './domain/workflow/progress.ts'
export type { WorkflowCommand, WorkflowProgress } from './domain/workflow/progress.ts'
export { markTasks, rerunWorkflow, tasksToReset } from './domain/workflow/rerun.ts'
export type { RerunSelection } from './domain/workflow/rerun.ts'
export { play, simulate, statesByTask } from './domain/workflow/simulation.ts'
export type { AttemptScript, Simulated, WorkflowScript } from './domain/workflow/simulation.ts'
export type { TaskShape, WorkflowFault, WorkflowPlan }

/** The plan of a workflow, or all that is wrong with its shape. */
export function openWorkflow(
  shapes: readonly TaskShape[],
  failFast: FailFastMode = 'off',
): Result<WorkflowPlan, readonly [WorkflowFault, ...WorkflowFault[]]> {
  const [first, ...more] = shapeFaults(shapes)
  return first === undefined ? succeed(planWorkflow(shapes, failFast)) : refuse([first, ...more])
}
