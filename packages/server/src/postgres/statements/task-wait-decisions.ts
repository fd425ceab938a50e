/**
 * Waits of tasks, as the API reads them and ends them for one tenant. The end of one and the event that tells
 * the resolver are one statement.
 */
import { byIndex, statement } from '../statement.ts'

export type TaskWaitRow = {
  task: number
  item: number | null
  kind: string
  message: string | null
  signal: string | null
  child_id: string | null
  created_at: Date
  due_at: Date | null
  state: string | null
  ended_at: Date | null
  ended_by: unknown
  reason: string | null
  open: number
}

/** Of each task of a workflow run one wait: an open one, or the newest. */
export const listTaskWaits = statement<TaskWaitRow, [workflowRunId: string]>(
  'task_wait_list',
  `
SELECT DISTINCT ON (task) task, item, kind, message, signal, child_id, created_at, due_at, state, ended_at,
       ended_by, reason, (count(*) FILTER (WHERE state IS NULL) OVER (PARTITION BY task))::integer AS open
FROM belfry.task_wait
WHERE tenant_id = belfry.tenant_id() AND workflow_run_id = $1
ORDER BY task, state IS NULL DESC, id DESC`,
  byIndex,
)

export type OpenApprovalRow = {
  id: string
  workflow_run_id: string
  workflow_name: string
  task_id: string
  item: number | null
  message: string
  created_at: Date
  due_at: Date | null
}

/** Approvals that nobody has given yet, newest first. */
export const listOpenApprovals = statement<OpenApprovalRow, [beforeId: string, limit: number]>(
  'task_wait_open_approvals',
  `
SELECT t.id, t.workflow_run_id, w.name AS workflow_name, t.task_id, t.item, t.message, t.created_at, t.due_at
FROM belfry.task_wait t
CROSS JOIN LATERAL (
  SELECT workflow_id FROM belfry.workflow_progress WHERE workflow_run_id = t.workflow_run_id OFFSET 0
) AS p
JOIN belfry.workflow w ON w.tenant_id = t.tenant_id AND w.id = p.workflow_id
WHERE t.tenant_id = belfry.tenant_id() AND t.state IS NULL AND t.kind = 'approval' AND t.id < $1
ORDER BY t.id DESC LIMIT $2`,
  byIndex,
)

/** Approves or rejects what is open, once: of two who decide, the second finds nothing open. */
export const decideTaskWait = statement<
  { state: string },
  [
    workflowRunId: string,
    task: number,
    item: number | null,
    approved: boolean,
    output: string | null,
    by: string,
    reason: string | null,
  ]
>(
  'task_wait_decide',
  `
WITH ended AS (
  UPDATE belfry.task_wait
  SET state = CASE WHEN $4 THEN 'succeeded' ELSE on_reject END, ended_at = belfry.now(), output = $5,
      ended_by = $6, reason = $7
  WHERE tenant_id = belfry.tenant_id() AND workflow_run_id = $1 AND task = $2 AND item IS NOT DISTINCT FROM $3
    AND kind = 'approval' AND state IS NULL
  RETURNING id, tenant_id, workflow_run_id, state
), told AS (
  INSERT INTO belfry.workflow_event (workflow_run_id, tenant_id, kind, run_id)
  SELECT workflow_run_id, tenant_id, 'end', id FROM ended
)
SELECT state FROM ended`,
  byIndex,
)

/** Keeps a signal, the newest of its name, and tells the resolver. */
export const sendSignal = statement<
  unknown,
  [workflowRunId: string, name: string, payload: string | null, by: string]
>(
  'workflow_signal_send',
  `
WITH kept AS (
  INSERT INTO belfry.workflow_signal (workflow_run_id, name, tenant_id, payload, sent_by)
  VALUES ($1, $2, belfry.tenant_id(), $3, $4)
  ON CONFLICT (workflow_run_id, name)
  DO UPDATE SET payload = EXCLUDED.payload, sent_at = belfry.now(), sent_by = EXCLUDED.sent_by
  RETURNING workflow_run_id, tenant_id
)
INSERT INTO belfry.workflow_event (workflow_run_id, tenant_id, kind)
SELECT workflow_run_id, tenant_id, 'signal' FROM kept`,
)
