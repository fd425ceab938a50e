/**
 * Waits of tasks, as the API reads them and tells them something, for one tenant. What the resolver writes of
 * them is in workflow-waits.ts.
 */
import type { JsonValue, TaskWait, WaitKind } from '@belfry/contract'
import type { PageRequest } from './paging.ts'

export interface SaidBy {
  readonly keyId: string
  readonly name: string
}

/** `state` null: it is open. */
export interface TaskWaitRecord {
  readonly task: number
  readonly item: number | null
  readonly kind: WaitKind
  readonly message: string | null
  readonly signal: string | null
  readonly childId: string | null
  readonly createdAtMs: number
  readonly dueAtMs: number | null
  readonly state: Exclude<TaskWait['state'], 'waiting'> | null
  readonly endedAtMs: number | null
  readonly by: SaidBy | null
  readonly reason: string | null
  /** Of how many items one is open. */
  readonly open: number
}

export interface OpenApprovalRecord {
  readonly id: string
  readonly workflowRunId: string
  readonly workflowName: string
  readonly taskId: string
  readonly item: number | null
  readonly message: string
  readonly createdAtMs: number
  readonly dueAtMs: number | null
}

export interface Decision {
  readonly workflowRunId: string
  readonly task: number
  readonly item: number | null
  readonly approved: boolean
  readonly by: SaidBy
  readonly reason: string | null
}

export interface TaskWaitStore {
  /** Of each task, one: an open one, or the newest. */
  list(workflowRunId: string): Promise<readonly TaskWaitRecord[]>
  openApprovals(page: PageRequest): Promise<readonly OpenApprovalRecord[]>
  /** Ends an open approval, and tells the resolver; undefined: there is none. */
  decide(decision: Decision): Promise<Exclude<TaskWait['state'], 'waiting'> | undefined>
  /** Keeps a signal for what waits for it, now or later, and tells the resolver. */
  signal(
    workflowRunId: string,
    signal: { readonly name: string; readonly payload: JsonValue | undefined; readonly by: SaidBy },
  ): Promise<void>
}
