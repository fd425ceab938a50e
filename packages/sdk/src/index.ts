/**
 * The edge of `@belfry/sdk`: the client, jobs as code, the remote worker, and what their types are made of.
 * Everything here is public.
 */
export { BelfryError } from '@belfry/contract'
export type { ErrorCode, ErrorDetail, Problem } from '@belfry/contract'
export { verifySignature } from '@belfry/contract/signature'
export type { ReceivedMessage, SignatureVerdict } from '@belfry/contract/signature'
export { AnswerError } from './answer-errors.ts'
export { createClient } from './client.ts'
export type { Client, ClientOptions } from './client.ts'
export { defineJob } from './functions/define-job.ts'
export type {
  AbortReason,
  AnyJob,
  Job,
  JobContext,
  JobLog,
  JobOptions,
  LogFunction,
} from './functions/define-job.ts'
export type { EnqueueArguments, EnqueueOptions } from './functions/enqueue.ts'
export type { EnqueueManyOptions } from './functions/enqueue-many.ts'
export { cancel, fail, retryAfter, skip } from './functions/outcomes.ts'
export type { InputOf, OutputOf, StandardSchema } from './functions/standard-schema.ts'
export type { FollowOptions, LogEvent } from './follow-logs.ts'
export type { Listing, Page } from './listing.ts'
export type { Answer } from './requester.ts'
export type {
  AnswerOf,
  BodyOf,
  CallOptions,
  ChangeOptions,
  ItemOf,
  ListRoute,
  QueryOf,
  RequestArguments,
} from './route-types.ts'
export { createReporter } from './report-run.ts'
export type { ReporterOptions, RunReporter } from './report-run.ts'
export type { RetryOptions } from './transport.ts'
export type { WaitOptions } from './wait-for-run.ts'
export type { WaitUntilOptions } from './wait-until-over.ts'
export { all, any, equals, is, not } from './workflows/conditions.ts'
export { defineWorkflow } from './workflows/define-workflow.ts'
export type {
  ApprovalOptions,
  Approved,
  SignalOptions,
  SubWorkflowOptions,
  WaitingTaskOptions,
} from './workflows/waits.ts'
export type {
  AddTask,
  AnyTask,
  EachOptions,
  Task,
  TaskOptions,
  Workflow,
  WorkflowBuilder,
  WorkflowOptions,
} from './workflows/define-workflow.ts'
export { at, orElse } from './workflows/refs.ts'
export type { Mapped, Ref } from './workflows/refs.ts'
export { createWorker } from './worker/worker.ts'
export type { Worker, WorkerOptions, WorkerStats } from './worker/worker.ts'
export type { WorkerEvent, WorkerListener } from './worker/worker-events.ts'
