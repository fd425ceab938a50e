/**
 * Runs functions in this process: the handler of kind `function` of the engine's own worker, so that
 * attempts, leases, retries and shutdown are those of every other kind. The functions come from the program
 * that Belfry is embedded in; what they log and how far they are goes to the store under the session that
 * holds the run.
 *
 * Progress is written at most once a second, all runs together: the latest word counts. Nobody waits for it,
 * and one that cannot be written is dropped.
 */
import type { JsonValue, LogLine } from '@belfry/contract'
import { functionRoute } from '../../../domain/route.ts'
import type { Clock, Timer } from '../../../ports/clock.ts'
import type { Handler, HandlerRequest, HandlerResult } from '../../../ports/handler.ts'
import type { SecretSource } from '../../../ports/secrets.ts'
import type { LogKept, WorkerStore } from '../../../ports/worker-store.ts'

const progressMs = 1_000

/** What a function can say while it runs; `of` is the request that it was called with. */
export interface FunctionTools {
  readonly progress: (of: HandlerRequest, progress: JsonValue) => void
  /** Rejects where it could not be stored. */
  readonly log: (
    of: HandlerRequest,
    chunk: { firstLine: number; lines: readonly LogLine[] },
  ) => Promise<LogKept | undefined>
  /** Those that its job names, by name. */
  readonly secrets: ReadonlyMap<string, string>
}

/** Answers as a handler does, and never rejects. */
export type FunctionBody = (request: HandlerRequest, tools: FunctionTools) => Promise<HandlerResult>

export interface FunctionHandlerOptions {
  readonly tenantId: string
  readonly functions: ReadonlyMap<string, FunctionBody>
  readonly workers: Pick<WorkerStore, 'appendLogs' | 'reportProgress'>
  readonly secrets: SecretSource
  readonly clock: Clock
}

export function createFunctionHandler(options: FunctionHandlerOptions): Handler {
  const { tenantId, functions, workers } = options
  const progress = createProgressWriter(options)
  const tools: FunctionTools = {
    progress: ({ sessionId, runId, leaseEpoch }, word) =>
      progress.note(sessionId, { runId, leaseEpoch, progress: word }),
    async log({ sessionId, runId, leaseEpoch }, chunk) {
      const appended = [{ tenantId, runId, leaseEpoch, ...chunk }]
      return (await workers.appendLogs(sessionId, appended))[0]
    },
    secrets: new Map(),
  }
  async function withSecrets(body: FunctionBody, request: HandlerRequest): Promise<HandlerResult> {
    const answer = await options.secrets.resolve(request)
    if (answer.ok) return body(request, { ...tools, secrets: answer.values })
    const { retryable, ...error } = answer.fault
    return { outcome: 'failed', retryable, error }
  }

  return {
    kind: 'function',
    routes: [...functions.keys()].map((name) => functionRoute(tenantId, name)),
    execute(request) {
      const { handler } = request
      const body = handler.kind === 'function' ? functions.get(handler.name) : undefined
      if (body === undefined || handler.kind !== 'function') return Promise.resolve(missing(request))
      return handler.secrets === undefined ? body(request, tools) : withSecrets(body, request)
    },
    close: async () => progress.stop(),
  }
}

/** Not expected: a claim names the routes that are here. Whoever has the function may have the run. */
function missing({ handler }: HandlerRequest): HandlerResult {
  const name = handler.kind === 'function' ? handler.name : handler.kind
  const message = `This process has no function "${name}"; start a worker that has it.`
  return { outcome: 'failed', retryable: true, error: { code: 'function_missing', message } }
}

type Word = { readonly runId: string; readonly leaseEpoch: number; readonly progress: JsonValue }

function createProgressWriter({ workers, clock }: FunctionHandlerOptions) {
  const waiting = new Map<string, Map<string, Word>>()
  let timer: Timer | undefined
  let lastMs = -Infinity

  function flush(): void {
    timer = undefined
    lastMs = clock.monotonicMs()
    const sessions = [...waiting]
    waiting.clear()
    for (const [sessionId, words] of sessions)
      workers.reportProgress(sessionId, [...words.values()]).catch(() => undefined)
  }

  return {
    note(sessionId: string, word: Word): void {
      const words = waiting.get(sessionId) ?? new Map<string, Word>()
      waiting.set(sessionId, words.set(word.runId, word))
      timer ??= clock.setTimer(Math.max(0, lastMs + progressMs - clock.monotonicMs()), flush)
    },
    stop: (): void => timer?.cancel(),
  }
}
