/**
 * The fire of schedules that run workflows: as that of jobs (fire.ts), with workflow runs in the place of
 * runs, all policies in one text. Whether a run of the schedule is alive is told by its row of progress.
 *
 *   due        by the present version of the schedule, with what lives of it: how many wait, and whether any
 *              has begun
 *   newest     the newest that is alive, locked where new ones may line up behind it: whoever ends it
 *              meanwhile waits for this fire, and then finds who waits. A resolver that has it locked is
 *              waited for; it waits for nothing that a fire holds
 *   decided    in the order of the planned times: what is alive takes the first places, one begins when
 *              nothing is before it, `capacity` of them wait, what is beyond is skipped
 *   asked      under cancel_other and terminate_other: all that are alive are asked to cancel; their clean-up
 *              runs. A new one waits for that under the first, and begins at once under the second
 *   started    the new ones, with whether each waits
 *
 * Instants travel as epoch ms in float8, which keeps microseconds apart.
 */
import { byIndex, statement } from '../statement.ts'
import {
  answer,
  type DataVersion,
  fateWithPolicies,
  type FireColumns,
  type FireRow,
  found,
  given,
  held,
  heldShards,
  type HeldTerms,
  inHand,
  inTerm,
  settled,
} from './fire.ts'
import { computedBehind, mostWaiting } from './fire-policies.ts'
import { beginWorkflowRuns, takenFromWorkflow } from './workflow-begin.ts'

const alive = (more: string): string => `
           SELECT p.workflow_run_id FROM belfry.workflow_progress AS p
           WHERE p.schedule_id = found.schedule_id${more}`

const due = (dataVersion: string): string => `
  due AS MATERIALIZED (
    SELECT found.schedule_id, found.tenant_id, found.next_scheduled_for, found.next_due_at, s.input,
           s.overlap, s.run_limit - s.run_count AS runs_left, ${takenFromWorkflow}, NULL::text AS queue,
           ${computedBehind(dataVersion)} AS behind,
           CASE s.overlap WHEN 'buffer_one' THEN 1 WHEN 'buffer_all' THEN ${mostWaiting} END AS capacity,
           s.overlap <> 'allow' AND EXISTS (${alive('')}) AS lives,
           CASE WHEN s.overlap IN ('skip', 'allow') THEN 0
                ELSE (SELECT count(*)::int FROM (${alive(' AND p.waits')}) AS waiting) END AS waiting
    FROM found
    JOIN belfry.schedule AS s
      ON s.id = found.schedule_id AND s.tenant_id = found.tenant_id AND s.version = found.version
    JOIN belfry.workflow AS w ON w.id = s.workflow_id AND w.tenant_id = s.tenant_id
  ),
  newest AS MATERIALIZED (
    SELECT due.schedule_id
    FROM due
    CROSS JOIN LATERAL (
      SELECT p.workflow_run_id FROM belfry.workflow_progress AS p
      WHERE p.schedule_id = due.schedule_id ORDER BY p.workflow_run_id DESC LIMIT 1
      FOR UPDATE
    ) AS locked
    WHERE due.lives AND due.overlap NOT IN ('skip', 'allow')
  ),`

