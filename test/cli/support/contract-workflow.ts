// Workflows and their runs as the test server of the contract answers them.
import {
  type Workflow,
  type WorkflowDecision,
  type WorkflowRun,
  workflowFileSchema,
  type WorkflowRunActed,
} from '@belfry/contract'
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

/** What came of an act by hand. */
const newActed = (id: string): WorkflowRunActed => ({
  run: newWorkflowRun(id, 'flow'),
  done: true,
  tasks: [
    { id: 'a', before: 'failed', after: 'started', effect: 'starts' },
    { id: 'b', before: 'succeeded', after: 'succeeded', effect: 'kept' },
  ],
  moved: null,
})

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
  scheduleId: null,
  scheduledFor: null,
  dataInterval: null,
  triggeredBy: null,
  state: 'running',
  input: null,
  output: null,
  priority: null,
  parentId: null,
  note: null,
  taskCounts: { waiting_for_dependencies: 1 },
  createdAt: madeAt,
  endedAt: null,
})

const newDecision = (
  workflowRunId: string,
  task: unknown,
  state: WorkflowDecision['state'],
): WorkflowDecision => ({
  workflowRunId,
  task: String(task),
  item: null,
  state,
})

export const workflowAnswers = ({ workflows }: Tables): Answers => ({
  workflowApply: ({ body, query }) => {
    return { ...put(workflows, newWorkflow(nextId(), body), query), outcome: 'created' }
  },
  workflowList: ({ query }) => page(matching(workflows, query, 'name').map(workflowSummary), query),
  workflowDelete: (asked) => remove(workflows, asked, 'workflow'),
  workflowRunCreate: ({ fields }) => newWorkflowRun(nextId(), String(fields['workflow'])),
  workflowRunCancel: ({ id }) => newWorkflowRun(id, 'flow'),
  workflowRunRerun: ({ id }) => newActed(id),
  workflowRunMark: ({ id }) => newActed(id),
  workflowRunSkip: ({ id }) => newActed(id),
  approvalList: ({ query }) => page([], query),
  workflowRunApprove: ({ id, fields }) => newDecision(id, fields['task'], 'succeeded'),
  workflowRunReject: ({ id, fields }) => newDecision(id, fields['task'], 'failed'),
  workflowRunSignal: ({ id }) => newWorkflowRun(id, 'flow'),
  eventSend: ({ fields }) => ({
    id: nextId(),
    event: String(fields['event']),
    key: (fields['key'] ?? null) as string | null,
    duplicate: false,
    runs: [{ workflow: 'flow', workflowRunId: nextId() }],
    refused: [],
  }),
})
