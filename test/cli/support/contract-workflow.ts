// A workflow as the test server of the contract answers it.
import { type Workflow, type WorkflowRun, workflowFileSchema } from '@belfry/contract'

/** As it is stored from a file. */
export function newWorkflow(id: string, file: unknown): Workflow {
  const at = '2026-11-29T12:00:00.000Z'
  return { ...workflowFileSchema.parse(file), id, version: 1, createdAt: at, updatedAt: at, warnings: [] }
}

/** As a list shows it. */
export const workflowSummary = ({
  id,
  name,
  description,
  version,
  createdAt,
  updatedAt,
  tasks,
}: Workflow) => {
  return { id, name, description, version, createdAt, updatedAt, tasks: tasks.length }
}

export const newWorkflowRun = (id: string, workflow: string): WorkflowRun => ({
  id,
  workflowId: id,
  workflow,
  version: 1,
  source: 'manual',
  state: 'running',
  input: null,
  taskCounts: { waiting_for_dependencies: 1 },
  createdAt: '2026-11-29T12:00:00.000Z',
  endedAt: null,
})
