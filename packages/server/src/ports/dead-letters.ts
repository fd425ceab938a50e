/**
 * Dead letters, as requests read and change them within a transaction of the catalog. They are put on record
 * by whatever ends runs as failed (postgres/dead-letters.ts). Order is by the instant of the failure, the
 * latest first; a position is that instant with the id of the run.
 */
import type { DeadLetterState, JsonValue, RunReason, RunSource } from '@belfry/contract'
import type { LetterPosition } from '../domain/letter-position.ts'

export interface DeadLetterRecord {
  readonly runId: string
  readonly jobId: string
  readonly jobName: string
  readonly jobVersion: number
  readonly scheduleId: string | null
  readonly scheduledForMs: number | null
  readonly source: RunSource
  readonly queue: string
  readonly reason: RunReason | null
  readonly errorCode: string
  readonly errorMessage: string | null
  readonly fingerprint: string
  readonly attempts: number
  readonly createdAtMs: number
  readonly failedAtMs: number
  readonly state: DeadLetterState
  readonly replayedAs: string | null
  readonly replayedAtMs: number | null
  readonly deletedAtMs: number | null
}

export interface DeadLetterFilter {
  readonly states: readonly DeadLetterState[]
  readonly jobId: string | undefined
  readonly fingerprint: string | undefined
  readonly queue: string | undefined
  readonly errorCode: string | undefined
  readonly failedAfterMs: number | null
  readonly failedBeforeMs: number | null
}

export interface DeadLetterPage {
  /** Null: from the latest failure on. */
  readonly before: LetterPosition | null
  readonly limit: number
}

export interface FoundLetters {
  readonly items: readonly DeadLetterRecord[]
  /** The last that was looked at, where there may be more behind it. */
  readonly lookedTo: LetterPosition | null
}

/** Dead letters of one error of one job. */
export interface LetterTally {
  readonly fingerprint: string
  readonly errorCode: string
  readonly jobId: string
  readonly jobName: string
  readonly count: number
  readonly firstAtMs: number
  readonly lastAtMs: number
  /** The latest. */
  readonly sampleRunId: string
}

export interface LetterTallies {
  /** Those with the most dead letters first. */
  readonly tallies: readonly LetterTally[]
  readonly total: number
  readonly looked: number
  /** False: there are more than were looked at, or more tallies than are here. */
  readonly isWhole: boolean
}

/** A dead letter that is held, with what a replay takes over. */
export interface HeldLetter {
  readonly runId: string
  readonly jobId: string
  readonly scheduleId: string | null
  readonly scheduledForMs: number | null
  readonly input: JsonValue | undefined
  /** Undefined: those of its job. */
  readonly queue: string | undefined
  readonly priority: number | undefined
  readonly state: DeadLetterState
  readonly replayedAs: string | null
  /** Of which its run was a task; null: of none. */
  readonly workflowRunId: string | null
}

export interface DeadLetterStore {
  list(page: DeadLetterPage, filter: DeadLetterFilter): Promise<FoundLetters>
  find(runId: string): Promise<DeadLetterRecord | undefined>
  tally(filter: DeadLetterFilter): Promise<LetterTallies>
  /** What the errors of these runs said, by run. */
  messages(runIds: readonly string[]): Promise<ReadonlyMap<string, string | null>>
  /** Those that exist, held until the end of the transaction. */
  hold(runIds: readonly string[]): Promise<readonly HeldLetter[]>
  /** Of held ones that are open. */
  markReplayed(replays: readonly { readonly runId: string; readonly replayId: string }[]): Promise<void>
  /** Of held ones; answers how many were not deleted before. */
  markDeleted(runIds: readonly string[]): Promise<number>
}
