/**
 * Runs of workflows of one tenant. While one is alive, how its tasks stand is in its progress; afterwards it
 * is kept with the run.
 */
import type { WorkflowDefinition } from '@belfry/contract'
import type { WorkflowRunOrigin, WorkflowRunStore } from '../../ports/workflows.ts'
import type { Transaction } from '../database.ts'
import * as statements from '../statements/workflow-runs.ts'
import { isoOrNull } from './values.ts'
import { listOfWorkflowRuns } from './workflow-run-lists.ts'
import { runRecord } from './workflow-run-records.ts'

const manual: WorkflowRunOrigin = {
  source: 'manual',
  scheduleId: null,
  scheduledForMs: null,
  intervalStartMs: null,
  causeId: null,
}

export function createWorkflowRunStore(tx: Transaction): WorkflowRunStore {
  return {
    async insert({ id, workflow, input, timeoutMs, priority, origin = manual }) {
      const text = input === undefined ? null : JSON.stringify(input)
      const { id: workflowId, version, taskCount } = workflow
      const { source, scheduleId, scheduledForMs, intervalStartMs, causeId } = origin
      const times = [isoOrNull(scheduledForMs), isoOrNull(intervalStartMs)] as const
      const from = [source, scheduleId, ...times, causeId] as const
      const params = [id, workflowId, version, taskCount, text, timeoutMs, priority] as const
      await tx.query(statements.insertWorkflowRun, [...params, ...from])
    },
    find: async (id) => (await tx.query(statements.findWorkflowRun, [id])).map(runRecord)[0],
    list: (page, filter) => listOfWorkflowRuns(tx, page, filter),
    async definition({ workflowId, version }) {
      const [row] = await tx.query(statements.findRunDefinition, [workflowId, version])
      return row?.definition as WorkflowDefinition | undefined
    },
    async taskRuns(id) {
      const rows = await tx.query(statements.listRunsOfTasks, [id])
      return rows.map(({ task, runs, newest_run_id: newestRunId }) => ({ task, runs, newestRunId }))
    },
    requestCancel: async (id) => (await tx.query(statements.requestWorkflowCancel, [id])).length > 0,
  }
}
