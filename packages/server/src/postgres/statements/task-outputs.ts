/**
 * Outputs of tasks of a workflow run: of the newest run of each, and of each item, that succeeded, and what
 * people gave instead when they marked one. As text, for the statements of the resolver and of the API.
 */

export type TaskOutputRow = {
  task: number
  item: number | null
  result: unknown
  response: string | null
  given: boolean
}

export const taskOutputs = (tenant: string, workflowRun: string, tasks: string): string => `
(SELECT DISTINCT ON (r.task, r.item) r.task, r.item, ended.result, ended.response, false AS given
FROM belfry.run r
CROSS JOIN LATERAL (
  SELECT result, CASE WHEN result IS NULL AND NOT response_truncated THEN response END AS response
  FROM belfry.attempt WHERE run_id = r.id AND run_state = 'succeeded' OFFSET 0
) AS ended
WHERE r.tenant_id = ${tenant} AND r.workflow_run_id = ${workflowRun} AND r.task = ANY (${tasks}::integer[])
ORDER BY r.task, r.item, r.id DESC)
UNION ALL
(SELECT DISTINCT ON (past.task, past.item) past.task, past.item, past.output, NULL, false
FROM belfry.task_wait past
WHERE past.tenant_id = ${tenant} AND past.workflow_run_id = ${workflowRun}
  AND past.task = ANY (${tasks}::integer[]) AND past.state = 'succeeded'
ORDER BY past.task, past.item, past.id DESC)
UNION ALL
SELECT by_hand.key::integer, NULL, by_hand.value, NULL, true
FROM belfry.workflow_run w CROSS JOIN LATERAL jsonb_each(w.given_outputs) AS by_hand
WHERE w.tenant_id = ${tenant} AND w.id = ${workflowRun} AND by_hand.key::integer = ANY (${tasks}::integer[])`
