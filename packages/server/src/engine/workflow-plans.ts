/**
 * Versions of workflows, compiled: plan, tasks and what they run, and whose outputs conditions look at. A
 * version never changes, so what was compiled once is kept; those that were not used for long go first.
 */
import type { Condition, WorkflowTask } from '@belfry/contract'
import { shapesOf } from '../domain/workflow/definition.ts'
import { planWorkflow, type WorkflowPlan } from '../domain/workflow/plan.ts'
import type { StoredVersion } from '../ports/workflow-runs.ts'
import type { TaskJob } from '../ports/workflows.ts'

export interface CompiledWorkflow {
  readonly plan: WorkflowPlan
  /** By number. */
  readonly tasks: readonly WorkflowTask[]
  readonly taskJobs: readonly TaskJob[]
  readonly priority: number
  /** Tasks whose outputs some condition looks at. */
  readonly lookedAt: readonly number[]
}

const mostKept = 200

export interface WorkflowPlans {
  load(key: string, read: () => Promise<StoredVersion | undefined>): Promise<CompiledWorkflow | undefined>
}

export function createWorkflowPlans(): WorkflowPlans {
  const kept = new Map<string, CompiledWorkflow>()
  return {
    async load(key, read) {
      const known = kept.get(key)
      kept.delete(key)
      const stored = known === undefined ? await read() : undefined
      const compiled = known ?? (stored && compile(stored))
      if (compiled === undefined) return undefined
      kept.set(key, compiled)
      const oldest = kept.size > mostKept ? kept.keys().next().value : undefined
      if (oldest !== undefined) kept.delete(oldest)
      return compiled
    },
  }
}

function compile({ definition, taskJobs }: StoredVersion): CompiledWorkflow {
  const tasks = [...definition.tasks, ...definition.onFailure, ...definition.finally]
  const plan = planWorkflow(shapesOf(definition), definition.failFast)
  const named = new Set(tasks.flatMap(({ when }) => (when === undefined ? [] : outputsIn(when))))
  const lookedAt = [...named].flatMap((id) => plan.byId.get(id)?.index ?? [])
  return { plan, tasks, taskJobs, priority: definition.priority, lookedAt }
}

function outputsIn(condition: Condition): string[] {
  if ('all' in condition) return condition.all.flatMap(outputsIn)
  if ('any' in condition) return condition.any.flatMap(outputsIn)
  if ('not' in condition) return outputsIn(condition.not)
  return 'output' in condition ? [condition.task] : []
}
