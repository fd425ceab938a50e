/**
 * Queues as the runs of one tenant stand in them, and what holds a run: for people who look, so every count
 * and list is bounded. Functions of a tenant have routes of their own, along which the claim index is in the
 * order of tags; what servers execute shares a route for each kind with all tenants, so of few runs of a
 * tenant all are read and sorted, and of many (`dense`) the index is walked, where they are soon met.
 */
import { byIndex, statement } from '../statement.ts'
import { heldRuns, unheld } from './held.ts'

export type QueueRow = {
  readonly name: string
  readonly ready: number
  readonly held: number
  readonly running: number
  readonly oldest_at: Date | null
  readonly paused_at: Date | null
  readonly paused_reason: string | null
}

const most = 10_000

/** Routes of the functions that the tenant has jobs for. */
export const functionRoutes = `
  SELECT DISTINCT job.handler FROM belfry.job
  WHERE job.tenant_id = belfry.tenant_id() AND job.handler LIKE 'function:%' LIMIT 500`

/** Rows of one queue that may be claimed; capped. */
const readyRows = (queue: string): string => `
    SELECT r.available_at FROM belfry.ready AS r
    WHERE r.tenant_id = belfry.tenant_id() AND r.queue = ${queue} AND ${unheld('r')} AND r.gate IS NULL
      AND r.handler NOT LIKE 'function:%'
    UNION ALL
    SELECT own.available_at FROM (${functionRoutes}) AS route
    CROSS JOIN LATERAL (
      SELECT r.available_at FROM belfry.ready AS r
      WHERE r.queue = ${queue} AND r.handler = route.handler AND ${unheld('r')} AND r.gate IS NULL
      ORDER BY r.tag, r.run_id
    ) AS own
    LIMIT ${most}`

const summary = (names: string): string => `
WITH running AS MATERIALIZED (
  SELECT queue FROM ${heldRuns('run_id, tenant_id, queue')} AS its WHERE tenant_id = belfry.tenant_id()
)
SELECT asked.name, free.ready, held.count::int AS held, busy.count::int AS running, free.oldest_at,
       p.paused_at, p.reason AS paused_reason
FROM (${names}) AS asked (name)
CROSS JOIN LATERAL (
  SELECT count(*)::int AS ready, min(available_at) AS oldest_at FROM (${readyRows('asked.name')}) AS free
) AS free
CROSS JOIN LATERAL (
  SELECT count(*) AS count FROM (
    SELECT FROM belfry.ready AS r
    WHERE r.tenant_id = belfry.tenant_id() AND r.queue = asked.name AND r.gate IS NOT NULL LIMIT ${most}
  ) AS part
) AS held
CROSS JOIN LATERAL (
  SELECT count(*) AS count FROM (
    SELECT FROM running AS r
    WHERE r.queue = asked.name LIMIT ${most}
  ) AS part
) AS busy
LEFT JOIN belfry.queue_pause AS p ON p.tenant_id = belfry.tenant_id() AND p.queue = asked.name
ORDER BY asked.name`

/** Distinct queues in an index that begins with tenant and queue. */
const queuesIn = (where: string): string => `
  SELECT walk.name FROM (
    WITH RECURSIVE walk (name, place) AS (
      (SELECT r.queue, 1 FROM belfry.ready AS r WHERE r.tenant_id = belfry.tenant_id() AND ${where}
       ORDER BY r.tenant_id, r.queue LIMIT 1)
      UNION ALL
      SELECT next.queue, walk.place + 1 FROM walk
      CROSS JOIN LATERAL (
        SELECT r.queue FROM belfry.ready AS r
        WHERE r.tenant_id = belfry.tenant_id() AND ${where} AND r.queue > walk.name
        ORDER BY r.tenant_id, r.queue LIMIT 1
      ) AS next
      WHERE walk.place < 200
    ) SELECT name FROM walk
  ) AS walk`

