/**
 * Parts of statements that cancel runs, whoever asks for it. `wanted` is a table of tenant_id and run_id in
 * the order of the ids: rows are locked in it, those of `ready` before those of `delayed`.
 *
 * They are taken by their ids, not by their places: a row that was changed while this waited for it has a new
 * place, which the statement cannot see.
 *
 * A run that moves from one of them to the other at this moment may be missed by both looks: whoever cancels
 * looks again, in a later statement.
 */

/** `OFFSET 0` keeps it a look by a key for each, whatever the statistics say. */
const locked = (wanted: string, table: string, where: string) => `
  SELECT mine.*
  FROM (${wanted}) AS wanted
  CROSS JOIN LATERAL (
    SELECT * FROM belfry.${table}
    WHERE tenant_id = wanted.tenant_id AND run_id = wanted.run_id OFFSET 0 FOR UPDATE
  ) AS mine
  WHERE ${where}`

/** CTEs that end what waits, with the attempt row number 0 that says why in these words; `gone`: who. */
export const endedWaiting = (wanted: string, words: string): string => `
mine_ready AS MATERIALIZED (${locked(wanted, 'ready', 'session_id IS NULL')}
), mine_delayed AS MATERIALIZED (${locked(wanted, 'delayed', '(SELECT count(*) FROM mine_ready) >= 0')}
), was_ready AS (
  DELETE FROM belfry.ready WHERE run_id = ANY (ARRAY(SELECT run_id FROM mine_ready))
  RETURNING run_id, tenant_id, lease_epoch, followed, slotted, NULL::uuid AS after_run_id,
            NULL::uuid AS schedule_id
), was_delayed AS (
  DELETE FROM belfry.delayed
  -- the tenant for the index of both, which may be chosen for the id alone, and walked
  WHERE tenant_id = ANY (ARRAY(SELECT tenant_id FROM mine_delayed))
    AND run_id = ANY (ARRAY(SELECT run_id FROM mine_delayed))
  RETURNING run_id, tenant_id, lease_epoch, followed, false AS slotted, after_run_id, schedule_id
), gone AS (
  SELECT * FROM was_ready UNION ALL SELECT * FROM was_delayed
), history AS (
  INSERT INTO belfry.attempt
    (run_id, number, tenant_id, lease_epoch, outcome, run_state, reason, started_at, error_code,
     error_message)
  SELECT run_id, 0, tenant_id, lease_epoch, 'canceled', 'canceled', 'canceled_by_request', belfry.now(),
         'canceled', '${words}'
  FROM gone
)`

/** Asks the sessions that run them; the first request keeps its time. */
export const askedToCancel = (wanted: string): string => `
WITH mine AS MATERIALIZED (${locked(wanted, 'ready', 'session_id IS NOT NULL')}
)
UPDATE belfry.ready SET cancel_requested_at = coalesce(cancel_requested_at, belfry.now())
WHERE run_id = ANY (ARRAY(SELECT run_id FROM mine))
RETURNING run_id, session_id`

/** Of a row of task_run: its run is alive, and nobody asked its session to cancel it. */
export const isUnasked = (run: string): string => `(
    coalesce((
      SELECT cancel_requested_at IS NULL FROM belfry.ready
      WHERE tenant_id = ${run}.tenant_id AND run_id = ${run}.run_id OFFSET 0), false)
    OR coalesce((
      SELECT true FROM belfry.delayed
      WHERE tenant_id = ${run}.tenant_id AND run_id = ${run}.run_id OFFSET 0), false))`
