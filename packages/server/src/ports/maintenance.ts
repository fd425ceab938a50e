/**
 * What the pruner keeps in order: partitions of history, and rows that ran out. Every method may be called by
 * several processes at once, and is one short step. Days are UTC, as in `2026-03-10`, by database time.
 */

export interface Maintenance {
  /**
   * Days that lack a partition and need one, the most urgent first, at most `limit`: from yesterday to
   * `aheadDays` ahead; those of an outage; those of which rows stand in the default partition.
   */
  missingDays(aheadDays: number, retentionDays: number, limit: number): Promise<readonly string[]>
  /** Makes the partitions of a day; answers those that were missing. */
  makePartitions(day: string): Promise<readonly string[]>
  /** Days before the retention that still have partitions, oldest first, at most `limit`. */
  oldDays(retentionDays: number, limit: number): Promise<readonly string[]>
  /** Drops the partitions of a day, except where a run is still alive; answers their names. */
  dropPartitions(day: string): Promise<readonly string[]>
  /**
   * Deletes rows in the default partitions that are older than the retention and of no living run, at most
   * `limit` a table; answers how many.
   */
  pruneDefault(retentionDays: number, limit: number): Promise<number>
  /** Deletes idempotency keys that ran out, at most `limit`; answers how many. */
  deleteExpiredIdempotencyKeys(limit: number): Promise<number>
  /**
   * Deletes the rows of runs for nominal times whose runs are older than the retention and not alive, at most
   * `limit`; answers how many.
   */
  deleteOldExtraRuns(retentionDays: number, limit: number): Promise<number>
  /** Deletes backfills that were over before the retention, at most `limit`; answers how many. */
  deleteOldBackfills(retentionDays: number, limit: number): Promise<number>
  /**
   * Deletes dead letters, whatever their state, and reasons of cancels, of runs that are older than the
   * retention, at most `limit` each; answers how many of the one of which there are more.
   */
  deleteOldRunNotes(retentionDays: number, limit: number): Promise<number>
  /** Waits of tasks, and signals, of workflow runs that are over; answers how many. */
  deleteOldTaskWaits(retentionDays: number, limit: number): Promise<number>
  /**
   * Deletes dedupe keys that nothing holds, what is left of gatherings that are over, and inputs of those
   * that were canceled before the retention, at most `limit` each; answers how many of that of which there
   * are most.
   */
  deleteOldRequests(retentionDays: number, limit: number): Promise<number>
  /**
   * Deletes events that began workflows, and what runs depended on, of before the retention, at most `limit`
   * each; answers how many of that of which there are more.
   */
  deleteOldTriggers(retentionDays: number, limit: number): Promise<number>
  /** Deletes replans that ended before the retention, at most `limit`; answers how many. */
  deleteOldReplans(retentionDays: number, limit: number): Promise<number>
  /** Deletes tokens of callbacks of attempts that were over long ago; answers how many. */
  deleteOldCallbacks(limit: number): Promise<number>
  /** Deletes scheduler nodes that ran out long ago. */
  deleteDeadNodes(): Promise<number>
}
