/**
 * One look at the gate of a tenant, statement by statement; the protocol stands in postgres/gate/pass.ts, the
 * tables in migrations/0017_gate.sql. All of it runs in one transaction that holds the gate of the tenant, so
 * nobody else writes groups, buckets or new slots meanwhile. Work follows what has happened: arrivals, slots
 * that were freed, tokens that came due; nothing walks over all groups or all that is held.
 */
import { maxConcurrency } from '@belfry/contract'
import { byIndex, statement } from '../statement.ts'

/**
 * Tenants that have rows in a partial index which begins with the tenant: a step along it for each. `order`:
 * its first columns, so many that no other index has them.
 */
const tenantsIn = (table: string, where: string, order = 't.tenant_id'): string => `
  (WITH RECURSIVE walk (tenant_id, place) AS (
    (SELECT t.tenant_id, 1 FROM ${table} AS t WHERE ${where} ORDER BY ${order} LIMIT 1)
    UNION ALL
    SELECT next.tenant_id, walk.place + 1 FROM walk
    CROSS JOIN LATERAL (
      SELECT t.tenant_id FROM ${table} AS t WHERE ${where} AND t.tenant_id > walk.tenant_id
      ORDER BY ${order} LIMIT 1
    ) AS next
    WHERE walk.place < $1
  ) SELECT tenant_id FROM walk)`

export type GateWorkRow = {
  readonly tenant_ids: readonly string[]
  readonly regate_ids: readonly string[]
  /** How long until something comes due by itself, null for nothing. */
  readonly next_ms: number | null
  readonly held: boolean
  readonly limited: boolean
}

/** Whose gate is to be looked at now. */
export const findGateWork = statement<GateWorkRow, [tenants: number]>(
  'gate_find_work',
  `
WITH due AS MATERIALIZED (
  ${tenantsIn('belfry.ready', 't.gate IS NOT NULL AND NOT t.gate_seen', 't.tenant_id, t.gate')}
  UNION
  ${tenantsIn('belfry.slot', 't.freed')}
  UNION
  (SELECT g.tenant_id FROM belfry.gate_group AS g WHERE g.waits_on IS NULL AND g.look_at <= belfry.now()
   ORDER BY g.look_at LIMIT $1)
  UNION
  (SELECT b.tenant_id FROM belfry.bucket AS b WHERE b.look_at <= belfry.now() ORDER BY b.look_at LIMIT $1)
), asked AS MATERIALIZED (
  SELECT tenant_id, look_at FROM belfry.regate ORDER BY look_at LIMIT $1
), next AS (
  SELECT min(at) AS at FROM (
    (SELECT look_at AS at FROM belfry.gate_group WHERE waits_on IS NULL AND look_at > belfry.now()
     ORDER BY look_at LIMIT 1)
    UNION ALL
    (SELECT look_at FROM belfry.bucket WHERE look_at > belfry.now() ORDER BY look_at LIMIT 1)
    UNION ALL
    SELECT look_at FROM asked WHERE look_at > belfry.now()
  ) AS coming
)
SELECT (SELECT coalesce(json_agg(tenant_id), '[]') FROM due) AS tenant_ids,
       (SELECT coalesce(json_agg(tenant_id), '[]') FROM asked WHERE look_at <= belfry.now()) AS regate_ids,
       (SELECT (extract(epoch FROM at - belfry.now()) * 1000)::float8 FROM next) AS next_ms,
       coalesce((SELECT true FROM belfry.gate_group LIMIT 1), false) AS held,
       coalesce((SELECT true FROM belfry.job WHERE limited LIMIT 1), false) AS limited`,
  byIndex,
)

/** Tenants of which somebody waits behind the gate. */
export const listHeldTenants = statement<{ readonly tenant_id: string }, [tenants: number]>(
  'gate_list_held_tenants',
  `SELECT tenant_id FROM ${tenantsIn(
    'belfry.gate_group',
    't.waits_on IS NOT NULL',
    't.tenant_id, t.waits_on',
  )} AS held`,
  byIndex,
)

