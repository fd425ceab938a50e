/**
 * What the resolver reads and writes. A round is one transaction: workflow runs that have something to do are
 * locked, what happened to them is taken off the queue, and what follows is written. Whoever else tries at
 * the same time passes over what is locked. A round that is cut off anywhere has done nothing.
 */
import type { JobDefinition, JsonValue, TerminalRunState, WorkflowDefinition } from '@belfry/contract'
import type { StopCause } from '../domain/workflow/progress.ts'
import type { TaskRole } from '../domain/workflow/plan.ts'
import type { StoredItems } from '../domain/workflow/stored-states.ts'
import type { DeliveryLimits } from './event-bus.ts'
import type { PausedSchedule } from './run-store.ts'
import type { TurnsTx } from './workflow-turns.ts'
import type { WaitingTx, WorkflowTimers } from './workflow-waits.ts'
import type { TaskJob } from './workflows.ts'

export interface LockedWorkflowRun {
  readonly id: string
  readonly tenantId: string
  readonly workflowId: string
  readonly version: number
  readonly states: Uint8Array
  readonly items: Readonly<Record<string, StoredItems>>
  /** Why a task failed without a run, by its number. */
  readonly notes: Readonly<Record<string, string>>
  readonly turn: TaskRole | null
  readonly stop: StopCause | null
  /** Its time is over. */
  readonly overdue: boolean
  /** The limit behind which it stands; null: none. */
  readonly gate: string | null
  /** It may begin, as far as its gate goes. */
  readonly admitted: boolean
  /** Null: as its workflow says. */
  readonly priority: number | null
  /** How many workflow runs there are above it, and the wait that it is the run of. */
  readonly depth: number
  readonly waitId: string | null
  /** Of a run that a planned time made: the overlap policy of its schedule looks at it. */
  readonly scheduleId: string | null
  /** It has yet to begin, because of a run of its schedule before it. */
  readonly waits: boolean
}

export type WorkflowEvent = { readonly workflowRunId: string } & (
  | { readonly kind: 'begin' | 'cancel' | 'signal' }
  | {
      readonly kind: 'end'
      readonly task: number
      readonly item: number | undefined
      readonly state: TerminalRunState
    }
)

export interface StoredVersion {
  readonly definition: WorkflowDefinition
  readonly taskJobs: readonly (TaskJob | null)[]
}

export interface TaskOutput {
  readonly task: number
  readonly item: number | undefined
  readonly output: JsonValue | undefined
  /** By a person, with a mark: it takes the place of all others. */
  readonly given?: true
}

export interface TaskTemplate extends TaskJob {
  /** The version that runs. */
  readonly jobVersion: number
  readonly definition: JobDefinition
  readonly tenantWeight: number
}

export interface NewTaskRun {
  readonly id: string
  readonly workflowRunId: string
  readonly tenantId: string
  readonly task: number
  readonly item: number | undefined
  readonly template: TaskTemplate
  readonly queue: string
  readonly priority: number
  readonly input: JsonValue | undefined
  readonly tag: number
}

/** How a workflow run stands after a round; `state` null: it goes on. */
export interface SavedProgress {
  readonly id: string
  readonly state: 'succeeded' | 'failed' | 'canceled' | 'skipped' | null
  readonly states: Uint8Array
  readonly items: Readonly<Record<string, StoredItems>>
  readonly notes: Readonly<Record<string, string>>
  readonly turn: TaskRole | null
  readonly stop: StopCause | null
}

export interface BegunWith {
  readonly input: JsonValue | undefined
  /** The planned time that it is for, and the time whose data it is about; null: none. Epoch ms. */
  readonly scheduledForMs: number | null
  readonly intervalStartMs: number | null
  readonly intervalEndMs: number | null
}

export interface DueWorkflowRuns {
  readonly runs: readonly LockedWorkflowRun[]
  /** Of these runs; the runs of tasks that ended are forgotten with them. */
  readonly events: readonly WorkflowEvent[]
  readonly nowMs: number
  /** For how long each event waited. */
  readonly waitsMs: readonly number[]
}

/** How much is to be done, for all resolvers together; counted up to 100,000. */
export interface WorkflowBacklog {
  readonly events: number
  /** For how long the oldest event has waited; 0: there is none. */
  readonly oldestMs: number
  /** Workflow runs that have not ended. */
  readonly alive: number
}

/** Runs that are to be canceled moved on again and again; the round is done anew. */
export class TasksMoved extends Error {
  constructor(workflowRunId: string) {
    super(`Runs of tasks of the workflow run ${workflowRunId} move on faster than they can be canceled.`)
  }
}

export interface ResolvingTx {
  readonly waits: WaitingTx
  readonly turns: TurnsTx
  /**
   * Workflow runs with the oldest events, and those whose time is over, locked until the end of the
   * transaction, with what they are to take in; those that somebody else has are passed over.
   */
  readonly lockDue: (limits: DeliveryLimits) => Promise<DueWorkflowRuns>
  readonly version: (run: LockedWorkflowRun) => Promise<StoredVersion | undefined>
  /** What workflow runs were begun with, by their id. */
  readonly begunWith: (workflowRunIds: readonly string[]) => Promise<ReadonlyMap<string, BegunWith>>
  /** Of the newest run of each that succeeded. */
  readonly outputs: (run: LockedWorkflowRun, tasks: readonly number[]) => Promise<readonly TaskOutput[]>
  readonly templates: (jobs: readonly TaskJob[]) => Promise<readonly TaskTemplate[]>
  readonly start: (runs: readonly NewTaskRun[]) => Promise<void>
  /**
   * Ends those of their runs that wait, asks for the cancel of those that run; answers their sessions. Throws
   * `TasksMoved` where some were missed.
   */
  readonly cancel: (run: LockedWorkflowRun, tasks: readonly number[]) => Promise<readonly string[]>
  readonly save: (progress: readonly SavedProgress[]) => Promise<void>
  /** Has these come again in the next round. */
  readonly goOn: (workflowRunIds: readonly string[]) => Promise<void>
}

export interface WorkflowResolving extends WorkflowTimers {
  /** Grows when versions that were read before may not be so any more; see RunStore. */
  doubts?(): number
  within<T>(work: (tx: ResolvingTx) => Promise<T>): Promise<T>
  /**
   * Looks for what nobody told of, among a part of what is alive each time, and puts it on record; answers
   * how many that were. Drops events of what is over.
   */
  mend(): Promise<number>
  backlog(): Promise<WorkflowBacklog>
  /** Pauses those of these schedules of workflows whose last runs all failed, as many as they allow. */
  pauseFailing(scheduleIds: readonly string[]): Promise<readonly PausedSchedule[]>
}
