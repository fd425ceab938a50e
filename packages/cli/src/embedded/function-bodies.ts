/**
 * Jobs as the engine runs them in this process: each definition becomes the body of a function, with the same
 * context, the same log and the same outcomes as in a remote worker.
 */
import type { AnyJob, JobContext } from '@belfry/sdk'
import {
  type AttemptLog,
  checkedProgress,
  createLogBuffer,
  type FunctionAnswer,
  type Masking,
  maskingOf,
  runFunction,
} from '@belfry/sdk/functions'
import type { EmbeddedOptions } from '@belfry/server'

type Bodies = EmbeddedOptions['functions']
type Body = Bodies extends ReadonlyMap<string, infer Each> ? Each : never
type Request = Parameters<Body>[0]
type Tools = Parameters<Body>[1]

export function functionBodies(jobs: readonly AnyJob[]): Bodies {
  return new Map(jobs.map((job) => [job.name, bodyOf(job)]))
}

function bodyOf(job: AnyJob): Body {
  return async (request, tools) => {
    const context = new FunctionContext(request, tools)
    const answer = await runFunction(job, request.input, context)
    if (context.opened !== undefined) await context.opened.flushed()
    return resultOf(context.masking.answer(answer))
  }
}

/**
 * What a function is told. A class, because most functions ask for little of it: what costs something is made
 * when it is asked for.
 */
class FunctionContext implements JobContext {
  readonly runId: string
  readonly attempt: number
  readonly idempotencyKey: string
  readonly leaseEpoch: number
  readonly delivery: JobContext['delivery']
  readonly secrets: JobContext['secrets']
  readonly masking: Masking
  opened: AttemptLog | undefined
  readonly #request: Request
  readonly #tools: Tools

  constructor(request: Request, tools: Tools) {
    this.runId = request.runId
    this.attempt = request.attempt
    this.idempotencyKey = request.idempotencyKey
    this.leaseEpoch = request.leaseEpoch
    this.delivery = request.delivery
    this.secrets = tools.secrets.size === 0 ? none : Object.fromEntries(tools.secrets)
    this.masking = maskingOf(this.secrets === none ? undefined : this.secrets)
    this.#request = request
    this.#tools = tools
  }

  get signal(): AbortSignal {
    return this.#request.signal
  }

  get traceparent(): string {
    return this.#request.traceparent
  }

  get scheduledFor(): Date | null {
    return dateOf(this.#request.scheduledForMs)
  }

  get runDeadline(): Date | null {
    return dateOf(this.#request.runDeadlineMs)
  }

  get log(): JobContext['log'] {
    this.opened ??= createLogBuffer({
      send: (chunk) => this.#tools.log(this.#request, chunk),
      mask: this.masking.line,
      alive: () => !['lease_lost', 'shutdown'].includes(String(this.signal.reason)),
    }).open(this.#request)
    return this.opened.log
  }

  get heartbeat(): JobContext['heartbeat'] {
    return (progress) => this.#tools.progress(this.#request, this.masking.json(checkedProgress(progress)))
  }
}

const none: JobContext['secrets'] = {}

const dateOf = (ms: number | null): Date | null => (ms === null ? null : new Date(ms))

function resultOf(answer: FunctionAnswer): Awaited<ReturnType<Body>> {
  return answer
}
