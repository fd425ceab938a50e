/**
 * The handler kind `http`: one call to the job's URL is one attempt. Every call goes out by the egress agent,
 * which decides whom it may reach and bounds what comes back; this file turns a run into a request and an
 * answer into a result. It never throws, and no secret of the job appears in what it answers.
 *
 *   prepare (secrets, headers, keys) ─► token ─► sign ─► call ─► judge ─► keep
 *                                         ▲                │ 401, once, where the job has `oauth2` and may
 *                                         └────────────────┘ be called twice
 *
 * Time: the worker's signal ends the call, wherever it is between name resolution and the last byte of the
 * body. Where the reason is the attempt's timeout, the answer says how far the call had come.
 */
import { type HttpHandlerDefinition, maxJudgedBytes, type RunError } from '@belfry/contract'
import { signatureHeaders } from '@belfry/contract/signature'
import { maskText } from '@belfry/contract/stream-mask'
import type { CallbackDoor } from '../../../ports/callbacks.ts'
import type { Clock } from '../../../ports/clock.ts'
import type { EgressAgent, EgressError, EgressOutcome, EgressResponse } from '../../../ports/egress.ts'
import type { Handler, HandlerFacts, HandlerRequest, HandlerResult } from '../../../ports/handler.ts'
import type { SecretSource } from '../../../ports/secrets.ts'
import { acceptedOf, openCall } from './async-call.ts'
import { factsOf, keptBytes } from './kept-response.ts'
import { createTokens, type TokenAsk, type Tokens } from './oauth2-tokens.ts'
import { type PreparedCall, prepareCall } from './prepared-call.ts'
import { callBody, callHeaders } from './request-headers.ts'
import { cutToBytes, printable } from './response-text.ts'
import { parseRetryAfter } from './retry-after.ts'
import { judgeAnswer } from './verdict.ts'

