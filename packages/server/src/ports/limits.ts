/**
 * Limits of a tenant, as the API reads and changes them: pools, pauses, its limit of runs; what holds a run;
 * and queues as its runs stand in them. A change holds from the next look at the gate on. Instants are epoch
 * ms.
 */
import type { HoldKind, Rate } from '@belfry/contract'
import type { PageRequest } from './paging.ts'

export interface PauseRecord {
  readonly reason: string
  readonly sinceMs: number
}

export interface PoolFields {
  readonly slots: number | null
  readonly rate: Rate | null
  readonly host: string | null
}

export interface PoolRecord extends PoolFields {
  readonly id: string
  readonly name: string
  readonly version: number
  readonly used: number
  readonly waiting: number
  readonly createdAtMs: number
  readonly updatedAtMs: number
}

export interface HoldRecord {
  readonly kind: HoldKind
  /** Of the job, the queue or the pool. */
  readonly name: string | null
  /** Where the key stands in the input, of a limit or a rate that counts by key. */
  readonly keyPath: string | null
  /** Of a rate: it is that of a pool. */
  readonly ofPool: boolean
  readonly limit: number | null
  readonly used: number | null
  readonly holders: readonly string[]
  /** Of a pause. */
  readonly sinceMs: number | null
  readonly reason: string | null
  /** When the next token is due, or a rest is over. */
  readonly untilMs: number | null
}

/** What holds a run, and its place among those that wait for the same. */
export interface HeldRunRecord {
  readonly hold: HoldRecord
  /** Runs of its group before it; `aheadCapped`: at least so many. */
  readonly ahead: number
  readonly aheadCapped: boolean
  /** When it could have started without the limit. */
  readonly availableAtMs: number
  readonly nowMs: number
}

export interface QueueRecord {
  readonly name: string
  readonly ready: number
  readonly held: number
  readonly running: number
  readonly oldestReadyMs: number | null
  readonly paused: PauseRecord | null
}

export interface QueuedRunRecord {
  readonly runId: string
  readonly job: string
  readonly priority: number
  readonly tag: number
  /** How far the service of its lane has come. */
  readonly virtualTime: number
  readonly availableAtMs: number
}

export interface HeldGroupRecord {
  readonly job: string
  readonly runs: number
  readonly firstRunId: string | null
  readonly hold: HoldRecord
  /** When that was read. */
  readonly nowMs: number
}

export interface LimitStore {
  /** What holds a run behind the gate; undefined: it does not stand there. */
  gateOf(runId: string): Promise<HeldRunRecord | undefined>
  /** Throws `name_taken`. */
  insertPool(pool: { readonly id: string; readonly name: string } & PoolFields): Promise<PoolRecord>
  findPool(id: string): Promise<PoolRecord | undefined>
  lockPool(id: string): Promise<PoolRecord | undefined>
  listPools(page: PageRequest, filter: { name: string | undefined }): Promise<readonly PoolRecord[]>
  countPools(): Promise<number>
  /** Throws `name_taken`. */
  updatePool(id: string, fields: PoolFields): Promise<PoolRecord>
  /** Answers the name of a job that names it, which then keeps it. */
  removePool(pool: Pick<PoolRecord, 'id' | 'name'>): Promise<string | undefined>
  /** Those of these names that no pool has; those that have one keep it until the end of the transaction. */
  missingPools(names: readonly string[]): Promise<readonly string[]>
  tenantLimit(): Promise<{ readonly runLimit: number | null; readonly used: number }>
  setTenantLimit(runLimit: number | null): Promise<void>
  /** Null: resume. */
  pauseJob(id: string, reason: string | null): Promise<void>
  pauseQueue(queue: string, reason: string | null): Promise<void>
  /** Queues in which the tenant has runs, jobs or a pause, by name; at most 200. */
  queues(): Promise<readonly QueueRecord[]>
  queue(name: string): Promise<QueueRecord>
  /** The next ones, in the order in which they will start. */
  nextRuns(queue: string, limit: number): Promise<readonly QueuedRunRecord[]>
  heldGroups(queue: string, limit: number): Promise<readonly HeldGroupRecord[]>
  weight(): Promise<number>
}
