/**
 * Tasks of a workflow as code that run no job: they wait for a person, a time or a signal, or are a
 * workflow of their own.
 */
import type { Condition, JsonValue, TriggerRule, WorkflowTask } from '@belfry/contract'
import { BelfryError } from '@belfry/contract'
import type { OutputOf, StandardSchema } from '../functions/standard-schema.ts'
import type { AnyTask, Task, Workflow } from './define-workflow.ts'
import { type Mapped, type Ref, sourceOf } from './refs.ts'

export interface WaitingTaskOptions {
  readonly needs?: readonly AnyTask[]
  readonly rule?: TriggerRule
  readonly when?: Condition
  readonly allowFailure?: boolean
}

interface InTime {
  /** How long it waits at most; without an end if left out. */
  readonly atMostMs?: number
  /** How it ends when nothing came by then. */
  readonly onTimeout?: 'failed' | 'skipped' | 'succeeded'
}

export interface ApprovalOptions extends WaitingTaskOptions, InTime {
  /** What is to be decided. */
  readonly message: string
  readonly onReject?: 'failed' | 'skipped'
}

export interface SignalOptions<Payload extends StandardSchema | undefined>
  extends WaitingTaskOptions,
    InTime {
  /** For types. */
  readonly payload?: Payload
}

export interface SubWorkflowOptions extends WaitingTaskOptions {
  readonly priority?: number
}

/** What an approval gives. */
export interface Approved {
  readonly approved: true
  /** Name of the API key. */
  readonly by: string
  readonly reason: string | null
}

type PayloadOf<P> = P extends StandardSchema ? OutputOf<P> : JsonValue
type SubArguments<Input> = JsonValue extends Input
  ? [options?: SubWorkflowOptions & { readonly input?: Mapped<Input> }]
  : [options: SubWorkflowOptions & { readonly input: Mapped<Input> }]

export interface WaitingTasks {
  /** Waits until somebody approves or rejects it. */
  readonly approval: (id: string, options: ApprovalOptions) => Task<Approved>
  readonly waitFor: (id: string, ms: number, options?: WaitingTaskOptions) => Task<null>
  /** Until an instant: a constant one, or one that the input or an output has. */
  readonly waitUntil: (
    id: string,
    instant: string | Date | Ref<string>,
    options?: WaitingTaskOptions,
  ) => Task<null>
  /** Its output is the payload of the signal. */
  readonly signal: <Payload extends StandardSchema | undefined = undefined>(
    id: string,
    name: string,
    options?: SignalOptions<Payload>,
  ) => Task<PayloadOf<Payload>>
  /** Another workflow, as it is when the task starts; its output is that of its run. */
  readonly workflow: <Input, Output>(
    id: string,
    workflow: Workflow<Input, Output> | { readonly name: string },
    ...rest: SubArguments<Input>
  ) => Task<Output>
}

type Body = Partial<Pick<WorkflowTask, 'workflow'>> & { readonly approval?: object; readonly wait?: object }

/** Adds a task with this body; `takes` are tasks that it needs besides. */
export type AddBody = <Result>(
  id: string,
  body: Body,
  options: WaitingTaskOptions & { readonly input?: unknown },
  takes?: readonly string[],
) => Task<Result>

export function waitingTasks(add: AddBody): WaitingTasks {
  return {
    approval: (id, { message, atMostMs, onTimeout, onReject, ...options }) =>
      add(id, { approval: given({ message, atMostMs, onTimeout, onReject }) }, options),
    waitFor: (id, forMs, options = {}) => add(id, { wait: { forMs } }, options),
    waitUntil(id, instant, options = {}) {
      const until = untilOf(id, instant)
      return add(id, { wait: { until } }, options, 'task' in until ? [until.task] : [])
    },
    signal: (id, name, { payload: _, atMostMs, onTimeout, ...options } = {}) =>
      add(id, { wait: given({ signal: name, atMostMs, onTimeout }) }, options),
    workflow: (id, { name }, ...[options = {}]) => add(id, { workflow: name }, options),
  }
}

function untilOf(id: string, instant: string | Date | Ref<string>) {
  if (instant instanceof Date) return { at: instant.toISOString() }
  if (typeof instant === 'string') return { at: instant }
  const origin = sourceOf(instant)?.origin
  if (origin?.kind === 'task') return { task: origin.task, path: origin.path }
  if (origin?.kind === 'input') return { input: origin.path }
  const message = 'waits until something that is no instant; give one, an output, or the input'
  throw new BelfryError('invalid_request', `The task "${id}" ${message}.`)
}

const given = (fields: object): object =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined))
