/**
 * What an act by hand on a workflow run goes by: the run as it was opened, the outputs that conditions look
 * at, and what branches have chosen. Read only; the acts are in workflow-acts.ts.
 */
import type { JsonValue, WorkflowDefinition, WorkflowRunMark } from '@belfry/contract'
import { setByHand } from '../../domain/workflow/explain-task.ts'
import type { WorkflowProgress } from '../../domain/workflow/progress.ts'
import type { PutBackOptions } from '../../domain/workflow/rerun.ts'
import type { CatalogTx } from '../../ports/catalog.ts'
import type { HeldWorkflowRun } from '../../ports/workflow-acts.ts'
import { choiceOf, outputsOf } from '../workflow-outputs.ts'
import type { CompiledWorkflow } from '../workflow-plans.ts'

export interface ActParts {
  readonly tx: CatalogTx
  readonly keyId: string
}

/** A workflow run that is held, with its version compiled. */
export interface Opened {
  readonly parts: ActParts
  readonly held: HeldWorkflowRun
  readonly definition: WorkflowDefinition
  readonly compiled: CompiledWorkflow
  readonly progress: WorkflowProgress
  readonly launched: ReadonlyMap<number, number>
  readonly notes: Readonly<Record<string, string>>
  /** Runs of tasks that are gone in the version that it moves to have these numbers. */
  readonly goneTasks: readonly string[]
  readonly version: number
}

type Facts = Pick<PutBackOptions, 'facts' | 'chosenBy'>

/** Outputs that conditions look at, and what branches that are kept have chosen. */
export async function factsOf(
  { parts, held, compiled, progress, notes }: Opened,
  input: JsonValue | undefined,
): Promise<Facts> {
  const { plan } = compiled
  const outputs = outputsOf(plan, progress, (tasks) => parts.tx.workflows.acts.outputs(held.id, tasks))
  const choosing = plan.tasks.filter(({ kind }) => kind !== 'task').map(({ index }) => index)
  const wanted = [...compiled.lookedAt, ...choosing]
  await outputs.load(wanted.filter((index) => progress.states[index] === 'succeeded'))
  return {
    facts: { outputOf: outputs.get, input },
    chosenBy(task) {
      const output = outputs.get(task.id)
      // one that was set by hand has chosen only where an output was given
      const isSet = setByHand(notes[String(task.index)])
      return isSet && output === undefined ? undefined : choiceOf(plan, task, output)
    },
  }
}

/** The same as it is once tasks are set; a branch that is set without an output has chosen nothing. */
export async function factsAfter(
  opened: Opened,
  { tasks, state, output }: Pick<WorkflowRunMark, 'tasks' | 'state' | 'output'>,
): Promise<Facts> {
  const { progress, compiled, held } = opened
  const set = new Set(tasks)
  const states = progress.states.map((each, index) =>
    set.has(compiled.plan.tasks[index]?.id ?? '') ? state : each,
  )
  const { facts, chosenBy } = await factsOf({ ...opened, progress: { ...progress, states } }, held.input)
  return {
    facts: {
      input: held.input,
      outputOf: (id) => (output !== undefined && set.has(id) ? output : facts?.outputOf(id)),
    },
    chosenBy(task) {
      if (!set.has(task.id)) return chosenBy?.(task)
      return output === undefined ? undefined : choiceOf(compiled.plan, task, output)
    },
  }
}
