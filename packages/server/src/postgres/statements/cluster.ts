/**
 * The installation as the platform sees it: processes, who leads which shard, and what is overdue. Every
 * length of time is reckoned here, by one clock.
 */
import { byIndex, statement } from '../statement.ts'
import { unheld } from './held.ts'

export type NodeRow = {
  readonly id: string
  readonly host: string
  readonly version: string
  readonly roles: readonly string[]
  readonly alive: boolean
  readonly started_ms: number
  readonly up_ms: number
  readonly seen_ago_ms: number
  readonly skew_ms: number | null
  readonly skew_error_ms: number | null
  readonly lag_ms: number | null
  readonly worker_queues: readonly string[] | null
  readonly worker_slots: number | null
  readonly worker_busy: number | null
  readonly parts: readonly {
    readonly part: string
    readonly state: string
    readonly fault: string | null
    readonly since_ms: number
  }[]
}

/** Processes on record, the oldest first; of very many the newest are left out. */
export const listNodes = statement<NodeRow, [limit: number]>(
  'cluster_nodes',
  `
SELECT id, host, version, roles, expires_at > belfry.now() AS alive,
       (extract(epoch FROM started_at) * 1000)::float8 AS started_ms,
       (extract(epoch FROM belfry.now() - started_at) * 1000)::float8 AS up_ms,
       (extract(epoch FROM belfry.now() - reported_at) * 1000)::float8 AS seen_ago_ms,
       skew_ms, skew_error_ms, lag_ms, worker_queues, worker_slots, worker_busy, parts
FROM belfry.node ORDER BY started_at, id LIMIT $1`,
)

/** A shard is led while its term runs; one without an end, while its holder is renewed. */
export const listShards = statement<{
  readonly shard: number
  readonly term: number
  readonly node_id: string | null
  readonly ends_in_ms: number | null
}>(
  'cluster_shards',
  `
SELECT held.shard, held.term::float8 AS term, held.node_id,
       CASE WHEN held.node_id IS NOT NULL AND held.expires_at < 'infinity'
         THEN (extract(epoch FROM held.expires_at - belfry.now()) * 1000)::float8 END AS ends_in_ms
FROM (
  SELECT term.shard, term.term, term.expires_at,
         CASE WHEN term.expires_at > belfry.now()
           AND (term.expires_at < 'infinity' OR holder.expires_at > belfry.now())
           THEN term.owner_id END AS node_id
  FROM belfry.shard_term AS term
  LEFT JOIN belfry.scheduler_node AS holder ON holder.id = term.owner_id
) AS held
ORDER BY held.shard`,
)

/**
 * For how long the first timer and the first delayed run of all shards are overdue, a step along an index
 * each, and whether a run waits that servers execute.
 */
export const readLag = statement<{
  readonly now_ms: number
  readonly timers_ms: number
  readonly delayed_ms: number
  readonly calls_wait: boolean
}>(
  'cluster_lag',
  `
SELECT (extract(epoch FROM belfry.now()) * 1000)::float8 AS now_ms,
       greatest(0, extract(epoch FROM belfry.now() - min(timers.due_at)) * 1000)::float8 AS timers_ms,
       greatest(0, extract(epoch FROM belfry.now() - min(runs.due_at)) * 1000)::float8 AS delayed_ms,
       EXISTS (
         SELECT FROM belfry.ready AS r
         WHERE ${unheld('r')} AND r.gate IS NULL AND r.handler NOT LIKE 'function:%'
         -- the order pins the index that knows of no functions
         ORDER BY r.tenant_id, r.queue LIMIT 1
       ) AS calls_wait
FROM belfry.shard_term AS term
LEFT JOIN LATERAL (
  SELECT due_at FROM belfry.timer WHERE timer.shard = term.shard ORDER BY due_at LIMIT 1
) AS timers ON true
LEFT JOIN LATERAL (
  SELECT due_at FROM belfry.delayed WHERE delayed.shard = term.shard ORDER BY due_at LIMIT 1
) AS runs ON true`,
  byIndex,
)
