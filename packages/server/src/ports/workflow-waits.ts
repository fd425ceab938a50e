/**
 * What the resolver writes beside runs of jobs: waits (tasks that run no job), workflow runs that are tasks
 * of others, and places of workflow runs behind a gate. All of it belongs to the transaction of a round.
 */
import type { InputSchema, JsonValue } from '@belfry/contract'
import type { PlannedWait } from '../domain/workflow/task-wait.ts'

interface NewWait {
  readonly id: string
  readonly tenantId: string
  readonly workflowRunId: string
  readonly task: number
  readonly item: number | undefined
  readonly taskId: string
}

/** A wait for a decision, a time or a signal. */
export interface NewTaskWait extends NewWait {
  readonly wait: PlannedWait
}

/** A wait for a workflow run, and that run. */
export interface NewChildRun extends NewWait {
  readonly childId: string
  readonly workflow: SubWorkflow
  readonly input: JsonValue | undefined
  readonly depth: number
  /** Null: as that workflow says. */
  readonly priority: number | null
}

/** The newest version of a workflow that runs as a task. */
export interface SubWorkflow {
  readonly id: string
  readonly name: string
  readonly deleted: boolean
  readonly version: number
  readonly taskCount: number
  readonly inputSchema: InputSchema | undefined
  readonly timeoutMs: number | null
}

export interface ChildEnd {
  readonly waitId: string
  readonly state: 'succeeded' | 'failed' | 'canceled' | 'skipped'
  readonly output: JsonValue | undefined
}

export interface WaitingTx {
  readonly start: (waits: readonly NewTaskWait[]) => Promise<void>
  readonly startChildren: (children: readonly NewChildRun[]) => Promise<void>
  readonly subWorkflows: (tenantId: string, ids: readonly string[]) => Promise<readonly SubWorkflow[]>
  /** Ends open ones of these tasks, and asks for the cancel of their workflow runs. */
  readonly cancel: (workflowRunId: string, tasks: readonly number[]) => Promise<void>
  /** Ends what waits for a signal that came. */
  readonly endSignaled: (workflowRunIds: readonly string[]) => Promise<void>
  readonly endChildren: (ends: readonly ChildEnd[]) => Promise<void>
  readonly keepOutputs: (
    outputs: readonly { readonly id: string; readonly output: JsonValue }[],
  ) => Promise<void>
  /** Until the end of the transaction nobody else counts or admits behind these gates. */
  readonly holdGates: (gates: readonly string[]) => Promise<void>
  /** Admits as many as there is room for; answers whom. Those that are not among `seen` are told to begin. */
  readonly admit: (gates: readonly string[], seen: readonly string[]) => Promise<ReadonlySet<string>>
  /** Asks for the cancel of those before this run. */
  readonly replace: (gate: string, workflowRunId: string) => Promise<void>
}

/** Timers of workflows. */
export interface WorkflowTimers {
  /** Ends waits whose time has come; answers how many. */
  endDue(limit: number): Promise<number>
  /** How long until the next wait, or the time of a workflow run, is over, ms; null: there is none. */
  nextDueMs(): Promise<number | null>
}
