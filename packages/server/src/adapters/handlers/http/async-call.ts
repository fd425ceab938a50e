/**
 * Calls that a target may take over (`async` of the job): before it is called, a token is opened by which it
 * may report, and sent along; its 202 then leaves the run to it. Of any other answer the token is of no use:
 * it dies with the attempt.
 */
import { callbackTokenHeader, callbackUrlHeader, type HttpHandlerDefinition } from '@belfry/contract'
import type { CallbackDoor } from '../../../ports/callbacks.ts'
import type { HandlerFacts, HandlerRequest, HandlerResult } from '../../../ports/handler.ts'

const takenOver = 202

export type OpenedCall =
  | {
      readonly ok: true
      readonly headers: Readonly<Record<string, string>>
      readonly masked: readonly string[]
    }
  | { readonly ok: false; readonly fault: { code: string; message: string; retryable: boolean } }

const nothing: OpenedCall = { ok: true, headers: {}, masked: [] }

const unavailable = (message: string, retryable: boolean): OpenedCall => ({
  ok: false,
  fault: { code: 'callback_unavailable', message, retryable },
})

export async function openCall(
  door: CallbackDoor,
  request: HandlerRequest,
  handler: HttpHandlerDefinition,
): Promise<OpenedCall> {
  if (handler.async === undefined) return nothing
  try {
    const opened = await door.open(request.sessionId, request)
    if (opened === undefined)
      return unavailable('the run was not held any more when its target was to be called', true)
    const headers = { [callbackUrlHeader]: opened.url, [callbackTokenHeader]: opened.token }
    return { ok: true, headers, masked: [opened.token] }
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error)
    return unavailable(`the target was not called, because its callback could not be prepared: ${why}`, true)
  }
}

/** What a 202 of a target means that may take its run over; undefined: the answer is judged as usual. */
export function acceptedOf(
  { async: limits }: HttpHandlerDefinition,
  status: number,
  facts: HandlerFacts,
): HandlerResult | undefined {
  if (limits === undefined || status !== takenOver) return undefined
  const { deadlineMs, heartbeatMs = null } = limits
  return { outcome: 'accepted', limits: { deadlineMs, heartbeatMs }, ...facts }
}
