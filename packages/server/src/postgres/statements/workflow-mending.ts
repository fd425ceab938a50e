/**
 * What nobody told the resolver of, found by walking over what is alive, a page at a time. There is none, but
 * where rows were touched by hand: what happens is on record with what caused it (migration 0022). Each page
 * is judged in one snapshot, so a round that is under way is seen as not begun, or as whole.
 */
import { taskStates } from '@belfry/contract'
import { byIndex, statement } from '../statement.ts'
import { isUnasked } from './ended-waiting.ts'
import { liveTaskRuns } from './live-task-runs.ts'

export type MendedRow = {
  readonly mended: number
  /** Where the next page begins; null: this was the last. */
  readonly last_id: string | null
}

const mended = (id: string) => `
SELECT (SELECT count(*)::integer FROM told) AS mended,
       CASE WHEN (SELECT count(*) FROM page) >= $2
         THEN (SELECT ${id} FROM page ORDER BY ${id} DESC LIMIT 1) END AS last_id`

/** Without a row of its own there; fenced off, so that it stays a look by a key for each. */
const none = (table: string, id: string) => `
    NOT EXISTS (SELECT FROM belfry.${table} WHERE ${table}.workflow_run_id = ${id} OFFSET 0)`

/** Runs of tasks, and waits of tasks, that have ended. Most are alive, which one look by their key tells. */
export const mendTaskEnds = statement<MendedRow, [afterId: string, limit: number]>(
  'workflow_mend_ends',
  `
WITH page AS MATERIALIZED (
  SELECT run_id, tenant_id, workflow_run_id FROM belfry.task_run WHERE run_id > $1 ORDER BY run_id LIMIT $2
), told AS (
  INSERT INTO belfry.workflow_event (workflow_run_id, tenant_id, kind, run_id)
  SELECT workflow_run_id, tenant_id, 'end', run_id
  FROM page
  WHERE NOT coalesce((
      SELECT true FROM belfry.ready r WHERE r.tenant_id = page.tenant_id AND r.run_id = page.run_id), false)
    AND NOT coalesce((
      SELECT true FROM belfry.delayed d WHERE d.tenant_id = page.tenant_id AND d.run_id = page.run_id), false)
    AND coalesce(
      (SELECT true FROM belfry.attempt a WHERE a.run_id = page.run_id AND a.run_state IS NOT NULL LIMIT 1),
      (SELECT w.state IS NOT NULL FROM belfry.task_wait w WHERE w.id = page.run_id),
      false)
    AND ${none('workflow_event', 'page.workflow_run_id')}
  RETURNING 1
)
${mended('run_id')}`,
  byIndex,
)

/** A task that is at work has its byte in `states`. */
const started = taskStates.indexOf('started').toString(16).padStart(2, '0')
const noneStarted = `position('\\x${started}'::bytea IN page.states) = 0`

const hasUnasked = `coalesce((
      SELECT true FROM (${liveTaskRuns('page.tenant_id', 'page.workflow_run_id')}
      ) AS its
      WHERE ${isUnasked('its')} LIMIT 1), false)`

/**
 * Workflow runs that nothing will move on: none of their tasks is at work, and they wait for no turn. Those
 * that wait for the run before them are told to look again, and so are those that were stopped while a run
 * of theirs goes on that nobody asked to end. That is not counted: most will wait on, or clean up.
 */
export const mendWorkflowRuns = statement<MendedRow, [afterId: string, limit: number]>(
  'workflow_mend_runs',
  `
WITH page AS MATERIALIZED (
  SELECT workflow_run_id, tenant_id, states, waits, stop,
         waits OR (gate IS NOT NULL AND admitted_at IS NULL) AS held
  FROM belfry.workflow_progress WHERE workflow_run_id > $1 ORDER BY workflow_run_id LIMIT $2
), told AS (
  INSERT INTO belfry.workflow_event (workflow_run_id, tenant_id, kind)
  SELECT workflow_run_id, tenant_id, 'begin'
  FROM page
  WHERE NOT held
    AND ${noneStarted}
    AND ${none('workflow_event', 'page.workflow_run_id')}
  RETURNING 1
), again AS (
  INSERT INTO belfry.workflow_event (workflow_run_id, tenant_id, kind)
  SELECT workflow_run_id, tenant_id, 'begin' FROM page
  WHERE (waits OR (stop IS NOT NULL AND ${hasUnasked}))
    AND ${none('workflow_event', 'page.workflow_run_id')}
)
${mended('workflow_run_id')}`,
  byIndex,
)

const oldest = (kind: string) => `
    (SELECT ctid, workflow_run_id FROM belfry.workflow_event WHERE kind ${kind} 'begin' ORDER BY at LIMIT $1)`

/** The oldest events, where they are of workflow runs that are over: others would wait behind them. */
export const dropStaleEvents = statement<{ count: number }, [limit: number]>(
  'workflow_drop_stale_events',
  `
WITH gone AS (
  DELETE FROM belfry.workflow_event WHERE ctid = ANY (ARRAY(
    SELECT event.ctid FROM (${oldest('<>')} UNION ALL ${oldest('=')}) AS event
    WHERE ${none('workflow_progress', 'event.workflow_run_id')}))
  RETURNING 1
)
SELECT count(*)::integer AS count FROM gone`,
  byIndex,
)
