/**
 * The installation as the platform sees it, and what queues need of workers, on Postgres
 * (ports/cluster.ts).
 */
import { sharedRoutes } from '../../domain/route.ts'
import type { ClusterStore, DemandRecord, NodeRecord, OwnDemand } from '../../ports/cluster.ts'
import type { Transaction } from '../database.ts'
import { listNodes, listShards, type NodeRow, readLag } from '../statements/cluster.ts'
import {
  allServerDemand,
  type DemandRow,
  ownFunctionDemand,
  ownServerDemand,
} from '../statements/queue-stats.ts'
import { only } from './values.ts'

const mostNodes = 1_000
/** Less than this of an attempt is left of what ended long ago: it says nothing any more. */
const leastAttempts = 0.01

export function createClusterStore(tx: Transaction): ClusterStore {
  return {
    async read() {
      const [nodes, shards, lag] = await Promise.all([
        tx.query(listNodes, [mostNodes]),
        tx.query(listShards, []),
        tx.query(readLag, []),
      ])
      const { now_ms: nowMs, timers_ms: timersMs, delayed_ms: delayedMs, calls_wait: callsWait } = only(lag)
      return {
        nowMs,
        callsWait,
        nodes: nodes.map(nodeRecord),
        shards: shards.map((row) => ({
          shard: row.shard,
          term: row.term,
          nodeId: row.node_id,
          endsInMs: row.ends_in_ms,
        })),
        lag: { timersMs, delayedMs },
      }
    },
    serverDemand: async (queue) => demandRecord(only(await tx.query(allServerDemand, [queue, sharedRoutes]))),
  }
}

export function createOwnDemand(tx: Transaction): OwnDemand {
  return {
    servers: async (queue) => demandRecord(only(await tx.query(ownServerDemand, [queue]))),
    functions: async (queue) => demandRecord(only(await tx.query(ownFunctionDemand, [queue]))),
  }
}

function demandRecord(row: DemandRow): DemandRecord {
  return {
    nowMs: row.now_ms,
    backlog: row.backlog,
    oldestAgeMs: atLeastZero(row.oldest_age_ms),
    running: row.running,
    runningForMs: atLeastZero(row.running_for_ms),
    meanMs: row.attempts < leastAttempts ? null : row.busy_ms / row.attempts,
    workers: row.workers,
    slots: row.slots,
    busy: row.busy,
  }
}

/** A row may have been written by a transaction that began later. */
const atLeastZero = (ms: number | null): number | null => (ms === null ? null : Math.max(0, ms))

function nodeRecord(row: NodeRow): NodeRecord {
  const { worker_queues: queues, worker_slots: slots, worker_busy: busy } = row
  const { skew_ms: ms, skew_error_ms: errorMs } = row
  return {
    id: row.id,
    host: row.host,
    version: row.version,
    roles: row.roles,
    alive: row.alive,
    startedAtMs: row.started_ms,
    upMs: row.up_ms,
    seenAgoMs: row.seen_ago_ms,
    skew: ms === null || errorMs === null ? null : { ms, errorMs },
    lagMs: row.lag_ms,
    worker: queues === null || slots === null || busy === null ? null : { queues, slots, busy },
    parts: row.parts.map(({ since_ms: sinceMs, ...part }) => ({ ...part, sinceMs })),
  }
}
