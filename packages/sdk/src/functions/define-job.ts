/**
 * A job as code: its name, how it is run, what comes in and goes out. The same definition runs in a remote
 * worker (`createWorker`), in an embedded Belfry (`createBelfry`) and in tests (`belfry/testing`).
 */
import type { FunctionJob, JsonValue, LogLine } from '@belfry/contract'
import { BelfryError, functionJobSchema } from '@belfry/contract'
import type { InputOf, OutputOf, StandardSchema } from './standard-schema.ts'

/** Why a signal fired: `signal.reason`. */
export type AbortReason = 'timeout' | 'cancel' | 'lease_lost' | 'shutdown'

export type LogFunction = (message: string, fields?: Readonly<Record<string, unknown>>) => void
/** Lines are kept with the attempt, up to a cap. */
export type JobLog = { readonly [Level in LogLine['level']]: LogFunction }

/** What a function is told about the attempt that it is. */
export interface JobContext {
  readonly runId: string
  /** 1, 2, … */
  readonly attempt: number
  /** Same over all attempts of the run: pass it on wherever something must happen only once. */
  readonly idempotencyKey: string
  /** Planned time of the schedule; null for a run on demand. */
  readonly scheduledFor: Date | null
  /** Fires on timeout, cancel, lost lease and shutdown; `signal.reason` says which. */
  readonly signal: AbortSignal
  readonly log: JobLog
  /** Shows how far it is: the latest word of a running attempt. */
  readonly heartbeat: (progress: JsonValue) => void
  /** Grows with every claim of the run: a store that remembers it can refuse a writer that is out of date. */
  readonly leaseEpoch: number
  /** W3C trace context of this attempt. */
  readonly traceparent: string
}

type Policies = Omit<FunctionJob, 'name' | 'attemptTimeoutMs'>

export interface JobOptions<
  In extends StandardSchema | undefined,
  Out extends StandardSchema | undefined,
  Result,
> extends Policies {
  /** Stable: runs are stored under it. */
  readonly name: string
  /** Checked when a run is asked for, and again before it runs. */
  readonly input?: In
  readonly output?: Out
  /** Limit of one attempt. */
  readonly timeoutMs?: number
  readonly run: (
    input: In extends StandardSchema ? OutputOf<In> : JsonValue,
    context: JobContext,
  ) => Promise<Result> | Result
}

/** `Input` is what a run is asked for with, `Result` what it answers. */
export interface Job<Input, Result> {
  readonly name: string
  /** What is stored on the server. */
  readonly registration: FunctionJob
  readonly input: StandardSchema | undefined
  readonly output: StandardSchema | undefined
  /** With an input that was checked. */
  readonly run: (input: unknown, context: JobContext) => unknown
  /** For the compiler only. */
  readonly types?: { readonly input: Input; readonly result: Result }
}

/** A job, whatever it takes and answers. */
export type AnyJob = Job<unknown, unknown>

type EnqueueInput<In> = In extends StandardSchema ? InputOf<In> : JsonValue | undefined
type RunResult<Out, Result> = Out extends StandardSchema ? OutputOf<Out> : Result

/** Throws `invalid_request`, with a pointer to what does not fit. */
export function defineJob<
  In extends StandardSchema | undefined = undefined,
  Out extends StandardSchema | undefined = undefined,
  Result extends Out extends StandardSchema ? InputOf<Out> : unknown = Out extends StandardSchema
    ? InputOf<Out>
    : unknown,
>(options: JobOptions<In, Out, Result>): Job<EnqueueInput<In>, RunResult<Out, Result>> {
  const { input, output, run, timeoutMs, ...policies } = options
  const given = { ...policies, ...(timeoutMs === undefined ? {} : { attemptTimeoutMs: timeoutMs }) }
  return {
    name: options.name,
    registration: checked(given),
    input,
    output,
    run: run as (input: unknown, context: JobContext) => unknown,
  }
}

function checked(given: object): FunctionJob {
  const result = functionJobSchema.safeParse(given)
  if (result.success) return result.data
  const errors = result.error.issues.map((issue) => {
    const pointer = issue.path.map((part) => `/${String(part)}`).join('')
    return { pointer: pointer === '/attemptTimeoutMs' ? '/timeoutMs' : pointer, message: issue.message }
  })
  const words = errors.map(({ pointer, message }) => `${pointer} ${message}`).join('; ')
  throw new BelfryError('invalid_request', `The job cannot be defined like this: ${words}.`, { errors })
}

/** The queue of a job's runs, as far as its definition says. */
export const queueOf = ({ registration }: AnyJob): string => registration.queue ?? 'default'
