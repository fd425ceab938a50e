/**
 * How far the service of each queue has come, where every process can read it. Fair order needs it wherever
 * runs are enqueued; claimers, who know it, may sit in other processes. A courtesy of a second's age, never
 * part of a claim's or an enqueue's own transaction.
 */

export interface QueueProgress {
  /**
   * V of each queue (domain/fair-queue.ts): the highest tag that was claimed as far as it was noted, or the
   * lowest beyond it that waits unclaimed; 0 where nothing was ever enqueued. In any order.
   */
  read(queues: readonly string[]): Promise<readonly { readonly queue: string; readonly tag: number }[]>
  /** Notes claimed tags; the highest of each queue stays. */
  note(claimed: readonly { readonly queue: string; readonly tag: number }[]): Promise<void>
  /** Forgets queues of which nothing was noted for a month. */
  forgetIdle(): Promise<void>
}
