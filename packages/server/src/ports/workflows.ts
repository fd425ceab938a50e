/**
 * Workflows of a tenant and their versions. A version is written together with the jobs that its tasks run,
 * and never changed.
 */
import type {
  EventReceipt,
  JobDefinition,
  JsonValue,
  WorkflowDefinition,
  WorkflowRunAct,
  WorkflowRunSource,
  WorkflowRunState,
} from '@belfry/contract'
import type { StoredItems } from '../domain/workflow/stored-states.ts'
import type { TriggerEdge } from '../domain/workflow/trigger-circles.ts'
import type { JobRecord } from './catalog.ts'
import type { Found, PageRequest } from './paging.ts'
import type { TaskWaitStore } from './task-waits.ts'
import type { WorkflowActs } from './workflow-acts.ts'
import type { WorkflowInsight } from './workflow-insight.ts'

export interface WorkflowSummaryRecord {
  readonly id: string
  readonly name: string
  readonly description: string
  readonly version: number
  readonly taskCount: number
  readonly createdAtMs: number
  readonly updatedAtMs: number
}

export interface WorkflowRecord extends WorkflowSummaryRecord {
  readonly definition: WorkflowDefinition
}

/** What a task runs, a job or another workflow; version null: as it is when the task starts. */
export interface TaskJob {
  readonly jobId: string
  readonly version: number | null
}

export interface NewWorkflowVersion {
  readonly description: string
  readonly definition: WorkflowDefinition
  /** In the order in which tasks are numbered. */
  readonly taskJobs: readonly (TaskJob | null)[]
}

/** A job of the workflow's own; `newId` is for one that is not there yet. */
export interface OwnJob {
  readonly newId: string
  readonly name: string
  readonly definition: JobDefinition
}

export interface WorkflowVersionRecord {
  readonly version: number
  readonly taskCount: number
  readonly createdAtMs: number
}

/** `state` null: it is alive. */
export interface WorkflowRunSummaryRecord {
  readonly id: string
  readonly workflowId: string
  readonly workflowName: string
  readonly version: number
  readonly state: 'succeeded' | 'failed' | 'canceled' | 'skipped' | null
  /** It waits for its turn. */
  readonly queued: boolean
  readonly source: WorkflowRunSource
  readonly scheduleId: string | null
  readonly scheduledForMs: number | null
  readonly intervalStartMs: number | null
  readonly intervalEndMs: number | null
  /** The workflow run whose end began it, or the event. */
  readonly causeId: string | null
  readonly createdAtMs: number
  readonly endedAtMs: number | null
}

export interface WorkflowRunRecord extends WorkflowRunSummaryRecord {
  readonly input: JsonValue | undefined
  readonly output: JsonValue | undefined
  readonly priority: number | null
  /** The workflow run that it is a task of. */
  readonly parentId: string | null
  /** Grows with every act by hand; the ETag. */
  readonly revision: number
  /** What was done by hand, newest first. */
  readonly acts: readonly WorkflowRunAct[]
  /** Packed: domain/workflow/stored-states.ts. */
  readonly states: Uint8Array
  readonly items: Readonly<Record<string, StoredItems>>
  readonly notes: Readonly<Record<string, string>>
}

/** By the number of the task. */
export interface TaskRuns {
  readonly task: number
  readonly runs: number
  readonly newestRunId: string
}

/** Why a run is made. With `scheduledForMs`, its data interval ends then. */
export type WorkflowRunOrigin = Pick<
  WorkflowRunSummaryRecord,
  'source' | 'scheduleId' | 'scheduledForMs' | 'intervalStartMs' | 'causeId'
>

/** Each that is undefined, or null, rules out none. */
export interface WorkflowRunFilter {
  readonly workflowId: string | undefined
  readonly scheduleId: string | undefined
  readonly states: readonly WorkflowRunState[] | undefined
  readonly createdAfterMs: number | null
  readonly createdBeforeMs: number | null
}

