/**
 * One HTTP request of the client, with retries. A try is repeated only where that is safe (GET, or an
 * Idempotency-Key is sent) and can help (no answer, or the server calls the error retryable); the delay is
 * exponential with full jitter and never shorter than Retry-After. Redirects are not followed, so the key
 * never goes to another host.
 */
import { BelfryError } from '@belfry/contract'
import { AnswerError, errorOfAnswer, noAnswer } from './answer-errors.ts'

export type RetryOptions = {
  /** Tries after the first one; 3 by default, 0 for none. */
  readonly retries?: number
  readonly baseMs?: number
  readonly capMs?: number
}

export type TransportOptions = {
  readonly fetch: typeof fetch
  readonly timeoutMs: number
  readonly retry: Required<RetryOptions>
}

export type HttpRequest = {
  readonly method: string
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  /** Serialized JSON. */
  readonly body?: string | undefined
  readonly signal?: AbortSignal | undefined
}

export type HttpAnswer = { readonly status: number; readonly headers: Headers; readonly body: unknown }

/** Longest that a server's Retry-After is waited for; beyond it the error is the caller's to handle. */
const maxRetryAfterMs = 60_000

/** Sends a request. Throws `AnswerError` for a refusal, `BelfryError` `server_unreachable` for no answer. */
export async function send(request: HttpRequest, options: TransportOptions): Promise<HttpAnswer> {
  const safe = request.method === 'GET' || request.headers['idempotency-key'] !== undefined
  for (let retry = 0; ; retry += 1) {
    try {
      return await once(request, options)
    } catch (error) {
      const again = safe && retry < options.retry.retries && isWorthARetry(error)
      if (!again) throw error
      await pause(delayMs(error, retry, options.retry), request.signal)
    }
  }
}

async function once(request: HttpRequest, options: TransportOptions): Promise<HttpAnswer> {
  const timeout = AbortSignal.timeout(options.timeoutMs)
  const signal = request.signal === undefined ? timeout : AbortSignal.any([request.signal, timeout])
  const shown = `${request.method} ${request.url}`
  try {
    const response = await options.fetch(request.url, {
      method: request.method,
      headers: request.headers,
      redirect: 'manual',
      signal,
      ...(request.body === undefined ? {} : { body: request.body }),
    })
    const body = parsed(await response.text())
    if (response.ok) return { status: response.status, headers: response.headers, body }
    throw errorOfAnswer(response, body, shown)
  } catch (error) {
    if (error instanceof BelfryError) throw error
    request.signal?.throwIfAborted()
    throw noAnswer(shown, error, options.timeoutMs)
  }
}

function parsed(text: string): unknown {
  if (text === '') return undefined
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function isWorthARetry(error: unknown): boolean {
  if (error instanceof AnswerError)
    return error.problem.retryable && (error.retryAfterMs ?? 0) <= maxRetryAfterMs
  return error instanceof BelfryError && error.retryable
}

function delayMs(error: unknown, retry: number, options: Required<RetryOptions>): number {
  const jittered = Math.random() * Math.min(options.capMs, options.baseMs * 2 ** retry)
  return Math.max(jittered, error instanceof AnswerError ? (error.retryAfterMs ?? 0) : 0)
}

/** Waits; an aborted signal ends the wait at once with its reason. */
export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted()
    const onAbort = (): void => {
      clearTimeout(timer)
      reject(signal?.reason instanceof Error ? signal.reason : new Error('The wait was aborted.'))
    }
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', onAbort)
      resolve()
    }, ms)
    signal?.addEventListener('abort', onAbort, { once: true })
  })
}
