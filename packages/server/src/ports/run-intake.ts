/**
 * How requests for runs are stored, within a transaction that may be ours or, in an embedded Belfry, the
 * caller's. Locks are taken in this order, and in one order of keys by each call: dedupe keys, gatherings.
 */
import type { JsonValue, RunSource } from '@belfry/contract'
import type { OpenGathering } from '../domain/gathering.ts'
import type { NewRun, RunTemplate } from './catalog.ts'

export interface DedupeKey {
  readonly jobId: string
  readonly key: string
}

export interface GatherKey {
  readonly jobId: string
  /** Hash of the value that tells gatherings of the job apart. */
  readonly key: string
}

export interface RunIntake {
  /**
   * Locks keys until the end of the transaction, after waiting for others that hold them, and answers those
   * that a run holds at `nowMs`.
   */
  lockKeys(
    keys: readonly DedupeKey[],
    nowMs: number,
  ): Promise<readonly (DedupeKey & { readonly runId: string })[]>
  /** Hands locked keys to runs. `heldUntilMs` null: while the run waits or runs. */
  holdKeys(
    keys: readonly (DedupeKey & { readonly runId: string; readonly heldUntilMs: number | null })[],
  ): Promise<void>
  /** Locks gatherings until the end of the transaction, and answers those whose run takes more. */
  lockGatherings(
    keys: readonly GatherKey[],
    nowMs: number,
  ): Promise<readonly (GatherKey & OpenGathering & { readonly shard: number })[]>
  /** Adds inputs to runs that gather; the one at position 0 replaces what is there. */
  addInputs(
    inputs: readonly {
      readonly runId: string
      readonly position: number
      readonly input: JsonValue | undefined
    }[],
  ): Promise<void>
  /** Moves due times of runs that gather, and their limits with them. */
  moveDue(runs: readonly { readonly runId: string; readonly dueMs: number }[]): Promise<void>
  /** Which run takes the next input of a locked gathering, and what it has. */
  noteGatherings(
    gatherings: readonly (GatherKey & Pick<OpenGathering, 'runId' | 'items' | 'bytes' | 'openedMs'>)[],
  ): Promise<void>
  /** Which of these runs are on record. */
  knownRuns(ids: readonly string[]): Promise<ReadonlySet<string>>
  /** Stores runs, in few statements; answers the shards in which some wait for their time. */
  insert(runs: readonly NewRun[]): Promise<readonly number[]>
}

/** Runs of one job that may start at once and differ in nothing but what stands in the lists. */
export interface AlikeRuns {
  readonly template: RunTemplate
  readonly source: RunSource
  readonly queue: string
  readonly priority: number
  /** Null: when they are stored. */
  readonly dueAtMs: number | null
  /** From then on; null: no limit. */
  readonly startWithinMs: number | null
  readonly runDeadlineMs: number | null
  readonly ids: readonly string[]
  /** Places in the fair order. */
  readonly tags: readonly number[]
  /** Null: none has one. */
  readonly inputs: readonly JsonValue[] | null
}

/** Runs in a transaction of their own, in one round trip where they are not many. */
export interface DirectIntake {
  /**
   * All or none. Undefined: none, because the template is not that of the present version of the job. Throws
   * `database_*`; then they may be stored. Throws `serialization_conflict` where runs with these ids are.
   */
  insert(
    tenantId: string,
    runs: AlikeRuns,
  ): Promise<{ readonly dueAtMs: number; readonly limited: boolean } | undefined>
}
