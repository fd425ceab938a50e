/**
 * For targets of HTTP jobs that take a run over: they answer the call with 202 and report its end later, by
 * what the call's headers bring. A report may be sent again, so it is, where no answer came.
 */
import {
  BelfryError,
  type CallbackAnswer,
  type CallbackReport,
  callbackTokenHeader,
  callbackUrlHeader,
  type JsonValue,
  type LogLine,
} from '@belfry/contract'
import { readSigningKey, reportIdOf, signatureHeaders } from '@belfry/contract/signature'
import { type RetryOptions, send } from './transport.ts'

export type ReporterOptions = {
  /** Of the call, as Node or fetch have them. */
  readonly headers: Headers | Readonly<Record<string, string | readonly string[] | undefined>>
  /** Of a job that signs its calls with a key that both sides hold: that key, `whsec_…`. */
  readonly signingKey?: string | undefined
  /** 30 s by default. */
  readonly timeoutMs?: number | undefined
  /** 5 retries by default. */
  readonly retry?: RetryOptions | undefined
  readonly fetch?: typeof fetch | undefined
}

export type RunReporter = {
  readonly runId: string
  /** Same over all attempts of the run. */
  readonly idempotencyKey: string
  /** It goes on, and is so far. The answer says whether its cancel was asked for. */
  heartbeat(progress?: JsonValue): Promise<CallbackAnswer>
  /** Lines for the log of the attempt; they are numbered here. */
  log(...lines: readonly Omit<LogLine, 'at'>[]): Promise<CallbackAnswer>
  complete(result?: JsonValue): Promise<CallbackAnswer>
  fail(
    error: { readonly code: string; readonly message: string },
    options?: { readonly retryable?: boolean; readonly retryAfterMs?: number },
  ): Promise<CallbackAnswer>
}

const defaultRetry = { retries: 5, baseMs: 200, capMs: 10_000 }

function headerOf(headers: ReporterOptions['headers'], name: string): string {
  const value =
    headers instanceof Headers
      ? headers.get(name)
      : Object.entries(headers).find(([each]) => each.toLowerCase() === name.toLowerCase())?.[1]
  if (typeof value === 'string' && value !== '') return value
  const fix = 'the job needs "async" in its handler, and the headers must be those of the call'
  throw new BelfryError('invalid_request', `The call has no header ${name}; ${fix}.`)
}

/**
 * Throws BelfryError `invalid_request` where the headers are not those of a call that may be taken over. Each
 * report throws as calls of the client do, `callback_over` among them: the attempt is over, stop working.
 */
export function createReporter(options: ReporterOptions): RunReporter {
  const { headers, timeoutMs = 30_000, fetch: ownFetch = fetch } = options
  const url = headerOf(headers, callbackUrlHeader)
  const token = headerOf(headers, callbackTokenHeader)
  const runId = headerOf(headers, 'Belfry-Run-Id')
  const key = options.signingKey === undefined ? undefined : readSigningKey(options.signingKey)
  if (options.signingKey !== undefined && key === undefined)
    throw new BelfryError('invalid_request', 'The signing key is none; it is whsec_ and base64 behind it.')
  const transport = { fetch: ownFetch, timeoutMs, retry: { ...defaultRetry, ...options.retry } }
  let lines = 0

  async function report(body: CallbackReport | object): Promise<CallbackAnswer> {
    const text = JSON.stringify(body)
    const timestamp = Math.floor(Date.now() / 1_000)
    const message = { id: reportIdOf(runId), timestamp, body: text }
    const signed = key === undefined ? {} : signatureHeaders(message, [key])
    const sent = {
      method: 'POST',
      url,
      body: text,
      headers: {
        authorization: `Bearer ${token}`,
        'content-type': 'application/json',
        // a report may be repeated: this says so to what sends it
        'idempotency-key': runId,
        ...signed,
      },
    }
    return (await send(sent, transport)).body as CallbackAnswer
  }

  return {
    runId,
    idempotencyKey: headerOf(headers, 'Idempotency-Key'),
    heartbeat: (progress) => report({ action: 'heartbeat', progress }),
    log(...given) {
      const at = new Date().toISOString()
      const firstLine = lines
      lines += given.length
      return report({ action: 'log', firstLine, lines: given.map((line) => ({ at, ...line })) })
    },
    complete: (result) => report({ action: 'complete', result }),
    fail: (error, more = {}) => report({ action: 'fail', error, ...more }),
  }
}
