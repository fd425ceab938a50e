/**
 * The columns of runs of tasks that start, as lists in text (statements/task-starts.ts): made here, because
 * the driver would look at each element by itself.
 */
import { routeOf } from '../domain/route.ts'
import type { NewTaskRun } from '../ports/workflow-runs.ts'
import { listText, quoted } from './list-text.ts'
import type { TaskStartColumns } from './statements/task-starts.ts'

interface Kinds {
  readonly numbers: readonly number[]
  /** The first of each. */
  readonly firsts: readonly NewTaskRun[]
}

/** Runs of one job in one place are of one kind. */
function kindsOf(runs: readonly NewTaskRun[]): Kinds {
  const known = new Map<string, number>()
  const firsts: NewTaskRun[] = []
  const numbers = runs.map((run) => {
    const { template, queue, priority, tenantId } = run
    const key = `${tenantId} ${template.jobId} ${template.jobVersion} ${priority} ${queue}`
    const number = known.get(key) ?? firsts.push(run)
    known.set(key, number)
    return number
  })
  return { numbers, firsts }
}

export function taskStartColumns(runs: readonly NewTaskRun[]): TaskStartColumns {
  const { numbers, firsts } = kindsOf(runs)
  const templates = firsts.map(({ template }) => template)
  const hasItems = runs.some(({ item }) => item !== undefined)
  const hasInputs = runs.some(({ input }) => input !== undefined)
  return [
    firsts.map(({ tenantId }) => tenantId),
    templates.map(({ jobId }) => jobId),
    templates.map(({ jobVersion }) => jobVersion),
    firsts.map(({ queue }) => queue),
    firsts.map(({ template, tenantId }) => routeOf(template.definition.handler, tenantId)),
    firsts.map(({ priority }) => priority),
    templates.map(({ definition }) => definition.attemptTimeoutMs),
    templates.map(({ definition }) => definition.startWithinMs),
    templates.map(({ definition }) => definition.runDeadlineMs),
    listText(numbers),
    listText(runs.map(({ id }) => id)),
    listText(runs.map(({ workflowRunId }) => workflowRunId)),
    listText(runs.map(({ task }) => task)),
    hasItems ? listText(runs.map(({ item }) => item ?? 'NULL')) : null,
    hasInputs ? listText(runs.map(inputText)) : null,
    listText(runs.map(({ tag }) => tag)),
  ]
}

const inputText = ({ input }: NewTaskRun): string =>
  input === undefined ? 'NULL' : quoted(JSON.stringify(input))
