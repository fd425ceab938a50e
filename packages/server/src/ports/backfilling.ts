/**
 * How backfills are worked off, across tenants. A step is one transaction:
 *
 *   1. lock: all backfills of the schedule against each other, then the row of this one, against people;
 *   2. read what is so now: the cursor, its runs and which of them have ended, the schedule, database time;
 *   3. read what is on record of the planned times that come next;
 *   4. advance: occurrences where there are none, runs, ready rows and extra_run rows for what is to start,
 *      and the cursor, if it is where it was read.
 *
 * All or nothing. Crash before the commit: nothing happened. Crash after: everything did. A fire is never
 * waited for and never waits: both sides insert the occurrence of a time, and the second finds it there.
 */
import type { BackfillOrder, BackfillReprocess, BackfillState, RunState } from '@belfry/contract'
import type { BackfillTiming, TimeRecord } from './backfills.ts'
import type { ScheduleTarget } from './firing.ts'

/** One that has something to do, as far as can be told without locks. */
export interface DueBackfill {
  readonly id: string
  readonly scheduleId: string
}

export interface DueBackfills {
  readonly due: readonly DueBackfill[]
  /** How many are not over, in the shards that were looked at. */
  readonly open: number
}

/** How a run of the backfill stands whose end was not taken in yet. */
export interface UnsettledRun {
  readonly runId: string
  /** Null: it waits or runs. `unknown`: its end is no longer on record. */
  readonly endedAs: RunState | 'unknown' | null
}

export interface LockedBackfill {
  readonly id: string
  readonly tenantId: string
  readonly scheduleId: string
  readonly state: BackfillState
  readonly order: BackfillOrder
  readonly concurrency: number
  readonly reprocess: BackfillReprocess
  readonly fromMs: number
  readonly toMs: number
  readonly nextAtMs: number | null
  readonly timing: BackfillTiming
  readonly runs: readonly UnsettledRun[]
  /** Null where the schedule was deleted. */
  readonly schedule: {
    readonly version: number
    readonly target: ScheduleTarget
    /** Where its runs go; empty for a workflow, whose runs stand in no queue. */
    readonly queue: string
    /** The lane in which they wait there (domain/route.ts). */
    readonly lane: string
    /** The planned time that the timer stands at; null where there is no timer. */
    readonly timerAtMs: number | null
  } | null
  readonly nowMs: number
}

export interface BackfillStart {
  readonly scheduledForMs: number
  readonly runId: string
  readonly tag: number
  /** `known`: there is an occurrence. `insert`: one is made, and no run where it is there after all. */
  readonly occurrence: 'known' | 'insert' | 'none'
  /** Of a workflow run: where its data interval begins. */
  readonly intervalStartMs?: number | null
}

export interface BackfillAdvance {
  readonly id: string
  readonly target: ScheduleTarget
  /** As it was read; the advance throws where it is not. */
  readonly expectedNextAtMs: number | null
  readonly nextAtMs: number | null
  readonly starts: readonly BackfillStart[]
  readonly skipped: number
  readonly ended: readonly { readonly runId: string; readonly endedAs: RunState | 'unknown' }[]
  readonly succeeded: number
  readonly failed: number
  readonly canceled: number
  /** Of the runs that were there before. */
  readonly alive: number
  readonly state: BackfillState
  readonly reason: string | null
}

export interface BackfillTx {
  /** Locked until the end of the transaction; undefined where it is gone. */
  lock(backfill: DueBackfill): Promise<LockedBackfill | undefined>
  timeRecords(
    of: Pick<LockedBackfill, 'tenantId' | 'scheduleId'>,
    scheduledForMs: readonly number[],
  ): Promise<readonly TimeRecord[]>
  /** Answers the ids of the runs that were made: those without an occurrence that came from elsewhere. */
  advance(advance: BackfillAdvance): Promise<readonly string[]>
}

/** Every method throws as the Database does. */
export interface Backfilling {
  /**
   * In these shards: those that may start runs, whose runs have ended, or that are done; oldest first, at
   * most `limit`, without those of `exceptIds`.
   */
  due(shards: readonly number[], exceptIds: readonly string[], limit: number): Promise<DueBackfills>
  /** One transaction. */
  within<T>(work: (tx: BackfillTx) => Promise<T>): Promise<T>
}