export interface HttpHandlerOptions {
  readonly egress: EgressAgent
  readonly clock: Clock
  /** `Belfry/<version>`; a job may send its own instead. */
  readonly userAgent: string
  readonly secrets: SecretSource
  readonly callbacks: CallbackDoor
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

function failure(error: RunError, retryable: boolean, facts: HandlerFacts, retryAfterMs?: number): Failure {
  const base = { outcome: 'failed' as const, error, retryable, ...facts }
  return retryAfterMs === undefined ? base : { ...base, retryAfterMs }
}

/** One attempt, from its preparation to its answer. */
interface Attempt {
  readonly request: HandlerRequest
  readonly handler: HttpHandlerDefinition
  readonly call: PreparedCall
  /** By which the target may report later, where it may take the run over. */
  readonly callback: Readonly<Record<string, string>>
  readonly signal: AbortSignal
  /** Secrets of this attempt alone: tokens that were made or fetched for it. */
  readonly tokens: string[]
}

/** The same list for each attempt without tokens, so that its forms are made once. */
const maskedOf = ({ call, tokens }: Attempt): readonly string[] =>
  tokens.length === 0 ? call.masked : [...call.masked, ...tokens]

function answered(attempt: Attempt, response: EgressResponse, nowMs: number): HandlerResult {
  const { handler } = attempt
  const masked = maskedOf(attempt)
  const facts = factsOf(response, handler.capture, masked)
  const accepted = acceptedOf(handler, response.status, facts)
  if (accepted !== undefined) return accepted
  const mask = (text: string): string => maskText(text, masked)
  const verdict = judgeAnswer(response, handler.success, { mask, maxBytes: keptBytes(handler.capture) })
  if (verdict.succeeded) return { outcome: 'succeeded', ...facts }
  const { code, retryable } = verdict
  const redirected = `the target answered ${response.status}, a redirect `
  const fix = ': redirects are not followed; use the final URL'
  const message =
    code === 'http_redirect'
      ? `${redirected}${redirectPlace(response.headers.get('location'), handler.url)}${fix}`
      : verdict.message
  const date = response.headers.get('date')
  const retryAfterMs = retryable
    ? parseRetryAfter(response.headers.get('retry-after'), date, nowMs)
    : undefined
  return failure({ code, message: mask(message) }, retryable, facts, retryAfterMs)
}

function unanswered(attempt: Attempt, error: EgressError, timedOut: boolean): Failure {
  const { handler, request } = attempt
  const masked = maskedOf(attempt)
  const facts = factsOf(error.response, handler.capture, masked)
  if (error.code === 'aborted' && timedOut) {
    const where = error.response === undefined ? 'no response' : 'a response that did not end'
    const fix = 'make the target faster, or raise attemptTimeoutMs'
    const message = `${where} within ${request.timeoutMs} ms; ${fix}`
    return failure({ code: 'timed_out', message }, true, facts)
  }
  return failure({ code: error.code, message: maskText(error.message, masked) }, error.retryable, facts)
}

/** Makes the call with this token; the signature is that of this moment. */
async function send(
  { egress, clock, userAgent }: HttpHandlerOptions,
  { request, handler, call, callback, signal }: Attempt,
  token: string | undefined,
): Promise<EgressOutcome> {
  const body = callBody(handler, request.input)
  const timestamp = Math.floor(clock.nowMs() / 1_000)
  const message = { id: request.runId, timestamp, body: body?.text ?? '' }
  const added = {
    ...callback,
    ...(token === undefined ? {} : { Authorization: `Bearer ${token}` }),
    ...(call.signingKeys.length === 0 ? {} : signatureHeaders(message, call.signingKeys)),
  }
  const judged = handler.success?.json === undefined ? 0 : maxJudgedBytes
  return await egress.request({
    method: handler.method,
    url: handler.url,
    headers: callHeaders(request, { headers: call.headers, added }, userAgent, body?.contentType),
    ...(body === undefined ? {} : { body: body.text }),
    ...(call.tls === undefined ? {} : { tls: call.tls }),
    signal,
    keepBytes: Math.max(keptBytes(handler.capture), judged),
  })
}

type Sent = EgressOutcome | Failure

/** With a token; once more with a new one where the target does not take it. */
async function sendWithToken(
  options: HttpHandlerOptions & { readonly tokens: Tokens },
  attempt: Attempt,
  ask: TokenAsk,
): Promise<Sent> {
  const { signal } = attempt
  const first = await options.tokens.get(ask, signal)
  if (!first.ok) return failure(first.fault, first.fault.retryable, {})
  attempt.tokens.push(first.token)
  const sent = await send(options, attempt, first.token)
  if (!sent.ok || sent.response.status !== 401) return sent
  options.tokens.drop(ask, first.token)
  if (attempt.request.delivery === 'at_most_once') return sent
  const second = await options.tokens.get(ask, signal)
  if (!second.ok || second.token === first.token) return sent
  attempt.tokens.push(second.token)
  return await send(options, attempt, second.token)
}

async function call(
  options: HttpHandlerOptions & { readonly tokens: Tokens },
  request: HandlerRequest,
  own: AbortController,
): Promise<HandlerResult> {
  const { handler, tenantId } = request
  if (handler.kind !== 'http') throw new Error(`The HTTP handler was given a ${handler.kind}.`)
  const [refused] = options.egress.checkTargetHeaders(handler.headers)
  if (refused !== undefined) {
    const name = refused.pointer.slice(refused.pointer.lastIndexOf('/') + 1)
    const message = `the header "${printable(name)}" ${refused.message}`
    return failure({ code: 'target_denied', message }, false, {})
  }
  const prepared = await prepareCall(request, handler, options.secrets)
  if (!prepared.ok) {
    const { code, message, retryable } = prepared.fault
    return failure({ code, message }, retryable, {})
  }
  const opened = await openCall(options.callbacks, request, handler)
  if (!opened.ok) return failure(opened.fault, opened.fault.retryable, {})
  const signal = AbortSignal.any([own.signal, request.signal])
  const tokens = [...opened.masked]
  const attempt = { request, handler, call: prepared.call, callback: opened.headers, signal, tokens }
  const { oauth2 } = handler
  const { clientSecret } = prepared.call
  const sent =
    oauth2 === undefined || clientSecret === undefined
      ? await send(options, attempt, undefined)
      : await sendWithToken(options, attempt, { tenantId, oauth2, clientSecret })
  if ('outcome' in sent) return sent
  if (sent.ok) return answered(attempt, sent.response, options.clock.nowMs())
  return unanswered(attempt, sent.error, !own.signal.aborted && request.signal.reason === 'timeout')
}

async function bounded(
  options: HttpHandlerOptions & { readonly tokens: Tokens },
  request: HandlerRequest,
  own: AbortController,
): Promise<HandlerResult> {
  try {
    return await call(options, request, own)
  } catch {
    // Not expected: whatever the cause, its text may hold what the job keeps secret.
    const message = 'the request could not be built; check url, method, headers and body of the job'
    return failure({ code: 'invalid_request', message }, false, {})
  }
}

export function createHttpHandler(options: HttpHandlerOptions): Handler {
  const parts = { ...options, tokens: createTokens(options) }
  const calls = new Map<AbortController, Promise<HandlerResult>>()
  let closed = false

  return {
    kind: 'http',
    execute(request) {
      const own = new AbortController()
      if (closed) own.abort('shutdown')
      const running = bounded(parts, request, own).finally(() => calls.delete(own))
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
