/**
 * The headers of a call: the job's own, then defaults that the job may override, then Belfry's, which it may
 * not.
 *
 *   Idempotency-Key      same over all attempts of the run
 *   Belfry-Run-Id        id of the run
 *   Belfry-Attempt       1, 2, …
 *   Belfry-Lease-Epoch   grows with every claim of the run; a target may refuse one smaller than it has seen
 *   Belfry-Scheduled-For nominal time of the occurrence, RFC 3339 UTC; only on scheduled runs
 *   traceparent          W3C trace context of the attempt
 *   Authorization        Bearer and a token, for jobs with `oauth2`
 *   Belfry-Callback-Url, Belfry-Callback-Token
 *                        where and by what a target may report that takes the run over; with `async`
 *   webhook-…            id, timestamp and signatures, for jobs with `signing` (contract/signature.ts)
 */
import type { HttpHandlerDefinition } from '@belfry/contract'
import type { HandlerRequest } from '../../../ports/handler.ts'

export interface CallBody {
  readonly text: string
  readonly contentType: string
}

/**
 * What is sent: the job's body as it is, else the input as JSON; nothing with GET and HEAD, or without
 * either.
 */
export function callBody(handler: HttpHandlerDefinition, input: unknown): CallBody | undefined {
  if (handler.method === 'GET' || handler.method === 'HEAD') return undefined
  if (handler.body !== undefined) {
    return {
      text: handler.body,
      contentType: looksLikeJson(handler.body) ? jsonType : 'text/plain; charset=utf-8',
    }
  }
  return input === undefined || input === null
    ? undefined
    : { text: JSON.stringify(input), contentType: jsonType }
}

const jsonType = 'application/json'

/** Whether a text is a JSON object or array; a bare number or word is more likely meant as text. */
function looksLikeJson(text: string): boolean {
  if (!/^\s*[[{]/.test(text)) return false
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

export interface OwnHeaders {
  /** Of the job, filled. */
  readonly headers: Readonly<Record<string, string>>
  /** What Belfry adds for this job: a token, signatures. */
  readonly added: Readonly<Record<string, string>>
}

export function callHeaders(
  request: HandlerRequest,
  { headers: own, added }: OwnHeaders,
  userAgent: string,
  contentType: string | undefined,
): Record<string, string> {
  const headers = new Map<string, readonly [name: string, value: string]>()
  const set = (name: string, value: string): unknown => headers.set(name.toLowerCase(), [name, value])
  set('User-Agent', userAgent)
  set('Accept', '*/*')
  // Nothing is inflated here, so nothing compressed is asked for.
  set('Accept-Encoding', 'identity')
  if (contentType !== undefined) set('Content-Type', contentType)
  for (const [name, value] of Object.entries(own)) set(name, value)
  set('Idempotency-Key', request.idempotencyKey)
  set('Belfry-Run-Id', request.runId)
  set('Belfry-Attempt', String(request.attempt))
  set('Belfry-Lease-Epoch', String(request.leaseEpoch))
  if (request.scheduledForMs !== null)
    set('Belfry-Scheduled-For', new Date(request.scheduledForMs).toISOString())
  set('traceparent', request.traceparent)
  for (const [name, value] of Object.entries(added)) set(name, value)
  return Object.fromEntries(headers.values())
}
