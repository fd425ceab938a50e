/**
 * Events that are sent to begin workflows. Of two that are sent at once with one key, the second waits for
 * the first, and finds it.
 */
import { byIndex, statement } from '../statement.ts'

/** Answers a row where it is new. */
export const insertEvent = statement<{ id: string }, [id: string, name: string, key: string | null]>(
  'event_insert',
  `
INSERT INTO belfry.event (id, tenant_id, name, key) VALUES ($1, belfry.tenant_id(), $2, $3)
ON CONFLICT (tenant_id, name, key) WHERE key IS NOT NULL DO NOTHING
RETURNING id`,
)

/** With who refused it, and the runs that it began, as far as they are on record: [id, workflow]. */
export const findEvent = statement<
  { id: string; refused: unknown; runs: readonly (readonly [string, string])[] },
  [name: string, key: string]
>(
  'event_find',
  `
SELECT e.id, e.refused, (
  SELECT coalesce(json_agg(json_build_array(run.id, w.name) ORDER BY run.id), '[]')
  FROM unnest(e.workflow_run_ids) AS made (id)
  CROSS JOIN LATERAL (
    SELECT id, workflow_id FROM belfry.workflow_run
    WHERE tenant_id = belfry.tenant_id() AND workflow_run.id = made.id OFFSET 0
  ) AS run
  JOIN belfry.workflow w ON w.tenant_id = belfry.tenant_id() AND w.id = run.workflow_id) AS runs
FROM belfry.event e
WHERE e.tenant_id = belfry.tenant_id() AND e.name = $1 AND e.key = $2`,
  byIndex,
)

/** Which runs it began, and which workflows refused it. */
export const noteEventRuns = statement<
  unknown,
  [id: string, workflowRunIds: readonly string[], refused: string]
>(
  'event_note_runs',
  `
UPDATE belfry.event SET workflow_run_ids = $2::uuid[], refused = $3::jsonb
WHERE tenant_id = belfry.tenant_id() AND id = $1`,
)

/** It may come again with its key. */
export const freeEventKey = statement<unknown, [id: string]>(
  'event_free_key',
  `
UPDATE belfry.event SET key = NULL WHERE tenant_id = belfry.tenant_id() AND id = $1`,
)

/** Workflows that begin when it comes. */
export const listTriggeredByEvent = statement<
  { workflow_id: string; has_input: boolean; input: unknown },
  [name: string]
>(
  'event_list_triggered',
  `
SELECT t.workflow_id, t.input IS NOT NULL AS has_input, t.input
FROM belfry.workflow_trigger t
JOIN belfry.workflow w ON w.tenant_id = t.tenant_id AND w.id = t.workflow_id AND w.deleted_at IS NULL
WHERE t.tenant_id = belfry.tenant_id() AND t.kind = 'event' AND t.name = $1
ORDER BY t.workflow_id
FOR KEY SHARE OF w`,
  byIndex,
)

/** Events older than the retention; oldest first, at most `limit`. */
export const deleteOldEvents = statement<{ readonly count: number }, [retentionDays: number, limit: number]>(
  'event_delete_old',
  `
WITH deleted AS (
  DELETE FROM belfry.event WHERE id = ANY (ARRAY(
    SELECT id FROM belfry.event
    WHERE id < belfry.uuid_floor(
      (((belfry.now() AT TIME ZONE 'UTC')::date - $1::int)::timestamp) AT TIME ZONE 'UTC')
    ORDER BY id LIMIT $2)) RETURNING 1
)
SELECT count(*)::int AS count FROM deleted`,
  byIndex,
)