/**
 * A page of slots by run id: [tenant, run] of those that count though their run does not hold any by its row
 * in `ready`. None comes to be by what is written now; it may be of a server of another version, or by hand,
 * and would take room for ever. `last_id`: where the next page begins, null at the end.
 */
export const listLostSlots = statement<
  { readonly lost: readonly (readonly [string, string])[]; readonly last_id: string | null },
  [afterId: string, limit: number]
>(
  'gate_list_lost_slots',
  `
WITH page AS MATERIALIZED (
  SELECT run_id, tenant_id, freed FROM belfry.slot WHERE run_id > $1 ORDER BY run_id LIMIT $2
)
SELECT (
    SELECT coalesce(json_agg(json_build_array(page.tenant_id, page.run_id)), '[]') FROM page
    WHERE NOT page.freed
      AND NOT coalesce((SELECT r.slotted FROM belfry.ready AS r WHERE r.run_id = page.run_id), false)
  ) AS lost,
  CASE WHEN (SELECT count(*) FROM page) >= $2
    THEN (SELECT run_id FROM page ORDER BY run_id DESC LIMIT 1) END AS last_id`,
  byIndex,
)

/** How many runs stand behind the gate, along its index; at most $1 are counted. */
export const countHeld = statement<{ readonly count: number }, [most: number]>(
  'gate_count_held',
  `
SELECT count(*)::int AS count
FROM (SELECT FROM belfry.ready AS r WHERE r.gate IS NOT NULL ORDER BY r.gate LIMIT $1) AS held`,
  byIndex,
)

/** Holds the gate of the tenant until the end of the transaction; false: somebody else does. */
export const tryGate = statement<{ readonly mine: boolean; readonly now_ms: number }, [tenantId: string]>(
  'gate_try',
  `SELECT pg_try_advisory_xact_lock(hashtextextended('belfry.gate:' || $1::text, 0)) AS mine,
          (extract(epoch FROM belfry.now()) * 1000)::float8 AS now_ms`,
)

/**
 * Takes notice of arrivals: their groups come to be looked at. One that is held by its limits stays where it
 * is, unless its job does something to those who come at the limit.
 */
export const noticeArrivals = statement<{ readonly count: number }, [tenantId: string, limit: number]>(
  'gate_notice_arrivals',
  `
WITH seen AS (
  UPDATE belfry.ready SET gate_seen = true
  WHERE run_id = ANY (ARRAY(
    SELECT run_id FROM belfry.ready
    WHERE tenant_id = $1 AND gate IS NOT NULL AND NOT gate_seen
    ORDER BY tenant_id, gate LIMIT $2 FOR UPDATE SKIP LOCKED))
  RETURNING gate, tag
), came AS (
  SELECT gate, min(tag) AS tag, count(*) AS runs FROM seen GROUP BY gate
), noted AS (
  INSERT INTO belfry.gate_group AS g (gate, tenant_id, head_tag)
  SELECT gate, $1, tag FROM came
  ON CONFLICT (gate) DO UPDATE
  SET head_tag = least(g.head_tag, excluded.head_tag),
      waits_on = CASE WHEN coalesce((
          SELECT job.concurrency ->> 'onLimit' FROM belfry.job WHERE job.id = left(g.gate, 36)::uuid
        ), 'queue') = 'queue' THEN g.waits_on END
)
SELECT coalesce(sum(runs), 0)::int AS count FROM came`,
  byIndex,
)

/** Deletes slots that were freed; answers the limits that have room by them, and rates whose token is due. */
export const takeFreed = statement<
  { readonly line: string; readonly units: number },
  [tenantId: string, limit: number]
