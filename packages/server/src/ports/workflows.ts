/**
 * Workflows of a tenant and their versions. A version is written together with the jobs that its tasks run,
 * and never changed.
 */
import type { JobDefinition, JsonValue, WorkflowDefinition } from '@belfry/contract'
import type { StoredItems } from '../domain/workflow/stored-states.ts'
import type { JobRecord } from './catalog.ts'
import type { PageRequest } from './paging.ts'

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

/** What a task runs; version null: the job as it is when the task starts. */
export interface TaskJob {
  readonly jobId: string
  readonly version: number | null
}

export interface NewWorkflowVersion {
  readonly description: string
  readonly definition: WorkflowDefinition
  /** In the order in which tasks are numbered. */
  readonly taskJobs: readonly TaskJob[]
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
  readonly state: 'succeeded' | 'failed' | 'canceled' | null
  readonly createdAtMs: number
  readonly endedAtMs: number | null
}

export interface WorkflowRunRecord extends WorkflowRunSummaryRecord {
  readonly input: JsonValue | undefined
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

export interface WorkflowRunStore {
  /** With its event, so that a resolver begins it. */
  insert(run: {
    readonly id: string
    readonly workflow: Pick<WorkflowRecord, 'id' | 'version' | 'taskCount'>
    readonly input: JsonValue | undefined
    readonly timeoutMs: number | null
  }): Promise<void>
  find(id: string): Promise<WorkflowRunRecord | undefined>
  /** Of one workflow, or of all. */
  list(page: PageRequest, workflowId: string | undefined): Promise<readonly WorkflowRunSummaryRecord[]>
  /** Also of a workflow that was deleted. */
  definition(run: Pick<WorkflowRunRecord, 'workflowId' | 'version'>): Promise<WorkflowDefinition | undefined>
  taskRuns(id: string): Promise<readonly TaskRuns[]>
  /** False: it is over. */
  requestCancel(id: string): Promise<boolean>
}

export interface WorkflowStore {
  readonly runs: WorkflowRunStore
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
  /** In its newest version, or in another; undefined too where that is not there. */
  find(id: string, version?: number): Promise<WorkflowRecord | undefined>
  /** Locked until the end of the transaction. */
  lock(id: string): Promise<WorkflowRecord | undefined>
  lockByName(name: string): Promise<WorkflowRecord | undefined>
  list(page: PageRequest, filter: { name: string | undefined }): Promise<readonly WorkflowSummaryRecord[]>
  /** Newest first, those before `beforeVersion`. */
  versions(
    id: string,
    page: { readonly beforeVersion: number | null; readonly limit: number },
  ): Promise<readonly WorkflowVersionRecord[]>
  /** Soft, with its own jobs. */
  remove(id: string): Promise<void>
}
