/**
 * The walk over the runs of a tenant after its limits were changed (postgres/gate/regate.ts): what waits is
 * put behind the gate, or comes out of it, by the limits of now, and what runs gets the slots that it has by
 * them. Page by page, by run id. Rows are looked up by their id alone, as in gate-writes.ts.
 */
import { byIndex, statement } from '../statement.ts'
import { heldRuns, unheld } from './held.ts'

export type WalkStep = 'running' | 'groups' | 'waiting' | 'claimed'

export type RegateRow = {
  readonly step: WalkStep
  readonly cursor: string | null
  readonly walks: number
  readonly final: boolean
}

/**
 * The walk of the tenant, held, if a step of it is due. `final`: this walk sees every run there is, which the
 * first one never knows of itself.
 */
export const takeRegate = statement<RegateRow, [tenantId: string]>(
  'gate_take_regate',
  `
SELECT step, cursor, walks,
       CASE WHEN walks > 0 AND step = 'waiting' AND cursor IS NULL
         THEN pg_snapshot_xmin(pg_current_snapshot()) > changed_in
           AND NOT EXISTS (
             SELECT FROM pg_locks WHERE locktype = 'virtualxid' AND virtualxid = ANY (open_then))
         ELSE final END AS final
FROM belfry.regate
WHERE tenant_id = $1 AND look_at <= belfry.now()
FOR UPDATE SKIP LOCKED`,
)

/**
 * At the begin of the first walk: notes what is under way in this database. A statement that has read the
 * limits of before is part of it, whether or not it has written anything; what begins later reads those of
 * now.
 */
export const noteOpenThen = statement<unknown, [tenantId: string]>(
  'gate_note_open_then',
  `
UPDATE belfry.regate
SET changed_in = pg_current_xact_id(),
    open_then = ARRAY(
      SELECT held.virtualxid FROM pg_locks AS held
      WHERE held.locktype = 'virtualxid' AND held.pid <> pg_backend_pid() AND held.pid IN (
        SELECT pid FROM pg_stat_activity
        WHERE datid = (SELECT oid FROM pg_database WHERE datname = current_database())
          -- no vacuum of its own accord
          AND usesysid IS NOT NULL))
WHERE tenant_id = $1`,
)

/** The next page of groups of the tenant: they come to be looked at, by the limits of now. */
export const wakeGroups = statement<
  { readonly last: string | null; readonly count: number },
  [tenantId: string, afterGate: string, limit: number]
>(
  'gate_wake_groups',
  `
WITH page AS MATERIALIZED (
  SELECT gate FROM belfry.gate_group
  WHERE (tenant_id::text || '/' || gate) COLLATE "C" > $1::uuid::text || '/' || $2::text
    AND (tenant_id::text || '/' || gate) COLLATE "C" < $1::uuid::text || '0'
  ORDER BY (tenant_id::text || '/' || gate) COLLATE "C" LIMIT $3
), woken AS (
  UPDATE belfry.gate_group SET waits_on = NULL, look_at = belfry.now(), held_by = NULL
  WHERE gate = ANY (ARRAY(SELECT gate FROM page)) AND (waits_on IS NOT NULL OR look_at > belfry.now())
)
SELECT (SELECT max(gate COLLATE "C") FROM page) AS last, (SELECT count(*)::int FROM page) AS count`,
  byIndex,
)

/**
 * The next page of those that wait. A run gets the gate that it has by the limits of now; one that was opened
 * and not claimed goes back behind it, and gives up its slots. `again`: only those are looked for that were
 * made by the limits of before, and not let in by those of now (`gate_seen`). `missed`: somebody holds them,
 * a claim most likely.
 */
export const regateWaiting = statement<
  { readonly last: string | null; readonly count: number; readonly missed: number },
  [tenantId: string, afterId: string, limit: number, again: boolean]
>(
  'gate_regate_waiting',
  `
WITH page AS MATERIALIZED (
  SELECT r.run_id, r.job_id, r.queue, r.gate, r.slotted, r.gate_seen
  FROM belfry.ready AS r
  WHERE r.tenant_id = $1 AND ${unheld('r')} AND r.run_id > $2
  ORDER BY r.tenant_id, r.run_id LIMIT $3
), asked AS MATERIALIZED (
  SELECT page.*, j.limited
  FROM (SELECT * FROM page WHERE NOT $4 OR (gate IS NULL AND NOT gate_seen AND NOT slotted)) AS page
  CROSS JOIN LATERAL (SELECT limited FROM belfry.job WHERE job.id = page.job_id OFFSET 0) AS j
  WHERE j.limited OR page.gate IS NOT NULL OR page.slotted
), wanted AS MATERIALIZED (
  SELECT * FROM (
    SELECT asked.run_id, asked.slotted, asked.gate AS gate_now,
           CASE WHEN asked.limited THEN belfry.gate_of(
             asked.job_id, asked.queue, belfry.input_of($1, asked.run_id)) END AS gate
    FROM asked
  ) AS known
  WHERE known.slotted OR known.gate_now IS DISTINCT FROM known.gate
), locked AS MATERIALIZED (
  SELECT held.run_id, held.slotted, held.session_id, held.gate AS gate_now, wanted.gate
  FROM (SELECT * FROM wanted ORDER BY run_id) AS wanted
  CROSS JOIN LATERAL (
    SELECT r.run_id, r.slotted, r.gate, r.session_id FROM belfry.ready AS r
    WHERE r.run_id = wanted.run_id OFFSET 0 FOR UPDATE SKIP LOCKED
  ) AS held
), mine AS MATERIALIZED (
  SELECT * FROM locked WHERE session_id IS NULL AND (slotted OR gate_now IS DISTINCT FROM gate)
), changed AS (
  UPDATE belfry.ready AS r SET gate = mine.gate, gate_seen = false, slotted = false
  FROM mine WHERE r.run_id = mine.run_id
), freed AS (
  UPDATE belfry.slot SET freed = true WHERE run_id = ANY (ARRAY(SELECT run_id FROM mine WHERE slotted))
)
SELECT (SELECT run_id FROM page ORDER BY run_id DESC LIMIT 1) AS last,
       (SELECT count(*)::int FROM page) AS count,
       ((SELECT count(*) FROM wanted) - (SELECT count(*) FROM locked))::int AS missed`,
  byIndex,
)

