/**
 * What is read to say why a workflow run, or a task of it, is where it is. A bounded number of rows, whatever
 * the number of tasks and items.
 */
import type { JsonValue } from '@belfry/contract'
import type { TaskRole } from '../domain/workflow/plan.ts'
import type { StopCause } from '../domain/workflow/progress.ts'
import type { StoredItems } from '../domain/workflow/stored-states.ts'

export interface WorkflowRunFacts {
  readonly id: string
  readonly workflowId: string
  readonly workflowName: string
  readonly version: number
  /** Null: it is alive. */
  readonly state: 'succeeded' | 'failed' | 'canceled' | 'skipped' | null
  readonly createdAtMs: number
  readonly endedAtMs: number | null
  readonly input: JsonValue | undefined
  readonly states: Uint8Array
  readonly items: Readonly<Record<string, StoredItems>>
  readonly notes: Readonly<Record<string, string>>
  /** Null: it is over. */
  readonly turn: TaskRole | null
  readonly stop: StopCause | null
  /** Its cancel was asked for. */
  readonly canceling: boolean
  /** It has not begun: others of its workflow, or of its schedule, go first. */
  readonly waitsFor: 'concurrency' | 'schedule' | null
  readonly deadlineMs: number | null
  /** Ids of tasks that a newer version no longer has; the n-th has the number -n. */
  readonly goneTasks: readonly string[]
  readonly nowMs: number
}

/** What a task without a job waits for. */
export interface OpenWait {
  readonly task: number
  readonly id: string
  readonly kind: 'approval' | 'time' | 'signal' | 'workflow'
  readonly message: string | null
  readonly signal: string | null
  readonly childId: string | null
  readonly dueAtMs: number | null
  readonly createdAtMs: number
}

/** How such a wait ended. */
export interface EndedWait {
  readonly task: number
  readonly kind: 'approval' | 'time' | 'signal'
  readonly message: string | null
  readonly signal: string | null
  /** Of a task that waits for each item of a list. */
  readonly item: number | null
  readonly state: 'succeeded' | 'failed' | 'canceled' | 'skipped'
  readonly dueAtMs: number | null
  readonly endedAtMs: number
  /** The key by which it was decided, or the signal sent; null: nobody did. */
  readonly endedBy: string | null
  readonly reason: string | null
}

/** The newest run of a task. */
export interface NewestTaskRun {
  readonly task: number
  readonly runId: string
  readonly createdAtMs: number
  /** Null: it has not ended. */
  readonly endedAtMs: number | null
}

/** A workflow run that was begun for a task, or for an item of it, and did not succeed. */
export interface FailedChild {
  readonly task: number
  /** Null: of the task itself. */
  readonly item: number | null
  readonly childId: string
  readonly endedAtMs: number | null
}

export interface WorkflowInsight {
  find(id: string): Promise<WorkflowRunFacts | undefined>
  /** Of each of these tasks the run that has waited or run for longest. */
  oldestLiveRuns(id: string, tasks: readonly number[]): Promise<ReadonlyMap<number, string>>
  openWaits(id: string, tasks: readonly number[]): Promise<readonly OpenWait[]>
  /** Of each of these tasks that waited one that ended: where an item failed, that one. */
  endedWaits(id: string, tasks: readonly number[]): Promise<readonly EndedWait[]>
  newestRuns(id: string, tasks: readonly number[]): Promise<readonly NewestTaskRun[]>
  /** Of each of these tasks the first `limit`: failed before canceled, then by their items. */
  failedChildren(id: string, tasks: readonly number[], limit: number): Promise<readonly FailedChild[]>
}
