/**
 * Runs and waits of tasks of one workflow run that have not ended, as far as the resolver knows
 * (`task_run`). They are asked for when something is canceled, explained or done by hand, so there is no
 * index for it: what the workflow run ever started is walked, and each looked up by its key. `OFFSET 0` keeps
 * it so, whatever the statistics say, and keeps an order outside from choosing the index.
 */

/** A table of tenant_id, run_id and task. `tasks`: an SQL array of their numbers; left out: all. */
export const liveTaskRuns = (tenant: string, workflowRun: string, tasks?: string): string => {
  const named = (table: string) => (tasks === undefined ? '' : ` AND ${table}.task = ANY (${tasks})`)
  const its = (table: string) => `
      SELECT id FROM belfry.${table}
      WHERE tenant_id = ${tenant} AND workflow_run_id = ${workflowRun}${named(table)}`
  return `
    SELECT alive.tenant_id, alive.run_id, alive.task
    FROM (${its('run')}
      UNION ALL${its('task_wait')}
      OFFSET 0
    ) AS past
    CROSS JOIN LATERAL (
      SELECT tenant_id, run_id, task FROM belfry.task_run WHERE task_run.run_id = past.id OFFSET 0
    ) AS alive`
}
