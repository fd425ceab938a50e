/**
 * Runs that depend on other runs, as the round that judges them reads and writes them, across tenants. A
 * round is one transaction; one that is cut off anywhere has done nothing.
 *
 *   1. take events: each names a run that may be free to start
 *   2. mark what those wait for, so that its end tells of it; hold them
 *   3. look, later than the marks, what has ended, and keep that
 *   4. let go or end what its rule decides; what nobody can be sure of is looked at again
 */
import type { TriggerRule } from '@belfry/contract'
import type { DependencyCounts, DependencyVerdict } from '../domain/dependencies.ts'

export interface WaitingRun {
  readonly id: string
  readonly rule: TriggerRule
  readonly states: DependencyCounts
  /** Something that it waits for could not be marked: it moved at that moment. */
  readonly unsure: boolean
}

export interface JudgedRun {
  readonly id: string
  readonly verdict: Exclude<DependencyVerdict, { readonly kind: 'wait' }>
}

export interface EndedDependent {
  readonly runId: string
  readonly tenantId: string
  readonly jobId: string
  readonly queue: string
  readonly state: 'skipped' | 'upstream_failed'
  readonly reason: string
}

export interface DependencyRound {
  /** Runs that were looked at. */
  readonly looked: number
  /** Those of them that have to be looked at again, shortly. */
  readonly unsure: number
  readonly released: number
  readonly ended: readonly EndedDependent[]
  /** Where something is due, or waits for what ended. */
  readonly shards: readonly number[]
}

/** Decides what is to become of runs that wait; those that it leaves out wait on. */
export type JudgeWaiting = (waiting: readonly WaitingRun[]) => readonly JudgedRun[]

export interface Dependencies {
  /** One round over at most so many events, the oldest; says first which runs they name. */
  round(
    limit: number,
    judge: JudgeWaiting,
    taken: (runIds: readonly string[]) => void,
  ): Promise<DependencyRound>
  /** One over what there is for some runs. */
  roundOf(runIds: readonly string[], judge: JudgeWaiting): Promise<DependencyRound>
  /** Whatever there is for a run is not looked at for so long. */
  putOff(runId: string, ms: number): Promise<void>
  /** Asks for a look at a page of all that wait; goes on behind the page before. */
  mend(limit: number): Promise<void>
}