/**
 * The next page of runs of limited jobs, or with slots, that are running: each with what its gate would be.
 * All that run are read for it, which is as much as workers have hands; no index of running rows is worth
 * what it would cost each claim.
 */
export const listRunningLimited = statement<
  { readonly run_id: string; readonly job_id: string; readonly gate: string },
  [tenantId: string, afterId: string, limit: number]
>(
  'gate_list_running',
  `
WITH page AS MATERIALIZED (
  SELECT r.run_id, r.job_id, r.queue
  FROM ${heldRuns('run_id, tenant_id, job_id, queue, slotted')} AS r
  CROSS JOIN LATERAL (SELECT limited FROM belfry.job WHERE job.id = r.job_id OFFSET 0) AS j
  WHERE r.tenant_id = $1 AND r.run_id > $2 AND (j.limited OR r.slotted)
  ORDER BY r.run_id LIMIT $3
)
SELECT page.run_id, page.job_id, belfry.gate_of(page.job_id, page.queue, (
    SELECT run.input FROM belfry.run WHERE run.tenant_id = $1 AND run.id = page.run_id)) AS gate
FROM page
ORDER BY page.run_id`,
  byIndex,
)

/** Gives runs that still run the slots that they have by the limits of now, whatever room there is. */
export const setRunningSlots = statement<
  unknown,
  [
    tenantId: string,
    runIds: readonly string[],
    slotRunIds: readonly string[],
    slotKeys: readonly string[],
    slotWeights: readonly number[],
  ]
>(
  'gate_set_running_slots',
  `
WITH mine AS MATERIALIZED (
  SELECT held.run_id, held.slotted
  FROM (SELECT run_id FROM unnest($2::uuid[]) AS asked (run_id) ORDER BY run_id) AS asked
  CROSS JOIN LATERAL (
    SELECT r.run_id, r.session_id, r.slotted FROM belfry.ready AS r
    WHERE r.run_id = asked.run_id OFFSET 0 FOR UPDATE
  ) AS held
  WHERE held.session_id IS NOT NULL
), wanted AS MATERIALIZED (
  SELECT slot.* FROM unnest($3::uuid[], $4::text[], $5::smallint[]) AS slot (run_id, limit_key, weight)
  WHERE slot.run_id IN (SELECT run_id FROM mine)
), gone AS (
  UPDATE belfry.slot AS s SET freed = true
  WHERE s.run_id = ANY (ARRAY(SELECT run_id FROM mine)) AND NOT s.freed
    AND NOT EXISTS (SELECT FROM wanted WHERE wanted.run_id = s.run_id AND wanted.limit_key = s.limit_key)
), kept AS (
  INSERT INTO belfry.slot AS s (run_id, limit_key, tenant_id, weight)
  SELECT run_id, limit_key, $1, weight FROM wanted
  ON CONFLICT (run_id, limit_key) DO UPDATE SET freed = false, weight = excluded.weight
  WHERE s.freed OR s.weight <> excluded.weight
)
UPDATE belfry.ready AS r SET slotted = mine.wants
FROM (
  SELECT mine.run_id, mine.slotted, mine.run_id IN (SELECT run_id FROM wanted) AS wants FROM mine
) AS mine
WHERE r.run_id = mine.run_id AND mine.slotted <> mine.wants`,
  byIndex,
)

/** Where the walk goes on, or when the next one begins. */
export const noteRegate = statement<
  unknown,
  [tenantId: string, step: WalkStep, cursor: string | null, walks: number, final: boolean, inMs: number]
>(
  'gate_note_regate',
  `
UPDATE belfry.regate
SET step = $2, cursor = $3, walks = $4, final = $5,
    look_at = belfry.now() + $6::float8 * interval '1 millisecond'
WHERE tenant_id = $1`,
)

/** The last walk is over. */
export const endRegate = statement<unknown, [tenantId: string]>(
  'gate_end_regate',
  'DELETE FROM belfry.regate WHERE tenant_id = $1',
)
