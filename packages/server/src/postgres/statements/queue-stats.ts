/**
 * What a queue needs of workers: backlog, what runs, places for it, and how long attempts take. As one tenant
 * sees it, and as the platform sees it over all tenants. Read every few seconds by whoever scales workers, so
 * every count is bounded and follows an index.
 */
import { byIndex, statement } from '../statement.ts'
import { parked } from './callbacks.ts'
import { heldRuns, unheld } from './held.ts'
import { fading } from './nodes.ts'
import { functionRoutes } from './queue-view.ts'

const most = 10_000

export type DemandRow = {
  readonly now_ms: number
  readonly backlog: number
  readonly oldest_age_ms: number | null
  readonly running: number
  readonly running_for_ms: number | null
  /** With a half-life of a minute, as is `busy_ms`. */
  readonly attempts: number
  readonly busy_ms: number
  readonly workers: number
  readonly slots: number
  readonly busy: number
}

/** `waiting`: instants since when runs wait. `running`: whose the held runs are. `capacity`: of workers. */
const demand = (kind: string, waiting: string, running: string, capacity: string): string => `
WITH held AS MATERIALIZED (
  SELECT claimed_at FROM ${heldRuns('run_id, queue, handler, claimed_at, session_id')} AS its
  -- what a target took over needs no worker
  WHERE its.queue = $1 AND its.session_id <> ${parked} AND ${running} LIMIT ${most}
)
SELECT (extract(epoch FROM belfry.now()) * 1000)::float8 AS now_ms,
       waits.count AS backlog, waits.age_ms AS oldest_age_ms,
       runs.count AS running, runs.age_ms AS running_for_ms,
       pace.attempts, pace.busy_ms, places.workers, places.slots,
       greatest(places.busy, least(runs.count, places.slots)) AS busy
FROM (
  SELECT count(*)::int AS count,
         (extract(epoch FROM belfry.now() - min(available_at)) * 1000)::float8 AS age_ms
  FROM (${waiting}) AS waiting
) AS waits
CROSS JOIN (
  SELECT count(*)::int AS count,
         (extract(epoch FROM avg(belfry.now() - claimed_at)) * 1000)::float8 AS age_ms
  FROM held
) AS runs
CROSS JOIN (
  SELECT coalesce(sum(attempts * ${fading('noted_at')}), 0)::float8 AS attempts,
         coalesce(sum(busy_ms * ${fading('noted_at')}), 0)::float8 AS busy_ms
  FROM belfry.queue_pace WHERE queue = $1 AND kind = '${kind}'
) AS pace
CROSS JOIN (
  SELECT count(*)::int AS workers, coalesce(sum(slots), 0)::int AS slots, coalesce(sum(busy), 0)::int AS busy
  FROM (${capacity}) AS place
) AS places`

/** Workers of servers, as they last told of themselves; `busy`: what of them is taken. */
const serverPlaces = (busy: string): string => `
  SELECT worker_slots AS slots, ${busy} AS busy FROM belfry.node
  WHERE expires_at > belfry.now() AND (worker_queues @> ARRAY[$1::text] OR worker_queues @> ARRAY['*'])`

const forServers = `handler NOT LIKE 'function:%'`

/** Runs of the tenant that servers execute. */
export const ownServerDemand = statement<DemandRow, [queue: string]>(
  'queue_own_server_demand',
  demand(
    'servers',
    `SELECT r.available_at FROM belfry.ready AS r
     WHERE r.tenant_id = belfry.tenant_id() AND r.queue = $1 AND ${unheld('r')} AND r.gate IS NULL
       AND r.${forServers}
     LIMIT ${most}`,
    `its.${forServers}`,
    // what others run is none of a tenant's business
    serverPlaces('0'),
  ),
  byIndex,
)

/** Runs of all tenants that servers execute; `routes`: of those. */
export const allServerDemand = statement<DemandRow, [queue: string, routes: readonly string[]]>(
  'queue_all_server_demand',
  demand(
    'servers',
    `SELECT r.available_at FROM unnest($2::text[]) AS route (handler)
     CROSS JOIN LATERAL (
       SELECT w.available_at FROM belfry.ready AS w
       WHERE w.queue = $1 AND w.handler = route.handler AND ${unheld('w')} AND w.gate IS NULL
       ORDER BY w.tag, w.run_id LIMIT ${most}
     ) AS r
     LIMIT ${most}`,
    `its.${forServers}`,
    serverPlaces('worker_busy'),
  ),
  byIndex,
)

/** Runs of the tenant's functions. */
export const ownFunctionDemand = statement<DemandRow, [queue: string]>(
  'queue_own_function_demand',
  demand(
    'functions',
    `SELECT own.available_at FROM (${functionRoutes}) AS route
     CROSS JOIN LATERAL (
       SELECT r.available_at FROM belfry.ready AS r
       WHERE r.queue = $1 AND r.handler = route.handler AND ${unheld('r')} AND r.gate IS NULL
       ORDER BY r.tag, r.run_id LIMIT ${most}
     ) AS own
     LIMIT ${most}`,
    `its.handler LIKE 'function:%'`,
    `SELECT s.slots,
            (SELECT count(*) FROM ${heldRuns('run_id', 's.id')} AS mine) AS busy
     FROM belfry.session AS s
     WHERE s.tenant_id = belfry.tenant_id() AND s.expires_at > belfry.now()
       AND (s.queues @> ARRAY[$1::text] OR s.queues @> ARRAY['*'])`,
  ),
  byIndex,
)
