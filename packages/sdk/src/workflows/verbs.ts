/**
 * Workflows and their runs in the client: what is defined, in all its versions, and what became of it. The
 * other nouns are in client.ts.
 */
import type { Act, Change, Create, Get, List } from '../client-verbs.ts'
import { shapes } from '../client-verbs.ts'
import type { Listing } from '../listing.ts'
import type { Requester } from '../requester.ts'
import type { AnswerOf, BodyOf, CallOptions, ChangeOptions, ItemOf, QueryOf } from '../route-types.ts'

export interface WorkflowVerbs {
  /** Makes the one of this name, or gives it a new version where it differs. */
  readonly apply: Create<'workflowApply'>
  readonly list: List<'workflowList'>
  /** In its newest version, or in another. */
  get(id: string, query?: QueryOf<'workflowGet'>, options?: CallOptions): Promise<AnswerOf<'workflowGet'>>
  versions(
    id: string,
    query?: QueryOf<'workflowVersionList'>,
    options?: CallOptions,
  ): Listing<ItemOf<'workflowVersionList'>>
  /** What differs between two versions; what the last change did if none is named. */
  diff(id: string, query?: QueryOf<'workflowDiff'>, options?: CallOptions): Promise<AnswerOf<'workflowDiff'>>
  readonly delete: Act<'workflowDelete'>
}

export interface WorkflowRunVerbs {
  readonly create: Create<'workflowRunCreate'>
  readonly list: List<'workflowRunList'>
  readonly get: Get<'workflowRunGet'>
  /** How its tasks stand. */
  tasks(id: string, options?: CallOptions): Promise<AnswerOf<'workflowRunTasks'>>
  /** What waits ends, what runs is asked to; clean-up runs. */
  readonly cancel: Change<'workflowRunCancel'>
  /** Approves a task that waits for it; how it ends comes back. */
  approve(
    id: string,
    body: BodyOf<'workflowRunApprove'>,
    options?: ChangeOptions,
  ): Promise<AnswerOf<'workflowRunApprove'>>
  reject(
    id: string,
    body: BodyOf<'workflowRunReject'>,
    options?: ChangeOptions,
  ): Promise<AnswerOf<'workflowRunReject'>>
  /** Ends what waits for it, now or later, with its payload. */
  signal(
    id: string,
    body: BodyOf<'workflowRunSignal'>,
    options?: ChangeOptions,
  ): Promise<AnswerOf<'workflowRunSignal'>>
  /** Tasks of all workflow runs that wait for an approval. */
  readonly approvals: List<'approvalList'>
  /** Parts of it again: what failed and all that depends on it, if nothing else is said. */
  readonly rerun: Change<'workflowRunRerun'>
  /** Sets tasks to a state; what could not run because of them comes back to life. */
  mark(
    id: string,
    body: BodyOf<'workflowRunMark'>,
    options?: ChangeOptions,
  ): Promise<AnswerOf<'workflowRunMark'>>
  /** Of tasks that wait, this once. */
  skip(
    id: string,
    body: BodyOf<'workflowRunSkip'>,
    options?: ChangeOptions,
  ): Promise<AnswerOf<'workflowRunSkip'>>
  /** What holds it, or a task of it; or why it ended so. */
  explain(
    id: string,
    query?: QueryOf<'workflowRunExplain'>,
    options?: CallOptions,
  ): Promise<AnswerOf<'workflowRunExplain'>>
  /** What was done to it by hand, newest first. */
  readonly history: Get<'workflowRunHistory'>
}

export function workflowsOf(requester: Requester): WorkflowVerbs {
  const { create, act, list } = shapes(requester)
  return {
    apply: create('workflowApply'),
    list: (query, options = {}) => list('workflowList', query, options),
    get: (id, query, options = {}) => requester.request('workflowGet', { ...options, params: { id }, query }),
    versions: (id, query, options = {}) => list('workflowVersionList', query, { ...options, params: { id } }),
    diff: (id, query, options = {}) =>
      requester.request('workflowDiff', { ...options, params: { id }, query }),
    delete: act('workflowDelete'),
  }
}

export function workflowRunsOf(requester: Requester): WorkflowRunVerbs {
  const { create, change, get, list } = shapes(requester)
  return {
    create: create('workflowRunCreate'),
    list: (query, options = {}) => list('workflowRunList', query, options),
    get: get('workflowRunGet'),
    tasks: (id, options = {}) => requester.request('workflowRunTasks', { ...options, params: { id } }),
    cancel: change('workflowRunCancel'),
    approve: change('workflowRunApprove'),
    reject: change('workflowRunReject'),
    signal: change('workflowRunSignal'),
    approvals: (query, options = {}) => list('approvalList', query, options),
    rerun: change('workflowRunRerun'),
    mark: change('workflowRunMark'),
    skip: change('workflowRunSkip'),
    explain: (id, query, options = {}) =>
      requester.request('workflowRunExplain', { ...options, params: { id }, query }),
    history: get('workflowRunHistory'),
  }
}
