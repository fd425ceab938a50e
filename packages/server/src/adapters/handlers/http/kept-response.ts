/**
 * What is kept of an answer, as the job's capture rules say: status, the beginning of the body as text, some
 * headers. Secrets are masked before anything is cut.
 */
import { type HttpCapture, maxCapturedBytes } from '@belfry/contract'
import { maskKeys } from '../../../domain/secret-mask.ts'
import { maskText } from '@belfry/contract/stream-mask'
import type { EgressResponse } from '../../../ports/egress.ts'
import type { HandlerFacts } from '../../../ports/handler.ts'
import { cutToBytes, printable, responseText } from './response-text.ts'

const maxHeaderBytes = 1024

export const keptBytes = (capture: HttpCapture | undefined): number => capture?.bodyBytes ?? maxCapturedBytes

function keptHeaders(
  { headers }: EgressResponse,
  names: readonly string[],
  secrets: readonly string[],
): Readonly<Record<string, string>> | undefined {
  const kept = names.flatMap((name): [string, string][] => {
    const value = headers.get(name.toLowerCase())
    if (value === undefined) return []
    return [[name.toLowerCase(), cutToBytes(printable(maskKeys(maskText(value, secrets))), maxHeaderBytes)]]
  })
  return kept.length === 0 ? undefined : Object.fromEntries(kept)
}

export function factsOf(
  response: EgressResponse | undefined,
  capture: HttpCapture | undefined,
  secrets: readonly string[],
): HandlerFacts {
  if (response === undefined) return {}
  const { status: httpStatus } = response
  const responseHeaders = keptHeaders(response, capture?.headers ?? [], secrets)
  const facts = responseHeaders === undefined ? { httpStatus } : { httpStatus, responseHeaders }
  const bytes = keptBytes(capture)
  if (bytes === 0) return facts
  // more may have been read, to judge a field of it
  const isCut = response.body.length > bytes
  const kept = isCut ? { ...response, body: response.body.subarray(0, bytes), truncated: true } : response
  const { text, truncated } = responseText(kept, bytes, secrets)
  return { ...facts, response: text, responseTruncated: truncated }
}
