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
import { refusalNote } from '../engine/catalog/workflow-input.ts'
import type { TaskWaitRecord } from '../ports/task-waits.ts'
import type { TaskRuns, WorkflowRunRecord, WorkflowRunSummaryRecord } from '../ports/workflows.ts'
import { taskWaitView } from './task-wait-views.ts'

const iso = (instantMs: number): string => new Date(instantMs).toISOString()
const isoOrNull = (instantMs: number | null): string | null => (instantMs === null ? null : iso(instantMs))

export function workflowRunSummaryView(run: WorkflowRunSummaryRecord): WorkflowRunSummary {
  return {
    id: run.id,
    workflowId: run.workflowId,
    workflow: run.workflowName,
    version: run.version,
    source: run.source,
    scheduleId: run.scheduleId,
    scheduledFor: isoOrNull(run.scheduledForMs),
    dataInterval:
      run.intervalEndMs === null
        ? null
        : { start: isoOrNull(run.intervalStartMs), end: iso(run.intervalEndMs) },
    triggeredBy: run.causeId,
    state: run.state ?? (run.queued ? 'pending' : 'running'),
    createdAt: iso(run.createdAtMs),
    endedAt: run.endedAtMs === null ? null : iso(run.endedAtMs),
  }
}

export function workflowRunView(run: WorkflowRunRecord): WorkflowRun {
  const taskCounts: Partial<Record<TaskState, number>> = {}
  for (const state of unpackStates(run.states)) taskCounts[state] = (taskCounts[state] ?? 0) + 1
  return {
    ...workflowRunSummaryView(run),
    input: run.input ?? null,
    output: run.output ?? null,
    priority: run.priority,
    parentId: run.parentId,
    note: run.notes['output'] ?? run.notes[refusalNote] ?? null,
    taskCounts,
  }
}

export function workflowRunTasksView(
  run: WorkflowRunRecord,
  definition: WorkflowDefinition,
  taskRuns: readonly TaskRuns[],
  waits: readonly TaskWaitRecord[],
): WorkflowRunTasks {
  const states = unpackStates(run.states)
  const { items } = unpackItems(run.items)
  const byTask = new Map(taskRuns.map((each) => [each.task, each]))
  const waitOf = new Map(waits.map((each) => [each.task, taskWaitView(each)]))
  return {
    tasks: shapesOf(definition).map(({ id }, index) => ({
      id,
      state: states[index] ?? 'waiting_for_dependencies',
      runId: byTask.get(index)?.newestRunId ?? null,
      runs: byTask.get(index)?.runs ?? 0,
      items: items.get(index) ?? null,
      note: run.notes[String(index)] ?? null,
      wait: waitOf.get(index) ?? null,
    })),
  }
}
