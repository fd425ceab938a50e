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
  /** Database time of the read, epoch ms; null where the database was not asked. */
  readonly nowMs: number | null
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
  /**
   * Something changed in a shard: what is known of it may be out of date, from this due instant on (left out:
   * from about now on, as it is with what is made or changed).
   */
  changed(shard: number, fromMs?: number): void
  /** These shards are held from now on, by a new term: nobody fires what was taken before that. */
  gained(shards: readonly number[]): void
  /** These are about to be fired. Never fails: what an index knows decides nothing. */
  take(timers: readonly DueTimer[]): Promise<void>
  /** `gone` no longer stand as they were read; `moved` are where they stand now. Never fails. */
  settle(gone: readonly DueTimer[], moved: readonly DueTimer[]): Promise<void>
}

/** An index beside Postgres, which may miss what Postgres knows. */
export interface MendableIndex extends TimerIndex {
  /** Takes in those of `overdue` that it neither knows nor has seen taken, and answers them. Never fails. */
  mend(overdue: readonly DueTimer[]): Promise<readonly DueTimer[]>
}
