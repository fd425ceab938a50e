/**
 * Workflows of a tenant and their versions. A version is written together with the jobs that its tasks run,
 * and never changed.
 */
import type { JobDefinition, WorkflowDefinition } from '@belfry/contract'
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

export interface WorkflowStore {
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
