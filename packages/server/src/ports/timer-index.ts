/**
 * What falls due next, shard by shard, in due order. Postgres is the truth; another index (Redis) may answer
 * faster but is only ever believed by way of the firing transaction (`ports/firing.ts`).
 */

/** A planned time of a schedule, or a delayed run. Instants are epoch ms. */
export type DueTimer =
  | {
      readonly kind: 'schedule'
      readonly id: string
      readonly tenantId: string
      readonly shard: number
      readonly dueAtMs: number
      readonly scheduledForMs: number
      readonly gen: number
    }
  | {
      readonly kind: 'run'
      readonly id: string
      readonly tenantId: string
      readonly shard: number
      readonly dueAtMs: number
      /** The lane in which it will wait (domain/route.ts). */
      readonly queue: string
      readonly priority: number
      readonly tenantWeight: number
    }

export interface TimerPage {
  readonly timers: readonly DueTimer[]
  /** Pass it back to go on; null at the end of the horizon. */
  readonly cursor: string | null
  /** Database time of the read, epoch ms. */
  readonly nowMs: number
}

export interface TimerIndex {
  /**
   * Timers of `shards` due before database time plus `horizonMs`, in due order, at most `limit` a page: after
   * the cursor, or where that is null from the due instant `fromMs` on (null: from the first).
   */
  scan(options: {
    shards: readonly number[]
    horizonMs: number
    limit: number
    cursor: string | null
    fromMs: number | null
  }): Promise<TimerPage>
}
