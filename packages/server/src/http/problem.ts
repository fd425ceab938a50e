/**
 * Every failed request ends here: whatever was thrown becomes one BelfryError of the contract's table, and
 * that becomes an RFC 9457 problem. What is not known to be the caller's fault or the database's is
 * `internal`: logged whole, told in no detail.
 */
import type { ErrorCode } from '@belfry/contract'
import { BelfryError, toProblem } from '@belfry/contract'
import type { FastifyReply, FastifyRequest } from 'fastify'

export const problemType = 'application/problem+json; charset=utf-8'

type Fault = readonly [code: ErrorCode, pointer: string, what: string, message: string]

const byFastifyCode: Readonly<Record<string, Fault>> = {
  FST_ERR_CTP_BODY_TOO_LARGE: [
    'body_too_large',
    '',
    'The body',
    'is larger than {limit} bytes; send less, and keep large data elsewhere with a reference here',
  ],
  FST_ERR_CTP_INVALID_MEDIA_TYPE: [
    'unsupported_media_type',
    '/headers/content-type',
    'The body',
    'is of a type that is not taken here; send JSON in UTF-8 with "Content-Type: application/json"',
  ],
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: [
    'invalid_request',
    '/headers/content-length',
    'The body',
    'is not as long as Content-Length says; send the header that fits',
  ],
  FST_ERR_BAD_URL: [
    'invalid_request',
    '/params',
    'The path',
    'is not valid: a "%" begins no escape of UTF-8; encode it as "%25"',
  ],
}

/** The BelfryError for anything that was thrown while a request was answered. */
function toBelfryError(error: unknown, bodyLimit: number): BelfryError {
  if (error instanceof BelfryError) return error
  const { code, statusCode } =
    error instanceof Error ? (error as { code?: unknown; statusCode?: unknown }) : {}
  const known =
    typeof code === 'string' && Object.hasOwn(byFastifyCode, code) ? byFastifyCode[code] : undefined
  if (known !== undefined) {
    const [knownCode, pointer, what, words] = known
    const message = words.replace('{limit}', String(bodyLimit))
    return new BelfryError(knownCode, `${what} ${message}.`, { cause: error, errors: [{ pointer, message }] })
  }
  if (typeof statusCode === 'number' && statusCode >= 400 && statusCode < 500) {
    const message = error instanceof Error ? error.message : String(error)
    return new BelfryError('invalid_request', `The request could not be read: ${message}.`, { cause: error })
  }
  const message =
    'Belfry failed to answer. Try again; if it stays, look for this request id in the log of the server.'
  return new BelfryError('internal', message, { cause: error })
}

/** Logs what is a fault of the server, and answers the problem. */
export function sendProblem(error: unknown, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  const fault = toBelfryError(error, request.routeOptions.bodyLimit)
  request.refusedAs = fault.code
  if (fault.code === 'internal') request.log.error({ err: fault.cause ?? fault }, 'request failed')
  else if (fault.status >= 500) request.log.warn({ code: fault.code }, fault.message)
  if (fault.retryable && fault.status !== 500 && !reply.hasHeader('retry-after'))
    void reply.header('retry-after', String(fault.retryAfterSeconds ?? 1))
  return reply
    .status(fault.status)
    .type(problemType)
    .serializer(JSON.stringify)
    .send(toProblem(fault, request.id))
}
