/**
 * What begins runs of workflows in the statement of somebody else: planned times (fire-workflows.ts),
 * backfills, ends of other workflows. A run, its progress in which no task has begun, and the event that
 * begins it; one that waits for the run before it has none until that has ended.
 */

/** `w`, a row of workflow: what a run takes over from it. */
export const takenFromWorkflow = `w.id AS workflow_id, w.version AS workflow_version, w.task_count,
           w.timeout_ms AS workflow_timeout_ms, w.concurrency IS NOT NULL AS queued`

/**
 * `from` has what `takenFromWorkflow` says, and run_id, tenant_id, input, source, schedule_id, scheduled_for,
 * interval_start, interval_end, cause_id, chain, run_priority, waits, and follows_schedule: whether the
 * overlap policy of its schedule looks at it. `notes`: a column of it, where some begin with notes.
 */
export const beginWorkflowRuns = (from: string, notes = `'{}'::jsonb`): string => `
  new_workflow_run AS (
    INSERT INTO belfry.workflow_run
      (id, tenant_id, workflow_id, version, source, input, schedule_id, scheduled_for, interval_start,
       interval_end, cause_id, chain, priority)
    SELECT run_id, tenant_id, workflow_id, workflow_version, source, input, schedule_id, scheduled_for,
           interval_start, interval_end, cause_id, chain, run_priority
    FROM ${from}
  ),
  new_workflow_progress AS (
    INSERT INTO belfry.workflow_progress
      (workflow_run_id, tenant_id, workflow_id, version, states, turn, deadline, timeout_ms, gate, priority,
       schedule_id, waits, notes)
    SELECT run_id, tenant_id, workflow_id, workflow_version, decode(repeat('00', task_count), 'hex'), 'main',
           CASE WHEN NOT waits AND NOT queued
             THEN belfry.now() + workflow_timeout_ms * interval '1 millisecond' END,
           workflow_timeout_ms, CASE WHEN queued THEN belfry.workflow_gate(workflow_id, input) END,
           run_priority, CASE WHEN follows_schedule THEN schedule_id END, waits, ${notes}
    FROM ${from}
  ),
  new_workflow_begin AS (
    INSERT INTO belfry.workflow_event (workflow_run_id, tenant_id, kind)
    SELECT run_id, tenant_id, 'begin' FROM ${from} WHERE NOT waits
  )`
