/**
 * The tasks of a workflow run whose runs are asked for: a task is known by its id, also one that a newer
 * version of the workflow no longer has.
 */
import { BelfryError } from '@belfry/contract'
import { shapesOf } from '../domain/workflow/definition.ts'
import type { CatalogTx } from '../ports/catalog.ts'

interface Wanted {
  readonly id: string
  readonly task: number | null
}

/** Undefined: no filter. Throws `invalid_request` for a task without a workflow run. */
export async function wantedWorkflowRun(
  tx: CatalogTx,
  { workflowRunId: id, task }: { workflowRunId?: string | undefined; task?: string | undefined },
): Promise<Wanted | undefined> {
  if (id === undefined && task !== undefined) {
    const message = 'goes with workflowRunId: the same task is in many workflow runs'
    throw new BelfryError('invalid_request', `task ${message}.`, {
      errors: [{ pointer: '/query/task', message }],
    })
  }
  if (id === undefined) return undefined
  if (task === undefined) return { id, task: null }
  const run = await tx.workflows.insight.find(id)
  const definition = run && (await tx.workflows.runs.definition(run))
  const number = definition === undefined ? -1 : shapesOf(definition).findIndex((shape) => shape.id === task)
  if (number >= 0) return { id, task: number }
  const place = run?.goneTasks.indexOf(task) ?? -1
  return { id, task: place < 0 ? noSuchTask : -1 - place }
}

/** The number of none: there are no runs of it. */
const noSuchTask = 2_147_483_647
