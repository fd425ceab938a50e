/**
 * What the resolver reads and writes. A round is one transaction: workflow runs that have something to do are
 * locked, what happened to them is taken off the queue, and what follows is written. Whoever else tries at
 * the same time passes over what is locked. A round that is cut off anywhere has done nothing.
 */
import type { JobDefinition, JsonValue, TerminalRunState, WorkflowDefinition } from '@belfry/contract'
import type { StopCause } from '../domain/workflow/progress.ts'
import type { TaskRole } from '../domain/workflow/plan.ts'
import type { StoredItems } from '../domain/workflow/stored-states.ts'
import type { TaskJob } from './workflows.ts'

export interface LockedWorkflowRun {
  readonly id: string
  readonly tenantId: string
  readonly workflowId: string
  readonly version: number
  readonly input: JsonValue | undefined
  readonly states: Uint8Array
  readonly items: Readonly<Record<string, StoredItems>>
  /** Why a task failed without a run, by its number. */
  readonly notes: Readonly<Record<string, string>>
  readonly turn: TaskRole | null
  readonly stop: StopCause | null
  /** Its time is over. */
  readonly overdue: boolean
}

export type WorkflowEvent = { readonly workflowRunId: string } & (
  | { readonly kind: 'begin' | 'cancel' }
  | {
      readonly kind: 'end'
      readonly runId: string
      readonly task: number
      readonly item: number | undefined
      readonly state: TerminalRunState
    }
)

export interface StoredVersion {
  readonly definition: WorkflowDefinition
  readonly taskJobs: readonly TaskJob[]
}

export interface TaskOutput {
  readonly task: number
  readonly item: number | undefined
  readonly output: JsonValue | undefined
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
  readonly state: 'succeeded' | 'failed' | 'canceled' | null
  readonly states: Uint8Array
  readonly items: Readonly<Record<string, StoredItems>>
  readonly notes: Readonly<Record<string, string>>
  readonly turn: TaskRole | null
  readonly stop: StopCause | null
}

export interface ResolvingTx {
  readonly nowMs: () => Promise<number>
  /** At most `limit`, locked until the end of the transaction, with what they are to take in. */
  readonly lockDue: (limit: number) => Promise<{
    readonly runs: readonly LockedWorkflowRun[]
    readonly events: readonly WorkflowEvent[]
  }>
  readonly version: (run: LockedWorkflowRun) => Promise<StoredVersion | undefined>
  /** Of the newest run of each that succeeded. */
  readonly outputs: (run: LockedWorkflowRun, tasks: readonly number[]) => Promise<readonly TaskOutput[]>
  readonly templates: (jobs: readonly TaskJob[]) => Promise<readonly TaskTemplate[]>
  readonly start: (runs: readonly NewTaskRun[]) => Promise<void>
  /** Ends those of their runs that wait, asks for the cancel of those that run; answers their sessions. */
  readonly cancel: (workflowRunId: string, tasks: readonly number[]) => Promise<readonly string[]>
  /** With it the runs that ended are forgotten. */
  readonly save: (progress: SavedProgress, endedRunIds: readonly string[]) => Promise<void>
}

export interface WorkflowResolving {
  within<T>(work: (tx: ResolvingTx) => Promise<T>): Promise<T>
  /** Puts ends on record that nobody told of, and drops events of what is over; answers how many. */
  mend(): Promise<number>
}
