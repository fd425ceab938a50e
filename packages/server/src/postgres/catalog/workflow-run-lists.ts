/**
 * Lists of workflow runs of one tenant: picks the statement by what is asked
 * (statements/workflow-run-lists.ts).
 */
import { isLiveWorkflowRun } from '@belfry/contract'
import type { Found, PageRequest } from '../../ports/paging.ts'
import type { WorkflowRunFilter, WorkflowRunSummaryRecord } from '../../ports/workflows.ts'
import type { Transaction } from '../database.ts'
import * as statements from '../statements/workflow-run-lists.ts'
import { createdBetween } from './id-ranges.ts'
import { summaryRecord } from './workflow-run-records.ts'

/** How many workflow runs are looked at for a page, where some of them may not pass. */
const mostLooked = 5_000

export async function listOfWorkflowRuns(
  tx: Transaction,
  page: PageRequest,
  filter: WorkflowRunFilter,
): Promise<Found<WorkflowRunSummaryRecord>> {
  const rows = await rowsOf(tx, page, filter)
  const items = rows.flatMap((row) => (row.id === null ? [] : [summaryRecord(row)]))
  return { items, lookedTo: rows[0]?.looked_to ?? null }
}

function rowsOf(
  tx: Transaction,
  page: PageRequest,
  filter: WorkflowRunFilter,
): Promise<statements.ListedWorkflowRunRow[]> {
  const { states, workflowId, scheduleId } = filter
  const walk = [...createdBetween(page, filter), page.limit, lookOf(filter, page.limit)] as const
  if (states !== undefined) {
    const live = states.filter(isLiveWorkflowRun)
    const ended = states.filter((state) => !isLiveWorkflowRun(state))
    const wanted = [live, ended, workflowId ?? null, scheduleId ?? null] as const
    return tx.query(statements.listWorkflowRunsInStates, [...walk, ...wanted])
  }
  if (scheduleId !== undefined)
    return tx.query(statements.listRunsOfWorkflowSchedule, [...walk, scheduleId, workflowId ?? null])
  if (workflowId !== undefined) return tx.query(statements.listRunsOfWorkflow, [...walk, workflowId])
  return tx.query(statements.listWorkflowRuns, walk)
}

/** Where each that is met belongs to the page, no more are needed. */
function lookOf(filter: WorkflowRunFilter, limit: number): number {
  const { states, workflowId, scheduleId, createdAfterMs, createdBeforeMs } = filter
  const owners = [workflowId, scheduleId].filter((owner) => owner !== undefined).length
  const some = createdAfterMs !== null || createdBeforeMs !== null || owners > 1 || states !== undefined
  return some ? Math.max(limit, mostLooked) : limit
}
