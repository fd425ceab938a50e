/**
 * What went wrong with a call, as a stable code and words for the owner of the target. Messages are made here
 * from the code and the place alone: the client's own may quote header values or the URL's query, which can
 * be secrets.
 */
import type { EgressError, EgressErrorCode, EgressResponse } from '../../ports/egress.ts'
import { ConnectError, systemCode } from './connect-error.ts'
import { wireShare } from './wire-limit.ts'

/** Trying the same call again would end the same way. */
const permanent: ReadonlySet<EgressErrorCode> = new Set([
  'target_denied',
  'invalid_request',
  'client_certificate_invalid',
  'headers_too_large',
  'response_too_large',
])

export function egressError(code: EgressErrorCode, message: string, response?: EgressResponse): EgressError {
  const base = { code, message, retryable: !permanent.has(code) }
  return response === undefined ? base : { ...base, response }
}

export interface CallPlace {
  /** `host:port` of the target. */
  readonly place: string
  readonly isTls: boolean
  readonly maxHeaderBytes: number
  readonly maxResponseBytes: number
}

/** The client's parser gives no code; its name, and two texts of its own, are all that tells these apart. */
function isProtocolError(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  return error.name === 'HTTPParserError' || /^bad (?:response|upgrade)$/.test(error.message)
}

function classified(
  error: unknown,
  { place, isTls, maxHeaderBytes, maxResponseBytes }: CallPlace,
): readonly [EgressErrorCode, string] {
  const code = systemCode(error)
  switch (code) {
    case 'UND_ERR_HEADERS_OVERFLOW': {
      const limit = `more than ${maxHeaderBytes} bytes of response headers`
      return ['headers_too_large', `${place} sent ${limit}; send fewer or shorter ones`]
    }
    case 'EGRESS_WIRE_LIMIT': {
      const limit = `${wireShare} times what a response body may have (${maxResponseBytes} bytes)`
      return ['response_too_large', `${place} sent more than ${limit}, all framing counted`]
    }
    case 'UND_ERR_INVALID_ARG':
    case 'UND_ERR_NOT_SUPPORTED':
    case 'UND_ERR_REQ_CONTENT_LENGTH_MISMATCH':
      return [
        'invalid_request',
        'the request cannot be sent as HTTP; check method, headers and body of the job',
      ]
    case 'UND_ERR_ABORTED':
    case 'UND_ERR_DESTROYED':
    case 'UND_ERR_CLOSED':
      return ['aborted', `the call to ${place} was stopped before it was complete`]
    case 'UND_ERR_RES_CONTENT_LENGTH_MISMATCH':
      return ['invalid_response', `${place} sent a body of another length than it had announced`]
    default:
  }
  if (isProtocolError(error))
    return ['invalid_response', `${place} did not answer with a valid HTTP response`]
  const closed = `${place} closed the connection before its response was complete`
  // with TLS 1.3 a client certificate is judged after the handshake, and this is all that is seen of it
  const hint = '; if it asks for client certificates, give the job one that it knows (tls)'
  return ['connection_reset', isTls ? closed + hint : closed]
}

/** Turns whatever a call threw into an EgressError. */
export function callFailure(
  error: unknown,
  signal: AbortSignal,
  place: CallPlace,
  response?: EgressResponse,
): EgressError {
  if (signal.aborted) {
    return egressError('aborted', `the call to ${place.place} was stopped before it was complete`, response)
  }
  if (error instanceof ConnectError) return egressError(error.egressCode, error.message)
  const [code, message] = classified(error, place)
  return egressError(code, message, response)
}
