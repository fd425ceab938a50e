/**
 * The handler kind `http`: one call to the job's URL is one attempt. Every call goes out by the egress agent,
 * which decides whom it may reach and bounds what comes back; this file turns a run into a request and an
 * answer into a result. It never throws, and no header value of the job appears in what it answers.
 *
 * Time: the worker's signal ends the call, wherever it is between name resolution and the last byte of the
 * body. Where the reason is the attempt's timeout, the answer says how far the call had come.
 */
import { maxCapturedBytes, type RunError } from '@belfry/contract'
import { maskSecrets, secretTexts } from '../../../domain/secret-mask.ts'
import type { Clock } from '../../../ports/clock.ts'
import type { EgressAgent, EgressError, EgressResponse } from '../../../ports/egress.ts'
import type { Handler, HandlerFacts, HandlerRequest, HandlerResult } from '../../../ports/handler.ts'
import { callBody, callHeaders } from './request-headers.ts'
import { cutToBytes, printable, responseText } from './response-text.ts'
import { parseRetryAfter } from './retry-after.ts'
import { judgeStatus } from './status-verdict.ts'

export interface HttpHandlerOptions {
  readonly egress: EgressAgent
  readonly clock: Clock
  /** `Belfry/<version>`; a job may send its own instead. */
  readonly userAgent: string
}

type Failure = Extract<HandlerResult, { outcome: 'failed' }>

const shownLocationBytes = 512

/** Where a redirect points, without credentials, query and fragment, which may be secrets. */
function redirectPlace(location: string | undefined, base: string): string {
  if (location === undefined) return 'without a Location'
  const target = URL.canParse(location, base) ? new URL(location, base) : undefined
  if (target === undefined) return 'to something that is not a URL'
  const origin = target.host === '' ? target.protocol : `${target.protocol}//${target.host}`
  return `to ${cutToBytes(printable(`${origin}${target.pathname}`), shownLocationBytes)}`
}

function factsOf(response: EgressResponse | undefined, secrets: readonly string[]): HandlerFacts {
  if (response === undefined) return {}
  const { text, truncated } = responseText(response, maxCapturedBytes, secrets)
  return { httpStatus: response.status, response: text, responseTruncated: truncated }
}

function failure(error: RunError, retryable: boolean, facts: HandlerFacts, retryAfterMs?: number): Failure {
  const base = { outcome: 'failed' as const, error, retryable, ...facts }
  return retryAfterMs === undefined ? base : { ...base, retryAfterMs }
}

function statusMessage(response: EgressResponse, url: string, code: string, retryable: boolean): string {
  if (code === 'http_redirect') {
    const place = redirectPlace(response.headers.get('location'), url)
    const fix = 'redirects are not followed; use the final URL'
    return `the target answered ${response.status}, a redirect ${place}: ${fix}`
  }
  const again = retryable
    ? ''
    : '; this status says that the same request cannot succeed, so it is not tried again'
  return `the target answered ${response.status} instead of 2xx${again}`
}

function answered(
  response: EgressResponse,
  url: string,
  nowMs: number,
  secrets: readonly string[],
): HandlerResult {
  const facts = factsOf(response, secrets)
  const verdict = judgeStatus(response.status)
  if (verdict.succeeded) return { outcome: 'succeeded', ...facts }
  const { code, retryable } = verdict
  const message = maskSecrets(statusMessage(response, url, code, retryable), secrets)
  const date = response.headers.get('date')
  const retryAfterMs = retryable
    ? parseRetryAfter(response.headers.get('retry-after'), date, nowMs)
    : undefined
  return failure({ code, message }, retryable, facts, retryAfterMs)
}

function unanswered(
  error: EgressError,
  timedOut: boolean,
  timeoutMs: number,
  secrets: readonly string[],
): HandlerResult {
  const facts = factsOf(error.response, secrets)
  if (error.code === 'aborted' && timedOut) {
    const where = error.response === undefined ? 'no response' : 'a response that did not end'
    const fix = 'make the target faster, or raise attemptTimeoutMs'
    return failure({ code: 'timed_out', message: `${where} within ${timeoutMs} ms; ${fix}` }, true, facts)
  }
  const message = maskSecrets(error.message, secrets)
  return failure({ code: error.code, message }, error.retryable, facts)
}

export function createHttpHandler({ egress, clock, userAgent }: HttpHandlerOptions): Handler {
  const calls = new Map<AbortController, Promise<HandlerResult>>()
  let closed = false

  async function call(request: HandlerRequest, own: AbortController): Promise<HandlerResult> {
    const { handler, timeoutMs, signal } = request
    if (handler.kind !== 'http') throw new Error(`The HTTP handler was given a ${handler.kind}.`)
    const [refused] = egress.checkTargetHeaders(handler.headers)
    if (refused !== undefined) {
      const name = refused.pointer.slice(refused.pointer.lastIndexOf('/') + 1)
      const message = `the header "${printable(name)}" ${refused.message}`
      return failure({ code: 'target_denied', message }, false, {})
    }
    const body = callBody(handler, request.input)
    const outcome = await egress.request({
      method: handler.method,
      url: handler.url,
      headers: callHeaders(request, handler.headers, userAgent, body?.contentType),
      ...(body === undefined ? {} : { body: body.text }),
      signal: AbortSignal.any([own.signal, signal]),
      keepBytes: maxCapturedBytes,
    })
    const secrets = secretTexts(handler.headers)
    if (outcome.ok) return answered(outcome.response, handler.url, clock.nowMs(), secrets)
    return unanswered(outcome.error, !own.signal.aborted && signal.reason === 'timeout', timeoutMs, secrets)
  }

  async function bounded(request: HandlerRequest, own: AbortController): Promise<HandlerResult> {
    try {
      return await call(request, own)
    } catch {
      // Not expected: whatever the cause, its text may hold what the job keeps secret.
      const message = 'the request could not be built; check url, method, headers and body of the job'
      return failure({ code: 'invalid_request', message }, false, {})
    } finally {
      calls.delete(own)
    }
  }

  return {
    kind: 'http',
    execute(request) {
      const own = new AbortController()
      if (closed) own.abort('shutdown')
      const running = bounded(request, own)
      calls.set(own, running)
      return running
    },
    async close() {
      closed = true
      const running = [...calls.values()]
      for (const own of calls.keys()) own.abort('shutdown')
      await Promise.all(running)
    },
  }
}
