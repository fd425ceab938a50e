/**
 * What acts by hand on a workflow run read and write, within one transaction of its tenant. A workflow run
 * is held first: one that has ended is opened again from what was kept of it. Whoever else acts, and the
 * resolver, waits for the end of the transaction.
 */
import type { JsonValue, WorkflowRunAct } from '@belfry/contract'
import type { TaskRole } from '../domain/workflow/plan.ts'
import type { StopCause } from '../domain/workflow/progress.ts'
import type { StoredItems } from '../domain/workflow/stored-states.ts'
import type { TaskOutput } from './workflow-runs.ts'

/** The rerun that was asked for last. */
export interface LastRerun {
  readonly fingerprint: string
  /** Ids of the tasks that it put back. */
  readonly tasks: readonly string[]
}

export interface HeldWorkflowRun {
  readonly id: string
  readonly workflowId: string
  readonly workflowName: string
  readonly version: number
  /** It had ended, and is open again if this transaction is committed. */
  readonly reopened: boolean
  readonly states: Uint8Array
  readonly items: Readonly<Record<string, StoredItems>>
  readonly notes: Readonly<Record<string, string>>
  readonly turn: TaskRole | null
  readonly stop: StopCause | null
  /** Its cancel was asked for, and no resolver has seen to it yet. */
  readonly canceling: boolean
  readonly input: JsonValue | undefined
  readonly revision: number
  readonly acts: readonly WorkflowRunAct[]
  readonly lastRerun: LastRerun | null
  readonly givenOutputs: Readonly<Record<string, JsonValue>>
  readonly goneTasks: readonly string[]
}

/** How a workflow run stands after an act; a resolver decides what waits. */
export interface ActedWorkflowRun
  extends Pick<
    HeldWorkflowRun,
    | 'id'
    | 'version'
    | 'states'
    | 'items'
    | 'notes'
    | 'turn'
    | 'stop'
    | 'input'
    | 'acts'
    | 'lastRerun'
    | 'givenOutputs'
    | 'goneTasks'
  > {
  /** From now on, where its time does not run already; null: no end. */
  readonly timeoutMs: number | null
  /** It need not wait for its turn. */
  readonly startsNothing: boolean
}

export interface WorkflowActs {
  hold(id: string): Promise<HeldWorkflowRun | undefined>
  /** Nothing is done to one that was opened for it: it has ended, as before. */
  letGo(id: string): Promise<void>
  /** Of the newest run of each that succeeded. */
  outputs(id: string, tasks: readonly number[]): Promise<readonly TaskOutput[]>
  /** Runs, and waits, of these tasks that have not ended. */
  liveRuns(id: string, tasks: readonly number[]): Promise<readonly string[]>
  /** Ends those of them that are waits of tasks without a job; answers which. */
  closeWaits(ids: readonly string[]): Promise<readonly string[]>
  /** Ends of these runs mean nothing to the workflow run any more. */
  forget(runIds: readonly string[]): Promise<void>
  /** Runs of a task that had the number `from[n]` have the number `to[n]`. */
  renumber(id: string, from: readonly number[], to: readonly number[]): Promise<void>
  /** Failures of these tasks were dealt with: their open dead letters are acknowledged. */
  closeLetters(id: string, tasks: readonly number[]): Promise<void>
  /** The name of an API key. */
  keyName(keyId: string): Promise<string>
  save(run: ActedWorkflowRun): Promise<void>
}
