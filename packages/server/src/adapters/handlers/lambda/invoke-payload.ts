/**
 * What a function is given: the input of the run in an envelope that says which run it is, or the input
 * alone; and the same facts as client context, which AWS hands on for calls that wait for the answer.
 */
import type { LambdaHandlerDefinition } from '@belfry/contract'
import type { HandlerRequest } from '../../../ports/handler.ts'

/** Limits of AWS, in bytes. */
const mostBytes = { request_response: 6 * 1024 * 1024, event: 1024 * 1024 } as const

export interface InvokePayload {
  readonly bytes: Uint8Array
  /** Base64, as the SDK takes it; undefined for events. */
  readonly clientContext: string | undefined
}

export function invokePayload(
  request: HandlerRequest,
  { invocation, payload }: LambdaHandlerDefinition,
): InvokePayload | { readonly fault: string } {
  const facts = factsOf(request)
  const input = request.input ?? null
  const text = JSON.stringify(payload === 'input' ? input : { belfry: facts, input })
  const bytes = new TextEncoder().encode(text)
  const most = mostBytes[invocation]
  if (bytes.length > most) {
    const fix = 'store large data elsewhere and pass a reference'
    return { fault: `the payload has ${bytes.length} bytes, and AWS takes ${most} of this kind; ${fix}` }
  }
  const isEvent = invocation === 'event'
  const context = JSON.stringify({ custom: { belfry: facts } })
  return { bytes, clientContext: isEvent ? undefined : Buffer.from(context).toString('base64') }
}

function factsOf(request: HandlerRequest) {
  const { runId, jobId, attempt, leaseEpoch, scheduledForMs, idempotencyKey, traceparent } = request
  const scheduledFor = scheduledForMs === null ? null : new Date(scheduledForMs).toISOString()
  return { runId, jobId, attempt, leaseEpoch, idempotencyKey, scheduledFor, traceparent }
}
