/**
 * Workflows as the contract describes them. Stored JSON gets its keys in the order of the schema, and headers
 * of inline handlers that carry secrets are masked.
 */
import type {
  Workflow,
  WorkflowDefinition,
  WorkflowSummary,
  WorkflowTask,
  WorkflowVersion,
} from '@belfry/contract'
import { workflowDefinitionSchema, workflowTaskSchema } from '@belfry/contract'
import { definitionWarnings } from '../domain/workflow/definition.ts'
import type { WorkflowRecord, WorkflowSummaryRecord, WorkflowVersionRecord } from '../ports/workflows.ts'
import { handlerView } from './handler-views.ts'

const iso = (instantMs: number): string => new Date(instantMs).toISOString()
const taskKeys = Object.keys(workflowTaskSchema.shape)
const definitionKeys = Object.keys(workflowDefinitionSchema.shape)

export function workflowSummaryView(workflow: WorkflowSummaryRecord): WorkflowSummary {
  return { ...coreView(workflow), tasks: workflow.taskCount }
}

function coreView(workflow: WorkflowSummaryRecord) {
  return {
    id: workflow.id,
    name: workflow.name,
    description: workflow.description,
    version: workflow.version,
    createdAt: iso(workflow.createdAtMs),
    updatedAt: iso(workflow.updatedAtMs),
  }
}

export function workflowView(workflow: WorkflowRecord): Workflow {
  const { definition } = workflow
  return {
    ...coreView(workflow),
    ...inOrder(definition, definitionKeys),
    tasks: definition.tasks.map(taskView),
    onFailure: definition.onFailure.map(taskView),
    finally: definition.finally.map(taskView),
    warnings: definitionWarnings(definition),
  }
}

function taskView(task: WorkflowTask): WorkflowTask {
  const { handler } = task
  const shown = inOrder(task, taskKeys)
  return handler === undefined ? shown : { ...shown, handler: handlerView(handler) }
}

function inOrder<T extends WorkflowDefinition | WorkflowTask>(value: T, keys: readonly string[]): T {
  const given = value as Readonly<Record<string, unknown>>
  return Object.fromEntries(
    keys.filter((key) => given[key] !== undefined).map((key) => [key, given[key]]),
  ) as T
}

export function workflowVersionView(version: WorkflowVersionRecord): WorkflowVersion {
  return { version: version.version, tasks: version.taskCount, createdAt: iso(version.createdAtMs) }
}
