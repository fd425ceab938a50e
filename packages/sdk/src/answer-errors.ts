/**
 * Turns what went wrong with a request into typed errors: a problem document becomes an `AnswerError` with
 * the server's code and request id; no answer, or one that is not Belfry's, becomes a code of the client's
 * own. Codes are those of the one table in the contract.
 */
import type { ErrorCode, ErrorDetail, Problem } from '@belfry/contract'
import { BelfryError, errorTable } from '@belfry/contract'

/** A request that the server refused or failed. `requestId` finds it in the server's log. */
export class AnswerError extends BelfryError {
  readonly requestId: string | null
  readonly problem: Problem
  /** How long the server asked to wait before another try, in ms. */
  readonly retryAfterMs: number | null

  constructor(problem: Problem, retryAfterMs: number | null) {
    super(problem.code, problem.detail, { errors: problem.errors })
    this.name = 'AnswerError'
    this.requestId = problem.instance === '' ? null : problem.instance
    this.problem = problem
    this.retryAfterMs = retryAfterMs
  }
}

const isKnownCode = (code: unknown): code is ErrorCode =>
  typeof code === 'string' && Object.hasOwn(errorTable, code)
const text = (value: unknown): string => (typeof value === 'string' ? value : '')

function details(value: unknown): ErrorDetail[] {
  if (!Array.isArray(value)) return []
  return value.flatMap((item: unknown) => {
    if (typeof item !== 'object' || item === null) return []
    const { pointer, message } = item as Record<string, unknown>
    return [{ pointer: text(pointer), message: text(message) }]
  })
}

/** The nearest code for an HTTP status, for problems of a newer server or of a proxy in between. */
function codeOfStatus(status: number): ErrorCode {
  if (status === 401) return 'unauthenticated'
  if (status === 403) return 'forbidden'
  if (status === 404) return 'not_found'
  if (status === 429) return 'too_many_requests'
  if (status === 502 || status === 503 || status === 504) return 'server_unreachable'
  return status >= 500 ? 'internal' : 'invalid_response'
}

/**
 * The error of an answer that is no success. `body` is its parsed JSON, or undefined. A body that is no
 * problem document (a proxy's page, a server that is not Belfry) is said to be one; a code that this version
 * does not know keeps its words and takes the nearest known code.
 */
export function errorOfAnswer(response: Response, body: unknown, url: string): AnswerError {
  const fields = typeof body === 'object' && body !== null ? (body as Record<string, unknown>) : {}
  const isProblem = typeof fields['code'] === 'string' && typeof fields['detail'] === 'string'
  const code = isKnownCode(fields['code']) ? fields['code'] : codeOfStatus(response.status)
  const unknownCode = isProblem && !isKnownCode(fields['code']) ? ` (code ${text(fields['code'])})` : ''
  const problem: Problem = {
    type: text(fields['type']) || `https://belfry.dev/errors#${code}`,
    title: text(fields['title']) || errorTable[code].title,
    status: response.status,
    detail: isProblem ? `${text(fields['detail'])}${unknownCode}` : foreignAnswer(response, url),
    instance: text(fields['instance']) || (response.headers.get('x-request-id') ?? ''),
    code,
    retryable: typeof fields['retryable'] === 'boolean' ? fields['retryable'] : errorTable[code].retryable,
    errors: details(fields['errors']),
    ...(typeof fields['quota'] === 'string' ? { quota: fields['quota'] } : {}),
  }
  return new AnswerError(problem, retryAfterMs(response.headers.get('retry-after')))
}

function foreignAnswer(response: Response, url: string): string {
  const location = response.headers.get('location')
  if (location !== null) {
    return `${url} redirects to ${location}; redirects are not followed: name your server's own address.`
  }
  const what = `${response.status} without a Belfry problem document`
  return `${url} answered ${what}; check that the URL is a Belfry server's.`
}

function retryAfterMs(header: string | null): number | null {
  if (header === null) return null
  const ms = /^\d+$/.test(header) ? Number(header) * 1000 : Date.parse(header) - Date.now()
  return Number.isFinite(ms) ? Math.max(0, ms) : null
}

/** The error of an answer with a success status that does not have the shape of the route. */
export function unexpectedAnswer(url: string, what: string): BelfryError {
  return new BelfryError(
    'invalid_response',
    `${url} answered ${what}; check that the URL is a Belfry server's and that the versions fit.`,
  )
}

/** The error of a request that got no answer. */
export function noAnswer(url: string, cause: unknown, timeoutMs: number): BelfryError {
  const timedOut = cause instanceof Error && cause.name === 'TimeoutError'
  const why = timedOut ? `did not answer within ${timeoutMs} ms` : `cannot be reached${reasonOf(cause)}`
  return new BelfryError('server_unreachable', `${url} ${why}; check the URL and that the server runs.`, {
    cause,
  })
}

function reasonOf(cause: unknown): string {
  const inner = cause instanceof Error ? (cause.cause ?? cause) : cause
  const code = typeof inner === 'object' && inner !== null ? (inner as { code?: unknown }).code : undefined
  if (typeof code === 'string') return ` (${code})`
  return inner instanceof Error ? ` (${inner.message})` : ''
}
