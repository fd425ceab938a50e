/**
 * What the API tells of the installation, and of what queues need of workers. Lengths of time are in ms, by
 * the clock of the database.
 */
import type { Skew } from './nodes.ts'

export interface NodeRecord {
  readonly id: string
  readonly host: string
  readonly version: string
  readonly roles: readonly string[]
  readonly alive: boolean
  readonly startedAtMs: number
  readonly upMs: number
  readonly seenAgoMs: number
  readonly skew: Skew | null
  readonly lagMs: number | null
  readonly worker: {
    readonly queues: readonly string[]
    readonly slots: number
    readonly busy: number
  } | null
  readonly parts: readonly {
    readonly part: string
    readonly state: string
    readonly fault: string | null
    readonly sinceMs: number
  }[]
}

export interface ShardRecord {
  readonly shard: number
  readonly term: number
  /** Null: nobody leads it. */
  readonly nodeId: string | null
  /** Null: with its holder, or nobody leads it. */
  readonly endsInMs: number | null
}

export interface ClusterRecord {
  readonly nowMs: number
  readonly nodes: readonly NodeRecord[]
  readonly shards: readonly ShardRecord[]
  /** For how long the first of them are overdue; 0: nothing is. */
  readonly lag: { readonly timersMs: number; readonly delayedMs: number }
  /** A run that servers execute waits. */
  readonly callsWait: boolean
}

/** What a queue needs of one kind of worker. */
export interface DemandRecord {
  readonly nowMs: number
  /** Runs that may start now; capped. */
  readonly backlog: number
  readonly oldestAgeMs: number | null
  readonly running: number
  /** For how long those that run have been running, on average. */
  readonly runningForMs: number | null
  /** How long attempts took lately; null: none ended. */
  readonly meanMs: number | null
  readonly workers: number
  readonly slots: number
  readonly busy: number
}

export interface OwnDemand {
  servers(queue: string): Promise<DemandRecord>
  functions(queue: string): Promise<DemandRecord>
}

export interface ClusterStore {
  read(): Promise<ClusterRecord>
  /** Of all tenants. */
  serverDemand(queue: string): Promise<DemandRecord>
}