/** Queues in which the tenant has jobs, runs or a pause. */
export const listQueues = statement<QueueRow>(
  'queue_list',
  summary(`
  SELECT name FROM (
    SELECT job.queue AS name FROM belfry.job
    WHERE job.tenant_id = belfry.tenant_id() AND job.deleted_at IS NULL
    UNION
    SELECT queue FROM belfry.queue_pause WHERE tenant_id = belfry.tenant_id()
    UNION
    ${queuesIn(`${unheld('r')} AND r.gate IS NULL AND r.handler NOT LIKE 'function:%'`)}
    UNION
    ${queuesIn('r.gate IS NOT NULL')}
  ) AS known ORDER BY name LIMIT 200`),
  byIndex,
)

/** One queue, whether anything is in it or not. */
export const findQueue = statement<QueueRow, [queue: string]>(
  'queue_find',
  summary('SELECT $1::text'),
  byIndex,
)

export type QueuedRunRow = {
  readonly run_id: string
  readonly job: string
  readonly priority: number
  readonly tag: number
  readonly virtual_time: number
  readonly available_at: Date
}

/** The next runs of a queue, by tag. */
export const listNextRuns = statement<
  QueuedRunRow,
  [queue: string, limit: number, dense: boolean, serverRoutes: readonly string[]]
>(
  'queue_next_runs',
  `
WITH few AS MATERIALIZED (
  SELECT r.run_id FROM belfry.ready AS r
  WHERE NOT $3::boolean AND r.tenant_id = belfry.tenant_id() AND r.queue = $1 AND ${unheld('r')}
    AND r.gate IS NULL AND r.handler NOT LIKE 'function:%'
  LIMIT ${most}
), next AS MATERIALIZED (
  SELECT * FROM (
    (SELECT r.run_id, r.job_id, r.priority, r.tag, r.available_at, false AS own FROM few
     CROSS JOIN LATERAL (SELECT * FROM belfry.ready WHERE ready.run_id = few.run_id OFFSET 0) AS r)
    UNION ALL
    SELECT theirs.run_id, theirs.job_id, theirs.priority, theirs.tag, theirs.available_at, false
    FROM unnest($4::text[]) AS kind (handler)
    CROSS JOIN LATERAL (
      SELECT r.* FROM belfry.ready AS r
      WHERE $3::boolean AND r.queue = $1 AND r.handler = kind.handler AND ${unheld('r')} AND r.gate IS NULL
        AND r.tenant_id = belfry.tenant_id()
      ORDER BY r.tag, r.run_id LIMIT $2
    ) AS theirs
    UNION ALL
    SELECT own.run_id, own.job_id, own.priority, own.tag, own.available_at, true
    FROM (${functionRoutes}) AS route
    CROSS JOIN LATERAL (
      SELECT r.* FROM belfry.ready AS r
      WHERE r.queue = $1 AND r.handler = route.handler AND ${unheld('r')} AND r.gate IS NULL
      ORDER BY r.tag, r.run_id LIMIT $2
    ) AS own
  ) AS either
  ORDER BY tag, run_id LIMIT $2
)
SELECT next.run_id, job.name AS job, next.priority, next.tag, next.available_at,
       coalesce(CASE WHEN next.own THEN service.functions ELSE service.servers END, 0) AS virtual_time
FROM next
CROSS JOIN belfry.service_of($1) AS service
CROSS JOIN LATERAL (SELECT name FROM belfry.job WHERE job.id = next.job_id OFFSET 0) AS job
ORDER BY next.tag, next.run_id`,
  byIndex,
)

export type HeldGroupRow = {
  readonly gate: string
  readonly waits_on: string | null
  readonly held_by: string | null
  readonly look_at: Date
  readonly runs: number
  readonly first_run_id: string | null
}

const groupFacts = `g.gate, g.waits_on, g.held_by, g.look_at`

/**
 * Groups of the tenant in a queue that wait, by the tags of their first; of its own groups all are looked at.
 */