>(
  'gate_take_freed',
  `
WITH gone AS (
  DELETE FROM belfry.slot WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM belfry.slot WHERE tenant_id = $1 AND freed LIMIT $2 FOR UPDATE SKIP LOCKED))
  RETURNING limit_key, weight
)
SELECT 'slot:' || limit_key AS line, sum(weight)::int AS units FROM gone GROUP BY limit_key
UNION ALL
SELECT 'rate:' || limit_key, 1 FROM belfry.bucket WHERE tenant_id = $1 AND look_at <= belfry.now()`,
  byIndex,
)

/** Lets so many of each line be looked at, from its head on. */
export const wakeLines = statement<
  unknown,
  [tenantId: string, lines: readonly string[], counts: readonly number[]]
>(
  'gate_wake_lines',
  `
UPDATE belfry.gate_group SET waits_on = NULL, look_at = belfry.now(), held_by = NULL
WHERE gate = ANY (ARRAY(
  SELECT first.gate
  FROM unnest($2::text[], $3::int[]) AS line (name, count)
  CROSS JOIN LATERAL (
    SELECT g.gate FROM belfry.gate_group AS g
    WHERE g.tenant_id = $1 AND g.waits_on = line.name
    ORDER BY g.head_tag, g.gate LIMIT line.count
  ) AS first))`,
  byIndex,
)

/**
 * Lets the head of each line be looked at, line by line from a given one on: what no event tells of (the head
 * was canceled, a process died between two looks) is found by this.
 */
export const wakeFronts = statement<
  { readonly line: string },
  [tenantId: string, afterLine: string, lines: number]
>(
  'gate_wake_fronts',
  `
WITH RECURSIVE walk (line, gate, place) AS (
  (SELECT g.waits_on, g.gate, 1 FROM belfry.gate_group AS g
   WHERE g.tenant_id = $1 AND g.waits_on > $2 ORDER BY g.waits_on, g.head_tag, g.gate LIMIT 1)
  UNION ALL
  SELECT next.waits_on, next.gate, walk.place + 1 FROM walk
  CROSS JOIN LATERAL (
    SELECT g.waits_on, g.gate FROM belfry.gate_group AS g
    WHERE g.tenant_id = $1 AND g.waits_on > walk.line ORDER BY g.waits_on, g.head_tag, g.gate LIMIT 1
  ) AS next
  WHERE walk.place < $3
), woken AS (
  UPDATE belfry.gate_group SET waits_on = NULL, look_at = belfry.now(), held_by = NULL
  WHERE gate = ANY (ARRAY(SELECT gate FROM walk))
)
SELECT line FROM walk ORDER BY place`,
  byIndex,
)

export type JobFactsRow = {
  readonly id: string
  readonly name: string
  readonly concurrency: unknown
  readonly rate_limit: unknown
  readonly target_host: string | null
  readonly paused: boolean
}

const jobFacts = `j.id, j.name, j.concurrency, j.rate_limit, j.target_host, j.paused_at IS NOT NULL AS paused`

/** Groups to be looked at now, the lowest tag first, each with its job. */
export const listDueGroups = statement<
  { readonly gate: string } & JobFactsRow,
  [tenantId: string, limit: number]
>(
  'gate_list_due_groups',
  `
SELECT due.gate, ${jobFacts}
FROM (
  SELECT gate, head_tag FROM belfry.gate_group
  WHERE tenant_id = $1 AND waits_on IS NULL AND look_at <= belfry.now()
  ORDER BY head_tag, gate LIMIT $2
) AS due
CROSS JOIN LATERAL (SELECT * FROM belfry.job WHERE job.id = left(due.gate, 36)::uuid OFFSET 0) AS j
ORDER BY due.head_tag, due.gate`,
  byIndex,
)

/** Jobs of groups, for those who look from outside. */
export const listJobFacts = statement<JobFactsRow, [tenantId: string, jobIds: readonly string[]]>(
  'gate_list_job_facts',
  `SELECT ${jobFacts} FROM belfry.job AS j WHERE j.tenant_id = $1 AND j.id = ANY ($2::uuid[])`,
)

