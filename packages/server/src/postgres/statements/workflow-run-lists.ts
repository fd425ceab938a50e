/**
 * Lists of workflow runs of one tenant, newest first. Each looks at no more than `look` of them, or of them
 * in each place: what is wanted may be rare, and the history long. `looked_to` says where it ended early.
 */
import { byIndex, statement } from '../statement.ts'
import type { Walk } from './runs.ts'
import { workflowRunSummary, type WorkflowRunSummaryRow } from './workflow-runs.ts'

/** `looked_to` is the same in every row; a page without a run is one row without an id. */
export type ListedWorkflowRunRow = { looked_to: string | null } & (WorkflowRunSummaryRow | { id: null })

const itsProgress = `
LEFT JOIN LATERAL (
  SELECT waits, gate, admitted_at FROM belfry.workflow_progress WHERE workflow_run_id = r.id OFFSET 0
) AS p ON true`

/** What stands behind `page`, the ids of a page: found first, by little; then the rest is looked up. */
const listed = (lookedTo: string) => `
SELECT (${lookedTo}) AS looked_to, item.*
FROM (VALUES (1)) AS one LEFT JOIN (
  SELECT ${workflowRunSummary}
  FROM page
  CROSS JOIN LATERAL (
    SELECT * FROM belfry.workflow_run WHERE tenant_id = belfry.tenant_id() AND id = page.id OFFSET 0
  ) r
  JOIN belfry.workflow w ON w.tenant_id = r.tenant_id AND w.id = r.workflow_id ${itsProgress}
) AS item ON true
ORDER BY item.id DESC`

const walk = (by: string, wanted: string) => `
WITH looked AS MATERIALIZED (
  SELECT r.id, r.created_at, r.workflow_id FROM belfry.workflow_run r
  WHERE r.tenant_id = belfry.tenant_id() AND r.id >= $1 AND r.id < $2 ${by}
  ORDER BY r.id DESC LIMIT $6
), page AS MATERIALIZED (
  SELECT id FROM looked WHERE created_at >= $3 AND created_at < $4 ${wanted} ORDER BY id DESC LIMIT $5
)${listed('SELECT (array_agg(id ORDER BY id))[1] FROM looked HAVING count(*) >= $6')}`

/** Whatever their state. */
export const listWorkflowRuns = statement<ListedWorkflowRunRow, Walk>(
  'workflow_run_list',
  walk('', ''),
  byIndex,
)

/** The same of one workflow. */
export const listRunsOfWorkflow = statement<ListedWorkflowRunRow, [...Walk, workflowId: string]>(
  'workflow_run_list_of',
  walk('AND r.workflow_id = $7', ''),
  byIndex,
)

/** The same of one schedule. */
export const listRunsOfWorkflowSchedule = statement<
  ListedWorkflowRunRow,
  [...Walk, scheduleId: string, workflowId: string | null]
>(
  'workflow_run_list_schedule',
  walk('AND r.schedule_id = $7', 'AND ($8::uuid IS NULL OR workflow_id = $8)'),
  byIndex,
)

const queued = 'waits OR (gate IS NOT NULL AND admitted_at IS NULL)'

/**
 * In some states: from what is alive (`$7`: pending, running) and from the index of how they ended (`$8`).
 * Where the look at one of them ended early, only what is newer than its end is complete.
 */
export const listWorkflowRunsInStates = statement<
  ListedWorkflowRunRow,
  [
    ...Walk,
    live: readonly string[],
    ended: readonly string[],
    workflowId: string | null,
    scheduleId: string | null,
  ]
>(
  'workflow_run_list_states',
  `
WITH looked AS MATERIALIZED (
  (SELECT 'alive' AS place, workflow_run_id AS id,
          CASE WHEN ${queued} THEN 'pending' ELSE 'running' END AS state
   FROM belfry.workflow_progress
   WHERE tenant_id = belfry.tenant_id() AND workflow_run_id >= $1 AND workflow_run_id < $2 AND version > 0
     AND cardinality($7::text[]) > 0
   ORDER BY workflow_run_id DESC LIMIT $6)
  UNION ALL
  SELECT past.state, past.id, NULL FROM unnest($8::text[]) AS wanted (state)
  CROSS JOIN LATERAL (
    SELECT r.state, r.id FROM belfry.workflow_run r
    WHERE r.tenant_id = belfry.tenant_id() AND r.state = wanted.state AND r.id >= $1 AND r.id < $2
    ORDER BY r.id DESC LIMIT $6
  ) AS past
), ends AS MATERIALIZED (
  SELECT (array_agg(id ORDER BY id))[1] AS id FROM looked GROUP BY place HAVING count(*) >= $6
), page AS MATERIALIZED (
  SELECT looked.id FROM looked
  CROSS JOIN LATERAL (
    SELECT 1 FROM belfry.workflow_run r
    WHERE r.tenant_id = belfry.tenant_id() AND r.id = looked.id AND r.created_at >= $3 AND r.created_at < $4
      AND ($9::uuid IS NULL OR r.workflow_id = $9) AND ($10::uuid IS NULL OR r.schedule_id = $10)
    OFFSET 0
  ) AS passing
  WHERE NOT EXISTS (SELECT FROM ends WHERE ends.id > looked.id)
    AND (looked.state IS NULL OR looked.state = ANY ($7::text[]))
  ORDER BY looked.id DESC LIMIT $5
)${listed('SELECT id FROM ends ORDER BY id DESC LIMIT 1')}`,
  byIndex,
)
