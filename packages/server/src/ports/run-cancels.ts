/**
 * Cancels of runs, one or many, within a transaction of the catalog. A run has no state of its own: each call
 * takes those that stand where it looks, and the caller looks again after the others.
 */
import type { CancelableState } from '@belfry/contract'
import type { LetGo } from './run-store.ts'

export interface CancelFilter {
  readonly states: readonly CancelableState[]
  readonly jobId: string | undefined
  readonly queue: string | undefined
  readonly scheduleId: string | undefined
  readonly backfillId: string | undefined
  readonly createdAfterMs: number | null
  readonly createdBeforeMs: number | null
}

export interface CancelTally {
  readonly state: CancelableState
  readonly jobId: string
  readonly jobName: string
  readonly count: number
}

export interface RunCancels {
  /** The next runs that a filter means, newest first. */
  next(
    page: { readonly beforeId: string | null; readonly limit: number },
    filter: CancelFilter,
  ): Promise<{ readonly runIds: readonly string[]; readonly lookedTo: string | null }>
  /** How many they are. `isWhole` false: there are more than were looked at. */
  tally(
    filter: CancelFilter,
  ): Promise<{ readonly tallies: readonly CancelTally[]; readonly isWhole: boolean }>
  /**
   * Ends those that wait, now, for later or for another run. Who waited for one waits for the one before it,
   * or no longer.
   */
  cancelWaiting(runIds: readonly string[]): Promise<{ readonly canceledIds: readonly string[] } & LetGo>
  /** Notes that the cancel of running runs was asked for; answers the sessions that run them. */
  requestCancels(
    runIds: readonly string[],
  ): Promise<readonly { readonly runId: string; readonly sessionId: string }[]>
  /** Keeps why; the first reason stays. */
  note(runIds: readonly string[], reason: string): Promise<void>
  /** Schedules of whose backfills these runs are. */
  backfilledSchedules(runIds: readonly string[]): Promise<readonly string[]>
}
