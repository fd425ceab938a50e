/**
 * One call for a client of somebody else's, which wants whole bodies: everything in memory, within a limit,
 * by the egress module and under its rules. The origins that the operator configured himself may be private
 * addresses; whatever else the client calls, say because an answer named it, may not.
 */
import type { EgressAgent, EgressRequest, EgressResponse } from '../../ports/egress.ts'
import { EgressCallError } from './call-error.ts'

export interface ClientCallOptions {
  readonly egress: Pick<EgressAgent, 'request'>
  /** Endpoints out of the configuration, as URLs. */
  readonly operatorUrls: readonly string[]
  /** A call that takes longer is given up. */
  readonly callTimeoutMs: number
  /** A longer response has failed. */
  readonly maxResponseBytes: number
}

export type ClientRequest = Pick<EgressRequest, 'url' | 'headers'> & {
  readonly method: string
  readonly body: string | Uint8Array | undefined
  readonly signal: AbortSignal | undefined
}

const methods = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'] as const

const originOf = (url: string): string => (URL.canParse(url) ? new URL(url).origin : url)

/** Throws EgressCallError; with the reason of the caller's own signal once that has fired. */
export async function clientCall(
  options: ClientCallOptions,
  { method, url, headers, body, signal }: ClientRequest,
): Promise<EgressResponse> {
  const { egress, operatorUrls, callTimeoutMs, maxResponseBytes } = options
  const known = methods.find((each) => each === method.toUpperCase())
  if (known === undefined) throw refused(`the method ${JSON.stringify(method.slice(0, 32))} is not called`)
  signal?.throwIfAborted()
  const timeout = AbortSignal.timeout(callTimeoutMs)
  const outcome = await egress.request({
    method: known,
    url,
    headers,
    ...(body === undefined ? {} : { body }),
    signal: signal === undefined ? timeout : AbortSignal.any([signal, timeout]),
    keepBytes: maxResponseBytes,
    byOperator: operatorUrls.some((configured) => originOf(configured) === originOf(url)),
  })
  if (outcome.ok && !outcome.response.truncated) return outcome.response
  signal?.throwIfAborted()
  if (outcome.ok) throw tooLarge(maxResponseBytes)
  if (outcome.error.code === 'aborted' && timeout.aborted) {
    const message = `${new URL(url).host} gave no whole answer within ${callTimeoutMs} ms`
    throw new EgressCallError({ code: 'aborted', message, retryable: true })
  }
  throw new EgressCallError(outcome.error)
}

function refused(message: string): EgressCallError {
  return new EgressCallError({ code: 'invalid_request', message, retryable: false })
}

function tooLarge(maxBytes: number): EgressCallError {
  const message = `the answer has more than ${maxBytes} bytes`
  return new EgressCallError({ code: 'response_too_large', message, retryable: false })
}
