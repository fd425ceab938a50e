/**
 * What an explanation of a schedule goes by: how it stands, what is on record, and the moment it is asked at.
 * Data alone; it was read in one snapshot.
 */
import type {
  OccurrenceOutcome,
  OccurrenceReason,
  OverlapPolicy,
  RunReason,
  RunState,
  ScheduleState,
} from '@belfry/contract'
import type { FireTimes, PlannedTime } from '../fire-policy.ts'
import type { ZoneRules } from '../zone/zone-rules.ts'

export interface RunFacts {
  readonly id: string
  /** It is a run of a workflow, which has tasks and no attempts. */
  readonly ofWorkflow: boolean
  readonly state: RunState
  readonly reason: RunReason | null
  readonly startedAtMs: number | null
  readonly finishedAtMs: number | null
}

/** One row of the ledger. */
export interface RecordFacts {
  readonly scheduledForMs: number
  readonly outcome: OccurrenceOutcome
  readonly reason: OccurrenceReason | null
  readonly detail: string | null
  /** More than 1: it stands for so many planned times, itself the first of them. */
  readonly missedCount: number
  readonly dueAtMs: number
  readonly firedAtMs: number
  readonly runId: string | null
  /** Null where there is none, or history of it is gone. */
  readonly run: RunFacts | null
  /** The backfill that ran it; else null. */
  readonly backfillId: string | null
}

/** Of a schedule that was deleted, what is on record is all there is. */
export interface ScheduleFacts {
  readonly state: ScheduleState | 'deleted'
  readonly createdAtMs: number
  readonly deletedAtMs: number | null
  /** It completed, and is deleted by that. */
  readonly endedItself: boolean
  /** The timing and its calendars are as they are since then. */
  readonly timingSinceMs: number
  readonly startAtMs: number | null
  readonly endAtMs: number | null
  readonly pausedAtMs: number | null
  /** Planned times after this are not on record yet. */
  readonly pausedFromMs: number | null
  readonly pausedReason: string | null
  readonly sleep: { readonly untilMs: number; readonly reason: string } | null
  readonly runLimit: number | null
  readonly runCount: number
  readonly next: PlannedTime | null
  readonly overlap: OverlapPolicy
  readonly catchUp: {
    readonly policy: 'latest' | 'all' | 'none'
    readonly windowMs: number
    readonly maxRuns: number
  }
}

/** Null: its timing cannot be read, or it was deleted. */
export type KnownTimes = FireTimes | null

export interface ExplainMoment {
  readonly nowMs: number
  /** History before this is not kept. */
  readonly keptFromMs: number
  readonly retentionDays: number
  /** Release of the zone data. */
  readonly dataVersion: string
  /** In which instants are told. */
  readonly zone: ZoneRules
}