export interface WorkflowRunStore {
  /** With its event, so that a resolver begins it. */
  insert(run: {
    readonly id: string
    readonly workflow: Pick<WorkflowRecord, 'id' | 'version' | 'taskCount'>
    readonly input: JsonValue | undefined
    readonly timeoutMs: number | null
    readonly priority: number | null
    /** By hand, if left out. */
    readonly origin?: WorkflowRunOrigin
  }): Promise<void>
  find(id: string): Promise<WorkflowRunRecord | undefined>
  /** Newest first; a look at a bounded number of them. */
  list(page: PageRequest, filter: WorkflowRunFilter): Promise<Found<WorkflowRunSummaryRecord>>
  /** Also of a workflow that was deleted. */
  definition(run: Pick<WorkflowRunRecord, 'workflowId' | 'version'>): Promise<WorkflowDefinition | undefined>
  taskRuns(id: string): Promise<readonly TaskRuns[]>
  /** False: it is over. */
  requestCancel(id: string): Promise<boolean>
}

export interface StoredEvent {
  readonly id: string
  /** The runs that it began. */
  readonly runs: readonly { readonly workflow: string; readonly workflowRunId: string }[]
  /** The workflows that did not take its payload. */
  readonly refused: EventReceipt['refused']
}

/** Events that came in, and the workflows that they begin. */
export interface EventStore {
  /** False where the same event came before with this key: then `find` has it. */
  insert(event: { readonly id: string; readonly name: string; readonly key: string | null }): Promise<boolean>
  find(name: string, key: string): Promise<StoredEvent | undefined>
  /** Which runs it began. */
  note(id: string, workflowRunIds: readonly string[], refused: EventReceipt['refused']): Promise<void>
  /** The same event may come again with its key. */
  freeKey(id: string): Promise<void>
  /** Ids of workflows that name it, with the input that their trigger sets; undefined: none. */
  triggered(
    name: string,
  ): Promise<readonly { readonly workflowId: string; readonly input: JsonValue | undefined }[]>
}

export interface WorkflowStore {
  readonly runs: WorkflowRunStore
  readonly waits: TaskWaitStore
  readonly acts: WorkflowActs
  readonly events: EventStore
  readonly insight: WorkflowInsight
  /** In its newest version, held against deletion until the end of the transaction. */
  holdByName(name: string): Promise<WorkflowRecord | undefined>
  /** Names of workflows, to say what was meant. */
  names(limit: number): Promise<readonly string[]>

  /** With its first version. Throws `serialization_conflict` where the name was taken meanwhile. */
  insert(workflow: NewWorkflowVersion & { id: string; name: string }): Promise<WorkflowRecord>
  /** A new version. */
  update(id: string, change: NewWorkflowVersion): Promise<WorkflowRecord>
  /** Brings the workflow's own jobs up to date; answers where each stands, by name. */
  keepOwnJobs(workflowId: string, jobs: readonly OwnJob[]): Promise<ReadonlyMap<string, TaskJob>>
  /** Held against deletion until the end of the transaction. */
  holdJobs(names: readonly string[]): Promise<ReadonlyMap<string, Pick<JobRecord, 'id' | 'definition'>>>
  /** Ids of workflows, held against deletion until the end of the transaction. */
  holdWorkflows(names: readonly string[]): Promise<ReadonlyMap<string, string>>
  /** In its newest version, or in another; undefined too where that is not there. */
  find(id: string, version?: number): Promise<WorkflowRecord | undefined>
  /** Locked until the end of the transaction. */
  lock(id: string): Promise<WorkflowRecord | undefined>
  /** The same; of a name that is free, the name is locked. */
  lockByName(name: string): Promise<WorkflowRecord | undefined>
  list(page: PageRequest, filter: { name: string | undefined }): Promise<readonly WorkflowSummaryRecord[]>
  /** Newest first, those before `beforeVersion`. */
  versions(
    id: string,
    page: { readonly beforeVersion: number | null; readonly limit: number },
  ): Promise<readonly WorkflowVersionRecord[]>
  /** Name of a schedule that runs it. */
  /** Ends of which workflows begin which others, at most so many. */
  triggerEdges(limit: number): Promise<readonly TriggerEdge[]>
  scheduleOf(id: string): Promise<string | undefined>
  /** Soft, with its own jobs. */
  remove(id: string): Promise<void>
}
