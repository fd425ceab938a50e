/**
 * What an explanation of a schedule reads of the store (engine/catalog/explainer.ts). Every read is bounded,
 * and all of them see one snapshot.
 */
import type { RunSource } from '@belfry/contract'
import type { RecordFacts, RunFacts } from '../domain/explanation/facts.ts'

/** What is kept of a schedule, also of one that was deleted. */
export interface ExplainedSchedule {
  readonly name: string
  readonly zone: string
  readonly createdAtMs: number
  readonly deletedAtMs: number | null
  readonly runLimit: number | null
  readonly runCount: number
  /** It completed, and is deleted by that. */
  readonly endedItself: boolean
  readonly timingSinceMs: number
}

export type LedgerRow = Omit<RecordFacts, 'run' | 'backfillId'>

export interface ExtraRunRow {
  readonly scheduledForMs: number
  readonly runId: string
  /** Null: by a person. */
  readonly backfillId: string | null
}

export interface ExplainedRun extends RunFacts {
  readonly source: RunSource
}

export interface ExplanationStore {
  find(scheduleId: string): Promise<ExplainedSchedule | undefined>
  /** Planned from `fromMs` to before `toMs`, oldest first. */
  records(scheduleId: string, fromMs: number, toMs: number, limit: number): Promise<readonly LedgerRow[]>
  /** Rows that stand for many times, among the nearest before `beforeMs`; oldest first. */
  sumsBefore(scheduleId: string, beforeMs: number): Promise<readonly LedgerRow[]>
  extraRuns(scheduleId: string, fromMs: number, toMs: number): Promise<readonly ExtraRunRow[]>
  /** By id; without those whose history is gone. */
  runs(ids: readonly string[]): Promise<ReadonlyMap<string, ExplainedRun>>
}