export const listHeldGroups = statement<HeldGroupRow, [queue: string, limit: number]>(
  'queue_held_groups',
  `
SELECT ${groupFacts}, held.runs, held.first_run_id
FROM (
  SELECT * FROM (
    (SELECT * FROM belfry.gate_group WHERE tenant_id = belfry.tenant_id() AND waits_on IS NULL
     ORDER BY head_tag, gate OFFSET 0)
    UNION ALL
    (SELECT * FROM belfry.gate_group WHERE tenant_id = belfry.tenant_id() AND waits_on IS NOT NULL
     ORDER BY waits_on, head_tag, gate OFFSET 0)
  ) AS own
  WHERE split_part(own.gate, '/', 4) = $1
  ORDER BY own.head_tag, own.gate LIMIT $2
) AS g
CROSS JOIN LATERAL (
  SELECT count(*)::int AS runs, (array_agg(part.run_id ORDER BY part.tag, part.run_id))[1] AS first_run_id
  FROM (
    SELECT r.run_id, r.tag FROM belfry.ready AS r
    WHERE r.gate = g.gate ORDER BY r.gate, r.tag, r.run_id LIMIT 1000
  ) AS part
) AS held
ORDER BY g.head_tag, g.gate`,
  byIndex,
)

/**
 * Where a run waits behind the gate, and how many of its group are before it (at most $2 are counted); the
 * group may not have been looked at yet.
 */
export const findGateOf = statement<
  {
    readonly gate: string
    readonly ahead: number
    readonly available_at_ms: number
    readonly now_ms: number
    readonly waits_on: string | null
    readonly held_by: string | null
    readonly look_at: Date | null
  },
  [runId: string, mostAhead: number]
>(
  'gate_find_of_run',
  `
SELECT r.gate, (extract(epoch FROM r.available_at) * 1000)::float8 AS available_at_ms,
       (extract(epoch FROM belfry.now()) * 1000)::float8 AS now_ms, g.waits_on, g.held_by, g.look_at,
       (SELECT count(*)::int FROM (
          SELECT FROM belfry.ready AS before
          WHERE before.gate = r.gate AND ROW (before.tag, before.run_id) < ROW (r.tag, r.run_id)
          ORDER BY before.gate, before.tag, before.run_id LIMIT $2::int
        ) AS those) AS ahead
FROM (
  SELECT run_id, gate, tag, available_at FROM belfry.ready
  WHERE run_id = $1 AND tenant_id = belfry.tenant_id() AND session_id IS NULL AND gate IS NOT NULL OFFSET 0
) AS r
LEFT JOIN LATERAL (SELECT * FROM belfry.gate_group WHERE gate_group.gate = r.gate OFFSET 0) AS g ON true`,
  byIndex,
)

/**
 * Runs that have slots of a limit, oldest first. (Asked for as a range, in order: so the planner takes the
 * index of that order, however few slots it thinks there are.)
 */
export const listHolders = statement<
  { readonly key: string; readonly run_id: string },
  [keys: readonly string[]]
>(
  'gate_list_holders',
  `
SELECT asked.key, holder.run_id
FROM unnest($1::text[]) AS asked (key)
CROSS JOIN LATERAL (
  SELECT its.run_id FROM (
    SELECT s.run_id FROM belfry.slot AS s
    WHERE s.tenant_id = belfry.tenant_id() AND s.limit_key BETWEEN asked.key AND asked.key AND NOT s.freed
    ORDER BY s.limit_key OFFSET 0
  ) AS its
  ORDER BY its.run_id LIMIT 10
) AS holder`,
  byIndex,
)

/** Pauses by which runs of these jobs, or of this queue, may be held. */
export const listPauses = statement<
  { readonly kind: 'job' | 'queue'; readonly subject: string; readonly at: Date; readonly reason: string },
  [jobIds: readonly string[]]
>(
  'gate_list_pauses',
  `
SELECT 'job' AS kind, id::text AS subject, paused_at AS at, paused_reason AS reason
FROM belfry.job
WHERE tenant_id = belfry.tenant_id() AND id = ANY ($1::uuid[]) AND paused_at IS NOT NULL
UNION ALL
SELECT 'queue', queue, paused_at, reason FROM belfry.queue_pause WHERE tenant_id = belfry.tenant_id()`,
)

/** Share of the tenant in every queue. */
export const readOwnWeight = statement<{ readonly weight: number }>(
  'queue_read_weight',
  'SELECT weight::float8 AS weight FROM belfry.tenant WHERE id = belfry.tenant_id()',
)
