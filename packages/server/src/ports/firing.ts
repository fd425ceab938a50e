/**
 * The firing transaction: the only place where a planned time becomes an occurrence and a run.
 *
 * 1. check that the caller still holds each shard under the term it names (locked until commit);
 * 2. move (or end) the timer where due instant and generation are still the ones that were read, it and all
 *    planned times that are decided with it are due, the decision was made with about the right time, and
 *    with the settings that the schedule has now;
 * 3. insert the occurrences, ON CONFLICT DO NOTHING;
 * 4. insert runs for those that are new, each with a row that says where it stands: ready, or waiting for the
 *    run before it; by some policies that one is asked to cancel, or ends here;
 * 5. end the schedule where no planned time is left, or its limit of runs is reached.
 * All or nothing. Crash before commit: nothing happened. Crash after: everything did.
 */
import type { OccurrenceReason } from '@belfry/contract'
import type { DecidedOccurrence, FirePolicy, PlannedTime } from '../domain/fire-policy.ts'
import type { StoredSchedule } from '../domain/stored-schedule.ts'
import type { HeldShard } from './leadership.ts'

/** What a schedule runs. */
export type ScheduleTarget = 'job' | 'workflow'

/** What the scheduler must know of a schedule to fire it. Instants are epoch ms. */
export interface SchedulePlan extends FirePolicy, StoredSchedule {
  readonly tenantId: string
  readonly gen: number
  /** Null: it may start any number of runs. */
  readonly runLimit: number | null
  /** Grows with every change of the schedule. */
  readonly version: number
  readonly target: ScheduleTarget
  /**
   * The lane in which its runs will wait (domain/route.ts), for the tag; what counts is what the transaction
   * finds. Empty for a workflow, whose runs stand in no queue.
   */
  readonly queue: string
  readonly priority: number
  readonly tenantWeight: number
}

/**
 * One occurrence to write. A `ran` may still become `skipped` inside the transaction (overlap, buffer_full,
 * run_limit).
 */
export interface PlannedOccurrence extends DecidedOccurrence {
  /** For `ran`: the id of the run to make, and its place in the fair order. */
  readonly runId: string | null
  readonly tag: number
  /** Of a workflow run: where its data interval begins; it ends with the planned time. */
  readonly intervalStartMs?: number | null
}

export interface TimerFire {
  readonly scheduleId: string
  readonly shard: number
  readonly gen: number
  /** Of the plan that this was decided by. */
  readonly version: number
  readonly expectedDueAtMs: number
  /** Null: no planned time is left; the timer goes and the schedule is `completed`. */
  readonly next: PlannedTime | null
  /** A job, if left out. */
  readonly target?: ScheduleTarget
  /** Skips or allows, and has no limit of runs. A fire of such schedules alone costs less. */
  readonly plain: boolean
  readonly occurrences: readonly PlannedOccurrence[]
}

/**
 * The database time that decisions were made with, carried on to when they are sent, epoch ms. A fire is
 * refused where the real one differs by more than `toleranceMs`: catching up depends on it.
 */
export interface AssumedTime {
  readonly nowMs: number
  readonly toleranceMs: number
}

/** An occurrence that is new by this transaction. */
export interface FiredOccurrence {
  readonly scheduleId: string
  readonly scheduledForMs: number
  readonly outcome: 'ran' | 'skipped' | 'missed'
  readonly runId: string | null
  /** Null: a workflow run, which stands in none. */
  readonly queue: string | null
  readonly dueAtMs: number
  /** Its run waits for the one before it. */
  readonly waits: boolean
  readonly reason: OccurrenceReason | null
  /** How many planned times it stands for. */
  readonly missedCount: number
}

/** A run that had to make room for a new one of its schedule. */
export interface DisplacedRun {
  readonly runId: string
  readonly tenantId: string
  readonly jobId: string
  readonly queue: string
  /** The attempt that ran, and who ran it since when; session and start are null where none did. */
  readonly attempt: number
  readonly sessionId: string | null
  readonly startedAtMs: number | null
  /** True: it has ended as canceled. False: it was asked to cancel. */
  readonly ended: boolean
}

export interface FireResult {
  readonly fired: readonly FiredOccurrence[]
  readonly displaced: readonly DisplacedRun[]
  /** Runs depend on some of those that ended. */
  readonly toldDependents: boolean
  /** Ids of timers that moved, or ended; the others were refused. */
  readonly movedScheduleIds: readonly string[]
  /** Those of them that ended although a next time was given: the limit of runs is reached. */
  readonly endedScheduleIds: readonly string[]
  /** Ids of those that were refused only because their schedule was changed since it was read. */
  readonly changedScheduleIds: readonly string[]
  readonly heldShards: readonly number[]
  /** Database time of the transaction, epoch ms. */
  readonly nowMs: number
}

/** What a fire within a request came to. */
export type SettleResult = Pick<FireResult, 'fired' | 'displaced' | 'toldDependents' | 'nowMs'>

export interface ReleaseResult {
  /** Those that moved to `ready`; the others are gone, or not yet due by database time. */
  readonly releasedRunIds: readonly string[]
  readonly releasedQueues: readonly string[]
  /** Those that still wait for a run that is alive, but for those further back in a chain. */
  readonly putOffRunIds: readonly string[]
  /** When they are due again. */
  readonly putOffToMs: number
  /** Those that took another input, and are due later for it. */
  readonly movedRuns: readonly { readonly runId: string; readonly dueAtMs: number }[]
  readonly nowMs: number
}

/** Every method throws as the Database does; a fault that only one timer causes is the driver's error. */
export interface Firing {
  /** Plans of those schedules that still exist, in any order. */
  plans(scheduleIds: readonly string[]): Promise<readonly SchedulePlan[]>
  fire(
    nodeId: string,
    terms: readonly HeldShard[],
    fires: readonly TimerFire[],
    assumed: AssumedTime,
  ): Promise<FireResult>
  /** Moves delayed runs that are due to `ready`; guarded by existence only, so any node may do it twice. */
  release(runs: readonly { readonly runId: string; readonly tag: number }[]): Promise<ReleaseResult>
}
