/**
 * Backfills: runs for a range of planned times of a schedule that are over. Here is what requests read and
 * write, within a transaction of the catalog; how they are worked off stands in ports/backfilling.ts.
 *
 * `extra_run` is the list of all runs of a schedule for a planned time that its own fire did not make: by a
 * backfill, or by a trigger for a nominal time. Together with the run of the occurrence they are what ran for
 * that time.
 */
import type { BackfillOrder, BackfillReprocess, BackfillState, JsonValue, RunState } from '@belfry/contract'
import type { Found, PageRequest } from './paging.ts'

/** The timing as it was when the backfill was made: a later edit changes none of its planned times. */
export interface BackfillTiming {
  /** A StoredSpec, unless the data is newer than this version. */
  readonly spec: unknown
  readonly zone: string
  readonly startAtMs: number | null
  readonly endAtMs: number | null
}

export interface NewBackfill {
  readonly id: string
  readonly scheduleId: string
  /** Planned times in [fromMs, toMs). */
  readonly fromMs: number
  readonly toMs: number
  readonly order: BackfillOrder
  readonly concurrency: number
  readonly reprocess: BackfillReprocess
  /** Undefined: the input of the schedule, as it is when a run is made. */
  readonly input: JsonValue | undefined
  readonly timing: BackfillTiming
  /** Planned times in the range, excluded ones among them. */
  readonly total: number
  /** The first to be looked at; null where there is none. */
  readonly nextAtMs: number | null
}

/**
 * Each planned time is started or skipped; each started run is alive or has ended in one of three ways. Lists
 * leave out the input.
 */
export interface BackfillRecord extends Omit<NewBackfill, 'timing'> {
  readonly scheduleName: string
  readonly state: BackfillState
  /** Why it is paused or was canceled. */
  readonly reason: string | null
  readonly started: number
  readonly skipped: number
  readonly alive: number
  readonly succeeded: number
  readonly failed: number
  readonly canceled: number
  readonly createdAtMs: number
  readonly startedAtMs: number | null
  readonly endedAtMs: number | null
  /** Grows with every change by a person; the ETag. */
  readonly version: number
}

/** A run of a schedule for a planned time, beside that of the occurrence. */
export interface ExtraRun {
  readonly scheduleId: string
  readonly scheduledForMs: number
  readonly runId: string
}

/** What is on record of one planned time. */
export interface TimeRecord {
  readonly scheduledForMs: number
  /** Whether there is an occurrence row. */
  readonly recorded: boolean
  /** The newest of its runs; null where none is on record. */
  readonly runId: string | null
  /** Whether any of its runs waits or runs. */
  readonly alive: boolean
  /** How the newest one ended; null where it is alive, or its end is no longer on record. */
  readonly endedAs: RunState | null
}

/** A change of state by a person. */
export interface BackfillChange {
  readonly to: BackfillState
  readonly reason: string | null
}

export interface BackfillStore {
  insert(backfill: NewBackfill): Promise<void>
  find(id: string): Promise<BackfillRecord | undefined>
  /** Locked until the end of the transaction: no step of it is under way then. */
  lock(id: string): Promise<BackfillRecord | undefined>
  list(
    page: PageRequest,
    filter: { scheduleId: string | undefined; state: BackfillState | undefined },
  ): Promise<Found<BackfillRecord>>
  /** How many of this tenant are not over, counted up to `limit`. */
  countOpen(limit: number): Promise<number>
  /** Of one that is locked. */
  change(id: string, change: BackfillChange): Promise<void>
  /** Ends those of a schedule that are not over. */
  cancelOfSchedule(scheduleId: string, reason: string): Promise<void>
  /** Ids of its runs that wait or run. */
  aliveRuns(id: string): Promise<{
    readonly runIds: readonly string[]
    readonly workflowRunIds: readonly string[]
  }>
  /** What is on record of these planned times, in any order; one for each of them. */
  timeRecords(scheduleId: string, scheduledForMs: readonly number[]): Promise<readonly TimeRecord[]>
  /** Notes a run that was inserted in this transaction with this nominal time. */
  insertExtraRun(extra: ExtraRun): Promise<void>
}
