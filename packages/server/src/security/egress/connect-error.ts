/**
 * The error that a connection attempt ends with. It carries the stable code and the words for the owner of
 * the target, and crosses the HTTP client unchanged, so that nothing has to be guessed from system errors
 * afterwards.
 */
import type { EgressErrorCode } from '../../ports/egress.ts'

export class ConnectError extends Error {
  readonly egressCode: EgressErrorCode

  constructor(egressCode: EgressErrorCode, message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause })
    this.name = 'ConnectError'
    this.egressCode = egressCode
  }
}

/** The `code` of a system, TLS or client error; of the first one inside an AggregateError. */
export function systemCode(error: unknown): string {
  if (error instanceof AggregateError && error.errors.length > 0) return systemCode(error.errors[0])
  if (error instanceof Error && 'code' in error && typeof error.code === 'string') return error.code
  return 'unknown'
}

/** A connection that could not be made, before TLS. */
export function connectFailure(error: unknown, place: string): ConnectError {
  const code = systemCode(error)
  if (code === 'ECONNREFUSED') {
    return new ConnectError(
      'connect_refused',
      `${place} refused the connection; is the target running?`,
      error,
    )
  }
  if (code === 'ETIMEDOUT') {
    return new ConnectError('connect_timeout', `${place} did not take the connection in time`, error)
  }
  if (code === 'ECONNRESET' || code === 'EPIPE') {
    return new ConnectError(
      'connection_reset',
      `${place} closed the connection while it was being made`,
      error,
    )
  }
  return new ConnectError('connect_failed', `no connection to ${place} could be made (${code})`, error)
}

/** A connection that was made, but whose TLS handshake failed. */
export function tlsFailure(error: unknown, place: string): ConnectError {
  const code = systemCode(error)
  const why = code === 'ECONNRESET' ? 'the connection ended during the handshake' : code
  const fix = 'check that it speaks TLS and that its certificate is valid for this name'
  return new ConnectError('tls_failed', `TLS with ${place} failed (${why}); ${fix}`, error)
}

/** A name that could not be resolved. */
export function dnsFailure(error: unknown, host: string): ConnectError {
  return new ConnectError(
    'dns_failed',
    `the name "${host}" could not be resolved (${systemCode(error)})`,
    error,
  )
}
