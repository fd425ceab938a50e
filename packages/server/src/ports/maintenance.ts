/**
 * What the pruner keeps in order: partitions of history, and rows that ran out. Every method may be called by
 * several processes at once.
 */

export interface Maintenance {
  /** Makes daily partitions for `days` days from yesterday; answers those that were missing. */
  makePartitions(days: number): Promise<readonly string[]>
  /** Drops partitions older than `retentionDays`, except where a run is still alive. */
  dropPartitions(retentionDays: number): Promise<readonly string[]>
  /** Deletes idempotency keys that ran out, in small steps; answers how many. */
  deleteExpiredIdempotencyKeys(limit: number): Promise<number>
  /** Deletes scheduler nodes that ran out long ago. */
  deleteDeadNodes(): Promise<number>
}