const planned = (intervals: string): string => `
  decided AS MATERIALIZED (
    SELECT due.*, o.scheduled_ms, o.due_ms, o.run_id, o.detail, o.missed_count, o.outcome AS said_outcome,
           to_timestamp(o.interval_ms / 1000) AS interval_start, newest.schedule_id IS NOT NULL AS behind_one,
           CASE
             WHEN o.outcome <> 'ran' THEN o.reason
             WHEN due.overlap = 'skip' AND due.lives THEN 'overlap'
             WHEN (CASE WHEN newest.schedule_id IS NULL THEN 0 ELSE greatest(due.waiting + 1, 1) END)
               + o.place - 1 > due.capacity
               THEN CASE due.overlap WHEN 'buffer_one' THEN 'overlap' ELSE 'buffer_full' END
             WHEN o.place > due.runs_left THEN 'run_limit'
           END AS reason
    FROM (
      SELECT o.*, span.interval_ms,
             row_number() OVER (PARTITION BY o.schedule_id, o.outcome ORDER BY o.scheduled_ms) AS place
      FROM ${given}
      JOIN unnest($8::uuid[], $9::float8[], ${intervals}::float8[])
        AS span (schedule_id, scheduled_ms, interval_ms)
        ON span.schedule_id = o.schedule_id AND span.scheduled_ms = o.scheduled_ms
    ) AS o
    JOIN due ON due.schedule_id = o.schedule_id
    LEFT JOIN newest ON newest.schedule_id = o.schedule_id
  ),
  planned AS MATERIALIZED (
    SELECT decided.*, to_timestamp(scheduled_ms / 1000) AS scheduled_for,
           least(to_timestamp(due_ms / 1000), belfry.now()) AS due_at,
           CASE WHEN said_outcome = 'ran' AND reason IS NOT NULL THEN 'skipped'
                ELSE said_outcome END AS outcome,
           CASE WHEN reason IS NULL THEN run_id END AS kept_run_id
    FROM decided
  ),
  recorded AS MATERIALIZED (
    INSERT INTO belfry.occurrence
      (schedule_id, scheduled_for, tenant_id, outcome, reason, detail, missed_count, run_id, due_at)
    SELECT schedule_id, scheduled_for, tenant_id, outcome, reason, detail, missed_count, kept_run_id, due_at
    FROM planned
    ON CONFLICT (schedule_id, scheduled_for) DO NOTHING
    RETURNING schedule_id, scheduled_for, outcome, run_id, due_at, reason, missed_count
  ),
  started AS MATERIALIZED (
    SELECT planned.run_id, planned.tenant_id, planned.schedule_id, planned.scheduled_for, planned.input,
           planned.workflow_id, planned.workflow_version, planned.task_count, planned.workflow_timeout_ms,
           planned.queued, planned.interval_start, planned.scheduled_for AS interval_end, planned.overlap,
           'schedule' AS source, NULL::uuid AS cause_id, 0::smallint AS chain,
           NULL::smallint AS run_priority, true AS follows_schedule,
           planned.overlap IN ('buffer_one', 'buffer_all', 'cancel_other')
             AND (planned.behind_one OR row_number() OVER (
               PARTITION BY planned.schedule_id ORDER BY planned.scheduled_for) > 1) AS waits
    FROM recorded
    JOIN planned ON planned.kept_run_id = recorded.run_id
    WHERE recorded.outcome = 'ran'
  ),
  last_started AS (
    SELECT DISTINCT ON (schedule_id) schedule_id, run_id
    FROM started
    ORDER BY schedule_id, scheduled_for DESC
  ),
  asked AS (
    INSERT INTO belfry.workflow_event (workflow_run_id, tenant_id, kind)
    SELECT p.workflow_run_id, p.tenant_id, 'cancel'
    FROM (
      SELECT DISTINCT schedule_id FROM started WHERE overlap IN ('cancel_other', 'terminate_other')
    ) AS acting
    CROSS JOIN LATERAL (
      SELECT workflow_run_id, tenant_id FROM belfry.workflow_progress
      WHERE schedule_id = acting.schedule_id OFFSET 0
    ) AS p
  ),
  ${beginWorkflowRuns('started')},`

const answered = {
  waits: 'coalesce(placed.waits, false)',
  places: 'LEFT JOIN started AS placed ON placed.run_id = recorded.run_id',
  displaced: `'[]'::json AS displaced`,
}

type Intervals = [intervalStartMs: readonly (number | null)[]]

/** Fires timers of schedules that run workflows. */
export const fireWorkflowTimers = statement<
  FireRow,
  [...FireColumns, ...HeldTerms, ...DataVersion, ...Intervals]
>(
  'firing_fire_workflows',
  `
  WITH ${held}${found(inTerm)}${due('$22')}${planned('$23')}${fateWithPolicies}${settled('$22')}
  ${answer({ heldShards, ...answered })}`,
  byIndex,
)

/** Fires a timer for its tenant, also before its due instant where a delay puts that off. */
export const settleWorkflowTimer = statement<FireRow, [...FireColumns, ...DataVersion, ...Intervals]>(
  'firing_settle_workflow',
  `
  WITH ${found(inHand)}${due('$17')}${planned('$18')}${fateWithPolicies}${settled('$17')}
  ${answer({ heldShards: `'{}'::smallint[]`, ...answered })}`,
  byIndex,
)

/** Puts all of a schedule that wait in a state to begin: its runs no longer mind each other. */
export const letWorkflowRunsGo = statement<unknown, [scheduleId: string]>(
  'schedule_let_workflow_runs_go',
  `
WITH mine AS MATERIALIZED (
  SELECT workflow_run_id FROM belfry.workflow_progress
  WHERE tenant_id = belfry.tenant_id() AND schedule_id = $1 AND waits ORDER BY workflow_run_id FOR UPDATE
), free AS (
  UPDATE belfry.workflow_progress
  SET waits = false,
      deadline = CASE WHEN gate IS NULL THEN belfry.now() + timeout_ms * interval '1 millisecond' END
  WHERE workflow_run_id = ANY (ARRAY(SELECT workflow_run_id FROM mine))
  RETURNING workflow_run_id, tenant_id
)
INSERT INTO belfry.workflow_event (workflow_run_id, tenant_id, kind)
SELECT workflow_run_id, tenant_id, 'begin' FROM free`,
  byIndex,
)
