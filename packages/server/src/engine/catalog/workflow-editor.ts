/**
 * Decides what a workflow that is sent means: whether it can be stored, which jobs its tasks run, and which
 * of these are its own. Pure.
 */
import type { ErrorDetail, JobDefinition, WorkflowDefinition, WorkflowTask } from '@belfry/contract'
import { BelfryError, jobDefinitionSchema, nearest } from '@belfry/contract'
import { definitionFaults } from '../../domain/workflow/definition.ts'
import { checkInput } from '../../domain/workflow/input-schema.ts'
import type { TaskJob } from '../../ports/workflows.ts'

export interface PlacedTask {
  readonly task: WorkflowTask
  readonly pointer: string
}

type KnownJobs = ReadonlyMap<string, { readonly id: string; readonly definition: JobDefinition }>

const parts = ['tasks', 'onFailure', 'finally'] as const
const mostShown = 20

/** The tasks of all parts, in the order in which they are numbered. */
export function tasksOf(definition: WorkflowDefinition): readonly PlacedTask[] {
  return parts.flatMap((part) =>
    definition[part].map((task, index) => ({ task, pointer: `/${part}/${index}` })),
  )
}

/** Throws `invalid_request` with every fault and its place. */
export function checkDefinition(name: string, definition: WorkflowDefinition): void {
  const faults: ErrorDetail[] = definitionFaults(definition).map(({ pointer, message }) => {
    return { pointer, message }
  })
  for (const { task, pointer } of tasksOf(definition)) {
    const message = `"${task.id}" runs the workflow that it is a task of, without an end; name another one`
    if (task.workflow === name) faults.push({ pointer: `${pointer}/workflow`, message })
  }
  for (const [index, trigger] of definition.triggers.entries()) {
    const message = `"${name}" would begin itself again without an end; name another workflow`
    if ('workflow' in trigger && trigger.workflow === name)
      faults.push({ pointer: `/triggers/${index}/workflow`, message })
    if (trigger.input !== undefined && definition.inputSchema !== undefined) {
      const checked = checkInput(definition.inputSchema, trigger.input, `/triggers/${index}/input`)
      if (!checked.ok) faults.push(...checked.error)
    }
  }
  if (faults.length > 0) throw invalidWorkflow('invalid_request', faults)
}

function invalidWorkflow(code: 'invalid_request' | 'not_found', faults: readonly ErrorDetail[]): BelfryError {
  const words = faults.slice(0, 3).map(({ pointer, message }) => `${pointer} ${message}`)
  const more = faults.length > words.length ? `; and ${faults.length - words.length} more` : ''
  return new BelfryError(code, `The workflow cannot be taken as it is: ${words.join('; ')}${more}.`, {
    errors: faults.slice(0, mostShown),
  })
}

/** Names of the jobs that tasks name, each once. */
export const namedJobs = (definition: WorkflowDefinition): string[] => [
  ...new Set(tasksOf(definition).flatMap(({ task }) => task.job ?? [])),
]

/** Throws `not_found` for jobs that are not there; `names` are some that are. */
export function checkJobs(definition: WorkflowDefinition, jobs: KnownJobs, names: readonly string[]): void {
  const faults = tasksOf(definition).flatMap(({ task, pointer }): ErrorDetail[] => {
    if (task.job === undefined || jobs.has(task.job)) return []
    const meant = nearest(task.job, names)
    const fix =
      meant === undefined ? 'create it first, or give the task a handler' : `did you mean "${meant}"?`
    return [{ pointer: `${pointer}/job`, message: `there is no job "${task.job}"; ${fix}` }]
  })
  if (faults.length > 0) throw invalidWorkflow('not_found', faults)
}

/** Names of the workflows that tasks run, each once. */
export const namedWorkflows = (definition: WorkflowDefinition): string[] => [
  ...new Set(tasksOf(definition).flatMap(({ task }) => task.workflow ?? [])),
]

/** Throws `not_found` for workflows that are not there; `names` are some that are. */
export function checkWorkflows(
  definition: WorkflowDefinition,
  workflows: ReadonlyMap<string, string>,
  names: readonly string[],
): void {
  const faults = tasksOf(definition).flatMap(({ task, pointer }): ErrorDetail[] => {
    if (task.workflow === undefined || workflows.has(task.workflow)) return []
    const meant = nearest(task.workflow, names)
    const fix = meant === undefined ? 'store it first' : `did you mean "${meant}"?`
    return [{ pointer: `${pointer}/workflow`, message: `there is no workflow "${task.workflow}"; ${fix}` }]
  })
  if (faults.length > 0) throw invalidWorkflow('not_found', faults)
}

const ownJobName = (workflow: string, task: string): string => `${workflow}/${task}`

/** The jobs of its own that a workflow needs, by name. */
export function ownJobs(
  workflow: string,
  definition: WorkflowDefinition,
  jobs: KnownJobs,
): { readonly name: string; readonly definition: JobDefinition }[] {
  return tasksOf(definition).flatMap(({ task }) => {
    const own = ownDefinition(task, jobs)
    return own === undefined ? [] : [{ name: ownJobName(workflow, task.id), definition: own }]
  })
}

/**
 * Undefined for a task that runs a job as it is. One that names a job and says how often or how long it is
 * tried takes over the rest of that job as it is when the workflow is saved.
 */
function ownDefinition(task: WorkflowTask, jobs: KnownJobs): JobDefinition | undefined {
  const { handler, retry, attemptTimeoutMs, delivery, queue, priority } = task
  const base = task.job === undefined ? undefined : jobs.get(task.job)?.definition
  const overrides = Object.fromEntries(
    Object.entries({ attemptTimeoutMs, delivery, queue, priority }).filter(
      ([, value]) => value !== undefined,
    ),
  )
  if (handler !== undefined)
    return jobDefinitionSchema.parse({ handler, ...(retry === undefined ? {} : { retry }), ...overrides })
  const asItIs = retry === undefined && attemptTimeoutMs === undefined && delivery === undefined
  if (base === undefined || asItIs) return undefined
  return jobDefinitionSchema.parse({ ...base, retry: { ...base.retry, ...retry }, ...overrides })
}

/** What each task runs, in the order in which tasks are numbered; null: it waits. */
export function taskJobs(
  workflow: string,
  definition: WorkflowDefinition,
  jobs: KnownJobs,
  own: ReadonlyMap<string, TaskJob>,
  workflows: ReadonlyMap<string, string>,
): (TaskJob | null)[] {
  return tasksOf(definition).map(({ task }) => {
    if (task.approval !== undefined || task.wait !== undefined) return null
    const subWorkflow = workflows.get(task.workflow ?? '')
    if (subWorkflow !== undefined) return { jobId: subWorkflow, version: null }
    const kept = own.get(ownJobName(workflow, task.id))
    const named = jobs.get(task.job ?? '')
    if (kept !== undefined) return kept
    if (named !== undefined) return { jobId: named.id, version: null }
    throw new BelfryError('internal', `The task "${task.id}" has no job.`)
  })
}