export type TenantFactsRow = {
  readonly run_limit: number | null
  readonly start_rate: number | null
  /** [id, name, slots, rate, host] */
  readonly pools: readonly (readonly [string, string, number | null, unknown, string | null])[]
  readonly paused_queues: readonly string[]
}

/** What limits runs of the tenant, whatever their job. */
export const readTenantFacts = statement<TenantFactsRow, [tenantId: string]>(
  'gate_read_tenant',
  `
SELECT least(t.run_limit, t.run_cap) AS run_limit, t.start_rate,
       (SELECT coalesce(json_agg(json_build_array(p.id, p.name, p.slots, p.rate, p.host) ORDER BY p.id), '[]')
        FROM belfry.pool AS p WHERE p.tenant_id = t.id) AS pools,
       (SELECT coalesce(json_agg(p.queue), '[]') FROM belfry.queue_pause AS p WHERE p.tenant_id = t.id)
         AS paused_queues
FROM belfry.tenant AS t WHERE t.id = $1`,
)

export type HeadRow = {
  readonly gate: string
  readonly run_id: string
  readonly tag: number
  readonly attempt: number
}

/**
 * The first of each group by tag, or the newest of them. (These are sorted: else the planner walks all runs
 * in the order of ids to meet them.)
 */
export const listHeads = statement<
  HeadRow,
  [gates: readonly string[], newest: readonly boolean[], limit: number]
>(
  'gate_list_heads',
  `
SELECT asked.gate, head.run_id, head.tag, head.attempt
FROM unnest($1::text[], $2::boolean[]) AS asked (gate, newest)
CROSS JOIN LATERAL (
  (SELECT r.run_id, r.tag, r.attempt FROM belfry.ready AS r
   WHERE NOT asked.newest AND r.gate = asked.gate ORDER BY r.gate, r.tag, r.run_id LIMIT $3)
  UNION ALL
  (SELECT its.* FROM (
     SELECT r.run_id, r.tag, r.attempt FROM belfry.ready AS r
     WHERE asked.newest AND r.gate = asked.gate ORDER BY r.gate, r.tag, r.run_id OFFSET 0
   ) AS its ORDER BY its.run_id DESC LIMIT $3)
) AS head`,
  byIndex,
)

export type StandingRow = {
  readonly kind: 'used' | 'bucket' | 'line'
  readonly key: string
  readonly value: number
  readonly at_ms: number | null
}

/**
 * What is taken of limits, what is in buckets, and who is first in lines. So many rows as no limit lets in
 * are counted, and no more: there may be more of them where a limit came later.
 */
export const readStanding = statement<
  StandingRow,
  [tenantId: string, slotKeys: readonly string[], rateKeys: readonly string[], lines: readonly string[]]
>(
  'gate_read_standing',
  `
SELECT 'used' AS kind, asked.key, taken.weight::float8 AS value, NULL::float8 AS at_ms
FROM unnest($2::text[]) AS asked (key)
CROSS JOIN LATERAL (
  SELECT sum(its.weight) AS weight FROM (
    SELECT s.weight FROM belfry.slot AS s
    WHERE s.tenant_id = $1 AND s.limit_key = asked.key AND NOT s.freed LIMIT ${maxConcurrency}
  ) AS its
) AS taken
WHERE taken.weight IS NOT NULL
UNION ALL
SELECT 'bucket', b.limit_key, b.tokens, (extract(epoch FROM b.at) * 1000)::float8
FROM belfry.bucket AS b WHERE b.tenant_id = $1 AND b.limit_key = ANY ($3::text[])
UNION ALL
SELECT 'line', asked.name, first.head_tag, NULL
FROM unnest($4::text[]) AS asked (name)
CROSS JOIN LATERAL (
  SELECT g.head_tag FROM belfry.gate_group AS g
  WHERE g.tenant_id = $1 AND g.waits_on = asked.name ORDER BY g.head_tag, g.gate LIMIT 1
) AS first`,
  byIndex,
)
