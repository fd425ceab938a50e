/**
 * What an explanation of a schedule reads: since when its timing is as it is, the rows of a stretch of time
 * in order, rows before it that stand for many times, and how the runs stand. Each read is bounded.
 */
import { byIndex, statement } from '../statement.ts'
import { itsPlace } from './runs.ts'

/** Also one that was deleted. A change of a calendar that it uses changes its times as an edit of it does. */
export const explainedSchedule = statement<
  {
    name: string
    zone: string
    created_at: Date
    deleted_at: Date | null
    run_limit: number | null
    run_count: number
    ended_itself: boolean
    timing_since: Date
  },
  [id: string]
>(
  'explained_schedule',
  `
SELECT s.name, s.zone, s.created_at, s.deleted_at, s.run_limit, s.run_count,
       s.state = 'completed' AND s.after_completion = 'delete' AS ended_itself,
       greatest(s.timing_since, (
         SELECT max(c.defined_at) FROM belfry.schedule_calendar u
         JOIN belfry.calendar c ON c.tenant_id = u.tenant_id AND c.id = u.calendar_id
         WHERE u.tenant_id = s.tenant_id AND u.schedule_id = s.id)) AS timing_since
FROM belfry.schedule s
WHERE s.tenant_id = belfry.tenant_id() AND s.id = $1`,
)

export type ExplainedRecordRow = {
  scheduled_for: Date
  outcome: 'ran' | 'skipped' | 'missed'
  reason: string | null
  detail: string | null
  missed_count: number
  due_at: Date
  fired_at: Date
  run_id: string | null
}

const recordColumns = 'scheduled_for, outcome, reason, detail, missed_count, due_at, fired_at, run_id'

/** From an instant to before another, oldest first. */
export const explainedRecords = statement<
  ExplainedRecordRow,
  [id: string, from: string, to: string, limit: number]
>(
  'explained_records',
  `
SELECT ${recordColumns} FROM belfry.occurrence
WHERE tenant_id = belfry.tenant_id() AND schedule_id = $1 AND scheduled_for >= $2 AND scheduled_for < $3
ORDER BY scheduled_for LIMIT $4`,
  byIndex,
)

/** Rows that stand for many times, among the `look` before an instant; oldest first. */
export const explainedSums = statement<ExplainedRecordRow, [id: string, before: string, look: number]>(
  'explained_sums',
  `
SELECT ${recordColumns} FROM (
  SELECT ${recordColumns} FROM belfry.occurrence
  WHERE tenant_id = belfry.tenant_id() AND schedule_id = $1 AND scheduled_for < $2
  ORDER BY scheduled_for DESC LIMIT $3
) AS looked
WHERE missed_count > 1 ORDER BY scheduled_for`,
  byIndex,
)

/** Runs that no fire of the schedule made, for times from an instant to before another. */
export const explainedExtraRuns = statement<
  { scheduled_for: Date; run_id: string; backfill_id: string | null },
  [id: string, from: string, to: string, limit: number]
>(
  'explained_extra_runs',
  `
SELECT scheduled_for, run_id, backfill_id FROM belfry.extra_run
WHERE tenant_id = belfry.tenant_id() AND schedule_id = $1 AND scheduled_for >= $2 AND scheduled_for < $3
ORDER BY scheduled_for, run_id LIMIT $4`,
  byIndex,
)

export type ExplainedRunRow = {
  id: string
  of_workflow: boolean
  source: string
  state: string
  reason: string | null
  started_at: Date | null
  finished_at: Date | null
}

/** How runs stand, or workflow runs; those whose history is gone are left out. */
export const explainedRuns = statement<ExplainedRunRow, [ids: readonly string[]]>(
  'explained_runs',
  `
SELECT r.id, false AS of_workflow, r.source, derived.state, past.reason,
       coalesce(past.first_started_at, q.claimed_at) AS started_at, past.finished_at
FROM unnest($1::uuid[]) AS wanted (id)
CROSS JOIN LATERAL (
  SELECT * FROM belfry.run WHERE tenant_id = belfry.tenant_id() AND id = wanted.id OFFSET 0
) r ${itsPlace}
UNION ALL
SELECT run.id, true, run.source,
       CASE WHEN run.state IS NOT NULL THEN run.state
            WHEN p.waits OR (p.gate IS NOT NULL AND p.admitted_at IS NULL) THEN 'pending' ELSE 'running' END,
       NULL, run.created_at, run.ended_at
FROM unnest($1::uuid[]) AS wanted (id)
CROSS JOIN LATERAL (
  SELECT * FROM belfry.workflow_run WHERE tenant_id = belfry.tenant_id() AND id = wanted.id OFFSET 0
) run
LEFT JOIN belfry.workflow_progress p ON p.workflow_run_id = run.id`,
  byIndex,
)
