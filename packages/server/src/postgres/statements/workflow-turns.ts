/**
 * Whose turn comes when a workflow run ends: the next run of its schedule that waits (overlap policies that
 * buffer), and workflows that begin when it ends. In the transaction of the end.
 *
 * A run that waits is begun by an event of whoever ended one before it. Two that end runs of one schedule at
 * the same time come one after the other (`holdTurns`): so the second sees what the first left, and whoever
 * is the last to end finds who waits. Locks come after those of the rows of workflow_progress.
 */
import type { InputSchema } from '@belfry/contract'
import { byIndex, statement } from '../statement.ts'
import { beginWorkflowRuns, takenFromWorkflow } from './workflow-begin.ts'

/**
 * Lets those of these go, which this transaction holds, that nothing of their schedule is before: no run that
 * has begun, none that waits for longer. Sent after their events were taken, so that it sees every end that
 * one of those tells of.
 */
export const freeWaitingWorkflowRuns = statement<{ id: string }, [workflowRunIds: readonly string[]]>(
  'workflow_turn_free',
  `
UPDATE belfry.workflow_progress AS mine
SET waits = false,
    deadline = CASE WHEN mine.gate IS NULL OR mine.admitted_at IS NOT NULL
      THEN belfry.now() + mine.timeout_ms * interval '1 millisecond' END
WHERE mine.workflow_run_id = ANY ($1::uuid[]) AND mine.waits AND NOT coalesce((
    SELECT true FROM belfry.workflow_progress AS other
    WHERE other.schedule_id = mine.schedule_id AND other.workflow_run_id <> mine.workflow_run_id
      AND (NOT other.waits OR other.workflow_run_id < mine.workflow_run_id)
    LIMIT 1), false)
RETURNING workflow_run_id AS id`,
  byIndex,
)

/** Until the end of the transaction nobody else gives on turns of these schedules. Sent in their order. */
export const holdTurns = statement<unknown, [scheduleIds: readonly string[]]>(
  'workflow_turn_hold',
  `
SELECT pg_advisory_xact_lock(hashtextextended('belfry.turns:' || id::text, 0)) FROM unnest($1::uuid[]) AS id`,
)

/** Tells the first that waits of each schedule to begin, if nothing is before it. */
export const giveTurns = statement<{ id: string }, [scheduleIds: readonly string[]]>(
  'workflow_turn_give',
  `
INSERT INTO belfry.workflow_event (workflow_run_id, tenant_id, kind)
SELECT next.workflow_run_id, next.tenant_id, 'begin'
FROM unnest($1::uuid[]) AS over (schedule_id)
CROSS JOIN LATERAL (
  SELECT workflow_run_id, tenant_id FROM belfry.workflow_progress
  WHERE schedule_id = over.schedule_id AND waits ORDER BY workflow_run_id LIMIT 1
) AS next
RETURNING workflow_run_id AS id`,
  byIndex,
)

export type AftermathRow = {
  /** Of a workflow that begins; null: a backfill may go on. */
  workflow_id: string | null
  schedule_id: string | null
  ended_id: string
  /** What its workflow takes, and what the trigger gives; null: anything. */
  input_schema: InputSchema | null
  input: unknown
}

/** Of `trigger`, `over` and the name of its workflow. */
const inputOf = (endedName: string): string => `coalesce(trigger.input, jsonb_build_object(
           'workflow', ${endedName}, 'workflowRunId', over.id, 'state', over.state, 'output', over.output))`

/** What ends of these workflow runs bring about: workflows that they trigger, backfills that go on. */
export const listAftermath = statement<
  AftermathRow,
  [endedIds: readonly string[], firstId: string, lastId: string, mostChained: number]
>(
  'workflow_aftermath',
  `
SELECT trigger.workflow_id, NULL::uuid AS schedule_id, over.id AS ended_id, taken.schema AS input_schema,
       CASE WHEN taken.schema IS NOT NULL THEN ${inputOf('w.name')} END AS input
FROM belfry.workflow_run AS over
JOIN belfry.workflow AS w ON w.tenant_id = over.tenant_id AND w.id = over.workflow_id
JOIN belfry.workflow_trigger AS trigger
  ON trigger.tenant_id = over.tenant_id AND trigger.kind = 'workflow' AND trigger.name = w.name
JOIN belfry.workflow AS begins
  ON begins.tenant_id = trigger.tenant_id AND begins.id = trigger.workflow_id AND begins.deleted_at IS NULL
CROSS JOIN LATERAL (
  SELECT definition -> 'inputSchema' AS schema FROM belfry.workflow_version AS v
  WHERE v.tenant_id = begins.tenant_id AND v.workflow_id = begins.id AND v.version = begins.version OFFSET 0
) AS taken
WHERE (SELECT true FROM belfry.workflow_trigger WHERE kind = 'workflow' LIMIT 1)
  AND over.id = ANY ($1::uuid[]) AND over.id >= $2 AND over.id <= $3 AND over.state = ANY (trigger.states)
  AND over.chain < $4
UNION ALL
SELECT NULL, made.schedule_id, made.run_id, NULL, NULL
FROM unnest($1::uuid[]) AS over (id)
CROSS JOIN LATERAL (
  SELECT schedule_id, run_id FROM belfry.extra_run
  WHERE run_id = over.id AND backfill_id IS NOT NULL OFFSET 0
) AS made`,
  byIndex,
)

/** Begins a run of each of these workflows, because of the end of that run. */
export const beginTriggeredRuns = statement<
  unknown,
  [
    ids: readonly string[],
    workflowIds: readonly string[],
    endedIds: readonly string[],
    inputs: readonly (string | null)[],
    notes: readonly string[],
  ]
>(
  'workflow_begin_triggered',
  `
WITH started AS MATERIALIZED (
  SELECT wanted.id AS run_id, over.tenant_id, ${takenFromWorkflow},
         coalesce(wanted.input, ${inputOf('ended.name')}) AS input, wanted.notes,
         'workflow' AS source, NULL::uuid AS schedule_id, NULL::timestamptz AS scheduled_for,
         over.interval_start, over.interval_end, over.id AS cause_id, (over.chain + 1)::smallint AS chain,
         NULL::smallint AS run_priority, false AS follows_schedule, false AS waits
  FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::jsonb[], $5::jsonb[])
    AS wanted (id, workflow_id, ended_id, input, notes)
  CROSS JOIN LATERAL (
    SELECT * FROM belfry.workflow_run WHERE workflow_run.id = wanted.ended_id OFFSET 0
  ) AS over
  JOIN belfry.workflow AS ended ON ended.tenant_id = over.tenant_id AND ended.id = over.workflow_id
  JOIN belfry.workflow AS w ON w.tenant_id = over.tenant_id AND w.id = wanted.workflow_id
  JOIN belfry.workflow_trigger AS trigger
    ON trigger.tenant_id = w.tenant_id AND trigger.workflow_id = w.id AND trigger.kind = 'workflow'
      AND trigger.name = ended.name
), ${beginWorkflowRuns('started', 'notes')}
SELECT count(*) FROM started`,
  byIndex,
)
