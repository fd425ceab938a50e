/**
 * How many runs of a workflow there are at once (migration 0025). A gate is held, by a lock that ends with
 * the transaction, before anybody counts: so two resolvers never both take the last place. Gates come in
 * their order, after the rows of workflow_progress; rows of the queue that others have are passed over, and
 * whoever has one looks at its gate too.
 */
import { byIndex, statement } from '../statement.ts'

/** Of a row of workflow_progress: it waits for no turn, behind no gate. Until then its time does not run. */
export const isBegun = 'NOT waits AND (gate IS NULL OR admitted_at IS NOT NULL)'

/** Sent in their order. */
export const holdWorkflowGates = statement<unknown, [gates: readonly string[]]>(
  'workflow_gate_hold',
  `
SELECT pg_advisory_xact_lock(hashtextextended('belfry.workflow_gate:' || gate, 0))
FROM unnest($1::text[]) AS gate`,
)

const slots = `
  SELECT given.gate, given.workflow_id,
         least(10000, CASE
           WHEN w.concurrency IS NULL THEN 10000
           ELSE coalesce((w.concurrency ->> 'limit')::integer, (w.concurrency ->> 'keyLimit')::integer, 1)
         END) - (
           SELECT count(*) FROM belfry.workflow_progress p
           WHERE p.gate = given.gate AND p.admitted_at IS NOT NULL
         ) AS free
  FROM (SELECT gate, split_part(gate, '/', 1)::uuid AS workflow_id FROM unnest($1::text[]) AS gate) AS given
  JOIN belfry.workflow w ON w.id = given.workflow_id`

/** Admits as many as there is room for, by priority, then in order. An event begins each but `seen` ones. */
export const admitWorkflowRuns = statement<
  { id: string },
  [gates: readonly string[], seen: readonly string[]]
>(
  'workflow_gate_admit',
  `
WITH gate AS MATERIALIZED (${slots}
), next AS MATERIALIZED (
  SELECT queued.workflow_run_id
  FROM gate CROSS JOIN LATERAL (
    SELECT p.workflow_run_id FROM belfry.workflow_progress p
    WHERE p.gate = gate.gate AND p.admitted_at IS NULL AND NOT p.waits
    ORDER BY coalesce(p.priority, 0)::integer DESC, p.workflow_run_id LIMIT greatest(gate.free, 0)
    FOR UPDATE SKIP LOCKED
  ) AS queued
), admitted AS (
  UPDATE belfry.workflow_progress
  SET admitted_at = belfry.now(), deadline = belfry.now() + timeout_ms * interval '1 millisecond'
  WHERE workflow_run_id = ANY (ARRAY(SELECT workflow_run_id FROM next))
  RETURNING workflow_run_id, tenant_id
), told AS (
  INSERT INTO belfry.workflow_event (workflow_run_id, tenant_id, kind)
  SELECT workflow_run_id, tenant_id, 'begin' FROM admitted WHERE NOT workflow_run_id = ANY ($2::uuid[])
)
SELECT workflow_run_id AS id FROM admitted`,
  byIndex,
)

/**
 * Asks for the cancel of those before this run, which found no room: all that wait, and of those that are at
 * work the oldest, as many as are in its way.
 */
export const replaceWorkflowRuns = statement<unknown, [gates: readonly string[], id: string]>(
  'workflow_gate_replace',
  `
WITH gate AS MATERIALIZED (${slots}
), older AS (
  SELECT p.workflow_run_id, p.tenant_id
  FROM gate JOIN belfry.workflow_progress p ON p.gate = gate.gate
  WHERE p.admitted_at IS NULL AND p.workflow_run_id < $2
  UNION ALL
  SELECT at_work.workflow_run_id, at_work.tenant_id
  FROM gate CROSS JOIN LATERAL (
    SELECT p.workflow_run_id, p.tenant_id FROM belfry.workflow_progress p
    WHERE p.gate = gate.gate AND p.admitted_at IS NOT NULL
    ORDER BY p.workflow_run_id LIMIT greatest(1 - gate.free, 0)
  ) AS at_work
)
INSERT INTO belfry.workflow_event (workflow_run_id, tenant_id, kind)
SELECT workflow_run_id, tenant_id, 'cancel' FROM older`,
  byIndex,
)

/** How many runs there are at once, of the newest version; null: as many as come. */
export const setWorkflowConcurrency = statement<unknown, [id: string, concurrency: string | null]>(
  'workflow_set_concurrency',
  `
UPDATE belfry.workflow SET concurrency = $2::jsonb
WHERE tenant_id = belfry.tenant_id() AND id = $1 AND concurrency IS DISTINCT FROM $2::jsonb`,
)

const poke = (which: string) => `
INSERT INTO belfry.workflow_event (workflow_run_id, tenant_id, kind)
SELECT DISTINCT ON (gate) workflow_run_id, tenant_id, 'begin' FROM (
  SELECT gate, workflow_run_id, tenant_id FROM belfry.workflow_progress
  WHERE gate IS NOT NULL AND admitted_at IS NULL ${which} ORDER BY gate LIMIT 10000
) AS queued`

/** Looks again at gates before which some wait, one event a gate: its first. */
export const pokeWorkflowGates = statement<unknown>('workflow_gate_poke', poke(''), byIndex)

/** The same at gates of one workflow. */
export const pokeGatesOfWorkflow = statement<unknown, [workflowId: string]>(
  'workflow_gate_poke_of',
  poke(`AND gate >= $1::text || '/' AND gate < $1::text || '0'`),
  byIndex,
)
