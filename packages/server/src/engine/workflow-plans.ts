/**
 * Versions of workflows, compiled: plan, tasks and what they run, and whose outputs conditions look at. A
 * version never changes, so what was compiled once is kept, until a failover may have undone it; those that
 * were not used for long go first.
 */
import type { AtLimit, Condition, JsonValue, OutputMapping, WorkflowTask } from '@belfry/contract'
import { shapesOf } from '../domain/workflow/definition.ts'
import { untilOf } from '../domain/workflow/task-wait.ts'
import { planWorkflow, type WorkflowPlan } from '../domain/workflow/plan.ts'
import type { StoredVersion } from '../ports/workflow-runs.ts'
import type { TaskJob } from '../ports/workflows.ts'
import { createDoubtful } from './doubtful.ts'

export interface CompiledWorkflow {
  readonly plan: WorkflowPlan
  /** By number. */
  readonly tasks: readonly WorkflowTask[]
  /** What each runs: a job, or the workflow of that id; null where it waits. */
  readonly taskJobs: readonly (TaskJob | null)[]
  readonly priority: number
  /** Tasks whose outputs some condition looks at. */
  readonly lookedAt: readonly number[]
  /** Of a run at the limit of how many there are at once. */
  readonly onLimit: AtLimit
  readonly timeoutMs: number | null
  /** What a run gives: a constant part, and what is put into it. */
  readonly output: JsonValue | undefined
  readonly outputFrom: readonly OutputMapping[]
  /** Tasks that run no job: they wait, or run another workflow. */
  readonly waiting: ReadonlySet<number>
  /** Whether some task or condition looks at what the run was begun with. */
  readonly asksForBegin: boolean
}

const mostKept = 200

export interface WorkflowPlans {
  load(key: string, read: () => Promise<StoredVersion | undefined>): Promise<CompiledWorkflow | undefined>
}

export function createWorkflowPlans(doubts?: () => number): WorkflowPlans {
  const kept = new Map<string, CompiledWorkflow>()
  const isSure = createDoubtful(doubts, () => kept.clear())
  return {
    async load(key, read) {
      const sure = isSure()
      const known = kept.get(key)
      kept.delete(key)
      const stored = known === undefined ? await read() : undefined
      const compiled = known ?? (stored && compileWorkflow(stored))
      if (compiled === undefined) return undefined
      if (sure()) kept.set(key, compiled)
      const oldest = kept.size > mostKept ? kept.keys().next().value : undefined
      if (oldest !== undefined) kept.delete(oldest)
      return compiled
    },
  }
}

export function compileWorkflow({ definition, taskJobs }: StoredVersion): CompiledWorkflow {
  const tasks = [...definition.tasks, ...definition.onFailure, ...definition.finally]
  const plan = planWorkflow(shapesOf(definition), definition.failFast)
  const named = new Set(tasks.flatMap(({ when }) => (when === undefined ? [] : outputsIn(when))))
  const lookedAt = [...named].flatMap((id) => plan.byId.get(id)?.index ?? [])
  const { priority, timeoutMs = null, output, outputFrom, concurrency } = definition
  return {
    plan,
    tasks,
    taskJobs,
    priority,
    lookedAt,
    onLimit: concurrency?.onLimit ?? 'queue',
    timeoutMs,
    output,
    outputFrom,
    waiting: new Set(tasks.flatMap((task, index) => (runsNoJob(task) ? [index] : []))),
    asksForBegin: tasks.some(asksForBegin) || outputFrom.some((mapping) => 'input' in mapping),
  }
}

const runsNoJob = ({ approval, wait, workflow }: WorkflowTask): boolean =>
  approval !== undefined || wait !== undefined || workflow !== undefined

function asksForBegin(task: WorkflowTask): boolean {
  const { when, forEach, inputFrom } = task
  const mapped = inputFrom.some((mapping) => 'input' in mapping || 'run' in mapping)
  const listed = 'input' in (forEach?.from ?? {}) || 'input' in (untilOf(task) ?? {})
  return mapped || listed || (when !== undefined && looksAtInput(when))
}

function looksAtInput(condition: Condition): boolean {
  if ('all' in condition) return condition.all.some(looksAtInput)
  if ('any' in condition) return condition.any.some(looksAtInput)
  return 'not' in condition ? looksAtInput(condition.not) : 'input' in condition
}

function outputsIn(condition: Condition): string[] {
  if ('all' in condition) return condition.all.flatMap(outputsIn)
  if ('any' in condition) return condition.any.flatMap(outputsIn)
  if ('not' in condition) return outputsIn(condition.not)
  return 'output' in condition ? [condition.task] : []
}
