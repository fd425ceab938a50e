/**
 * Runs of the tasks of one workflow run, those before a rerun too, as the list of runs shows them: found by
 * the index run_of_workflow.
 */
import { byIndex, statement } from '../statement.ts'
import { itsPlace, type ListedRunRow, type Walk, walkOver } from './runs.ts'

/** Newest first: of all its tasks, or of one; whatever their state, or in some. */
export const listRunsOfWorkflowRun = statement<
  ListedRunRow,
  [
    ...Walk,
    workflowRunId: string,
    task: number | null,
    jobId: string | null,
    states: readonly string[] | null,
  ]
>(
  'run_list_workflow_run',
  walkOver(
    `
  SELECT r.id, r.created_at, r.job_id FROM belfry.run r
  WHERE r.tenant_id = belfry.tenant_id() AND r.workflow_run_id = $7 AND r.id >= $1 AND r.id < $2
    AND ($8::integer IS NULL OR r.task = $8)
  ORDER BY r.id DESC LIMIT $6`,
    itsPlace,
    'AND ($9::uuid IS NULL OR r.job_id = $9) AND ($10::text[] IS NULL OR derived.state = ANY($10::text[]))',
  ),
  byIndex,
)
