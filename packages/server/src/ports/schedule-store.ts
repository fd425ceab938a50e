/**
 * Schedules of one tenant as the API reads and writes them, with their timers and what became of their
 * planned times. What a change means is decided in engine/catalog/; here it is written. Instants are epoch
 * ms.
 */
import type {
  AfterCompletion,
  JsonValue,
  OccurrenceOutcome,
  OccurrenceReason,
  OverlapPolicy,
  Schedule,
  ScheduleState,
} from '@belfry/contract'
import type { CalendarUse } from '../domain/calendar/calendar-lookup.ts'
import type { OnExcluded } from '../domain/calendar/occurrence-exclusion.ts'
import type { PlannedTime } from '../domain/fire-policy.ts'
import type { StoredSpec, UnreadableSpec } from '../domain/stored-spec.ts'
import type { SettleResult, TimerFire } from './firing.ts'
import type { Found, PageRequest } from './paging.ts'

export type CatchUp = Schedule['catchUp']

/** What a person can set, beside the name. */
export interface ScheduleSettings<Spec = StoredSpec> {
  readonly description: string
  readonly spec: Spec
  readonly zone: string
  readonly zoneDataVersion: string
  readonly startAtMs: number | null
  readonly endAtMs: number | null
  /** In the order in which they are asked. */
  readonly calendars: readonly CalendarUse[]
  readonly onExcluded: OnExcluded
  readonly jitterMs: number
  readonly catchUp: CatchUp
  readonly flexibleWindowMs: number
  readonly overlap: OverlapPolicy
  /** Null: none. */
  readonly runLimit: number | null
  /** Null: never. */
  readonly pauseAfterFailures: number | null
  readonly afterCompletion: AfterCompletion
  /** Undefined: no input, which differs from the JSON value null. */
  readonly input: JsonValue | undefined
}

/** Planned times before `untilMs` are skipped. */
export interface Sleep {
  readonly untilMs: number
  /** Empty: none was given. */
  readonly reason: string
}

export interface ScheduleRecord extends ScheduleSettings<StoredSpec | UnreadableSpec> {
  readonly id: string
  readonly name: string
  /** Of what it runs: either these or those of a workflow are null. */
  readonly jobId: string | null
  readonly jobName: string | null
  readonly workflowId: string | null
  readonly workflowName: string | null
  readonly state: ScheduleState
  readonly pausedReason: string | null
  readonly pausedAtMs: number | null
  /** While paused: planned times after this are not on record yet. */
  readonly pausedFromMs: number | null
  /** Runs made before this do not count for `pauseAfterFailures`. */
  readonly resumedAtMs: number | null
  /** It may be over. */
  readonly sleep: Sleep | null
  /** Runs that count for `runLimit`. */
  readonly runCount: number
  readonly gen: number
  readonly version: number
  readonly createdAtMs: number
  readonly updatedAtMs: number
  readonly next: PlannedTime | null
}

export type ScheduleSummaryRecord = Omit<ScheduleRecord, 'input'>

/** One of the two is null. */
export interface ScheduleTargetIds {
  readonly jobId: string | null
  readonly workflowId: string | null
}

export interface NewSchedule {
  readonly id: string
  readonly name: string
  readonly target: ScheduleTargetIds
  readonly settings: ScheduleSettings
  readonly first: PlannedTime
}

/**
 * `keep`: the timer stays where it is. `set`: it is moved or made. `drop`: it goes. All of them make a new
 * generation, so that a fire that was decided before the change and waits for it is decided anew.
 */
export type TimerChange =
  | { readonly kind: 'keep' }
  | { readonly kind: 'set'; readonly next: PlannedTime }
  | { readonly kind: 'drop' }

export interface ScheduleChange {
  readonly settings: ScheduleSettings<StoredSpec | UnreadableSpec>
  readonly state: ScheduleState
  readonly pausedReason: string | null
  readonly pausedFromMs: number | null
  /** The settings name other calendars than before. */
  readonly replacesCalendars: boolean
  readonly timer: TimerChange
  readonly sleep: Sleep | null
  readonly runCount: number
  /** `pauseAfterFailures` counts from now. */
  readonly forgivesFailures: boolean
  /** Planned times to put on record. */
  readonly records: readonly RecordedTime[]
}

/** A planned time to put on record as skipped, outside a fire; one that is on record stays as it is. */
export interface RecordedTime {
  readonly scheduledForMs: number
  readonly reason: 'paused' | 'calendar'
  readonly detail: string | null
  /** More than 1: it stands for so many planned times, itself the first of them. */
  readonly missedCount: number
}

/** Times of a span that have rows. */
export interface OnRecord {
  /** The first ones, in order. */
  readonly timesMs: readonly number[]
  /** Of all. */
  readonly count: number
}

export interface ScheduleStore {
  /** With its timer. Throws `name_taken`. */
  insert(schedule: NewSchedule): Promise<void>
  find(id: string): Promise<ScheduleRecord | undefined>
  /** Locked until the end of the transaction, together with its timer. Throws `serialization_conflict`. */
  lock(id: string): Promise<ScheduleRecord | undefined>
  list(
    page: PageRequest,
    filter: {
      name: string | undefined
      state: ScheduleState | undefined
      /** Of a job or a workflow. */
      targetId: string | undefined
    },
  ): Promise<Found<ScheduleSummaryRecord>>
  /** Writes what changed and counts `version` and `gen`. */
  change(id: string, change: ScheduleChange): Promise<void>
  /** Whether a schedule of this name that was deleted ran at this planned time. */
  ranUnderDeleted(name: string, scheduledForMs: number): Promise<boolean>
  /** Soft: its history stays, with the planned times that are put on record now. */
  remove(id: string, records: readonly RecordedTime[]): Promise<void>
  /**
   * Fires the timer of a schedule that this transaction holds by `lock`, as a scheduler would: occurrences,
   * runs and the next planned time, or the end of the schedule. What it does was decided (domain/firing.ts)
   * by the record that was locked; `engine/catalog/settle.ts` does both. Afterwards the record is another.
   */
  settle(fire: TimerFire): Promise<SettleResult>
  /** Lets go of runs that wait for the one before them. Answers the shards that have timers due by that. */
  letWaitingGo(id: string): Promise<{ readonly shards: readonly number[] }>
  /**
   * What is on record in (afterMs, untilMs], of a schedule that this transaction holds; its backfills put
   * nothing more there until the end of the transaction.
   */
  onRecord(
    id: string,
    span: { readonly afterMs: number; readonly untilMs: number },
    limit: number,
  ): Promise<OnRecord>
  /** True also for a schedule that was deleted and left its history. */
  everExisted(id: string): Promise<boolean>
  /** Newest first, planned before `beforeMs`. */
  occurrences(
    id: string,
    page: { beforeMs: number | null; limit: number },
    filter: {
      outcome: OccurrenceOutcome | undefined
      reason: OccurrenceReason | undefined
      fromMs: number | null
      toMs: number | null
    },
  ): Promise<Found<OccurrenceRecord, number>>
}

export interface OccurrenceRecord {
  readonly scheduleId: string
  readonly scheduledForMs: number
  readonly outcome: OccurrenceOutcome
  readonly reason: OccurrenceReason | null
  /** The calendar and why, or the reason given for a sleep or a pause. */
  readonly detail: string | null
  readonly missedCount: number
  readonly runId: string | null
  readonly workflowRunId: string | null
  /** Newest first: runs for this time by a backfill or a trigger, at most ten. */
  readonly laterRunIds: readonly string[]
  readonly dueAtMs: number
  readonly firedAtMs: number
}
