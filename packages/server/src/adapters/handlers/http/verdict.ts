/**
 * What an answer means for its attempt: its status by the job's own set, or by the usual rules
 * (status-verdict.ts), and then a field of its body, where the job names one.
 *
 *   the status is none of the job's           failed `http_redirect` or `http_status`
 *   the field is missing or another value     failed `response_mismatch`, tried again
 *   the body cannot be judged                 failed `response_mismatch`: not JSON, too long, compressed
 */
import { type HttpSuccess, maxJudgedBytes, statusRange } from '@belfry/contract'
import type { EgressResponse } from '../../../ports/egress.ts'
import { cutToBytes } from './response-text.ts'
import { judgeStatus } from './status-verdict.ts'

export type Verdict =
  | { readonly succeeded: true }
  | {
      readonly succeeded: false
      readonly code: 'http_status' | 'http_redirect' | 'response_mismatch'
      readonly retryable: boolean
      readonly message: string
    }

/** Of a field, at most. */
const maxShownBytes = 128

function mismatch(message: string): Verdict {
  return { succeeded: false, code: 'response_mismatch', retryable: true, message }
}

function isAmong(status: number, statuses: NonNullable<HttpSuccess['statuses']>): boolean {
  return statuses.some((each) => {
    const [first, last] = statusRange(each)
    return status >= first && status <= last
  })
}

/** How the response may be quoted. */
export interface Quoting {
  /** Takes secrets out, before anything is cut. */
  readonly mask: (text: string) => string
  /** Of the body, as much as may be kept of it. */
  readonly maxBytes: number
}

export function judgeAnswer(
  response: EgressResponse,
  success: HttpSuccess | undefined,
  quoting: Quoting,
): Verdict {
  const { status } = response
  const wanted = success?.statuses
  const usual = judgeStatus(status)
  const taken = wanted === undefined ? usual.succeeded : isAmong(status, wanted)
  if (!taken) {
    const { code, retryable } = usual.succeeded ? ({ code: 'http_status', retryable: true } as const) : usual
    const again = retryable
      ? ''
      : '; this status says that the same request cannot succeed, so it is not tried again'
    const message = `the target answered ${status} instead of ${wanted?.join(', ') ?? '2xx'}${again}`
    return { succeeded: false, code, retryable, message }
  }
  return success?.json === undefined ? { succeeded: true } : judgeField(response, success.json, quoting)
}

function judgeField(
  response: EgressResponse,
  wanted: NonNullable<HttpSuccess['json']>,
  { mask, maxBytes }: Quoting,
): Verdict {
  const place = wanted.pointer === '' ? 'the response' : `the field ${wanted.pointer} of the response`
  const encoding = response.headers.get('content-encoding')?.trim().toLowerCase() ?? 'identity'
  if (encoding !== '' && encoding !== 'identity')
    return mismatch(`${place} cannot be judged: it is compressed, which was not asked for`)
  if (response.body.length < response.bodyBytes)
    return mismatch(`${place} cannot be judged: it has more than ${maxJudgedBytes} bytes`)
  const parsed = parsedJson(response.body)
  if (parsed === undefined) return mismatch(`${place} cannot be judged: it is not JSON`)
  const found = at(parsed.value, wanted.pointer)
  const values = wanted.in ?? [wanted.equals ?? null]
  if (found !== undefined && values.some((value) => value === found.value)) return { succeeded: true }
  const expected = values.map((value) => JSON.stringify(value)).join(' or ')
  const most = Math.min(maxShownBytes, maxBytes)
  const quoted = found === undefined ? 'missing' : cutToBytes(mask(JSON.stringify(found.value)), most)
  const shown = quoted === '' ? 'another value' : quoted
  return mismatch(`${place} is ${shown} instead of ${cutToBytes(expected, 1_024)}`)
}

interface Found {
  readonly value: unknown
}

function parsedJson(body: Uint8Array): Found | undefined {
  try {
    return { value: JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(body)) as unknown }
  } catch {
    return undefined
  }
}

/** RFC 6901, own properties alone. */
function at(value: unknown, pointer: string): Found | undefined {
  let here: unknown = value
  for (const part of pointer.split('/').slice(1)) {
    const key = part.replaceAll('~1', '/').replaceAll('~0', '~')
    if (Array.isArray(here) && !/^(?:0|[1-9]\d*)$/.test(key)) return undefined
    if (typeof here !== 'object' || here === null || !Object.hasOwn(here, key)) return undefined
    here = (here as Readonly<Record<string, unknown>>)[key]
  }
  return { value: here }
}
