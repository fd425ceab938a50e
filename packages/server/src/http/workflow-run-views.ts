/**
 * Workflow runs as the contract describes them: states are unpacked, and numbers of tasks become their ids
 * in the version that the run keeps.
 */
import type {
  TaskState,
  WorkflowDefinition,
  WorkflowRun,
  WorkflowRunSummary,
  WorkflowRunTasks,
} from '@belfry/contract'
import { shapesOf } from '../domain/workflow/definition.ts'
import { unpackItems, unpackStates } from '../domain/workflow/stored-states.ts'
import type { TaskRuns, WorkflowRunRecord, WorkflowRunSummaryRecord } from '../ports/workflows.ts'

const iso = (instantMs: number): string => new Date(instantMs).toISOString()

export function workflowRunSummaryView(run: WorkflowRunSummaryRecord): WorkflowRunSummary {
  return {
    id: run.id,
    workflowId: run.workflowId,
    workflow: run.workflowName,
    version: run.version,
    source: 'manual',
    state: run.state ?? 'running',
    createdAt: iso(run.createdAtMs),
    endedAt: run.endedAtMs === null ? null : iso(run.endedAtMs),
  }
}

export function workflowRunView(run: WorkflowRunRecord): WorkflowRun {
  const taskCounts: Partial<Record<TaskState, number>> = {}
  for (const state of unpackStates(run.states)) taskCounts[state] = (taskCounts[state] ?? 0) + 1
  return { ...workflowRunSummaryView(run), input: run.input ?? null, taskCounts }
}

export function workflowRunTasksView(
  run: WorkflowRunRecord,
  definition: WorkflowDefinition,
  taskRuns: readonly TaskRuns[],
): WorkflowRunTasks {
  const states = unpackStates(run.states)
  const { items } = unpackItems(run.items)
  const byTask = new Map(taskRuns.map((each) => [each.task, each]))
  return {
    tasks: shapesOf(definition).map(({ id }, index) => ({
      id,
      state: states[index] ?? 'waiting_for_dependencies',
      runId: byTask.get(index)?.newestRunId ?? null,
      runs: byTask.get(index)?.runs ?? 0,
      items: items.get(index) ?? null,
      note: run.notes[String(index)] ?? null,
    })),
  }
}
