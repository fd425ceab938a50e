// Workflows and their runs as the test server of the contract answers them.
import { type Workflow, type WorkflowRun, workflowFileSchema } from '@belfry/contract'
import { madeAt, nextId } from './contract-records.ts'
import { type Answers, matching, page, put, remove, type Tables } from './contract-tables.ts'

/** As it is stored from a file. */
export function newWorkflow(id: string, file: unknown): Workflow {
  return {
    ...workflowFileSchema.parse(file),
    id,
    version: 1,
    createdAt: madeAt,
    updatedAt: madeAt,
    warnings: [],
  }
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
  createdAt: madeAt,
  endedAt: null,
})

export const workflowAnswers = ({ workflows }: Tables): Answers => ({
  workflowApply: ({ body, query }) => {
    return { ...put(workflows, newWorkflow(nextId(), body), query), outcome: 'created' }
  },
  workflowList: ({ query }) => page(matching(workflows, query, 'name').map(workflowSummary), query),
  workflowDelete: (asked) => remove(workflows, asked, 'workflow'),
  workflowRunCreate: ({ fields }) => newWorkflowRun(nextId(), String(fields['workflow'])),
  workflowRunCancel: ({ id }) => newWorkflowRun(id, 'flow'),
})
