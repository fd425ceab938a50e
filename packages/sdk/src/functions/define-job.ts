/**
 * A job as code: its name, how it is run, what comes in and goes out. The same definition runs in a remote
 * worker (`createWorker`), in an embedded Belfry (`createBelfry`) and in tests (`belfry/testing`).
 */
import type {
  Collect,
  Debounce,
  Delivery,
  ErrorDetail,
  FunctionJob,
  JsonValue,
  LogLine,
} from '@belfry/contract'
import { BelfryError, functionJobSchema } from '@belfry/contract'
import { aFunction, anObject, checkArgument } from '../check-input.ts'
import type { LimitOptions } from './limit-options.ts'
import { withLimits } from './limit-options.ts'
import type { InputOf, OutputOf, StandardSchema } from './standard-schema.ts'
import { isSchema } from './standard-schema.ts'

/** Why a signal fired: `signal.reason`. */
export type AbortReason = 'timeout' | 'cancel' | 'lease_lost' | 'shutdown'

/** Never throws: an Error is its message, with its stack among the fields; any other value its JSON. */
export type LogFunction = (message: unknown, fields?: Readonly<Record<string, unknown>>) => void
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
  /**
   * `at_most_once`: it is called this once; whatever is no success ends the run. `at_least_once`: it may be
   * called again after a crash or a shutdown, so pass `idempotencyKey` on.
   */
  readonly delivery: Delivery
  /** The whole run must be over by then, with all its attempts; null: no limit. */
  readonly runDeadline: Date | null
  /**
   * Fires on timeout (of the attempt or of the whole run), cancel, lost lease and shutdown; `signal.reason`
   * says which.
   */
  readonly signal: AbortSignal
  readonly log: JobLog
  /**
   * Shows how far it is: the latest word of a running attempt. Throws `invalid_request` for what is no JSON
   * or larger than 16 KiB.
   */
  readonly heartbeat: (progress: JsonValue) => void
  /** Grows with every claim of the run: a store that remembers it can refuse a writer that is out of date. */
  readonly leaseEpoch: number
  /** W3C trace context of this attempt. */
  readonly traceparent: string
  /** Values of the secrets that the job names, by name; masked in whatever the function sends back. */
  readonly secrets: Readonly<Record<string, string>>
}

type Policies = Omit<
  FunctionJob,
  'name' | 'attemptTimeoutMs' | 'debounce' | 'collect' | 'concurrency' | 'rateLimit'
>

/** A job that collects: one run for many requests. */
export type CollectOption = Omit<Collect, 'key'> & Partial<Pick<Collect, 'key'>>
export type DebounceOption = Omit<Debounce, 'key'> & Partial<Pick<Debounce, 'key'>>

type OneInput<In> = In extends StandardSchema ? OutputOf<In> : JsonValue
/** What the function is called with: of a job that collects, the list of the inputs. */
type RunInput<In, Collects> = Collects extends CollectOption ? readonly OneInput<In>[] : OneInput<In>

export interface JobOptions<
  In extends StandardSchema | undefined,
  Out extends StandardSchema | undefined,
  Result,
  Collects extends CollectOption | null | undefined = undefined,
> extends Policies,
    LimitOptions {
  /** Stable: runs are stored under it. */
  readonly name: string
  /** Checked when a run is asked for, and again before it runs. */
  readonly input?: In
  readonly output?: Out
  /** Limit of one attempt. */
  readonly timeoutMs?: number
  /** Requests that follow each other closely are one run, with the newest input; null takes it away. */
  readonly debounce?: DebounceOption | null
  /** Requests are collected into one run, which is called with the list of their inputs. */
  readonly collect?: Collects
  readonly run: (input: RunInput<In, Collects>, context: JobContext) => Promise<Result> | Result
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

const aSchema = { what: 'a schema of a library that implements Standard Schema', fits: isSchema }

/** Throws `invalid_request`, with a pointer to what does not fit. */
export function defineJob<
  In extends StandardSchema | undefined = undefined,
  Out extends StandardSchema | undefined = undefined,
  Result extends Out extends StandardSchema ? InputOf<Out> : unknown = Out extends StandardSchema
    ? InputOf<Out>
    : unknown,
  Collects extends CollectOption | null | undefined = undefined,
>(options: JobOptions<In, Out, Result, Collects>): Job<EnqueueInput<In>, RunResult<Out, Result>> {
  checkArgument('defineJob', '', options, anObject)
  const { input, output, run, timeoutMs, ...more } = options
  if ('onLimit' in more) throw refusal(options.name, [misplacedOnLimit])
  const policies = withLimits(more)
  checkArgument('defineJob', '/run', run, aFunction)
  if (input !== undefined) checkArgument('defineJob', '/input', input, aSchema)
  if (output !== undefined) checkArgument('defineJob', '/output', output, aSchema)
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
  const { name } = given as { name?: unknown }
  throw refusal(name, errors)
}

const misplacedOnLimit = {
  pointer: '/onLimit',
  message: 'belongs in concurrency: write concurrency: { limit: 1, onLimit: … }',
}

function refusal(name: unknown, errors: readonly ErrorDetail[]): BelfryError {
  const words = errors.map(({ pointer, message }) => `${pointer} ${message}`.trim()).join('; ')
  const which = typeof name === 'string' ? `The job "${name}"` : 'The job'
  return new BelfryError('invalid_request', `${which} cannot be defined like this: ${words}.`, { errors })
}

/** The queue of a job's runs, as far as its definition says. */
export const queueOf = ({ registration }: AnyJob): string => registration.queue ?? 'default'
