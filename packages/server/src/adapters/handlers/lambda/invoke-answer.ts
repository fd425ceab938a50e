/**
 * What an answer of Lambda means for its run. 202 is that of an event: AWS has it. A function that failed
 * answers 200 all the same, with `FunctionError`; whether that is tried again is the word of the job's retry
 * policy, which may name the code.
 */
import { type JsonValue, maxCapturedBytes, resultFault } from '@belfry/contract'
import type { HandlerResult } from '../../../ports/handler.ts'
import { cutToBytes, printable } from '../http/response-text.ts'

export interface InvokeAnswer {
  readonly status: number
  readonly functionError: string | undefined
  /** None is null, whatever the types of the SDK say. */
  readonly payload: Uint8Array | null | undefined
}

/** Characters of what a function says of its error. */
const shownLength = 2_000

export function judgeAnswer({ status, functionError, payload }: InvokeAnswer): HandlerResult {
  const text = new TextDecoder().decode(payload ?? undefined)
  const facts = { httpStatus: status, ...shown(text) }
  if (functionError !== undefined) {
    const { code, message } = functionFault(functionError, text)
    return { outcome: 'failed', retryable: true, error: { code, message }, ...facts }
  }
  const result = resultOf(text)
  return { outcome: 'succeeded', ...(result === undefined ? {} : { result }), ...facts }
}

/** JSON that can be kept; else the beginning of the answer is all that is shown. */
function resultOf(text: string): JsonValue | undefined {
  if (text === '') return undefined
  try {
    const value = JSON.parse(text) as JsonValue
    return resultFault(value) === undefined ? value : undefined
  } catch {
    return undefined
  }
}

function shown(text: string): { readonly response?: string; readonly responseTruncated?: boolean } {
  if (text === '') return {}
  const safe = printable(text)
  const response = cutToBytes(safe, maxCapturedBytes)
  return { response, responseTruncated: response.length < safe.length }
}

function functionFault(kind: string, text: string): { readonly code: string; readonly message: string } {
  const { errorType, errorMessage } = fieldsOf(text)
  const said = errorMessage ?? text
  const words = printable(`${errorType === undefined ? '' : `${errorType}: `}${said}`).slice(0, shownLength)
  const isTimeout = errorType === 'Sandbox.Timedout' || /Task timed out after [\d.]+ seconds/.test(said)
  if (isTimeout) {
    const fix = 'raise the timeout of the function, or make it faster'
    return { code: 'lambda_function_timeout', message: `the function took too long (${words}); ${fix}` }
  }
  const how = kind === 'Handled' ? 'answered with an error' : 'failed'
  return { code: 'lambda_function_error', message: `the function ${how}: ${words}` }
}

function fieldsOf(text: string): { readonly errorType?: string; readonly errorMessage?: string } {
  try {
    const value: unknown = JSON.parse(text)
    if (typeof value !== 'object' || value === null) return {}
    const { errorType, errorMessage } = value as Record<string, unknown>
    return {
      ...(typeof errorType === 'string' ? { errorType } : {}),
      ...(typeof errorMessage === 'string' ? { errorMessage } : {}),
    }
  } catch {
    return {}
  }
}
