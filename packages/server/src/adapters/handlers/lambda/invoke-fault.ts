/**
 * What a call of Lambda that was not executed means for its run. A function that failed is not among these:
 * that is an answer (invoke-answer.ts).
 *
 *   throttled                  429, and 502 where EC2 throttled: the function did not run; tried again
 *   service error              5xx, or no answer: tried again
 *   role or rights             403, and a role that cannot be assumed: tried again, they come and go with
 *                              deployments
 *   function not ready         409, for example while it is being updated: tried again
 *   refused                    any other 4xx, among them 404: for good
 *   not reached                as the egress module says
 */
import type { RunError } from '@belfry/contract'

export interface InvokeFault {
  readonly error: RunError
  readonly retryable: boolean
  readonly retryAfterMs?: number
}

interface SdkError {
  readonly name: string
  readonly message: string
  readonly status: number | undefined
  readonly retryAfterSeconds: number | undefined
}

/** From what the SDK threw; `what` is what was to be done, for words. */
export function invokeFault(error: unknown, what: 'call' | 'assume'): InvokeFault {
  const egress = egressFault(error)
  if (egress !== undefined) return egress
  const sdk = sdkError(error)
  if (what === 'assume') return assumeFault(sdk)
  const { name, message, status } = sdk
  const words = `${name}: ${message}`
  const fault = (code: string, text: string, retryable: boolean): InvokeFault => ({
    error: { code, message: text },
    retryable,
  })
  if (isThrottle(sdk)) {
    const retryAfterMs = sdk.retryAfterSeconds === undefined ? 0 : sdk.retryAfterSeconds * 1_000
    return { ...fault('lambda_throttled', `AWS throttled the call (${words})`, true), retryAfterMs }
  }
  if (isUnknownCaller(sdk))
    return fault('lambda_denied', `AWS does not take the role's credentials (${words})`, true)
  if (status === 403) {
    const fix = 'allow lambda:InvokeFunction for this function in the policy of the role'
    return fault('lambda_denied', `the role may not call the function (${words}); ${fix}`, true)
  }
  if (status === 404)
    return fault('lambda_not_found', `there is no such function (${words}); check functionArn`, false)
  if (status === 409) return fault('lambda_not_ready', `the function cannot be called now (${words})`, true)
  if (status === undefined || status >= 500)
    return fault('lambda_service_error', `Lambda failed (${words})`, true)
  return fault('lambda_refused', `Lambda refused the call (${words})`, false)
}

function assumeFault(error: SdkError): InvokeFault {
  const { name, message, status } = error
  const words = `${name}: ${message}`
  if (isThrottle(error) || status === undefined || status >= 500)
    return { error: { code: 'lambda_role_unavailable', message: `STS failed (${words})` }, retryable: true }
  const fix = isUnknownCaller(error)
    ? 'the operator checks BELFRY_LAMBDA_ACCESS_KEY_ID and its secret'
    : 'let its trust policy allow sts:AssumeRole to the principal and with the external id of GET /v1/lambda'
  const text = `the role cannot be assumed (${words}); ${fix}`
  return { error: { code: 'lambda_role_denied', message: text }, retryable: true }
}

const isThrottle = ({ name, status }: SdkError): boolean =>
  status === 429 || /Throttl|TooManyRequests|RequestLimitExceeded/.test(name)

const unknownCallers = [
  'UnrecognizedClient',
  'InvalidClientTokenId',
  'InvalidSignature',
  'SignatureDoesNotMatch',
  'Expired',
  'IncompleteSignature',
]

/** The credentials themselves are not taken: expired, wrong, unknown. */
const isUnknownCaller = ({ name }: SdkError): boolean =>
  unknownCallers.some((begin) => name.startsWith(begin))

/** Whether a call with other credentials of the same role may fare better. */
export const isExpired = (error: unknown): boolean => isUnknownCaller(sdkError(error))

function egressFault(error: unknown): InvokeFault | undefined {
  if (!(error instanceof Error) || error.name !== 'EgressCallError') return undefined
  const { code, retryable } = error as Error & { readonly code: string; readonly retryable: boolean }
  return { error: { code, message: error.message }, retryable }
}

function sdkError(error: unknown): SdkError {
  const given = (typeof error === 'object' && error !== null ? error : {}) as {
    readonly name?: unknown
    readonly message?: unknown
    readonly retryAfterSeconds?: unknown
    readonly $metadata?: { readonly httpStatusCode?: number }
  }
  const seconds = Number(given.retryAfterSeconds)
  return {
    name: typeof given.name === 'string' && given.name !== '' ? given.name : 'Error',
    message: typeof given.message === 'string' ? given.message : String(error),
    status: given.$metadata?.httpStatusCode,
    retryAfterSeconds: given.retryAfterSeconds !== undefined && seconds >= 0 ? seconds : undefined,
  }
}
